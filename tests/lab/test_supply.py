# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the depot serves: stable commits, an index pip can check, and installers that hurt where upstream's do."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import platform
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lab import content

SOURCES = Path(__file__).resolve().parents[2] / "lab" / "sources"
# Commands that build script and installers call; a test adds or leaves out pip3 and bisheng.
TOOLS = (
    "awk basename bash cat chmod cp dirname env git grep gzip ln ls mkdir mktemp readlink rm sed tail tar uname".split()
)


@pytest.fixture
def supply(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of lab/sources, which stand side by side as scripts do."""
    monkeypatch.syspath_prepend(str(SOURCES))
    return importlib.import_module


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Wheels that stand for the published ones: no code, the configuration that MemCache ships."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("memfabric_hybrid", "memcache_hybrid"):
        with zipfile.ZipFile(folder / f"{name}-1.2.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/config/mmc-local.conf", "ock.mmc.local_service.protocol = host_rdma\n")
            wheel.writestr(f"{name}/include/smem.h", "")
    return folder


def test_depot_is_remade_when_options_of_vllm_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vllm trees hold copies of the planner's tables."""
    made_from: list[str] = []
    monkeypatch.setattr(content, "_renew", lambda what, command, inputs, env: made_from.append(inputs))
    tables = [tmp_path / table.name for table in content.OPTIONS]
    for table in tables:
        table.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(content, "OPTIONS", tables)
    content.make_sources()
    tables[0].write_text("[]", encoding="utf-8")
    content.make_sources()
    assert tables, "there is nothing to change"
    assert len(set(made_from)) == 2


class Package:
    """One source tree with a prefix to install into and a PATH that has only what the test gives."""

    def __init__(self, supply: Any, wheels: Path, folder: Path, layer: str) -> None:
        self.name = "memfabric_hybrid" if layer == "memfabric_hybrid" else "memcache_hybrid"
        self.source = folder / layer
        self.prefix = folder / "prefix"
        self.bin = folder / "bin"
        self.bin.mkdir(exist_ok=True)
        for tool in TOOLS:
            (self.bin / tool).unlink(missing_ok=True)
            (self.bin / tool).symlink_to(shutil.which(tool) or pytest.skip(f"{tool} is not here"))
        for path, entry in supply("repos").memory_tree(layer, wheels, self.name, {"config": "config"}).items():
            target = self.source / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(entry.content)

    @property
    def latest(self) -> Path:
        return self.prefix / self.name / "latest"

    @property
    def offload_library(self) -> Path:
        return self.latest / f"{platform.machine()}-linux" / "lib64" / "libmf_hybm_accoffload.so"

    def give(self, tool: str, script: str) -> None:
        (self.bin / tool).write_text(f"#!{self.bin}/bash\n{script}\n")
        (self.bin / tool).chmod(0o755)

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin)}
        return subprocess.run(
            [str(self.bin / "bash"), *argv], cwd=self.source, env=env, capture_output=True, text=True, check=False
        )

    def build(self) -> subprocess.CompletedProcess[str]:
        return self.run("script/build_and_pack_run.sh")

    def install(self) -> subprocess.CompletedProcess[str]:
        (installer,) = (self.source / "output").glob("*.run")
        return self.run(installer, f"--install-path={self.prefix}")


@pytest.fixture
def memfabric(supply: Any, wheels: Path, tmp_path: Path) -> Package:
    package = Package(supply, wheels, tmp_path, "memfabric_hybrid")
    package.give("pip3", ":")
    return package


@pytest.fixture
def memcache(supply: Any, wheels: Path, tmp_path: Path, memfabric: Package) -> Package:
    package = Package(supply, wheels, tmp_path, "memcache")
    shutil.copytree(memfabric.source, package.source / "3rdparty" / "memfabric_hybrid")
    return package


def test_same_content_same_commits(supply: Any, tmp_path: Path) -> None:
    gitrepo = supply("gitrepo")

    def write(name: str, text: bytes) -> dict[str, str]:
        tree = {"a/b": gitrepo.Entry(text), "run.sh": gitrepo.Entry(b"", "100755")}
        return gitrepo.write_bare(tmp_path / name, [gitrepo.Commit("first", tree, ["main"], ["v1"])])

    first = write("first.git", b"one")
    assert set(first) == {"main", "v1"}
    assert write("second.git", b"one") == first
    assert write("third.git", b"two") != first


