# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The probe modules as Ansible runs them, and their documentation against what they return."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import (
    _containers,
    _faces,
    _hccn,
    _host,
    _model,
    _nics,
    _npu,
)
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._parallel import Deadline
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._run import Runner
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._tree import Tree

MODULES = "ansible_collections.vllm_ascend.pd_serving.plugins.modules"
EMPTY = {"npu": _npu.empty, "nic": _nics.empty, "hccn": _hccn.empty, "host": _host.empty, "model": _model.empty}


def returned(face: str) -> dict[str, Any]:
    """What the documentation says the face holds."""
    module = importlib.import_module(f"{MODULES}.{face}_info")
    documented: dict[str, Any] = yaml.safe_load(module.RETURN)[face]["contains"]
    return documented


# Mappings whose keys are no names: what is documented of them is one value.
BY_KEY = {"nic.peers"}


def compare(documented: dict[str, Any], seen: dict[str, Any], where: str) -> None:
    """Same names on both sides, at every level that the documentation spells out."""
    if where in BY_KEY:
        seen = next(iter(seen.values()))
    assert set(documented) == set(seen), where
    for name, entry in documented.items():
        value = seen[name]
        if "contains" in entry and isinstance(value, dict) and value:
            compare(entry["contains"], value, f"{where}.{name}")
        elif "contains" in entry and isinstance(value, list) and value:
            compare(entry["contains"], value[0], f"{where}.{name}[0]")


@pytest.mark.parametrize("face", _faces.FACES)
def test_documentation_names_what_is_returned(face: str) -> None:
    compare(returned(face), EMPTY[face](), face)


def test_documentation_of_what_an_empty_host_does_not_show() -> None:
    documented = returned("nic")
    seen = _nics.gather(Tree(), Runner(Deadline(10)), [{"address": "127.0.0.1", "ports": []}])
    compare(documented["interfaces"]["contains"], seen["interfaces"][0], "interfaces")
    compare(documented["peers"]["contains"], seen["peers"], "nic.peers")
    compare(returned("host")["containers"]["contains"], _containers.describe_container({}), "containers")
    samples = Path(__file__).parents[2] / "data" / "hccn_tool"
    chip = {"phy_id": 0}
    for _arguments, parse, _needed in _hccn.QUESTIONS.values():
        chip.update(parse((samples / "vnic.txt").read_text()))
    compare(returned("hccn")["chips"]["contains"], chip, "hccn.chips")


FACE_OPTIONS: dict[str, dict[str, Any]] = {
    "npu": {},
    "nic": {"nic": "lo", "peers": [{"address": "127.0.0.1", "ports": [1]}]},
    "hccn": {"npu_count_hint": 1},
    "host": {"disk_paths": ["/"], "paths": ["/etc/hosts"]},
    "model": {"model_paths": ["/nonexistent/model"]},
}


def supported(minor: int) -> bool:
    """Whether this ansible-core still runs modules under Python 3.<minor>."""
    return (3, minor) >= tuple(basic._PY_MIN)


def asks(module: str, options: dict[str, Any]) -> dict[str, Any]:
    """A task in check mode that keeps its answer under the module's name."""
    arguments = {"timeout_s": 30, **options}
    return {f"vllm_ascend.pd_serving.{module}": arguments, "check_mode": True, "register": module}


