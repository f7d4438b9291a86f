"""The policy whose rollouts vLLM samples: the local policy learns and scores, the engine follows its weights."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import Floats, PolicyCapabilities, Sample, SampleRequest, ScoreRequest, Which
from turnpoint.policy.vllm.engine import VllmEngine, import_vllm
from turnpoint.policy.vllm.monitor import Monitor
from turnpoint.records import Row

if TYPE_CHECKING:
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.vllm.settings import VllmPolicySettings


class VllmPolicy:
    """A policy on one GPU: ``trainer`` (a ``LocalPolicy``) and ``engine`` (vLLM) hold the same weights.

    The engine takes the trainer's weights before the first call after each update, and drops its prefix cache then.
    """

    def __init__(self, settings: VllmPolicySettings, *, seed: int) -> None:
        """Load the model twice; raises ``ConfigError`` if vLLM, the folder or the settings cannot work."""
        import_vllm()
        from turnpoint.policy.local import LocalPolicy

        self.settings = settings
        self.trainer: LocalPolicy = LocalPolicy(settings, seed=seed)
        self.context_length = self.trainer.context_length
        self.capabilities = PolicyCapabilities(
            reference=self.trainer.capabilities.reference,
            sessions=True,
            full_distribution=self.trainer.capabilities.full_distribution,
        )
        network = self.trainer.network
        self.engine = VllmEngine(
            settings,
            eos=self.trainer.eos_ids,
            vocabulary=network.vocabulary,
            context=self.context_length,
            gpu=network.device.type == "cuda",
            seed=seed,
        )
        self._monitor = Monitor(settings.temperature, settings.monitor_calls)
        self._asked: dict[int, SampleRequest] = {}
        self._stale = True
        """The engine's weights are not, or may not be, the trainer's."""
        self._sync_seconds = 0.0
        self._told: Counter[str] = Counter()
        """What of the engine's counts was reported."""

    @property
    def network(self) -> Any:
        """The trainer's network."""
        return self.trainer.network

    @property
    def temperature(self) -> float:
        """Sampling and training temperature."""
        return self.trainer.temperature

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer, chat template included."""
        return self.trainer.tokenizer

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a turn."""
        return self.trainer.eos_ids

    # -- sampling ----------------------------------------------------------------------------------------

    def submit(self, request: SampleRequest) -> int:
        """Queue a model call. Raises ``ContextOverflow``, and ``ConfigError`` for top-p or top-k."""
        self._sync()
        ticket = self.engine.submit(request)
        self._asked[ticket] = request
        return ticket

    def advance(self) -> list[tuple[int, Sample]]:
        """Step the engine until at least one call finishes; empty list if nothing is queued."""
        results = self.engine.advance()
        for ticket, sample in results:
            self._monitor.saw(self._asked.pop(ticket), sample)
        return results

    def end_session(self, session: str) -> None:
        """Nothing to do: the engine's prefix cache lets the oldest blocks go by itself."""

    def forget_sessions(self) -> None:
        """Drop the prefix cache. Raises ``RuntimeError`` while calls are in flight."""
        self.engine.idle("the prefix cache cannot be dropped")
        if not self.engine.asleep:  # asleep it has none
            self.engine.forget()

    def _sync(self) -> None:
        """Give the engine the trainer's weights, if they changed since it last had them."""
        if not self._stale:
            return
        began = time.perf_counter()
        self.engine.load(self._weights())
        self._stale = False
        self._sync_seconds += time.perf_counter() - began

    def _weights(self) -> Iterable[tuple[str, Any]]:
        """The trainer's weights, with adapters merged in, layer by layer as they are taken, where there are any.

        All of the state dict: vLLM wants tied weights under each of their names when it loads them again.
        """
        network = self.trainer.network
        if network.adapters is not None:
            return network.adapters.merged_weights(network.model)
        return ((name, tensor.detach()) for name, tensor in network.model.state_dict().items())

    # -- learning ----------------------------------------------------------------------------------------

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probabilities of each response token at the training temperature, by the trainer."""
        return self.trainer.logprobs(requests, which)

    def divergences(
        self, pairs: Sequence[tuple[ScoreRequest, ScoreRequest]], direction: str = "forward"
    ) -> list[Floats]:
        """Full-vocabulary divergence [len(response)] of each (teacher, student) pair, by the trainer."""
        return self.trainer.divergences(pairs, direction)

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """Compare sampler and trainer, then train on all rows; the engine sleeps meanwhile.

        Raises ``ConfigError``, before any weight changes, if they differ by more than the settings allow.
        """
        self.engine.idle("the policy cannot be updated")
        metrics = self._compare()
        self._leave()
        metrics |= self.trainer.update(rows)
        return metrics | self._work()

    def _leave(self) -> None:
        """The trainer's weights are about to change."""
        self._stale = True
        self._monitor.forget()
        self.engine.sleep()

    def _compare(self) -> dict[str, float]:
        gaps = self._monitor.compare(self.trainer.logprobs)
        if not gaps:
            return {}
        metrics = {f"sampler_diff_{name}": value for name, value in gaps.items()}
        bound = self.settings.bound
        wrong = not gaps["mean"] <= bound
        metrics["sampler_mismatch"] = float(wrong)
        if wrong:
            text = (
                f"log-probs of vLLM and of the trainer differ by {gaps['mean']:.2g} nats a token on average (largest "
                f"{gaps['max']:.2g}) over {gaps['tokens']:.0f} tokens, above policy.max_logprob_diff ({bound:g}): what "
                "is trained is not what was sampled. Use policy.engine_dtype=float32, "
                "train.recompute_old_logprobs=true with policy.on_mismatch=warn, or policy.kind=local"
            )
            if self.settings.on_mismatch == "stop":
                raise ConfigError(text)
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return metrics

    def _work(self) -> dict[str, float]:
        """What the engine did since the last update."""
        fresh = self.engine.counts - self._told
        self._told = Counter(self.engine.counts)
        seconds, self._sync_seconds = self._sync_seconds, 0.0
        share = fresh["cached"] / fresh["prompt"] if fresh["prompt"] else 0.0
        return {
            "sampler_calls": float(fresh["calls"]),
            "sampler_steps": float(fresh["steps"]),
            "sampler_tokens": float(fresh["sampled"]),
            "sampler_cached_prompt": share,
            "sampler_sync_seconds": seconds,
        }

    # -- checkpoints -------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the trainer's weights, tokenizer and optimizer; the engine has no state of its own."""
        self.trainer.save(folder)

    def load(self, folder: Path) -> None:
        """Read back what ``save`` wrote; the engine follows before its next call."""
        self.engine.idle("weights cannot be read back")
        self._leave()
        self.trainer.load(folder)
