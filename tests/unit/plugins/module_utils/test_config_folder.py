# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils import _config_folder as folders
from ansible_collections.vllm_ascend.pd_serving.plugins.modules import config_folder


def make(folder: Path, files: dict[str, Any]) -> list[str]:
    """Bring `folder` to `files` as the module does; returns the changed paths."""
    changes = folders.compare(folders.read(str(folder)), folders.parse_files(files))
    folders.apply(str(folder), changes, 0o700)
    return [change.path for change in changes]


WANTED = {"env": {"content": "A=1\n", "mode": "0600"}, "commands/00-one.argv": {"content": "one\n"}}


def test_a_folder_is_made_with_modes_and_then_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "services/one"
    assert make(folder, WANTED) == ["commands/00-one.argv", "env"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "env").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "commands/00-one.argv").stat().st_mode) == 0o644
    assert make(folder, WANTED) == []


def test_content_mode_and_strangers_are_put_right(tmp_path: Path) -> None:
    make(tmp_path, WANTED)
    (tmp_path / "env").write_text("A=2\n")
    (tmp_path / "commands/00-one.argv").chmod(0o600)
    (tmp_path / "old").mkdir()
    (tmp_path / "old/file").write_text("from an earlier version")
    assert make(tmp_path, WANTED) == ["commands/00-one.argv", "env", "old/file"]
    assert folders.read(str(tmp_path)) == folders.parse_files(WANTED)
    assert not (tmp_path / "old").exists()


def test_a_file_is_replaced_not_rewritten(tmp_path: Path) -> None:
    make(tmp_path, WANTED)
    with (tmp_path / "env").open() as reader:
        make(tmp_path, {**WANTED, "env": {"content": "A=3\n", "mode": "0600"}})
        assert reader.read() == "A=1\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "../other", "a/../../b", "a//b", "./a", ".", ""])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(ValueError, match="relative path"):
        folders.parse_files({path: {"content": ""}})


@pytest.mark.parametrize("mode", ["1777", "rw", "0o9"])
def test_modes_are_those_of_files(mode: str) -> None:
    with pytest.raises(ValueError, match=r"mode|invalid literal"):
        folders.parse_files({"a": {"content": "", "mode": mode}})


def test_the_digest_names_paths_modes_and_contents() -> None:
    def digest(files: dict[str, Any]) -> str:
        return folders.digest(folders.parse_files(files))

    assert digest(WANTED) == digest(dict(reversed(WANTED.items())))
    others = [
        {**WANTED, "env": {"content": "A=2\n", "mode": "0600"}},
        {**WANTED, "env": {"content": "A=1\n", "mode": "0644"}},
        {**WANTED, "more": {"content": ""}},
        {"env": WANTED["env"], "commands/01-one.argv": WANTED["commands/00-one.argv"]},
    ]
    assert len({digest(files) for files in [WANTED, *others]}) == 5


def test_a_diff_shows_files_but_no_secret(tmp_path: Path) -> None:
    wanted = folders.parse_files({"env": {"content": "A=1\n"}, "secrets/KEY": {"content": "hush", "mode": "0600"}})
    shown = folders.diff(str(tmp_path), folders.compare({}, wanted))
    assert [(d["before"], d["after"]) for d in shown] == [("", "A=1\n"), ("", "(a secret, not shown)\n")]
    assert shown[0]["before_header"].endswith("/env (absent)")
    assert shown[1]["after_header"].endswith("/secrets/KEY (mode 0600)")


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    """What the module answers."""
    with patch_module_args(arguments), pytest.raises(SystemExit):
        config_folder.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_folders_beside_it_are_made_and_what_is_in_them_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, logs = tmp_path / "etc/one", tmp_path / "log/one"
    wanted: dict[str, Any] = {"path": str(settings), "files": WANTED, "beside": [str(settings.parent), str(logs)]}
    assert run(capsys, **wanted, _ansible_check_mode=True)["changed"]
    assert not logs.exists()
    assert run(capsys, **wanted)["changed"]
    (logs / "engine.log").write_text("old")
    assert not run(capsys, **wanted)["changed"]
    logs.chmod(0o700)
    again = run(capsys, **wanted)
    assert (again["changed"], again["changed_files"]) == (True, [])
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (settings.parent, logs, settings)] == [
        0o755,
        0o755,
        0o700,
    ]
    assert (logs / "engine.log").read_text() == "old"