@pytest.fixture(scope="module")
def answers(interpreters: dict[int, Path], collection_path: Path) -> dict[str, Any]:
    """What this machine answers through Ansible: host_probe under every Python, by `py<minor>`; each face under one."""
    hosts = {f"py{n}": {"ansible_python_interpreter": str(p)} for n, p in interpreters.items() if supported(n)}
    inventory = {"all": {"hosts": hosts, "vars": {"ansible_connection": "local"}}}
    together = {name: value for options in FACE_OPTIONS.values() for name, value in options.items()}
    faces = [asks(f"{face}_info", options) for face, options in FACE_OPTIONS.items()]
    kept = {f"{face}_info": f"{{{{ {face}_info }}}}" for face in FACE_OPTIONS}
    kept["host_probe"] = "{{ dict(groups['all'] | zip(groups['all'] | map('extract', hostvars, 'host_probe'))) }}"
    target = collection_path / "answers.json"
    keep = {"ansible.builtin.copy": {"content": "{{ kept | to_json }}", "dest": str(target)}, "vars": {"kept": kept}}
    plays = [
        {"hosts": "all", "gather_facts": False, "tasks": [asks("host_probe", together)]},
        {"hosts": "all[-1]", "gather_facts": False, "tasks": [*faces, keep]},
    ]
    (collection_path / "inventory.json").write_text(json.dumps(inventory))
    (collection_path / "plays.json").write_text(json.dumps(plays))
    config = collection_path / "ansible.cfg"  # empty: the settings of this checkout and of its user stay out
    config.touch()
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collection_path), "ANSIBLE_CONFIG": str(config)}
    argv = [Path(sys.executable).parent / "ansible-playbook", "-i", "inventory.json", "plays.json"]
    done = subprocess.run(argv, cwd=collection_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(target.read_text())
    return result


# What this ansible-core refuses is run by test_module_files_under_every_python.
@pytest.mark.parametrize("minor", [minor for minor in range(8, 14) if supported(minor)])
def test_host_probe_through_ansible(minor: int, interpreters: dict[int, Path], answers: dict[str, Any]) -> None:
    if minor not in interpreters:
        pytest.skip(f"no Python 3.{minor} here")
    answer = answers["host_probe"][f"py{minor}"]
    assert answer["changed"] is False
    facts = answer["facts"]
    assert set(facts) == {"schema", *_faces.FACES}
    assert facts["host"]["python"].startswith(f"3.{minor}.")
    assert facts["nic"]["peers"]["127.0.0.1"]["local"]
    for face in _faces.FACES:
        check_face(face, facts[face])


# Newer ansible-cores run no module under the oldest Pythons that this collection supports, older ones do. This stands
# in for the one class that modules take from Ansible, so that the modules' own files run under every Python, whatever
# ansible-core is installed here.
STAND_IN = """
import json, sys

def filled(options, given):
    names = {name: given.get(name, option.get("default")) for name, option in options.items()}
    for name, option in options.items():
        if "options" in option:
            names[name] = [filled(option["options"], one) for one in names[name]]
    return names

class AnsibleModule:
    def __init__(self, argument_spec, supports_check_mode):
        self.check_mode, self.params = True, filled(argument_spec, json.load(sys.stdin))

    def exit_json(self, **result):
        json.dump(result, sys.stdout)
"""


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ansible")
    folder = root / "ansible" / "module_utils"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    (folder / "basic.py").write_text(STAND_IN)
    return root


@pytest.mark.parametrize("minor", range(8, 14))
def test_module_files_under_every_python(
    minor: int, interpreters: dict[int, Path], collection_path: Path, stand_in: Path
) -> None:
    if minor not in interpreters:
        pytest.skip(f"no Python 3.{minor} here")
    modules = Path(_faces.__file__).parents[1] / "modules"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{stand_in}:{collection_path}"}

    def run(module: str, options: dict[str, Any]) -> dict[str, Any]:
        argv = [str(interpreters[minor]), "-W", "error", "-B", str(modules / f"{module}.py")]
        done = subprocess.run(
            argv, input=json.dumps(options), env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        assert result["changed"] is False
        return result

    facts = run("host_probe", {name: value for own in FACE_OPTIONS.values() for name, value in own.items()})["facts"]
    assert facts["host"]["python"].startswith(f"3.{minor}.")
    for face, options in FACE_OPTIONS.items():
        check_face(face, facts[face])
        check_face(face, run(f"{face}_info", options)[face])


@pytest.mark.parametrize("face", _faces.FACES)
def test_each_face_by_itself(face: str, answers: dict[str, Any]) -> None:
    answer = answers[f"{face}_info"]
    assert answer["changed"] is False
    assert {face, "timing"} <= set(answer)
    check_face(face, answer[face])


def check_face(face: str, seen: dict[str, Any]) -> None:
    for value in seen.values() if face == "model" else [seen]:  # models are by path
        compare(returned(face), value, face)
