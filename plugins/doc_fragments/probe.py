# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations


class ModuleDocFragment:
    """Options of the probe modules. Each face of a host has its own part; `host_probe` takes them all."""

    DOCUMENTATION = r"""
options:
  timeout_s:
    description:
      - Seconds after which the module answers with what it has read by then.
      - Whatever was not read until then is left empty, and a reason says so.
    type: float
    default: 60
"""

    ENGINE = r"""
options:
  docker_socket:
    description: Socket of the container engine's API.
    type: path
    default: /var/run/docker.sock
"""

    NIC = r"""
options:
  peers:
    description:
      - Hosts that this host must reach.
      - For each, the route that the kernel would take, the answer of its ports and the path MTU are returned.
    type: list
    elements: dict
    default: []
    suboptions:
      address:
        description: IP address (or a name that resolves) of the peer.
        type: str
        required: true
      ports:
        description: TCP ports to connect to; connections are closed at once.
        type: list
        elements: int
        default: []
      ping:
        description:
          - Measure the path MTU with ICMP echo requests that may not be fragmented.
          - Otherwise the MTU that the kernel knows of is returned, which is that of the interface.
        type: bool
        default: false
  nic:
    description: Name of the interface that shall serve, where the choice is not left to the module.
    type: str
  address:
    description: IPv4 address that shall serve; it must be an address of this host.
    type: str
"""

    HCCN = r"""
options:
  npu_count_hint:
    description:
      - How many NPUs to ask about where no C(/dev/davinci*) exists.
    type: int
  ping_hccs:
    description:
      - Addresses of virtual NICs of other hosts' NPUs to ping over HCCS.
      - The first is pinged from the first NPU of this host, and so on, starting over when there are more addresses
        than NPUs.
    type: list
    elements: str
    default: []
  ping_roce:
    description: Addresses of other hosts' NPUs to ping over RoCE, likewise.
    type: list
    elements: str
    default: []
  pings_only:
    description: Make the pings, but ask nothing else about the NPUs.
    type: bool
    default: false
"""

    HOST = r"""
options:
  paths:
    description: Absolute paths to say of whether they exist and what they are.
    type: list
    elements: str
    default: []
  disk_paths:
    description:
      - Absolute paths whose file systems' size and free space to return; they need not exist yet.
      - The folders of the container engine's data and images are always included.
    type: list
    elements: str
    default: []
  controller_epoch_s:
    description: The controller's clock just before the call, in seconds since 1970, to compare this host's clock with.
    type: float
"""

    MODEL = r"""
options:
  model_paths:
    description: Absolute paths of model folders.
    type: list
    elements: str
    default: []
"""
