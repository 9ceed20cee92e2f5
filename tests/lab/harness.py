# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Simulated hosts on loopback for tests of the lab's engine: a file tree for each, engines as processes."""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
ENGINE = REPO / "lab" / "engine"
# config.json of DeepSeek-V3.2, reduced to what sizes depend on
SPARSE_MODEL = {
    "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "hidden_size": 7168,
    "num_hidden_layers": 61, "num_nextn_predict_layers": 1, "num_attention_heads": 128, "num_key_value_heads": 128,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_topk": 2048, "index_head_dim": 128, "n_routed_experts": 256,
    "max_position_embeddings": 163840,
}  # fmt: skip
WEIGHTS = 690_000_000_000
_PORTS = iter(range(10000, 14500))  # above MemFabric from 9000, below Mooncake from 20000 (kv_port default 14579)


class Host:
    """One simulated A3 host: its own root folder and its own loopback address."""

    def __init__(self, folder: Path, number: int) -> None:
        self.root, self.address = folder, f"127.0.0.{number}"
        for node in [*(f"davinci{chip}" for chip in range(16)), "davinci_manager", "devmm_svm", "hisi_hdc"]:
            self.write(f"dev/{node}", "")
        self.write("etc/hccn.conf", "address_0=192.0.2.200\n")
        self.write("etc/ascend_install.info", "Driver_Install_Path_Param=/usr/local/Ascend\n")
        self.write("usr/local/Ascend/driver/version.info", "Version=25.5.1\nInnerversion=V100R001C23\n")
        self.write("usr/local/Ascend/driver/lib64/libascend_hal.so", "")
        self.write("proc/meminfo", f"MemTotal: {1536 << 20} kB\nMemAvailable: {1400 << 20} kB\n")
        self.write("proc/cpuinfo", "Features\t: fp asimd sve bf16\n")
        (folder / "dev" / "shm").mkdir(exist_ok=True)
        self.settings()
        library = folder / "memfabric_hybrid" / "lib64"
        self.write("memfabric_hybrid/lib64/libmf_hybm_accoffload.so", "code")
        clang = folder / "bin" / "clang++"
        self.write("bin/clang++", f'#!/bin/sh\necho "{folder}/clang"\n')
        clang.chmod(0o755)
        self.write("clang/include/omp.h", "")
        for module in ("memfabric_hybrid", "memcache_hybrid", "mooncake"):
            self.write(f"modules/{module}/__init__.py", "")
        self.env = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}", "LAB_ENGINE_ROOT": str(folder),
            "PYTHONPATH": f"{ENGINE}:{folder}/modules", "VLLM_HOST_IP": self.address, "HCCL_IF_IP": self.address,
            "LD_LIBRARY_PATH": "/usr/local/Ascend/ascend-toolkit/latest/lib64:/usr/local/Ascend/nnal/atb/latest/lib:"
            f"{library}:/usr/local/memcache_hybrid/latest/lib64",
            "ASCEND_OPP_PATH": "/usr/local/Ascend/ascend-toolkit/latest/opp",
            "MEMFABRIC_HYBRID_EXTEND_LIB_PATH": str(library), "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip

    def settings(self, **changes: Any) -> None:
        """The lab's settings on this host: quick, but patient with peers on a busy machine."""
        values = {"weights_seconds": 0.1, "pool_seconds": 0, "handshake_seconds": 20, **changes}
        self.write("etc/lab-engine.json", json.dumps(values))

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target


