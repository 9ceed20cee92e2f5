# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""`/metrics`: names and types as vLLM exports them (data/metrics.txt), values where the simulated engine has any."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

_NAMES = [
    line.split()
    for line in (Path(__file__).parent / "data" / "metrics.txt").read_text(encoding="ascii").splitlines()
    if line
]


class Metrics:
    """Counters, gauges and histograms of one API server."""

    def __init__(self, model: str) -> None:
        self.labels = f'engine="0",model_name="{model}"'
        self.began = time.time()
        self.values: dict[str, float] = defaultdict(float)
        self.seen: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, amount: float = 1.0) -> None:
        self.values[name] += amount

    def observe(self, name: str, value: float) -> None:
        self.seen[name].append(value)

    def render(self) -> bytes:
        lines = []
        for name, kind in _NAMES:
            short = name.removeprefix("vllm:")
            lines += [f"# HELP {name} {short.replace('_', ' ')}", f"# TYPE {name} {kind}"]
            if kind == "histogram":
                values = self.seen[short]
                lines += [
                    f'{name}_bucket{{{self.labels},le="+Inf"}} {len(values)}.0',
                    f"{name}_count{{{self.labels}}} {len(values)}.0",
                    f"{name}_sum{{{self.labels}}} {sum(values)}",
                ]
            else:
                extra = ',finished_reason="length"' if short == "request_success_total" else ""
                lines.append(f"{name}{{{self.labels}{extra}}} {self.values[short]}")
            if kind != "gauge":  # prometheus_client tells of each when it began to count
                created = f"{name.removesuffix('_total') if kind == 'counter' else name}_created"
                lines += [f"# HELP {created} {short.replace('_', ' ')}", f"# TYPE {created} gauge"]
                lines.append(f"{created}{{{self.labels}}} {self.began}")
        return ("\n".join(lines) + "\n").encode()
