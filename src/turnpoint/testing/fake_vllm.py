"""A stand-in for vLLM with its names: a real small model behind them, and its habits that must be minded.

It holds a copy of the weights of its own, so that forgotten weight changes show; it keeps what it computed for a
prefix until it is told to drop it, so that stale caches show; asleep it has no weights; and log-probs are raw unless
it is asked for processed ones.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal


@dataclass
class SamplingParams:
    """How one call is sampled."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = 16
    seed: int | None = None
    logprobs: int | None = None
    stop_token_ids: list[int] | None = None
    detokenize: bool = True


def tokens_prompt(prompt_token_ids: list[int]) -> dict[str, list[int]]:
    """``vllm.TokensPrompt`` is a typed dictionary."""
    return {"prompt_token_ids": prompt_token_ids}


@dataclass
class EngineArgs:
    """Arguments of the engine that ``LLM`` hands on."""

    max_model_len: int = 2048
    max_num_seqs: int = 256
    enable_sleep_mode: bool = False
    logprobs_mode: Literal["raw_logprobs", "processed_logprobs"] = "raw_logprobs"
    generation_config: str = "auto"
    enable_prefix_caching: bool = True
    block_size: int = 4


@dataclass
class Logprob:
    """One token's log-prob."""

    logprob: float


@dataclass
class CompletionOutput:
    """What was sampled."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    finish_reason: str | None = None


@dataclass
class RequestOutput:
    """A call's state after a step."""

    request_id: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    num_cached_tokens: int = 0


@dataclass
class _Running:
    output: RequestOutput
    params: SamplingParams
    generator: Any


class LLMEngine:
    """Continuous batching, one token of each running call in a step."""

    def __init__(self, owner: LLM) -> None:
        self._owner = owner
        self._waiting: list[_Running] = []
        self._running: list[_Running] = []

    def add_request(self, request_id: str, prompt: Any, params: SamplingParams) -> str:
        """Queue a call; returns the engine's own name for it, which outputs do not bear."""
        import torch

        ids = list(prompt["prompt_token_ids"])
        if len(ids) >= self._owner.args.max_model_len:
            raise ValueError(
                f"the prompt has {len(ids)} tokens, max_model_len is {self._owner.args.max_model_len}"
            )
        generator = torch.Generator().manual_seed((params.seed or 0) % 2**63)
        output = RequestOutput(request_id, ids, [CompletionOutput()])
        self._waiting.append(_Running(output, params, generator))
        return f"{request_id}-{next(self._owner.counter):08x}"

    def has_unfinished_requests(self) -> bool:
        """Whether anything is queued or running."""
        return bool(self._waiting or self._running)

    def step(self) -> list[RequestOutput]:
        """Admit what there is room for and sample a token of each running call."""
        if self._owner.asleep:
            raise RuntimeError("the engine is asleep")
        room = self._owner.args.max_num_seqs - len(self._running)
        for call in self._waiting[:room]:
            call.output.num_cached_tokens = self._owner.cached(call.output.prompt_token_ids)
        self._running += self._waiting[:room]
        self._waiting = self._waiting[room:]
        for call in self._running:
            self._sample(call)
        outputs = [call.output for call in self._running]
        self._running = [call for call in self._running if not call.output.finished]
        return outputs

    def _sample(self, call: _Running) -> None:
        import torch

        output, params = call.output.outputs[0], call.params
        ids = [*call.output.prompt_token_ids, *output.token_ids]
        logits = self._owner.logits(ids)
        processed = logits / params.temperature if params.temperature > 0 else logits
        if params.temperature > 0:
            probabilities = torch.softmax(processed, -1)
            token = int(torch.multinomial(probabilities, 1, generator=call.generator))
        else:
            token = int(logits.argmax())
        shown = processed if self._owner.args.logprobs_mode == "processed_logprobs" else logits
        value = float(torch.log_softmax(shown, -1)[token]) + self._owner.error
        output.token_ids.append(token)
        output.logprobs.append({token: Logprob(value)})
        if token in (params.stop_token_ids or ()):
            output.finish_reason = "stop"
        elif (
            len(output.token_ids) >= (params.max_tokens or 16)
            or len(ids) + 1 >= self._owner.args.max_model_len
        ):
            output.finish_reason = "length"
        call.output.finished = output.finish_reason is not None


