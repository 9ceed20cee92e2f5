# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""Mistakes that somebody could make in plan, files, mounts and environment, each with the test that must notice."""

from __future__ import annotations

from dataclasses import dataclass

UTILS = "plugins/plugin_utils"
LAUNCH = "roles/container/files/launch"

PLANNING = "tests/unit/plugins/plugin_utils"
GUIDE_1 = f"{PLANNING}/test_guide_1.py"
PLANNER = f"{PLANNING}/test_planner.py"
OPTIONS = f"{PLANNING}/test_options.py"
FOLDER = f"{PLANNING}/test_service_folder.py"
LAUNCHER = "tests/unit/roles/container/test_launch.py"


@dataclass(frozen=True)
class Mutation:
    """`old` stands exactly once in `file`; with `new` in its place the test `caught_by` (a pytest id) has to fail."""

    name: str
    file: str
    old: str
    new: str
    caught_by: str


MUTATIONS = (
    # ---- ports and connectors: two sides that have to agree ----
    Mutation(
        "kv-port-of-decode-differs-from-the-port-table",
        f"{UTILS}/connectors.py",
        'result["kv_port"] = kv_port',
        'result["kv_port"] = kv_port + 1',
        f"{GUIDE_1}::test_options",
    ),
    Mutation(
        "kv-ports-not-counted-over-all-ranks",
        f"{UTILS}/port_plan.py",
        "return engine.start_rank * world, engine.local_ranks * world",
        "return 0, engine.local_ranks * world",
        f"{PLANNER}::test_kv_ports_count_over_all_ranks",
    ),
    Mutation(
        "connectors-told-different-sizes",
        f"{UTILS}/connectors.py",
        "(self.dp, self.tp, self.pp)",
        "(self.tp, self.dp, self.pp)",
        f"{PLANNER}::test_2p2d_with_external_ranks",
    ),
    Mutation(
        "both-sides-are-producers",
        f"{UTILS}/connectors.py",
        '"decode": "kv_consumer"',
        '"decode": "kv_producer"',
        f"{GUIDE_1}::test_options",
    ),
    Mutation(
        "proxy-told-prefills-port-for-decode",
        f"{UTILS}/service_plan.py",
        'argv += [f"--{option}-ports", *(str(backend["port"]) for backend in proxy[side])]',
        'argv += [f"--{option}-ports", *(str(backend["port"]) for backend in proxy["prefill"])]',
        f"{GUIDE_1}::test_proxy",
    ),
    Mutation(
        "proxy-told-headless-followers",
        f"{UTILS}/service_plan.py",
        '            if engine["serves_http"]:\n                backend =',
        "            if True:\n                backend =",
        f"{PLANNING}/test_guide_2.py::test_followers_are_not_asked_and_not_told_to_the_proxy",
    ),
    Mutation(
        "wrong-proxy-for-layerwise",
        f"{UTILS}/connectors.py",
        '_LAYERWISE = (SFA, "MooncakeLayerwiseConnector")',
        '_LAYERWISE = ("MooncakeLayerwiseConnector",)',
        f"{GUIDE_1}::test_proxy",
    ),
    Mutation(
        "memcache-files-name-different-ports",
        f"{UTILS}/memcache.py",
        '"ock.mmc.local_service.config_store_url": meta.config_store_url',
        '"ock.mmc.local_service.config_store_url": meta.service_url',
        f"{GUIDE_1}::test_meta_of_two_prefill_hosts_is_reached_by_address",
    ),
    Mutation(
        "memcache-world-size-too-small",
        f"{UTILS}/memcache.py",
        "max(WORLD_SIZE, ranks)",
        "WORLD_SIZE",
        f"{GUIDE_1}::test_world_size_grows_with_the_ranks",
    ),
    # ---- environment ----
    Mutation(
        "no-vllm-host-ip",
        f"{UTILS}/environment.py",
        '        "VLLM_HOST_IP": address,\n',
        "",
        f"{GUIDE_1}::test_decode_environment",
    ),
    Mutation(
        "no-hash-seed",
        f"{UTILS}/engine_plan.py",
        'env["PYTHONHASHSEED"] = "0"',
        "pass",
        f"{GUIDE_1}::test_prefill_environment",
    ),
    Mutation(
        "v2-model-runner-not-switched-off-on-decode",
        f"{UTILS}/profiles.py",
        '"decode": {**_GUIDE_1_ENV, "VLLM_USE_V2_MODEL_RUNNER": "0"}',
        '"decode": _GUIDE_1_ENV',
        f"{GUIDE_1}::test_decode_environment",
    ),
    Mutation(
        "memcache-config-not-named-to-prefill",
        f"{UTILS}/engine_plan.py",
        'result["MMC_LOCAL_CONFIG_PATH"] = f"{CONFIG_DIR}/{memcache.LOCAL_FILE}"',
        "pass",
        f"{GUIDE_1}::test_prefill_environment",
    ),
    Mutation(
        "memfabric-not-sourced",
        f"{UTILS}/service_plan.py",
        'own = (("memfabric", MEMFABRIC_SCRIPT), ("memcache", MEMCACHE_SCRIPT))',
        'own = (("memcache", MEMCACHE_SCRIPT),)',
        f"{GUIDE_1}::test_scripts_and_layers",
    ),
    Mutation(
        "path-variable-allowed-in-the-environment-file",
        f"{UTILS}/service_folder.py",
        'PATH_LIKE = frozenset({"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"})',
        'PATH_LIKE = frozenset({"PATH", "LD_PRELOAD", "PYTHONPATH"})',
        f"{FOLDER}::test_paths_of_the_image_cannot_be_replaced",
    ),
    Mutation(
        "environment-file-readable-by-all",
        f"{UTILS}/service_folder.py",
        '"env": _file(environment(service["env"]), "0600")',
        '"env": _file(environment(service["env"]))',
        f"{FOLDER}::test_environment_files_are_for_root_alone",
    ),
    # ---- options: what vLLM makes of the file ----
    Mutation(
        "no-form-of-a-false-option-lost",
        f"{UTILS}/options.py",
        'result[f"no-{name}"] = True',
        "result[name] = False",
        f"{OPTIONS}::test_config_file",
    ),
    Mutation(
        "prefix-caching-left-on-on-decode",
        f"{UTILS}/profiles.py",
        '"max-num-batched-tokens": 120,\n                "enable-prefix-caching": False,',
        '"max-num-batched-tokens": 120,',
        f"{GUIDE_1}::test_options",
    ),
    Mutation(
        "layerwise-prefill-with-graphs",
        f"{UTILS}/profiles.py",
        '"enforce-eager": True,\n            },\n            "decode": {\n                **_GUIDE_1_ARGS,',
        '},\n            "decode": {\n                **_GUIDE_1_ARGS,',
        f"{GUIDE_1}::test_options",
    ),
    Mutation(
        "dram-without-kv-cache-memory-bytes",
        f"{UTILS}/engine_plan.py",
        'derived["kv-cache-memory-bytes"] = sizes.kv_cache_memory_bytes',
        "pass",
        f"{GUIDE_1}::test_stated_sizes_are_taken",
    ),
    Mutation(
        "sizes-made-of-a-number-that-vllm-refuses",
        f"{UTILS}/sizes.py",
        "if config is not None and not any(wrong_numbers(options)):",
        "if config is not None:",
        f"{PLANNING}/rules/test_mistakes.py::test_no_size_is_made_of_a_number_that_vllm_refuses",
    ),
    Mutation(
        "networks-in-no-proxy-cover-addresses",
        f"{UTILS}/rules/nic.py",
        'host = rest.partition("/")[0]\n    if separator',
        'host = address if "/" in rest else rest\n    if separator',
        f"{PLANNING}/rules/test_rules.py::test_no_proxy_is_read_as_httpx_reads_it",
    ),
    Mutation(
        "users-mappings-replace-instead-of-merging",
        f"{UTILS}/layers.py",
        "result[key] = merge(below if isinstance(below, Mapping) else None, value)",
        "result[key] = dict(value)",
        f"{PLANNER}::test_mappings_merge_and_null_removes",
    ),
    Mutation(
        "config-with-equals-sign",
        f"{UTILS}/engine_plan.py",
        '["vllm", "serve", "--config", f"{CONFIG_DIR}/{engine.name}.yaml"]',
        '["vllm", "serve", f"--config={CONFIG_DIR}/{engine.name}.yaml"]',
        f"{PLANNER}::test_config_file_is_named_in_two_words",
    ),
    # ---- mounts and devices ----
    Mutation(
        "hccn-conf-not-mounted",
        f"{UTILS}/containers.py",
        '    Mount("/etc/hccn.conf"),',
        "   ",
        f"{GUIDE_1}::test_container",
    ),
    Mutation(
        "ascend-install-info-not-mounted",
        f"{UTILS}/containers.py",
        '    Mount("/etc/ascend_install.info"),',
        "   ",
        f"{GUIDE_1}::test_container",
    ),
    Mutation(
        "model-mounted-writable",
        f"{UTILS}/service_plan.py",
        'mounts.append(f"{model}:{model}:ro")',
        'mounts.append(f"{model}:{model}")',
        f"{GUIDE_1}::test_container",
    ),
    Mutation(
        "manager-device-forgotten",
        f"{UTILS}/containers.py",
        'DEVICE_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")',
        'DEVICE_NODES = ("/dev/davinci_manager", "/dev/hisi_hdc")',
        f"{GUIDE_1}::test_container",
    ),
    Mutation(
        "private-ipc",
        f"{UTILS}/containers.py",
        '"ipc_mode": "host",',
        '"ipc_mode": "private",',
        f"{GUIDE_1}::test_container",
    ),
    Mutation(
        "chips-of-an-unprivileged-container-not-renumbered",
        f"{UTILS}/engine_plan.py",
        "ids = engine.devices if draft.privileged else [own.index(chip) for chip in engine.devices]",
        "ids = engine.devices",
        f"{PLANNER}::test_an_unprivileged_container_counts_its_own_chips_from_zero",
    ),
    Mutation(
        "no-meta-service",
        f"{UTILS}/service_plan.py",
        "result.append(self._meta(self._draft.meta))",
        "pass",
        f"{GUIDE_1}::test_services_stand_in_the_order_of_start",
    ),
    # ---- the launcher ----
    Mutation(
        "prepended-paths-in-the-wrong-order",
        LAUNCH,
        'tac "$here/prepend"',
        'cat "$here/prepend"',
        f"{LAUNCHER}::test_image_set_env_and_prepended_paths_are_all_there_in_this_order",
    ),
    Mutation(
        "prepended-path-replaces-the-others",
        LAUNCH,
        'export "$name=$path${!name:+:${!name}}"',
        'export "$name=$path"',
        f"{LAUNCHER}::test_image_set_env_and_prepended_paths_are_all_there_in_this_order",
    ),
    Mutation(
        "environment-file-not-read",
        LAUNCH,
        'export_file "$here/env"',
        ":",
        f"{LAUNCHER}::test_environment_file_is_taken_literally_and_wins",
    ),
    Mutation(
        "environment-of-a-rank-not-read",
        LAUNCH,
        'export_file "$stem.env"',
        ":",
        f"{LAUNCHER}::test_ranks_have_their_own_environment_and_mark_their_lines",
    ),
    Mutation(
        "dead-rank-leaves-the-others-waiting",
        LAUNCH,
        "|| status=1\n  stop\n",
        "|| status=1\n",
        f"{LAUNCHER}::test_the_end_of_one_rank_is_the_end_of_all",
    ),
    # ---- what people are told ----
    Mutation(
        "what-was-not-checked-is-told-as-a-fault",
        f"{UTILS}/report.py",
        'title="" if unchecked or found.startswith(CRASHED) else _title(first)',
        "title=_title(first)",
        f"{PLANNING}/test_report.py::test_a_title_is_not_told_of_what_nobody_has_seen",
    ),
    Mutation(
        "a-formula-says-other-than-its-rule",
        f"{UTILS}/rules/formulas.py",
        "            need <= usable,\n",
        "            need - HOST_RESERVE_BYTES <= usable,\n",
        f"{PLANNING}/rules/test_formulas.py::test_a_formula_agrees_with_its_rule[PD-MEM-001]",
    ),
    Mutation(
        "hosts-steer-the-terminal",
        f"{UTILS}/findings.py",
        "if one.isprintable() or",
        "if True or",
        f"{PLANNING}/test_report.py::test_what_hosts_say_does_not_steer_the_terminal",
    ),
    Mutation(
        "too-much-memory-is-not-shown",
        f"{UTILS}/report_memory.py",
        "max(0, -rest)",
        "0",
        f"{PLANNING}/test_report.py::test_overfull_host_is_shown_as_such",
    ),
    # ---- all at once, and once ----
    Mutation(
        "an-instance-that-does-not-fit-is-left-out",
        f"{UTILS}/cluster.py",
        "        instances.append(instance)\n",
        "        instances += [instance] * instance.laid_out\n",
        f"{PLANNING}/rules/test_all_at_once.py::test_a_broken_layout_hides_nothing_and_entails_nothing",
    ),
    Mutation(
        "sizes-of-a-stand-in-are-believed",
        f"{UTILS}/rules/context.py",
        "        if not self.laid_out:\n",
        "        if False:\n",
        f"{PLANNING}/rules/test_all_at_once.py::test_sizes_without_a_layout_are_not_guessed",
    ),
    Mutation(
        "the-first-host-of-an-instance-speaks-for-all",
        f"{UTILS}/rules/context.py",
        '"service": self.carriers',
        '"service": self.heads',
        f"{PLANNING}/rules/test_all_at_once.py::test_a_wrong_option_of_a_following_host_is_told",
    ),
    Mutation(
        "facts-of-any-type-are-let-in",
        f"{UTILS}/facts.py",
        " and isinstance(value, (int, float) if shape is float else shape):",
        ":",
        f"{PLANNING}/rules/test_robust.py::test_what_has_another_type_is_told",
    ),
    Mutation(
        "a-port-that-somebody-has-is-called-free",
        f"{UTILS}/rules/ports.py",
        "first <= place + width and place <= last",
        "first > last",
        f"{PLANNING}/rules/test_all_at_once.py::test_advice_moves_our_port_to_one_that_is_free",
    ),
    Mutation(
        "whatever-is-called-like-ours-is-ours",
        f"{UTILS}/rules/context.py",
        "return container in [",
        'return str(container or "").startswith(containers.OWN) or container in [',
        f"{PLANNING}/rules/test_all_at_once.py::test_a_service_that_keeps_running_under_the_old_names_is_told",
    ),
    Mutation(
        "more-is-called-right-than-the-host-has",
        f"{UTILS}/rules/sparse_kv.py",
        "fewer = right is None and 0 < most < engine.max_num_seqs",
        "fewer = False",
        f"{PLANNING}/rules/test_all_at_once.py::test_what_a_tight_host_is_told_is_right_once_it_is_done",
    ),
    # ---- one cause, one error ----
    Mutation(
        "errors-of-the-planner-can-be-waived",
        f"{UTILS}/rules/registry.py",
        "if not reason or _of_the_plan(finding):",
        "if not reason:",
        f"{PLANNING}/rules/test_registry.py::test_errors_of_the_planner_stand_whatever_is_waived",
    ),
    Mutation(
        "a-chip-that-is-gone-makes-the-instance-smaller",
        f"{UTILS}/cluster.py",
        "if set(chips) <= set(whole):",
        "if not chips:",
        f"{PLANNING}/test_one_cause.py::test_a_chip_that_is_gone_is_one_error_at_its_host",
    ),
    Mutation(
        "one-template-ends-the-plan",
        "plugins/action/pd_plan.py",
        "if why:\n                failed[host][name] = why",
        "if why:\n                raise AnsibleError(why)",
        "tests/unit/test_pd_plan.py::test_templates_that_cannot_be_filled_in_are_findings_among_all_others",
    ),
)
