#!/usr/bin/python
# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Memory, CPUs, disks, ports, clock, container engine and other traits of a host
version_added: 0.1.0
description:
  - Reads what the launch of a vLLM-Ascend service depends on, apart from NPUs and network.
  - Without root the owners of some sockets stay unknown; a reason says so.
notes:
  - The services of this collection need an engine that speaks Docker Engine API 1.41 (Docker 20.10) or newer;
    RV(host.engine.api_version) is what it speaks.
extends_documentation_fragment:
  - vllm_ascend.pd_serving.attributes.info_module
  - vllm_ascend.pd_serving.probe
  - vllm_ascend.pd_serving.probe.engine
  - vllm_ascend.pd_serving.probe.host
seealso:
  - module: vllm_ascend.pd_serving.host_probe
    description: All faces of a host in one call.
author:
  - vllm_ascend.pd_serving contributors (@vllm-ascend-pd)
"""

EXAMPLES = r"""
- name: Look at the host
  vllm_ascend.pd_serving.host_info:
    disk_paths: [/data/models]
    paths: [/etc/hccn.conf, /usr/local/dcmi]
  register: result

- name: Show the CPU features that sparse KV offload needs
  ansible.builtin.debug:
    msg: "SVE {{ result.host.cpu.sve }}, bf16 {{ result.host.cpu.bf16 }}"
