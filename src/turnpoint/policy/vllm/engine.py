"""A vLLM engine in this process: token ids in, sampled ids with their log-probs out, weights replaced in place.

The engine runs without processes of its own (``VLLM_ENABLE_V1_MULTIPROCESSING=0``): each step happens when it is
asked for, so that what is sampled depends on the sequence of calls and not on time, and the trainer's weights are
handed over as they lie in memory.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import ContextOverflow, Sample, SampleRequest

if TYPE_CHECKING:
    from turnpoint.policy.vllm.settings import VllmPolicySettings

_IN_PROCESS = "VLLM_ENABLE_V1_MULTIPROCESSING"
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
"""No report on the run to anybody, and no page of messages; what is set already stays."""


def import_vllm() -> Any:
    """The ``vllm`` module. Raises ``ConfigError`` if it is not installed or was set up to run in other processes."""
    for name, value in (_QUIET | {_IN_PROCESS: "0"}).items():
        os.environ.setdefault(name, value)
    if os.environ[_IN_PROCESS] != "0":
        raise ConfigError(
            f"the environment variable {_IN_PROCESS} is {os.environ[_IN_PROCESS]}, but policy.kind=vllm hands weights "
            "over inside one process; set it to 0 or leave it out"
        )
    try:
        import vllm
    except ImportError as error:
        raise ConfigError(
            f"policy.kind is vllm, but vLLM cannot be imported ({error}); pip install 'turnpoint[vllm]' on a machine "
            "with a GPU, or set policy.kind=local"
        ) from error
    return vllm


class VllmEngine:
    """Continuous batching by vLLM behind ``submit`` and ``advance``. Not thread-safe."""

    def __init__(
        self,
        settings: VllmPolicySettings,
        *,
        eos: frozenset[int],
        vocabulary: int,
        context: int,
        gpu: bool,
        seed: int,
    ) -> None:
        """Load the model of ``settings.model`` a second time, for sampling. Raises ``ConfigError``."""
        self._vllm = import_vllm()
        level = settings.sleep_level
        self.sleep_level = (1 if gpu else 0) if level is None else level
        if self.sleep_level and not gpu:
            raise ConfigError(
                f"policy.sleep_level is {self.sleep_level}, but vLLM can only sleep on a GPU; set it to 0 or null"
            )
        self.eos, self.vocabulary, self.context = eos, vocabulary, context
        self.counts: Counter[str] = Counter()
        """Work done: calls, steps, sampled, prompt and cached prompt tokens, weight synchronisations."""
        self.asleep = False
        self._open: dict[str, int] = {}
        """Names of calls in the engine, with their tickets."""
        self._tickets = 0
        arguments = self._arguments(settings, seed)
        try:
            self._llm = self._vllm.LLM(**arguments)
        except (ValueError, RuntimeError, TypeError, NotImplementedError) as error:
            raise ConfigError(
                f"vLLM cannot serve policy.model '{settings.model}' with these settings: {error}; look at "
                "policy.gpu_memory, policy.engine_options and policy.context_length, or use policy.kind=local"
            ) from error

    def _arguments(self, settings: VllmPolicySettings, seed: int) -> dict[str, Any]:
        return {
            "model": settings.model,
            "dtype": settings.sampler_dtype,
            "max_model_len": self.context,
            "seed": seed % 2**31,
            "gpu_memory_utilization": settings.gpu_memory,
            "max_num_seqs": settings.max_sequences,
            "enforce_eager": settings.eager,
            "enable_sleep_mode": self.sleep_level > 0,
            # Log-probs at the sampling temperature: the default, raw ones, are those of temperature 1.
            "logprobs_mode": "processed_logprobs",
            # The model's own generation config may set top-p, top-k or penalties: they would change the policy.
            "generation_config": "vllm",
            "enable_prefix_caching": True,
            "trust_remote_code": False,
            **settings.engine_options,
        }

    @property
    def in_flight(self) -> int:
        """Calls not finished yet."""
        return len(self._open)

    def submit(self, request: SampleRequest) -> int:
        """Queue a call. Raises ``ContextOverflow`` if its prompt leaves no room for a token."""
        prompt, sampling = request.prompt_ids, request.sampling
        if not prompt or sampling.max_tokens < 1:
            raise ValueError("a sampling request needs a non-empty prompt and max_tokens of at least 1")
        if min(prompt) < 0 or max(prompt) >= self.vocabulary:
            raise ValueError(f"prompt has a token id outside the vocabulary 0 .. {self.vocabulary - 1}")
        if sampling.top_p < 1 or sampling.top_k > 0:
            raise ConfigError(
                f"top_p={sampling.top_p}, top_k={sampling.top_k}: vLLM would give log-probs of the cut distribution, "
                "which are not the policy's; set rollout.top_p and eval.top_p to 1 and top_k to 0, or use "
                "policy.kind=local"
            )
        if len(prompt) >= self.context:
            raise ContextOverflow(
                f"a prompt of {len(prompt)} tokens leaves no room to sample in a context length of {self.context}"
            )
        self._tickets += 1
        name = f"call-{self._tickets}"
        params = self._vllm.SamplingParams(
            temperature=sampling.temperature,
            max_tokens=min(sampling.max_tokens, self.context - len(prompt)),
            seed=request.seed % 2**63,
            logprobs=0,
            stop_token_ids=sorted(self.eos),
            detokenize=False,
        )
        prompt_ids = self._vllm.TokensPrompt(prompt_token_ids=list(prompt))
        self._llm.llm_engine.add_request(name, prompt_ids, params)
        self._open[name] = self._tickets
        self.counts["calls"] += 1
        return self._tickets

    def advance(self) -> list[tuple[int, Sample]]:
        """Step the engine until at least one call finishes; results in the order of their tickets."""
        done: list[tuple[int, Sample]] = []
        while not done and self._open:
            if not self._llm.llm_engine.has_unfinished_requests():
                raise RuntimeError(f"vLLM lost {len(self._open)} calls: it has nothing left to do")
            self.counts["steps"] += 1
            for output in self._llm.llm_engine.step():
                if output.finished:
                    done.append((self._open.pop(output.request_id), self._read(output)))
        return sorted(done, key=lambda pair: pair[0])

    def _read(self, output: Any) -> Sample:
        """A finished call as a sample: exactly the sampled ids, the end of turn included."""
        answer = output.outputs[0]
        ids = tuple(int(token) for token in answer.token_ids)
        if answer.finish_reason not in ("stop", "length") or not ids:
            raise RuntimeError(
                f"vLLM ended a call after {len(ids)} tokens with '{answer.finish_reason}'; look at its log above"
            )
        logprobs = tuple(
            float(place[token].logprob) for token, place in zip(ids, answer.logprobs, strict=True)
        )
        self.counts["sampled"] += len(ids)
        self.counts["prompt"] += len(output.prompt_token_ids or ())
        self.counts["cached"] += output.num_cached_tokens or 0
        return Sample(ids, tuple(min(value, 0.0) for value in logprobs), truncated=ids[-1] not in self.eos)

    # -- weights and memory ------------------------------------------------------------------------------

    def idle(self, why: str) -> None:
        """Raise ``RuntimeError`` while calls are in flight."""
        if self._open:
            raise RuntimeError(
                f"{why} while {len(self._open)} sampling calls are in flight; call advance() until it returns an "
                "empty list first"
            )

    def sleep(self) -> None:
        """Give memory up for the trainer, where the engine can; the weights must be loaded again afterwards."""
        self.idle("the engine cannot sleep")
        if self.sleep_level and not self.asleep:
            self._llm.sleep(level=self.sleep_level)
            self.asleep = True

    def load(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Take ``weights`` (names and tensors of the Hugging Face model, tied ones under all their names).

        They are taken one after another, so that they need not all exist at a time.
        """
        self.idle("the weights cannot change")
        if self.asleep:
            self._llm.wake_up(tags=["weights"])
        # Tensors are passed as they are: the worker lives in this process.
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights)})
        if self.asleep:
            self._llm.wake_up(tags=["kv_cache"])
            self.asleep = False
        self.forget()
        self.counts["syncs"] += 1

    def forget(self) -> None:
        """Drop every cached prefix: it belongs to other weights, or must not make a difference."""
        self.idle("the prefix cache cannot be dropped")
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("vLLM did not drop its prefix cache although no call is in flight")
