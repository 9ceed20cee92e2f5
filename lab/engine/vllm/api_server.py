# Copyright (c) 2026 vllm_ascend.pd_serving contributors
# SPDX-License-Identifier: Apache-2.0 (compatible with the GNU General Public License v3.0)
"""The OpenAI API of an engine, as far as proxies, gates, benchmarks and people use it."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from vllm import __version__
from vllm.engine import Engine, Generated, RequestFailed, digest
from vllm.http import Call, Reply
from vllm.metrics import Metrics

_PIECE = re.compile(r"\w{1,6}|[^\w\s]")
_CHAT_DEFAULT_TOKENS = 64  # the real model would end by itself


def tokenize(prompt: str | list[int]) -> list[str]:
    """Pieces that count as tokens; token ids are taken as they are."""
    return [str(token) for token in prompt] if isinstance(prompt, list) else _PIECE.findall(prompt) or [""]


class BadRequest(Exception):
    """A refusal. What was wrong with which parameter stands behind the message too, as VLLMValidationError has it."""

    def __init__(
        self,
        message: str,
        status: int = 400,
        kind: str = "BadRequestError",
        param: str | None = None,
        value: object = None,
    ) -> None:
        super().__init__(message)
        if kind == "BadRequestError" and param:
            message += f" (parameter={param}{'' if value is None else f', value={value}'})"
        self.reply = Reply({"error": {"message": message, "type": kind, "param": param, "code": status}}, status)


class ApiServer:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.config = engine.config
        self.metrics = Metrics(self.config.served_names[0])
        given = engine.arguments.api_key or [os.environ.get("VLLM_API_KEY", "")]
        self.keys = [key for key in given if key]

    async def __call__(self, call: Call) -> Reply:
        routes = {
            ("GET", "/health"): self._health, ("GET", "/ping"): self._health, ("GET", "/version"): self._version,
            ("GET", "/v1/models"): self._models, ("GET", "/metrics"): self._metrics, ("GET", "/load"): self._load,
            ("POST", "/v1/completions"): self._completions, ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/tokenize"): self._tokenize,
        }  # fmt: skip
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            routes["POST", "/reset_prefix_cache"] = self._reset
        route = routes.get((call.method, call.path))
        if route is None:
            known = any(path == call.path for _, path in routes)
            return Reply({"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404)
        if self.keys and call.path.startswith("/v1"):
            token = call.headers.get("authorization", "").removeprefix("Bearer ")
            if not any(hmac.compare_digest(token.encode(), key.encode()) for key in self.keys):
                return Reply({"error": "Unauthorized"}, 401)
        try:
            return await route(call)
        except BadRequest as error:
            return error.reply
        except RequestFailed as error:
            return BadRequest(str(error), 500, "InternalServerError").reply

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _health(self, call: Call) -> Reply:
        return Reply(None, 503 if self.engine.dead.is_set() else 200)

    async def _version(self, call: Call) -> Reply:
        return Reply({"version": __version__})

    async def _models(self, call: Call) -> Reply:
        entry = {"object": "model", "created": int(time.time()), "owned_by": "vllm", "root": self.config.model.path,
                 "parent": None, "max_model_len": self.config.model.max_model_len}  # fmt: skip
        return Reply({"object": "list", "data": [{"id": name, **entry} for name in self.config.served_names]})

    async def _metrics(self, call: Call) -> Reply:
        values = self.metrics.values
        values["num_requests_running"] = sum(core.running for core in self.engine.cores)
        values["num_requests_waiting"] = self.engine.waiting
        values["external_prefix_cache_hits_total"] = self.engine.counters.get("external", 0.0)
        values["external_prefix_cache_queries_total"] = values["prompt_tokens_total"]
        values["cache_config_info"] = 1.0
        return Reply(self.metrics.render(), content_type="text/plain; version=0.0.4; charset=utf-8")

    async def _load(self, call: Call) -> Reply:
        return Reply({"server_load": sum(core.running for core in self.engine.cores)})

    async def _reset(self, call: Call) -> Reply:
        return Reply(None)

    async def _tokenize(self, call: Call) -> Reply:
        tokens = tokenize(str(self._json(call).get("prompt", "")))
        return Reply(
            {"count": len(tokens), "max_model_len": self.config.model.max_model_len, "tokens": list(range(len(tokens)))}
        )

    # -- answering -------------------------------------------------------------------------------------------------

    def _json(self, call: Call) -> dict[str, Any]:
        try:
            body = json.loads(call.body)
        except ValueError as error:
            what = {"type": "json_invalid", "loc": ("body", getattr(error, "pos", 0)), "msg": "JSON decode error",
                    "input": {}, "ctx": {"error": getattr(error, "msg", str(error))}}  # fmt: skip
            raise BadRequest(f"1 validation error:\n  {what}", kind="Bad Request", param="body") from error
        if not isinstance(body, dict):
            raise BadRequest("Input should be a valid dictionary")
        return body

    def _check_model(self, body: dict[str, Any]) -> str:
        name = body.get("model")
        if name is not None and name not in self.config.served_names:
            raise BadRequest(f"The model `{name}` does not exist.", 404, "NotFoundError", "model")
        return str(name or self.config.served_names[0])

    def _check_length(self, tokens: list[str], wanted: int | None) -> int:
        longest = self.config.model.max_model_len
        output = wanted if wanted is not None else min(_CHAT_DEFAULT_TOKENS, max(longest - len(tokens), 1))
        if output < 1:
            raise BadRequest(f"max_tokens must be at least 1, got {output}.", param="max_tokens", value=output)
        if output > longest:
            raise BadRequest(
                f"max_tokens={output} cannot be greater than max_model_len=max_total_tokens={longest}. Please request "
                "fewer output tokens.",
                param="max_tokens",
                value=output,
            )
        if len(tokens) + output > longest:
            raise BadRequest(
                f"This model's maximum context length is {longest} tokens. However, you requested {output} "
                "output tokens and "
                f"your prompt contains {len(tokens)} input tokens, for a total of {len(tokens) + output} tokens. "
                "Please reduce "
                "the length of the input prompt or the number of requested output tokens.",
                param="input_tokens",
                value=len(tokens),
            )
        return output

    async def _generate(self, ids: list[str], prompts: list[list[str]], output: int, params: Any) -> list[Generated]:
        from vllm_ascend.distributed.kv_transfer.base import Request

        began = time.monotonic()
        requests = [Request(name, tokens, digest(tokens), output, dict(params) if params else None)
                    for name, tokens in zip(ids, prompts, strict=True)]  # fmt: skip
        results = await asyncio.gather(*(self.engine.generate(request) for request in requests))
        await asyncio.sleep(min(output * self.engine.settings.token_seconds, 5.0))
        elapsed = time.monotonic() - began
        for tokens, result in zip(prompts, results, strict=True):
            self.metrics.add("prompt_tokens_total", len(tokens))
            self.metrics.add("generation_tokens_total", len(result.tokens))
            self.metrics.add("request_success_total")
            self.metrics.observe("time_to_first_token_seconds", elapsed / 2)
            self.metrics.observe("e2e_request_latency_seconds", elapsed)
            self.metrics.observe("request_prompt_tokens", len(tokens))
            self.metrics.observe("request_generation_tokens", len(result.tokens))
        return list(results)

    async def _completions(self, call: Call) -> Reply:
        body = self._json(call)
        model, prompt = self._check_model(body), body.get("prompt")
        if prompt is None:
            raise BadRequest("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
        single = isinstance(prompt, str) or (isinstance(prompt, list) and all(isinstance(part, int) for part in prompt))
        prompts = [tokenize(each) for each in ([prompt] if single else prompt)]
        wanted = body.get("max_tokens", 16)
        output = max(self._check_length(tokens, wanted) for tokens in prompts)
        name = f"cmpl-{call.headers.get('x-request-id') or uuid.uuid4().hex}"
        ids = [f"{name}-{index}" for index in range(len(prompts))]
        results = await self._generate(ids, prompts, output, body.get("kv_transfer_params"))
        head = {"id": name, "object": "text_completion", "created": int(time.time()), "model": model}
        usage = _usage(prompts, results)
        if body.get("stream"):
            return self._stream(head, results, usage, body, lambda text: {"text": text, "logprobs": None})
        choices = [{"index": index, "text": _text(result.tokens), "logprobs": None, "finish_reason": "length",
                    "stop_reason": None, "token_ids": None, "prompt_logprobs": None, "prompt_token_ids": None}
                   for index, result in enumerate(results)]  # fmt: skip
        return Reply({**head, "choices": choices, "usage": usage, "service_tier": None, "system_fingerprint": None,
                      "kv_transfer_params": results[0].kv_transfer_params})  # fmt: skip

    async def _chat(self, call: Call) -> Reply:
        body = self._json(call)
        model, messages = self._check_model(body), body.get("messages")
        if not isinstance(messages, list) or not messages:
            what = {"type": "missing", "loc": ("body", "messages"), "msg": "Field required", "input": body}
            raise BadRequest(f"1 validation error:\n  {what}", kind="Bad Request", param="body.messages")
        prompt = "\n".join(f"{each.get('role')}: {_content(each.get('content'))}" for each in messages)
        tokens = tokenize(prompt)
        output = self._check_length(tokens, body.get("max_completion_tokens") or body.get("max_tokens"))
        name = f"chatcmpl-{call.headers.get('x-request-id') or uuid.uuid4().hex}"
        results = await self._generate([name], [tokens], output, body.get("kv_transfer_params"))
        usage = _usage([tokens], results)
        head = {"id": name, "created": int(time.time()), "model": model}
        if body.get("stream"):
            head["object"] = "chat.completion.chunk"
            return self._stream(head, results, usage, body, lambda text: {"delta": {"content": text}, "logprobs": None})
        message = {"role": "assistant", "content": _text(results[0].tokens).lstrip(), "refusal": None, "tool_calls": []}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "length", "stop_reason": None}
        return Reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage, "prompt_logprobs": None,
                      "kv_transfer_params": results[0].kv_transfer_params})  # fmt: skip

    def _stream(
        self, head: dict[str, Any], results: list[Generated], usage: dict[str, Any], body: dict[str, Any], part: Any
    ) -> Reply:
        async def chunks() -> AsyncIterator[bytes]:
            for index, result in enumerate(results):
                last = len(result.tokens) - 1
                for place, token in enumerate(result.tokens):
                    choice = {"index": index, **part(f" {token}"), "finish_reason": "length" if place == last else None,
                              "stop_reason": None}  # fmt: skip
                    yield b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"
                    await asyncio.sleep(self.engine.settings.token_seconds)
            if (body.get("stream_options") or {}).get("include_usage"):
                yield b"data: " + json.dumps({**head, "choices": [], "usage": usage}).encode() + b"\n\n"
            yield b"data: [DONE]\n\n"

        return Reply(content_type="text/event-stream; charset=utf-8", chunks=chunks())


def _text(tokens: list[str]) -> str:
    return "".join(f" {token}" for token in tokens)


def _content(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _usage(prompts: list[list[str]], results: list[Generated]) -> dict[str, Any]:
    prompt, completion = sum(map(len, prompts)), sum(len(result.tokens) for result in results)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": None}  # fmt: skip