def test_a_commit_can_be_fetched_by_its_id(supply: Any, tmp_path: Path) -> None:
    gitrepo = supply("gitrepo")
    old = gitrepo.Commit("old", {"VERSION": gitrepo.Entry(b"1\n")}, [], ["v1"])
    new = gitrepo.Commit("new", {"VERSION": gitrepo.Entry(b"2\n")}, ["main"])
    ids = gitrepo.write_bare(tmp_path / "x.git", [old, new])
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", clone], check=True)
    fetch = ["git", "-C", clone, "fetch", "-q", "--depth", "1", f"file://{tmp_path}/x.git", ids["v1"]]
    subprocess.run(fetch, check=True)
    shown = subprocess.run(["git", "-C", clone, "show", "FETCH_HEAD:VERSION"], check=True, capture_output=True)
    assert shown.stdout == b"1\n"


def test_index_names_the_files_with_their_digests(supply: Any, tmp_path: Path) -> None:
    registry = supply("registry")
    spec = {"name": "triton-ascend", "version": "3.2.2", "module": "triton", "requires": ["x; python_version > '3'"]}
    registry.make_standin(spec, tmp_path)
    registry.write_index(tmp_path, tmp_path / "simple")
    page = (tmp_path / "simple" / "triton-ascend" / "index.html").read_text()
    file, digest = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]+)"', page)[0]
    assert hashlib.sha256((tmp_path / "simple" / "triton-ascend" / file).read_bytes()).hexdigest() == digest
    metadata = zipfile.Path(tmp_path / file, "triton_ascend-3.2.2.dist-info/")
    found = importlib.metadata.PathDistribution(metadata)
    assert (found.name, found.version, found.requires) == ("triton-ascend", "3.2.2", spec["requires"])
    assert {str(path) for path in found.files or []} >= {"triton/__init__.py"}


def test_installer_is_named_by_version_and_machine(memfabric: Package) -> None:
    memfabric.build()
    expected = f"memfabric_hybrid-1.2.1_linux_{platform.machine()}.run"
    assert [file.name for file in (memfabric.source / "output").iterdir()] == [expected]


def test_without_bisheng_the_offload_library_is_empty(memfabric: Package) -> None:
    memfabric.build()
    done = memfabric.install()
    assert done.returncode == 0, done.stderr
    assert "[WARN] bisheng is not found" in done.stdout
    assert memfabric.offload_library.stat().st_size == 0


def test_with_bisheng_it_is_not(memfabric: Package) -> None:
    memfabric.build()
    memfabric.give("bisheng", 'echo library >"$3"')
    done = memfabric.install()
    assert done.returncode == 0, done.stderr
    assert memfabric.offload_library.stat().st_size > 0
    assert f"{platform.machine()}-linux/lib64" in (memfabric.prefix / "memfabric_hybrid" / "set_env.sh").read_text()


def test_installing_again_wipes_edits_of_the_configuration(memcache: Package) -> None:
    memcache.build()
    memcache.install()
    config = memcache.latest / "config" / "mmc-local.conf"
    shipped = config.read_text()
    config.chmod(0o640)
    config.write_text("edited")
    done = memcache.install()
    assert done.returncode == 0, done.stderr
    assert "uninstalled" in done.stdout
    assert config.read_text() == shipped


def test_without_pip3_memcache_ends_quietly_and_halfway(memcache: Package) -> None:
    memcache.build()
    (memcache.bin / "pip3").unlink()
    done = memcache.install()
    assert done.returncode == 0
    assert "pip3 is not found" in done.stdout
    assert not memcache.latest.exists()


def test_memcache_wants_memfabric_of_its_own_version(memcache: Package) -> None:
    fabric = memcache.source / "3rdparty" / "memfabric_hybrid"
    (fabric / "VERSION").write_text("1.0.0\n")
    done = memcache.build()
    assert done.returncode == 1
    assert "1.0.0" in done.stderr
    shutil.rmtree(fabric)
    done = memcache.build()
    assert done.returncode == 1
    assert "is not a checkout of MemFabric" in done.stderr
