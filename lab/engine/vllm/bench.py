# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""`vllm bench serve`: a real streaming client against any OpenAI endpoint, with vLLM's options, table and JSON keys."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_METRICS = {
    "ttft": "Time to First Token",
    "tpot": "Time per Output Token (excl. 1st token)",
    "itl": "Inter-token Latency",
    "e2el": "End-to-end Latency",
}
_ROWS = (
    ("Successful requests:", "completed"),
    ("Failed requests:", "failed"),
    ("Benchmark duration (s):", "duration"),
    ("Total input tokens:", "total_input_tokens"),
    ("Total generated tokens:", "total_output_tokens"),
    ("Request throughput (req/s):", "request_throughput"),
    ("Output token throughput (tok/s):", "output_throughput"),
    ("Total token throughput (tok/s):", "total_token_throughput"),
)


@dataclass
class Outcome:
    """One request; times in seconds."""

    prompt_tokens: int
    ttft: float = 0.0
    latency: float = 0.0
    gaps: list[float] = field(default_factory=list)
    text: str = ""
    output_tokens: int = 0
    error: str = ""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm bench serve")
    add = parser.add_argument
    add("--backend", "--endpoint-type", default="openai", choices=["openai", "openai-chat", "vllm"])
    add("--base-url")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000)
    add("--endpoint", default="/v1/completions")
    add("--model")
    add("--served-model-name")
    add("--tokenizer")
    add("--trust-remote-code", action="store_true")
    add("--skip-chat-template", action="store_true")
    add("--dataset-name", default="random", choices=["random", "custom"])
    add("--dataset-path")
    add("--random-input-len", type=int, default=1024)
    add("--random-output-len", type=int, default=128)
    add("--custom-output-len", type=int, default=256)
    add("--num-prompts", type=int, default=1000)
    add("--request-rate", type=float, default=float("inf"))
    add("--burstiness", type=float, default=1.0)
    add("--max-concurrency", type=int)
    add("--ignore-eos", action="store_true")
    add("--temperature", type=float)
    add("--seed", type=int, default=0)
    add("--percentile-metrics", default="ttft,tpot,itl")
    add("--metric-percentiles", default="99")
    add("--save-result", action="store_true")
    add("--save-detailed", action="store_true")
    add("--result-dir")
    add("--result-filename")
    add("--disable-tqdm", action="store_true")
    return parser


def _prompts(options: argparse.Namespace) -> list[tuple[str | list[int], int]]:
    """Prompts with the number of tokens to ask for."""
    if options.dataset_name == "random":
        source = random.Random(options.seed)
        return [([source.randrange(1000, 100_000) for _ in range(options.random_input_len)], options.random_output_len)
                for _ in range(options.num_prompts)]  # fmt: skip
    lines = Path(options.dataset_path).read_text(encoding="utf-8").splitlines()
    texts = [str(json.loads(line)["prompt"]) for line in lines if line.strip()]
    return [(texts[index % len(texts)], options.custom_output_len) for index in range(options.num_prompts)]


def _ask(url: str, options: argparse.Namespace, prompt: str | list[int], output: int) -> Outcome:
    body: dict[str, Any] = {"model": options.served_model_name or options.model, "max_tokens": output, "stream": True,
                            "stream_options": {"include_usage": True}, "ignore_eos": options.ignore_eos}  # fmt: skip
    if options.backend == "openai-chat":
        body["messages"] = [
            {"role": "user", "content": prompt if isinstance(prompt, str) else " ".join(map(str, prompt))}
        ]
    else:
        body["prompt"] = prompt
    if options.temperature is not None:
        body["temperature"] = options.temperature
    outcome = Outcome(len(prompt) if isinstance(prompt, list) else 0)
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    began = last = time.perf_counter()
    try:
        with opener.open(request) as answer:
            for line in answer:
                text = line.decode().strip().removeprefix("data: ")
                if not text or text == "[DONE]":
                    continue
                event, now = json.loads(text), time.perf_counter()
                if usage := event.get("usage"):
                    outcome.output_tokens, outcome.prompt_tokens = usage["completion_tokens"], usage["prompt_tokens"]
                if choices := event.get("choices"):
                    if outcome.ttft:
                        outcome.gaps.append(now - last)
                    else:
                        outcome.ttft = now - began
                    last, choice = now, choices[0]
                    outcome.text += choice.get("text") or choice.get("delta", {}).get("content") or ""
        outcome.latency = last - began
        outcome.error = "" if outcome.ttft else "Never received a valid chunk to calculate TTFT."
    except (OSError, ValueError) as error:
        outcome.error = str(error)
    return outcome