class Forked:
    """`vllm serve` in a fork of this interpreter: as good as a new one, and without the half second that costs."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: Path, cwd: Path) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115  (as long as the process)
            os.environ.clear()
            os.environ.update(env)
            os.chdir(cwd)
            sys.path[:0] = env["PYTHONPATH"].split(":")
            importlib.invalidate_caches()
            cli = importlib.import_module("vllm.cli")
            cli.serve(arguments)
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)  # serve ends the process itself; coming here is an error of the harness

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, seconds: float = 10) -> int:
        deadline = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("vllm serve", seconds)
            time.sleep(0.02)
        return code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class Process:
    """A started process with its log."""

    def __init__(self, popen: Forked | subprocess.Popen[bytes], log: Path) -> None:
        self.popen, self.log = popen, log

    @classmethod
    def spawn(cls, argv: list[str], env: dict[str, str], log: Path, cwd: Path) -> Process:
        with log.open("wb") as stream:
            return cls(subprocess.Popen(argv, env=env, stdout=stream, stderr=subprocess.STDOUT, cwd=cwd), log)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def ended(self, seconds: float = 60) -> int:
        """Exit code of a process that is expected to end."""
        return self.popen.wait(seconds)

    def until(self, text: str, seconds: float = 60) -> None:
        """Wait for a line in the log."""
        deadline = time.monotonic() + seconds
        while text not in self.text():
            assert self.popen.poll() is None, f"ended with {self.popen.returncode}:\n{self.text()}"
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.text()}"
            time.sleep(0.05)

    def stop(self) -> int:
        self.popen.terminate()
        return self.popen.wait(30)


class Lab:
    """Hosts, models and processes of one test; everything started ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Process] = []

    def host(self, number: int) -> Host:
        """The host with address 127.0.0.NUMBER."""
        return Host(self.folder / f"host{number}", number)

    def model(self, base: dict[str, Any] = SPARSE_MODEL, **changes: Any) -> Path:
        """A model folder; a change to None removes the key from config.json."""
        config = {key: value for key, value in {**base, **changes}.items() if value is not None}
        folder = self.folder / str(config["model_type"])
        folder.mkdir(exist_ok=True)
        shards = [f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)]
        for shard in shards:
            (folder / shard).touch()
        index = {"metadata": {"total_size": WEIGHTS}, "weight_map": dict(enumerate(shards))}
        for name, content in (
            ("config.json", config),
            ("model.safetensors.index.json", index),
            ("quant_model_description.json", {}),
        ):
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        return folder

    def release(self, where: Host, vllm: str, vllm_ascend: str, overlay: str = "") -> None:
        """Let a host's engines stand for other releases, or for a tree with an overlay."""
        tree = self.folder / f"tree-{vllm_ascend}-{overlay}"
        if not tree.exists():
            for package, version in (("vllm", vllm), ("vllm_ascend", vllm_ascend)):
                shutil.copytree(ENGINE / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
                (tree / package / "VERSION").write_text(version + "\n", encoding="ascii")
            shutil.copy(REPO / "plugins" / "plugin_utils" / "data" / f"vllm-serve-{vllm}.json", tree / "vllm" / "data")
            if overlay:
                shutil.copytree(ENGINE / "overlays" / overlay, tree, dirs_exist_ok=True)
        where.env["PYTHONPATH"] = f"{tree}:{where.root}/modules"

    def run(
        self,
        where: Host,
        *arguments: str,
        env: dict[str, str | None] | None = None,
        program: list[str] | None = None,
    ) -> Process:
        """Start `vllm serve`, or another program, on a host."""
        merged = {key: value for key, value in {**where.env, **(env or {})}.items() if value is not None}
        log = self.folder / f"log{len(self.started)}.txt"
        if program is None and merged["PYTHONPATH"].startswith(str(ENGINE)):
            process = Process(Forked(list(arguments), merged, log, self.folder), log)
        else:  # another program, or the packages of another release
            start = program or [sys.executable, "-m", "vllm.cli", "serve"]
            process = Process.spawn([*start, *arguments], merged, log, self.folder)
        self.started.append(process)
        return process

    def serve(self, where: Host, model: Path, /, **options: Any) -> Process:
        """Start `vllm serve MODEL` with options: names with underscores; True for a flag, None to leave it out."""
        line = [str(model), "--host", "127.0.0.1"]
        for name, value in options.items():
            if value is None:
                continue
            line.append("--" + name.replace("_", "-"))
            if value is not True:
                line.append(json.dumps(value) if isinstance(value, dict) else str(value))
        return self.run(where, *line)

    def proxy(self, where: Host, version: str, flavour: str, prefill: list[Any], decode: list[Any]) -> str:
        """The URL of upstream's own proxy of a release; engines are ports of loopback, or address and port."""
        pytest.importorskip("uvicorn")
        port = free_port()
        source = upstream(version)
        script = source / "examples" / "disaggregated_prefill_v1" / f"load_balance_proxy_{flavour}.py"
        self.release(where, version.split("rc")[0], version)
        packages = Path(where.env["PYTHONPATH"].split(":")[0])
        helper = Path("vllm_ascend") / "patch" / "recompute_proxy.py"  # newer proxies import it
        if (source / helper).is_file():
            (packages / helper).parent.mkdir(exist_ok=True)
            shutil.copy(source / helper, packages / helper)
        arguments = ["--host", "127.0.0.1", "--port", str(port)]
        for side, engines in (("prefiller", prefill), ("decoder", decode)):
            places = [("127.0.0.1", each) if isinstance(each, int) else each for each in engines]
            arguments += [f"--{side}-hosts", *(host for host, _ in places)]
            arguments += [f"--{side}-ports", *(str(number) for _, number in places)]
        program = [sys.executable, str(script)]
        process = self.run(where, *arguments, program=program, env={"PYTHONPATH": str(packages)})
        process.until("Application startup complete")
        return f"http://127.0.0.1:{port}"

    def close(self) -> None:
        for process in self.started:
            if process.popen.poll() is None:
                process.popen.kill()
                process.popen.wait()


def free_port() -> int:
    """A port of the band below that no engine of these tests binds by itself, each given once.

    The kernel's own choice would be wrong: its range holds the fixed ports of the engines (36000, 60000 and above).
    """
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue  # somebody else's
            return port
    raise RuntimeError("no free port left for tests")


def call(url: str, body: Any = None, timeout: float = 15, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """GET, or POST of JSON; status and body, also of errors."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@functools.cache
def upstream(version: str) -> Path:
    """The unpacked source distribution of a vllm-ascend release, for its real proxies."""
    name = f"vllm_ascend-{version}"
    cache = REPO / ".cache" / "sdist"
    depot = REPO / ".lab" / "depot" / "cache" / "sdists"  # a lab that was up has them already
    archive = next((place / f"{name}.tar.gz" for place in (depot, cache) if (place / f"{name}.tar.gz").is_file()), None)
    if archive is None:
        archive = cache / f"{name}.tar.gz"
        tool = shutil.which("unearth", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if tool is None:
            pytest.skip("unearth is not installed: upstream's proxies cannot be fetched")
        cache.mkdir(parents=True, exist_ok=True)
        fetch = [tool, f"vllm-ascend=={version}", "--no-binary", "--download", str(cache)]
        subprocess.run(fetch, check=True, capture_output=True)
    target = cache / "unpacked"
    if not (target / name).is_dir():
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as content:
            content.extractall(target, filter="data")
    return target / name
