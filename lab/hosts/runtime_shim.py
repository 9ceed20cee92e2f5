# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""OCI runtime in front of runc, at runc's own path, so that no daemon.json has to name it.

1. Where root lacks CAP_SYS_RESOURCE (some sandboxes), runc fails on what it may not do: the capability is left out,
   limits are held to the present hard ones, a negative oom_score_adj is not set. `docker inspect` shows what was asked.
2. What a simulated host is shown of its hardware (/proc/meminfo and the like, by bind mounts), its containers see too.
"""

import json
import os
import resource
import sys

RUNC = "/usr/sbin/runc.real"
CAP_SYS_RESOURCE = 24
SHOWN = ("/proc/meminfo", "/proc/cpuinfo", "/sys/devices/system/node")


def option(argv, *names):
    for name in names:
        if name in argv:
            return argv[argv.index(name) + 1]
    return None


def may_raise_limits():
    with open("/proc/self/status") as status:
        bounding = next(int(line.split()[1], 16) for line in status if line.startswith("CapBnd"))
    return bool(bounding >> CAP_SYS_RESOURCE & 1)


def restrain(process):
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != "CAP_SYS_RESOURCE"]
    for limit in process.get("rlimits") or []:
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY:
            limit["hard"] = min(limit["hard"], hard)
            limit["soft"] = min(limit["soft"], limit["hard"])
    process["oomScoreAdj"] = max(process.get("oomScoreAdj") or 0, 0)


def shown_here():
    with open("/proc/self/mountinfo") as mounts:
        points = {line.split()[4] for line in mounts}
    return [path for path in SHOWN if path in points]


def rewrite(path, change):
    with open(path) as file:
        config = json.load(file)
    change(config)
    with open(path, "w") as file:
        json.dump(config, file)


def adapt_container(config):
    if not may_raise_limits():
        restrain(config["process"])
    mounted = {mount["destination"] for mount in config["mounts"]}
    for path in shown_here():
        if path not in mounted:
            bind = {"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]}
            config["mounts"].append(bind)


def main(argv):
    bundle = option(argv, "--bundle", "-b")
    if bundle and ("create" in argv or "run" in argv):
        rewrite(os.path.join(bundle, "config.json"), adapt_container)
    process = option(argv, "--process", "-p")
    if process and "exec" in argv and not may_raise_limits():
        rewrite(process, restrain)
    os.execv(RUNC, ["runc", *argv])


if __name__ == "__main__":
    main(sys.argv[1:])
