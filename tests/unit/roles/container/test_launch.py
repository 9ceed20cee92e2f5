# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The launcher of every container, run for real on config folders made here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[4] / "roles/container/files/launch"
DUMP = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"


class Folder:
    """A config folder as the role writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "commands").mkdir(parents=True)
        shutil.copy(LAUNCH, path / "launch")
        for name in ("sources", "prepend", "env"):
            self.write(name, [])

    def write(self, name: str, lines: Sequence[str]) -> None:
        (self.path / name).write_text("".join(f"{line}\n" for line in lines))

    def command(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.write(f"commands/{name}.argv", argv)
        self.write(f"commands/{name}.env", [f"{key}={value}" for key, value in (env or {}).items()])

    def script(self, name: str, text: str) -> str:
        path = self.path.parent / name
        path.write_text(text)
        return str(path)

    def start(self, **image: str) -> subprocess.Popen[str]:
        environment = {"PATH": os.environ["PATH"], **image}
        return subprocess.Popen(
            ["/bin/bash", str(self.path / "launch")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, **image: str) -> tuple[int, str]:
        return finish(self.start(**image))

    def environ(self, **image: str) -> dict[str, str]:
        """What a command of this folder finds in its environment."""
        dump = self.path.parent / "environ.json"
        self.command("00-dump", [sys.executable, "-c", DUMP, str(dump)])
        self.run(**image)
        found: dict[str, str] = json.loads(dump.read_text())
        return found


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Status and output of a launcher that has to end by itself."""
    try:
        output, _nothing = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, output


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "config")


def test_image_set_env_and_prepended_paths_are_all_there_in_this_order(folder: Folder) -> None:
    cann = folder.script("cann.sh", "export LD_LIBRARY_PATH=/cann:$LD_LIBRARY_PATH ASCEND_HOME_PATH=/cann")
    nnal = folder.script("nnal.sh", "export LD_LIBRARY_PATH=/nnal$1:$LD_LIBRARY_PATH")
    folder.write("sources", [cann, f"{nnal} --cxx_abi=1"])
    folder.write("prepend", ["LD_LIBRARY_PATH=/first", "LD_LIBRARY_PATH=/second", "LD_PRELOAD="])
    environ = folder.environ(LD_LIBRARY_PATH="/image")
    assert environ["LD_LIBRARY_PATH"] == "/first:/second:/nnal--cxx_abi=1:/cann:/image"
    assert environ["ASCEND_HOME_PATH"] == "/cann"


def test_prepending_to_nothing_leaves_no_empty_path(folder: Folder) -> None:
    """An empty entry would mean the working directory."""
    folder.write("prepend", ["PYTHONPATH=/ours"])
    assert folder.environ()["PYTHONPATH"] == "/ours"


def test_environment_file_is_taken_literally_and_wins(folder: Folder) -> None:
    folder.write("sources", [folder.script("set_env.sh", "export OMP_NUM_THREADS=8")])
    folder.write("env", ["OMP_NUM_THREADS=1", "TEXT= a  'b' \"c\" * `d` \\ =e", "", "EMPTY="])
    environ = folder.environ()
    assert environ["OMP_NUM_THREADS"] == "1"
    assert environ["TEXT"] == " a  'b' \"c\" * `d` \\ =e"
    assert environ["EMPTY"] == ""


def test_secrets_are_exported(folder: Folder) -> None:
    (folder.path / "secrets").mkdir()
    folder.write("secrets/VLLM_API_KEY", ["s3cret"])
    assert folder.environ()["VLLM_API_KEY"] == "s3cret"


def test_arguments_are_taken_literally(folder: Folder) -> None:
    folder.command("00-a", [sys.executable, "-c", "import sys; print(sys.argv[1:])", "a b", "$HOME", "*", ""])
    assert "['a b', '$HOME', '*', '']" in folder.run()[1]


def test_ranks_have_their_own_environment_and_mark_their_lines(folder: Folder) -> None:
    folder.write("env", ["SHARED=yes"])
    for rank in ("0", "1"):
        show = "import os, time; print(os.environ['SHARED'], os.environ['RANK'], flush=True); time.sleep(1)"
        folder.command(f"0{rank}-decode-{rank}", [sys.executable, "-c", show], {"RANK": rank})
    output = folder.run()[1]
    assert "[decode-0] yes 0\n" in output
    assert "[decode-1] yes 1\n" in output


def test_a_missing_set_env_stops_everything(folder: Folder) -> None:
    folder.write("sources", ["/nowhere/set_env.sh"])
    folder.command("00-a", ["echo", "started"])
    assert folder.run() == (78, "launch: there is no /nowhere/set_env.sh in this image\n")


def test_a_failing_set_env_stops_everything(folder: Folder) -> None:
    script = folder.script("set_env.sh", "return 3")
    folder.write("sources", [script])
    folder.command("00-a", ["echo", "started"])
    assert folder.run() == (78, f"launch: {script} failed\n")


@pytest.mark.parametrize(("status", "seen"), [("0", 1), ("7", 7)])
def test_the_end_of_one_rank_is_the_end_of_all(folder: Folder, status: str, seen: int) -> None:
    """Also a good end: Docker restarts on failure only."""
    folder.command("00-a", ["bash", "-c", f"sleep 0.2; exit {status}"])
    folder.command("01-b", ["sleep", "600"])
    code, output = folder.run()
    assert code == seen
    assert f"00-a ended with {status}" in output


def test_term_reaches_the_command_which_may_take_its_time(folder: Folder) -> None:
    folder.command(
        "00-a", ["bash", "-c", "trap 'sleep 0.3; echo drained; exit 0' TERM; echo up; while :; do sleep 0.1; done"]
    )
    process = folder.start()
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    output = finish(process)[1]
    assert "drained" in output
    assert "ended with" not in output


def test_a_service_has_no_good_end_but_a_job_has(folder: Folder) -> None:
    folder.command("00-done", ["true"])
    assert folder.run()[0] == 1
    folder.write("job", [])
    assert folder.run()[0] == 0
    folder.command("00-done", ["false"])
    assert folder.run()[0] == 1
