# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Stand-in for hccn_tool: the read-only calls that a preflight makes, in the real tool's layout.

hccn_tool -i N -link|-net_health|-ip|-vnic|-tls|-gateway|-netdetect|-lldp -g
hccn_tool -i N -hccs_ping|-ping -g address A.B.C.D
"""

import json
import os
import signal
import sys

HARDWARE = "/usr/local/Ascend/driver/hardware/state.json"
CHIPS = 16
VNIC = "10.89"  # vnic of chip C on host H: 10.89.H.(C + 10), one flat network over the SuperPod
ROCE = "10.90"  # RoCE address, in /etc/hccn.conf: 10.90.H.(C + 10)


def conf(key):
    """One value of /etc/hccn.conf, which is where the real tool keeps what was set."""
    try:
        with open("/etc/hccn.conf") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line).get(key)
    except FileNotFoundError:
        return None


def link(state, chip):
    return "link status: " + ("DOWN" if chip in state["link_down"] else "UP")


def net_health(state, chip):
    return "net health status: " + ("Fault" if chip in state["net_health_fault"] else "Success")


def ip(state, chip):
    address = conf(f"address_{chip}")
    if not address:
        return "Get ipconf failed, because no ip was preset there!"
    return f"ipaddr:{address}\nnetmask:{conf(f'netmask_{chip}')}"


def vnic(state, chip):
    return f"vnic link status: UP\nvnic ipaddr:{VNIC}.{state['host']}.{chip + 10}\nvnic netmask:255.255.0.0"


def tls(state, chip):
    switch = int(chip in state["tls_on"])
    return f"dev_id:{chip}, tls switch[{switch}](0:disable, 1:enable), tls alarm time threshold[60]days"


def gateway(state, chip):
    address = conf(f"gateway_{chip}")
    if not address:
        return "Get gateway failed, because no gateway was preset there!"
    return f"default gateway:{address}, Iface:eth{chip}"


def netdetect(state, chip):
    address = conf(f"netdetect_{chip}")
    if not address:
        return "Get netdetect failed, because no netdetect was preset there!"
    return f"netdetect address: {address}"


def lldp(state, chip):
    if chip in state["link_down"]:
        return "Get lldp failed, because the link is down!"
    return (
        f"Chassis ID TLV\n    MAC: 00:00:5e:00:53:{state['host']:02x}\nPort ID TLV\n    Ifname: 400GE1/0/{chip + 1}\n"
        "Time to Live TLV\n    120"
    )


def reachable(state, network, address):
    """A peer's chip answers in the SuperPod over HCCS, and anywhere over RoCE."""
    parts = address.split(".")
    if ".".join(parts[:2]) != network or len(parts) != 4 or not parts[3].isdigit():
        return False
    superpod = state["fabric"].get(parts[2])
    chip_exists = 10 <= int(parts[3]) < 10 + CHIPS
    return chip_exists and superpod is not None and (network == ROCE or superpod == state["superpod"])


def ping(state, chip, address, network):
    lines = [f"device {chip} PING {address}"]
    if reachable(state, network, address) and chip not in state["link_down"]:
        lines += [f"recv seq={number},time={0.05 + number / 1000:.6f}ms" for number in range(3)]
        return "\n".join([*lines, "3 packets transmitted, 3 received, 0.00% packet loss"]), 0
    lines += [f"recv time out seq={number}" for number in range(3)]
    return "\n".join([*lines, "3 packets transmitted, 0 received, 100.00% packet loss"]), 1


SHOW = {
    "-link": link,
    "-net_health": net_health,
    "-ip": ip,
    "-vnic": vnic,
    "-tls": tls,
    "-gateway": gateway,
    "-netdetect": netdetect,
    "-lldp": lldp,
}
PING = {"-hccs_ping": VNIC, "-ping": ROCE}


def main(argv):
    usage = "Usage: hccn_tool -i <device id> <-link|-net_health|-ip|-vnic|-tls|-gateway|-netdetect|-lldp> -g"
    if argv in (["-h"], ["-v"]):
        return ("hccn_tool version 25.5.1" if argv == ["-v"] else usage), 0
    if len(argv) < 4 or argv[0] != "-i" or not argv[1].isdigit() or argv[3] != "-g":
        return f"Invalid argument!\n{usage}", 1
    with open(HARDWARE) as file:
        state = json.load(file)
    chip = int(argv[1])
    if chip >= CHIPS or chip in state["missing"] or not os.path.exists(f"/dev/davinci{chip}"):
        return f"The device {chip} is not exist!", 1
    if argv[2] in SHOW and len(argv) == 4:
        text = SHOW[argv[2]](state, chip)
        return text, 0 if " failed" not in text else 1
    if argv[2] in PING and argv[4:5] == ["address"] and len(argv) == 6:
        return ping(state, chip, argv[5], PING[argv[2]])
    return f"Invalid argument!\n{usage}", 1


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly in front of `head`
    output, status = main(sys.argv[1:])
    print(output)
    sys.exit(status)