class LLM:
    """The engine with its model."""

    error = 0.0
    """Added to every log-prob, for tests of what notices it."""
    built: list[LLM]
    """Every engine made since the stand-in was installed."""

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        seed: int = 0,
        gpu_memory_utilization: float = 0.92,
        enforce_eager: bool = False,
        trust_remote_code: bool = False,
        **kwargs: Any,
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self.args = EngineArgs(**kwargs)
        if self.args.generation_config != "vllm":
            raise RuntimeError("the stand-in does not apply a model's generation config")
        self.counter = itertools.count()
        self.model: Any = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype))
        self.model.train(False)
        self.llm_engine = LLMEngine(self)
        self.asleep: set[str] = set()
        self.calls: list[str] = []
        """What was done to weights, memory and cache, in order."""
        self._cache: dict[tuple[int, ...], Any] = {}
        self.built.append(self)

    def logits(self, ids: list[int]) -> Any:
        """Logits after ``ids``; those of a prefix seen before are not computed again."""
        import torch

        key = tuple(ids)
        if key not in self._cache:
            with torch.inference_mode():
                self._cache[key] = self.model(torch.tensor([ids])).logits[0, -1].float()
        return self._cache[key]

    def cached(self, ids: list[int]) -> int:
        """Tokens of whole blocks that some sequence computed before begins with."""
        size = self.args.block_size
        shared = 0
        for key in self._cache:
            same = sum(
                1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(key, ids, strict=False))
            )
            shared = max(shared, same)
        return min(shared, len(ids) - 1) // size * size if self.args.enable_prefix_caching else 0

    def collective_rpc(self, method: str, *, kwargs: dict[str, Any]) -> list[None]:
        """``reload_weights`` only; as in vLLM, a name that is left out keeps its old weights."""
        if method != "reload_weights":
            raise NotImplementedError(method)
        if "weights" in self.asleep:
            raise RuntimeError("the weights' memory is not there: wake it up first")
        own = dict(self.model.named_parameters(remove_duplicate=False))
        for name, tensor in kwargs["weights_iterator"]:
            own[name].data = tensor.detach().clone().to(own[name].dtype)
        self.calls.append("load")
        return [None]

    def reset_prefix_cache(self) -> bool:
        """False, and nothing happens, while calls are unfinished."""
        if self.llm_engine.has_unfinished_requests():
            return False
        self._cache.clear()
        self.calls.append("reset")
        return True

    def sleep(self, level: int = 1) -> None:
        """Level 2 loses the weights."""
        if not self.args.enable_sleep_mode:
            raise ValueError("sleep mode is not enabled")
        if level == 2:
            for parameter in self.model.parameters():
                parameter.data.fill_(float("nan"))
        self.asleep = {"weights", "kv_cache"}
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Take memory back."""
        self.asleep -= set(tags or self.asleep)
        self.calls.append(f"wake {' '.join(tags or ())}")


@contextmanager
def installed(*, error: float = 0.0) -> Iterator[type[LLM]]:
    """Put the stand-in in the place of ``vllm``; ``error`` is added to every log-prob it gives."""
    engine = type("LLM", (LLM,), {"error": error, "built": []})
    module: Any = ModuleType("vllm")
    module.LLM, module.LLMEngine, module.EngineArgs = engine, LLMEngine, EngineArgs
    module.SamplingParams, module.TokensPrompt = SamplingParams, tokens_prompt
    before = sys.modules.get("vllm")
    sys.modules["vllm"] = module
    try:
        yield engine
    finally:
        if before is None:
            del sys.modules["vllm"]
        else:
            sys.modules["vllm"] = before
