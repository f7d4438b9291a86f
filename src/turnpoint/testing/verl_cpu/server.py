"""The rollout server: the local engine inside one Ray actor, token in and token out."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import TokenOutput

from turnpoint.policy.local import load
from turnpoint.policy.local.engine import Engine
from turnpoint.policy.local.network import Network
from turnpoint.policy.protocol import Sample, SampleRequest, Sampling

_GATHER = 0.01
"""Seconds that calls may take to arrive before a batch is sampled."""


class EngineDeadError(Exception):
    """As vLLM's of that name: the process that computes is gone, its server lives."""


class DeadEngine:
    """In the place of an engine that is gone."""

    errored = True

    def advance(self) -> list[tuple[int, Sample]]:
        """Nothing finishes any more."""
        return []


class CpuServer:
    """Answers ``generate`` as verl's own servers do; calls that arrive together are sampled as one batch.

    The same seed gives the same tokens as the ``local`` policy. A call with ``prompt_logprobs`` is a forward pass of
    the whole model of its own, and shares nothing with the sampling engine.
    """

    def __init__(self, config: Any, model_config: Any) -> None:
        torch.set_num_threads(1)
        self.config = config
        folder = Path(omega_conf_to_dataclass(model_config).local_path)
        self.model = load.load_model(folder, torch.float32).eval()
        eos = load.end_of_turn_ids(self.model, load.load_tokenizer(folder, self.model))
        self.context = config.max_model_len or load.context_length(self.model.config, None)
        self.engine: Engine | DeadEngine = Engine(
            Network(self.model, torch.device("cpu")),
            eos,
            context=self.context,
            max_rows=min(int(config.max_num_seqs), 256),
            token_budget=4096,
        )
        self.global_steps: int | None = None
        self.updates = 0
        self._waiting: dict[int, asyncio.Future[Sample]] = {}
        self._pump: asyncio.Task[None] | None = None

    def ready(self) -> int:
        """The process, so that tests can kill it."""
        return os.getpid()

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Sample after ``prompt_ids``, or score them if ``prompt_logprobs`` is set."""
        engine = self._living_engine()
        prompt = [int(token) for token in prompt_ids]
        if sampling_params.get("prompt_logprobs") is not None:
            return self._score(prompt, int(sampling_params["prompt_logprobs"]))
        sample = await self._sample(engine, prompt, sampling_params)
        return TokenOutput(
            token_ids=list(sample.token_ids),
            log_probs=list(sample.logprobs) if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    def _living_engine(self) -> Engine:
        if isinstance(self.engine, DeadEngine):
            raise EngineDeadError("the engine of this server is gone")
        return self.engine

    async def _sample(self, engine: Engine, prompt: list[int], params: dict[str, Any]) -> Sample:
        longest = params.get("max_tokens") or self.config.response_length
        sampling = Sampling(
            temperature=float(params.get("temperature", 1.0)),
            top_p=float(params.get("top_p", 1.0)),
            top_k=max(0, int(params.get("top_k", -1))),
            max_tokens=max(1, min(int(longest), self.context - len(prompt))),
        )
        request = SampleRequest(tuple(prompt), int(params.get("seed") or 0), sampling)
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting[engine.submit(request)] = future
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(_GATHER)
            for ticket, sample in self.engine.advance():
                self._waiting.pop(ticket).set_result(sample)

    @torch.no_grad()
    def _score(self, prompt: list[int], best: int) -> TokenOutput:
        """In the layout of verl's vLLM server: entry i scores token i + 1, and the last one is padding."""
        logits = self.model(torch.tensor([prompt]), use_cache=False).logits[0].float()
        logprobs = torch.log_softmax(logits, -1)
        if best:
            values, ids = logprobs[:-1].topk(best)
        else:
            ids = torch.tensor(prompt[1:]).unsqueeze(-1)
            values = logprobs[:-1].gather(-1, ids)
        width = max(best, 1)
        fields = {
            "global_steps": self.global_steps,
            "prompt_ids": [*ids.tolist(), [0] * width],
            "prompt_logprobs": [*values.tolist(), [0.0] * width],
        }
        return TokenOutput(token_ids=[0], stop_reason="completed", extra_fields=fields)

    async def load_weights(self, named: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Take over the trainer's weights, all of them."""
        while self._waiting:
            await asyncio.sleep(_GATHER)
        engine = self._living_engine()
        missing, unexpected = self.model.load_state_dict(named, strict=False)
        tied = [name for name in missing if "lm_head" in name and self.model.config.tie_word_embeddings]
        if unexpected or len(missing) > len(tied):
            raise ValueError(f"weights of another model: missing {missing}, unexpected {unexpected}")
        engine.forget()
        self.global_steps = global_steps
        self.updates += 1

    async def do_nothing(self, *_: Any, **__: Any) -> None:
        """A CPU has no memory to free for others."""

    sleep = wake_up = clear_kv_cache = release_kv_cache = resume_kv_cache = do_nothing
    abort_all_requests = resume_generation = start_profile = stop_profile = do_nothing

    def lose_engine(self) -> None:
        """As if the process that computes died below this one: calls fail, and new ones too; for tests."""
        self.engine = DeadEngine()
        for future in self._waiting.values():
            future.set_exception(EngineDeadError("the engine of this server died"))
        self._waiting.clear()

    async def hang(self, seconds: float) -> None:
        """Block everything for so long; for tests of time limits."""
        import time

        time.sleep(seconds)
