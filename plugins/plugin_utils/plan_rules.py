# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""What the planner itself finds while it plans: names of findings, stable, each with its explanation.

They stand in the same report as the findings of the rules. Errors cannot be waived but for a few: there is no plan, or
not the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

PLAN_RULES: Mapping[str, str] = {
    "unknown-variable": "A variable under a prefix of this collection that nothing reads is a typing error: its value "
    "would be ignored in silence.",
    "variable-ignored": "The plan is made once for the whole cluster, from what the inventory, group_vars, host_vars, "
    "facts and -e say of every host. Vars of a play, block, role or task hold for the hosts of that play only.",
    "variable-type": "The value cannot be read as the variable's type, so it is ignored until it is corrected.",
    "variable-template": "The value is a template that cannot be filled in on this host: a name in it is not defined "
    "there, or it is no template. The variable counts as not set until it is corrected.",
    "variable-choice": "The variable takes one of a few words, and this is none of them. The plan goes on with "
    "the nearest, else with the default.",
    "variable-differs": "The variable holds for the whole cluster, but two hosts state different values. What is built "
    "is stated for all hosts or for none: one image serves them all, so that prefill and decode are alike.",
    "variable-partner": "A choice such as an image from an archive needs a second variable that says which; and that "
    "one alone changes nothing, so whoever set it meant another choice.",
    "unknown-group-role": "pd_groups says in which groups the hosts of a role are; an entry for anything else is read "
    "by nobody, and the role's hosts are looked for under its own name.",
    "left-out": "Only hosts of the profile's groups are planned. Others may be in the inventory for other reasons, or "
    "were forgotten.",
    "port-moved": "A default port gives way to a stated one, or to another default, of the same host. Clients and "
    "firewalls that count on the default want to know.",
    "no-hosts": "A role without hosts cannot be served. Which roles there are the profile says, and pd_groups in which "
    "groups of the inventory their hosts are.",
    "one-proxy": "Upstream's proxies keep the load of the backends to themselves, so two of them would fight.",
    "model-path": "Every engine reads the model from a folder on its own host; nothing here copies weights.",
    "address-not-ipv4": "MemFabric wants a numeric IPv4 address that the peer can reach, and upstream's proxies write "
    "addresses into URLs as they are.",
    "same-machine": "Hosts that Ansible reaches in the same way, or that are said to have one serving address, are one "
    "machine. Each name would get its own services, on the same chips and ports.",
    "device-list": "Chips are listed by physical id, each once, and belong to one instance.",
    "instance-entry": "An entry of ROLE_instances has a name and may have devices, parallel, vllm_args, env and "
    "ports: port, kv_port, data_parallel_rpc_port.",
    "instance-name": "An instance's name is that of its containers and of a folder on each host, so it can hold "
    "letters, digits, dots, dashes and underscores only, and no two instances of a role are called the same.",
    "instance-differs": "Hosts that share an instance are one deployment, so they must agree on its parallel sizes.",
    "sizes-differ": "A Mooncake connector is told one size for all of prefill and one for all of decode. Instances may "
    "differ in data parallelism, and prefill's in tensor parallelism, which each transfer says itself; where decode's "
    "tensor or a side's pipeline parallelism differs, ranks would read the wrong blocks.",
    "layout": "tensor x pipeline x prefill-context x data parallel size must fit on the chips that the hosts of the "
    "instance bring; a rank lies on one host or takes equal shares of several. Until then only what follows from "
    "sizes is not checked.",
    "owned-option": "The option follows from the topology. Stated by hand it would contradict ports, ranks or the "
    "other side sooner or later.",
    "unknown-option": "vLLM of this version has no such option and would refuse to start.",
    "option-twice": "Two spellings of one option, such as max_num_seqs and max-num-seqs, stand in one mapping. Only "
    "the last one written would count, which nobody who reads the first can tell.",
    "option-choice": "vLLM takes one of a few words for this option, and this is none of them.",
    "option-value": "A switch of vllm serve is true or false, and every other option has a value: a word in quotes "
    "behind a switch, such as 'yes', is a stray argument, at which vLLM stops.",
    "option-mapping": "JSON that is written by hand loses its quotes in a shell or in YAML, or has a comma too many. "
    "Text that cannot be read as JSON is left out until it is corrected.",
    "owned-kv-field": "Role, port and both sides' sizes of a connector follow from the topology.",
    "kv-transfer-shape": "A connector's configuration is a mapping; kv_connector_extra_config in it is one too, and "
    "connectors a list of such configurations.",
    "prepend-paths": "Only search paths can be prepended to, and what is prepended is taken literally.",
    "environment": "The environment file is taken literally: no variable is expanded, no search path replaced, nothing "
    "overridden that the plan decides.",
    "port-range": "A range of ports reaches beyond 65535, the last port there is, so its end cannot be bound.",
    "meta-host": "MetaService runs on one of the cluster's hosts.",
    "gather-without-graphs": "The fork gathers small packets outside captured graphs only and falls back to single "
    "copies inside them, so decode runs eagerly while the gather is on.",
}

#: Errors that can be waived: the plan holds what is stated, and another build of vLLM may well take it.
WAIVABLE = ("unknown-option", "option-choice", "option-value")
