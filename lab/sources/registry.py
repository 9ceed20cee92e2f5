# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Packages of the depot: real ones from the Python registry, stand-ins made here, and the PEP 503 index over both.

The registry is whatever pip on this machine is configured for.
"""

from __future__ import annotations

import base64
import hashlib
import html
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

from gitrepo import folder_tree

HERE = Path(__file__).parent
PYTHON = "3.11"  # of the image, which is Debian bookworm
GLIBC_TAGS = ("manylinux_2_36", "manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


def make_tools(folder: Path) -> Path:
    """Virtual environment with pip and unearth (which downloads a source distribution without building it)."""
    python = folder / "bin" / "python"
    if not (folder / "bin" / "unearth").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "unearth"], check=True)
    return python


def fetch_wheels(python: Path, sets: dict[str, list[str]], folder: Path) -> None:
    """Download every set with what it needs, for the image's Python, whatever Python runs here."""
    target = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
    target += [f"--abi={abi}" for abi in ("cp311", "abi3", "none")]
    target += [f"--platform={tag}_{platform.machine()}" for tag in GLIBC_TAGS]
    for requirements in sets.values():
        subprocess.run([python, "-m", "pip", "download", "-qq", f"--dest={folder}", *target, *requirements], check=True)


def fetch_sdists(python: Path, wanted: dict[str, list[str]], folder: Path) -> None:
    """Download source distributions that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, versions in wanted.items():
        for version in versions:
            if not sdist(folder, name, version).exists():
                unearth = [
                    str(python.with_name("unearth")),
                    f"{name}=={version}",
                    "--no-binary",
                    f"--download={folder}",
                ]
                subprocess.run(unearth, check=True, stdout=subprocess.DEVNULL)


def sdist(folder: Path, name: str, version: str) -> Path:
    return folder / f"{name.replace('-', '_')}-{version}.tar.gz"


def wheel(folder: Path, name: str, version: str) -> Path:
    """The one wheel of this name and version in `folder`."""
    found = sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
    if len(found) != 1:
        sys.exit(f"{folder}: one wheel of {name} {version} expected, found {[f.name for f in found]}")
    return found[0]


def make_index(python: Path, packages: dict[str, Any], wheels: Path, simple: Path) -> None:
    """Fetch and make every wheel of packages.toml, then the index over them."""
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir()
    fetch_wheels(python, packages["real"], wheels)
    for spec in packages["standin"]:
        make_standin(spec, wheels)
    write_index(wheels, simple)


def make_standin(spec: dict[str, Any], folder: Path) -> None:
    """Write a wheel of the files below trees/<tree>, or else of one importable module that does nothing."""
    name, version = spec["name"], spec["version"]
    stem = f"{name.replace('-', '_')}-{version}"
    if "tree" in spec:
        members = {path: entry.content for path, entry in folder_tree(HERE / "trees" / spec["tree"]).items()}
    else:
        module = spec.get("module", name.replace("-", "_"))
        text = f'"""Lab stand-in of {name}, does nothing."""\n\n__version__ = "{version}"\n'
        members = {f"{module}/__init__.py": text.encode()}
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: lab stand-in"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in spec.get("requires", [])]
    members[f"{stem}.dist-info/METADATA"] = "\n".join([*metadata, ""]).encode()
    members[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = [f"{path},{_record_hash(content)},{len(content)}" for path, content in members.items()]
    members[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,", ""]).encode()
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for path, content in members.items():
            archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), content)


def _record_hash(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def write_index(wheels: Path, simple: Path) -> None:
    """PEP 503 index: one folder per project with its files and an index.html; the files are hard links."""
    projects: dict[str, list[Path]] = {}
    for file in sorted(wheels.glob("*.whl")):
        projects.setdefault(re.sub(r"[-_.]+", "-", file.name.split("-")[0]).lower(), []).append(file)
    for project, files in projects.items():
        target = simple / project
        target.mkdir(parents=True)
        links = []
        for file in files:
            (target / file.name).hardlink_to(file)
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            links.append(f'<a href="{html.escape(file.name)}#sha256={digest}">{html.escape(file.name)}</a><br>')
        _page(target, links)
    _page(simple, [f'<a href="{project}/">{project}</a><br>' for project in projects])


def _page(folder: Path, lines: list[str]) -> None:
    body = "\n".join(lines)
    (folder / "index.html").write_text(f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n")