"""

RETURN = r"""
host:
  description: The host. Whatever could not be read is V(null) or empty.
  returned: always
  type: dict
  contains:
    hostname:
      description: Name of the host.
      type: str
    arch:
      description: Architecture, such as V(aarch64).
      type: str
    kernel:
      description: Release of the kernel.
      type: str
    os:
      description: Distribution, with C(id) (str), C(version) (str) and C(name) (str).
      type: dict
    python:
      description: Version of the Python that ran the module.
      type: str
    python_requests:
      description: Whether that Python has C(requests), which the modules of community.docker need.
      type: bool
    uid:
      description: User id that the module ran as; 0 is root.
      type: int
    memory:
      description: Memory, sizes in bytes.
      type: dict
      contains:
        total_bytes:
          description: Memory in bytes.
          type: int
        free_bytes:
          description: Memory in bytes that nothing uses.
          type: int
        available_bytes:
          description: Memory in bytes that programs can get, caches given back.
          type: int
        swap_total_bytes:
          description: Swap space in bytes.
          type: int
        page_bytes:
          description: Size of a page in bytes.
          type: int
        numa:
          description:
            - One entry per NUMA node, with C(node) (int), C(total_bytes) (int), C(free_bytes) (int),
              C(cpus) (str, such as V(0-79)), of huge pages of the default size the counts C(hugepages_total) (int) and
              C(hugepages_free) (int), and of all sizes C(hugepage_pools) (list) as in
              RV(host.memory.hugepages.pools).
          type: list
          elements: dict
        hugepages:
          description: Huge pages.
          type: dict
          contains:
            size_bytes:
              description: The default size in bytes.
              type: int
            total:
              description: Number of reserved pages of the default size.
              type: int
            free:
              description: Number of those that nobody uses.
              type: int
            pools:
              description:
                - One entry for each size that the kernel offers, 1 GiB often among them, with C(size_bytes) (int) and
                  the counts C(total) (int) and C(free) (int).
              type: list
              elements: dict
    contiguous:
      description:
        - Free memory in physically contiguous blocks of at least 2 MiB, which is what the driver takes host pools from.
        - Memory held by caches is not counted, though the kernel may give it back.
        - Whether the blocks join to pages of 1 GiB is not told. The kernel's lists of free blocks end at
          RV(host.contiguous.limit_bytes); for more, scan with C(mfcli mem scan) of MemFabric.
      type: dict
      contains:
        free_bytes:
          description: Free memory in bytes in such blocks, V(null) when it cannot be read.
          type: int
        limit_bytes:
          description: Size in bytes of the largest block that the kernel keeps as one, free or not; 4 to 512 MiB.
          type: int
        nodes:
          description:
            - One entry per NUMA node, with C(node) (int), C(free_bytes) (int) and C(largest_block_bytes) (int, the
              largest free block, V(0) when all are below 2 MiB).
          type: list
          elements: dict
        kinds:
          description:
            - The same free memory in bytes (int) by what the kernel keeps it for, such as V(Movable), V(Unmovable) and
              V(CMA), of which drivers do not get the last. At least so much, as the kernel stops counting at 100000
              blocks of one size. V(null) without root.
          type: dict
        reason:
          description: Why it cannot be read, V(null) when it was.
          type: str
    shm:
      description: File system at C(/dev/shm), with C(total_bytes) (int) and C(free_bytes) (int).
      type: dict
    cpu:
      description: CPUs.
      type: dict
      contains:
        count:
          description: Number of logical CPUs.
          type: int
        model:
          description: Model, or implementer and part on aarch64.
          type: str
        features:
          description: Features (flags) of the first CPU.
          type: list
          elements: str
        sve:
          description: Whether SVE is among them.
          type: bool
        bf16:
          description: Whether bf16 is among them.
          type: bool
    disks:
      description:
        - By path, its file system's C(total_bytes) (int), C(free_bytes) (int, for users that are not root), C(at)
          (str, the nearest existing folder) and C(reason) (str).
      type: dict
    ulimits:
      description:
        - Limits of the module's own process by name (V(nofile), V(memlock), V(nproc), V(stack)), each with C(soft)
          (int) and C(hard) (int).
        - V(-1) is unlimited; V(memlock) and V(stack) are bytes.
      type: dict
    ephemeral_ports:
      description: First and last port of the range that the kernel hands out by itself.
      type: list
      elements: int
    reserved_ports:
      description: First and last port of each range that the kernel leaves out.
      type: list
      elements: list
    listeners:
      description: Sockets that listen (TCP) or wait (UDP).
      type: list
      elements: dict
      contains:
        address:
          description: Local address.
          type: str
        port:
          description: Local port.
          type: int
        protocol:
          description: V(tcp) or V(udp).
          type: str
        pid:
          description: Process id of an owner, V(null) when it is not known.
          type: int
        process:
          description: Name of that process.
          type: str
        container:
          description: Name of the container that it runs in, V(null) when in none.
          type: str
    clock:
      description:
        - This host's clock C(epoch_s) (float, seconds since 1970) and how far it is ahead of O(controller_epoch_s),
          C(offset_s) (float).
      type: dict
    engine:
      description: The container engine.
      type: dict
      contains:
        name:
          description: V(docker) or V(podman).
          type: str
        version:
          description: Version.
          type: str
        api_version:
          description: Newest API version that it speaks.
          type: str
        min_api:
          description: Oldest API version that it speaks.
          type: str
        storage_driver:
          description: Storage driver.
          type: str
        root_dir:
          description: Folder of the engine's data.
          type: str
        image_dir:
          description:
            - Folder of the images, RV(host.engine.root_dir) or one of containerd where that keeps them; its usual
              place is assumed.
          type: str
        cgroup_driver:
          description: Cgroup driver.
          type: str
        runtimes:
          description: Names of the runtimes, V(ascend) among them where Ascend's is installed.
          type: list
          elements: str
        insecure_registries:
          description: Registries that may be used without TLS.
          type: list
          elements: str
        reason:
          description: Why it cannot be asked, V(null) when it was.
          type: str
    firewall:
      description:
        - C(services) (dict of V(firewalld), V(ufw), V(nftables), V(iptables) to their systemd state), C(input_policy)
          (str) and C(input_rules) (int) of the INPUT chain of iptables, C(nft_input) (list of dict, the chains of
          nftables that incoming packets pass, with C(family), C(table), C(name) and C(policy)), and C(reason) (str)
          when they were not read.
      type: dict
    proxies:
      description:
        - Proxy variables (V(http_proxy), V(https_proxy), V(all_proxy), V(no_proxy)) by where they stand,
          V(environment) of the module's process, V(etc_environment), and V(engine). Passwords are masked.
      type: dict
    hosts_file:
      description:
        - Of C(/etc/hosts), the C(own_name) (str) of the host, C(own_addresses) (list) given for it,
          C(own_name_on_loopback) (bool) and C(localhost_addresses) (list).
      type: dict
    paths:
      description:
        - By path, whether it C(exists) (bool), its C(kind) (V(file), V(directory), V(char_device), V(block_device),
          V(socket), V(fifo), V(other)), C(size_bytes) (int, of files), C(mode) (str) and C(reason) (str) when it
          cannot be looked at.
      type: dict
    containers:
      description: All containers of the engine.
      type: list
      elements: dict
      contains:
        id:
          description: Full id.
          type: str
        name:
          description: Name.
          type: str
        image:
          description: Image as it was named.
          type: str
        image_id:
          description: Id of the image.
          type: str
        state:
          description: State, such as V(running) or V(exited).
          type: str
        started_at:
          description: Time of the last start, as the engine writes it.
          type: str
        pid:
          description: Process id of its first process on the host, V(null) when it does not run.
          type: int
        restart_count:
          description: How often the engine restarted it.
          type: int
        privileged:
          description: Whether it is privileged.
          type: bool
        network_mode:
          description: Network mode.
          type: str
        labels:
          description: Labels.
          type: dict
        devices:
          description: Devices of the host that it was given.
          type: list
          elements: str
        chips:
          description: Physical ids of the NPUs that it was given.
          type: list
          elements: int
    reasons:
      description: What could not be read, and why.
      type: list
      elements: str
  sample:
    hostname: a3-01
    arch: aarch64
    memory:
      total_bytes: 1649267441664
      available_bytes: 1539316278272
      hugepages: {size_bytes: 2097152, total: 0, free: 0}
    cpu: {count: 320, model: implementer 0x48 part 0xd03, sve: true, bf16: true}
    ephemeral_ports: [32768, 60999]
    reserved_ports: [[21600, 21600]]
    listeners: [{address: 0.0.0.0, port: 22, protocol: tcp, pid: 812, process: sshd, container: null}]
    engine: {name: docker, version: 27.5.1, api_version: "1.47", min_api: "1.24", root_dir: /var/lib/docker,
             image_dir: /var/lib/docker}
timing:
  description: Where the time went, in seconds. See RV(vllm_ascend.pd_serving.host_probe#module:timing).
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_ascend.pd_serving.plugins.module_utils._faces import (
    COMMON_OPTIONS,
    ENGINE_OPTIONS,
    HOST_OPTIONS,
    probe,
)


def main() -> None:
    module = AnsibleModule(argument_spec={**COMMON_OPTIONS, **ENGINE_OPTIONS, **HOST_OPTIONS}, supports_check_mode=True)
    result = probe(["host"], module.params)
    module.exit_json(changed=False, host=result["facts"]["host"], timing=result["timing"])


if __name__ == "__main__":
    main()
