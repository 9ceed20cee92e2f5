# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The git repositories that the depot serves: which branch holds which files."""

from __future__ import annotations

from pathlib import Path

from gitrepo import Commit, Entry, Tree, folder_tree, sdist_tree, wheel_tree, write_bare
from registry import sdist, wheel

HERE = Path(__file__).parent
ENGINE = HERE.parent / "engine"
# The options of `vllm serve` per version are data that the planner and the simulated engine both read.
OPTIONS = HERE.parent.parent / "plugins" / "plugin_utils" / "data"
INPUTS = (HERE / "trees", HERE / "repos.py", HERE / "gitrepo.py", ENGINE, *sorted(OPTIONS.glob("vllm-serve-*.json")))

# What of upstream's source distributions goes into the vllm-ascend trees unchanged.
REAL_FILES = (
    "examples/disaggregated_prefill_v1",
    "tools/test_memfabric_pd_read.py",
    "vllm_ascend/patch/recompute_proxy.py",
    "vllm_ascend/distributed/kv_transfer/utils/memfabric_transfer_engine.py",
)
MEMORY_VERSION = "1.2.1"  # VERSION at the tip of release/1.2 of both: guide 1 names memcache's installer 1.2.0


def write_all(downloads: Path, wheels: Path, target: Path) -> None:
    """Write every repository below `target` as <owner>/<repo>.git."""
    _vllm(target / "vllm-project" / "vllm.git")
    _vllm_ascend(downloads, target)
    fabric = _memfabric(wheels, target / "Ascend" / "memfabric_hybrid.git")
    _memcache(wheels, fabric, target / "Ascend" / "memcache.git")


def _readme(name: str) -> Tree:
    return {"README.md": Entry(f"# {name}\n\nLab stand-in. Releases are on their own branches.\n".encode())}


def _start(name: str, branches: tuple[str, ...] = ("main",)) -> Commit:
    return Commit(f"Start of {name}", _readme(name), list(branches))


def _layer(name: str) -> Tree:
    return folder_tree(HERE / "trees" / name)


def _engine(package: str, version: str) -> Tree:
    """The simulated engine's package, told which release it stands for."""
    return folder_tree(ENGINE / package, f"{package}/") | {f"{package}/VERSION": Entry(f"{version}\n".encode())}


def _vllm(path: Path) -> None:
    line = [_start("vllm")]
    for version in ("0.22.1", "0.26.0"):
        options = f"vllm-serve-{version}.json"
        tree = _readme("vllm") | _layer("vllm") | _engine("vllm", version)
        tree[f"vllm/data/{options}"] = Entry((OPTIONS / options).read_bytes())
        line.append(Commit(f"Release {version}", tree, [f"releases/v{version}"], [f"v{version}"]))
    write_bare(path, line)


def _vllm_ascend(downloads: Path, target: Path) -> None:
    def release(version: str, *layers: Path) -> Tree:
        tree = _readme("vllm-ascend") | _layer("vllm-ascend") | _engine("vllm_ascend", version)
        for package in ("patch", "distributed/kv_transfer/utils"):
            tree.setdefault(f"vllm_ascend/{package}/__init__.py", Entry(b""))
        tree |= sdist_tree(sdist(downloads, "vllm-ascend", version), REAL_FILES)
        for layer in layers:
            tree |= folder_tree(layer)
        return tree

    old_pins = HERE / "trees" / "vllm-ascend-0.22.1"
    overlays = ENGINE / "overlays"
    old = Commit("0.22.1rc1", release("0.22.1rc1", old_pins), ["releases/v0.22.1rc"], ["v0.22.1rc1"])
    new = Commit("0.26.0rc1", release("0.26.0rc1"), ["releases/v0.26.0rc"], ["v0.26.0rc1"])
    line = [_start("vllm-ascend", branches=()), old, new]

    # What came after the release: upstream's main bounds the host pool otherwise, the fork gathers small packets. Both
    # are one commit past the tag, so setuptools-scm calls them development builds.
    main = Commit("Bound the host pool", release("0.26.0rc1", overlays / "bounded_pool"), ["main"])
    gather = Commit(
        "Gather small packets",
        release("0.26.0rc1", overlays / "small_packet_gather"),
        ["group_aggregation_cpu", "main"],
    )
    write_bare(target / "vllm-project" / "vllm-ascend.git", [*line, main])
    write_bare(target / "zd1204" / "vllm-ascend.git", [*line, gather])


def memory_tree(layer: str, wheels: Path, package: str, folders: dict[str, str]) -> Tree:
    """Sources of MemFabric or MemCache: build scripts, VERSION, the published wheel, and folders out of that wheel."""
    published = wheel(wheels, package, MEMORY_VERSION)
    tree = _readme(layer) | _layer("run-package") | _layer(layer)
    tree["VERSION"] = Entry(f"{MEMORY_VERSION}\n".encode())
    tree[f"prebuilt/{published.name}"] = Entry(published.read_bytes())
    for inside, prefix in folders.items():
        tree |= wheel_tree(published, f"{package}/{inside}/", f"{prefix}/")
    return tree


def _memfabric(wheels: Path, path: Path) -> str:
    """Returns the id of the first commit, an older MemFabric, which MemCache's submodule names."""
    main = _start("memfabric_hybrid")
    main.tree |= {"VERSION": Entry(b"1.0.0\n")} | _layer("memfabric_hybrid")
    tree = memory_tree("memfabric_hybrid", wheels, "memfabric_hybrid", {"include": "include"})
    return write_bare(path, [main, Commit("Release 1.2", tree, ["release/1.2"])])["main"]


def _memcache(wheels: Path, old_fabric: str, path: Path) -> None:
    tree = memory_tree("memcache", wheels, "memcache_hybrid", {"config": "config"})
    tree["3rdparty/memfabric_hybrid"] = Entry(old_fabric.encode(), "160000")
    write_bare(path, [_start("memcache"), Commit("Release 1.2", tree, ["release/1.2"])])
