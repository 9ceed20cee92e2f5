# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""All that a second run must leave alone: containers, images, files, units and kernel settings of every host.

Usage: snapshot.py FILE
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

# One command a host and subject. Each prints sorted lines.
SUBJECTS = {
    "containers": "docker ps --all --quiet --no-trunc | xargs --no-run-if-empty docker inspect --format"
    " '{{.Name}} {{.Id}} {{.Image}} {{.State.Status}} {{.State.StartedAt}} {{.RestartCount}}' | sort",
    "images": "docker images --all --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}' | sort",
    # Content, mode, owner and modification time; logs grow and Docker's and SSH's own state is not ours.
    "files": "find /etc /usr/local -xdev -type f ! -path '/etc/docker/key.json'"
    " -printf '%p %m %U:%G %T@ ' -exec sha256sum {} ';' | sort",
    "links": "find /etc /usr/local -xdev -type l -printf '%p -> %l\\n' | sort",
    "units": "systemctl list-unit-files --no-legend --no-pager | sort",
    "sysctls": "sysctl --all 2>/dev/null | grep -E '^(net\\.ipv4\\.ip_local|net\\.core|vm\\.|kernel\\.shm)' | sort",
}


def take(hosts: dict[str, Any], *subjects: str) -> dict[str, dict[str, list[str]]]:
    """host -> subject -> lines, of all subjects or of these."""
    return {
        name: {subject: host.check_output(SUBJECTS[subject]).splitlines() for subject in subjects or SUBJECTS}
        for name, host in hosts.items()
    }


def containers(hosts: dict[str, Any]) -> dict[str, str]:
    """Container name -> id, image, state and start time, over all hosts."""
    lines = [line for taken in take(hosts, "containers").values() for line in taken["containers"]]
    return dict(line.split(maxsplit=1) for line in lines)


def differing(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Names of containers that are not as they were: made anew, restarted or gone."""
    return {name for name in before if before[name] != after.get(name)}


def main(destination: str) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.integration import lab

    with tempfile.TemporaryDirectory() as folder:
        Path(destination).write_text(json.dumps(take(lab.connect(Path(folder))), indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
