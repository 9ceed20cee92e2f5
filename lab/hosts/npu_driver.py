# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What a simulated host's driver does at boot and when its hardware changes: device nodes and version files."""

import json
import os
import stat

DRIVER = "/usr/local/Ascend/driver"
HARDWARE = f"{DRIVER}/hardware/state.json"
CHIPS = 16
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")
NULL_DEVICE = os.makedev(1, 3)  # opens and reads like a device, and does nothing

VERSION_INFO = """Version={driver}
ascendhal_version=7.35.23
aicpu_version=1.0
tdt_version=1.0
log_version=1.0
prof_version=2.0
dvppkernels_version=1.1
tsfw_version=1.0
Innerversion=V100R001C{inner}B213
compatible_version=[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21],[V100R001C23],[V100R001C25]
package_version={driver}
"""

HCCN_CONF = """address_{chip}={address}
netmask_{chip}=255.255.255.0
netdetect_{chip}={gateway}
gateway_{chip}={gateway}
"""


def write(path, text):
    """In place, so that a container that mounts the file sees it too."""
    with open(path, "a+") as file:
        file.seek(0)
        if file.read() != text:
            file.truncate(0)
            file.write(text)


def main():
    with open(HARDWARE) as file:
        state = json.load(file)
    for name in [*(f"davinci{chip}" for chip in range(CHIPS)), *MANAGERS]:
        path = f"/dev/{name}"
        if name in {f"davinci{chip}" for chip in state["missing"]}:
            if os.path.exists(path):
                os.unlink(path)
        elif not os.path.exists(path):
            os.mknod(path, 0o666 | stat.S_IFCHR, NULL_DEVICE)
            os.chmod(path, 0o666)
    inner = "25SPC002" if state["driver"] >= "25" else "20SPC001"
    write(f"{DRIVER}/version.info", VERSION_INFO.format(driver=state["driver"], inner=inner))
    if not os.path.exists("/etc/hccn.conf") and not os.path.exists("/var/lib/hidden/etc/hccn.conf"):
        roce = f"10.90.{state['host']}"
        rows = (
            HCCN_CONF.format(chip=chip, address=f"{roce}.{chip + 10}", gateway=f"{roce}.1") for chip in range(CHIPS)
        )
        write("/etc/hccn.conf", "".join(rows))


if __name__ == "__main__":
    main()