def _figures(outcomes: list[Outcome]) -> dict[str, list[float]]:
    good = [each for each in outcomes if not each.error]
    return {
        "ttft": [each.ttft for each in good],
        "tpot": [(each.latency - each.ttft) / (each.output_tokens - 1) for each in good if each.output_tokens > 1],
        "itl": [gap for each in good for gap in each.gaps],
        "e2el": [each.latency for each in good],
    }


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def _summary(options: argparse.Namespace, outcomes: list[Outcome], duration: float) -> dict[str, Any]:
    good = [each for each in outcomes if not each.error]
    tokens_in, tokens_out = sum(each.prompt_tokens for each in good), sum(each.output_tokens for each in good)
    rate = options.request_rate
    result: dict[str, Any] = {
        "date": datetime.now().astimezone().strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": options.backend, "backend": options.backend,
        "model_id": options.model, "tokenizer_id": options.tokenizer or options.model,
        "num_prompts": options.num_prompts,
        "request_rate": rate if rate < float("inf") else "inf", "burstiness": options.burstiness,
        "max_concurrency": options.max_concurrency, "duration": duration, "completed": len(good),
        "failed": len(outcomes) - len(good), "total_input_tokens": tokens_in, "total_output_tokens": tokens_out,
        "request_throughput": len(good) / duration, "output_throughput": tokens_out / duration,
        "total_token_throughput": (tokens_in + tokens_out) / duration,
    }  # fmt: skip
    wanted = options.percentile_metrics.split(",")
    for name, values in _figures(outcomes).items():
        if name in wanted and values:
            millis = [value * 1000 for value in values]
            result |= {f"mean_{name}_ms": statistics.fmean(millis), f"median_{name}_ms": statistics.median(millis),
                       f"std_{name}_ms": statistics.pstdev(millis)}  # fmt: skip
            for percent in options.metric_percentiles.split(","):
                result[f"p{percent}_{name}_ms"] = _percentile(millis, float(percent))
    if options.save_detailed:
        result |= {
            "input_lens": [each.prompt_tokens for each in outcomes],
            "output_lens": [each.output_tokens for each in outcomes],
            "ttfts": [each.ttft for each in outcomes],
            "itls": [each.gaps for each in outcomes],
            "generated_texts": [each.text for each in outcomes],
            "errors": [each.error for each in outcomes],
        }
    return result


def _table(result: dict[str, Any]) -> str:
    rows = [f"{' Serving Benchmark Result ':=^50}"]
    for words, key in _ROWS:
        value = result[key]
        rows.append(f"{words:<40} {value:<10.2f}" if isinstance(value, float) else f"{words:<40} {value:<10}")
    for name, words in _METRICS.items():
        if f"mean_{name}_ms" in result:
            rows.append(f"{words:-^50}")
            for key, value in result.items():
                if key.endswith(f"_{name}_ms") and not key.startswith("std"):
                    rows.append(f"{key.split('_')[0].capitalize()} {name.upper()} (ms):".ljust(41) + f"{value:<10.2f}")
    return "\n".join([*rows, "=" * 50])


def main(argv: list[str]) -> int:
    options = make_parser().parse_args(argv)
    # vLLM 0.22.1 and 0.26.0 refuse a rate of 0 by an assertion, so guide 2's command cannot run as printed
    assert options.request_rate > 0, "request_rate must be positive"
    url = (options.base_url or f"http://{options.host}:{options.port}") + options.endpoint
    prompts = _prompts(options)
    pause = 1 / options.request_rate if options.request_rate < float("inf") else 0.0
    began = time.perf_counter()
    with ThreadPoolExecutor(options.max_concurrency or min(len(prompts), 64)) as pool:
        futures = []
        for prompt, output in prompts:
            futures.append(pool.submit(_ask, url, options, prompt, output))
            time.sleep(pause)
        outcomes = [future.result() for future in futures]
    result = _summary(options, outcomes, time.perf_counter() - began)
    print(_table(result))
    for text in sorted({each.error for each in outcomes if each.error}):
        print(f"Error: {text}")
    if options.save_result or options.save_detailed:
        model = Path(options.model or "model").name
        named = f"{options.backend}-{options.request_rate}qps-{model}-{result['date']}.json"
        target = Path(options.result_dir or ".") / (options.result_filename or named)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(result), encoding="utf-8")
    return 0
