"""The verl policy: the calls of the policy contract, mapped on verl's workers and servers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import (
    ContextOverflow,
    Floats,
    PolicyCapabilities,
    Sample,
    SampleRequest,
    ScoreRequest,
    Which,
)
from turnpoint.policy.verl.cluster import check_resources, connect, prepare_environment
from turnpoint.policy.verl.settings import VerlPolicySettings
from turnpoint.policy.verl.translate import verl_settings
from turnpoint.records import Row

if TYPE_CHECKING:
    from turnpoint.policy.verl.teacher import TeacherServers


class VerlPolicy:
    """A policy on the GPUs of a Ray cluster. Not thread-safe; ``close`` gives the GPUs back."""

    def __init__(self, settings: VerlPolicySettings, *, seed: int) -> None:
        """Start verl's processes; raises ``ConfigError`` if model, settings or the installed verl cannot work."""
        prepare_environment(settings)
        from turnpoint.policy.verl.hooks import check_hooks

        check_hooks()
        self._read_model(settings)
        self.settings = settings
        from turnpoint.policy.verl.compose import compose_config

        self.config = compose_config(verl_settings(settings, context=self.context_length, seed=seed))
        self.owns_ray = connect(settings, self.config)
        check_resources(settings)
        from turnpoint.policy.verl.calls import Calls
        from turnpoint.policy.verl.engine import VerlEngine
        from turnpoint.policy.verl.scoring import Scorer
        from turnpoint.policy.verl.update import Updater

        with redirect_stdout(sys.stderr):  # verl prints what it starts; stdout is for results
            self.engine = VerlEngine(settings, self.config)
        self.capabilities = PolicyCapabilities(
            reference=settings.with_reference, sessions=True, full_distribution=False
        )
        self._calls = Calls(self.engine)
        self._scorer = Scorer(self.engine, context=self.context_length)
        self._updater = Updater(self.engine, context=self.context_length, seed=seed)
        self._counted = (0, 0)
        self._teachers: list[TeacherServers] = []
        self.scoring_gap = self._scorer.check(len(self._tokenizer))
        """Largest difference between the servers' log-probs and the trainer's, measured at the start."""

    def _read_model(self, settings: VerlPolicySettings) -> None:
        """Tokenizer, end-of-turn tokens and context length, without the weights."""
        from transformers import AutoConfig, GenerationConfig

        from turnpoint.policy.local import load

        folder = Path(settings.model)
        load.check_folder(folder)
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        self._tokenizer = load.load_tokenizer_of(folder, config.get_text_config().vocab_size)
        generation = None
        if (folder / "generation_config.json").is_file():
            generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
        self._eos_ids = load.end_of_turn_ids_of(config, generation, self._tokenizer)
        self.context_length = load.context_length(config, settings.context_length)

    @property
    def temperature(self) -> float:
        """Sampling and training temperature."""
        return self.settings.temperature

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer, chat template included."""
        return self._tokenizer

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a turn."""
        return self._eos_ids

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps so far."""
        return self._updater.optimizer_steps

    def submit(self, request: SampleRequest) -> int:
        """Send a model call to the servers; the ticket identifies its result. Raises ``ContextOverflow``."""
        from turnpoint.policy.verl.calls import Call

        sampling, room = request.sampling, self.context_length - len(request.prompt_ids)
        if not request.prompt_ids or sampling.max_tokens < 1:
            raise ValueError("a sampling request needs a non-empty prompt and max_tokens of at least 1")
        if room < 1:
            raise ContextOverflow(
                f"a prompt of {len(request.prompt_ids)} tokens leaves no room to sample in a context length of "
                f"{self.context_length}"
            )
        params = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "max_tokens": min(sampling.max_tokens, room),
            "logprobs": True,
            "seed": request.seed,
            "stop_token_ids": sorted(self._eos_ids),
        }
        return self._calls.send(Call(list(request.prompt_ids), params, request.session))

    def advance(self) -> list[tuple[int, Sample]]:
        """Wait until at least one call finishes; empty list if nothing is queued."""
        return [(ticket, self._sample(output)) for ticket, output in self._calls.collect()]

    def finished(self) -> bool:
        """Whether ``advance`` would return at once."""
        return self._calls.finished()

    def _sample(self, output: Any) -> Sample:
        ids, logprobs = tuple(output.token_ids), output.log_probs
        if not ids or logprobs is None or len(logprobs) != len(ids):
            from turnpoint.policy.verl.errors import EngineError

            raise EngineError(
                f"a rollout server returned {len(ids)} tokens and {len(logprobs or ())} log-probs "
                f"(stop reason {output.stop_reason}); {len(self._calls)} other calls are in flight"
            )
        return Sample(ids, tuple(logprobs), truncated=ids[-1] not in self._eos_ids)

    def end_session(self, session: str) -> None:
        """Servers drop what they keep of a session by themselves."""

    def forget_sessions(self) -> None:
        """Samples depend on their own seed. Raises ``RuntimeError`` while calls are in flight."""
        if len(self._calls):
            raise RuntimeError(f"{len(self._calls)} sampling calls are in flight; call advance() first")

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probabilities of each response token at the training temperature.

        ``which="reference"`` scores with the weights the policy was made with.
        """
        if which == "reference" and not self.capabilities.reference:
            raise ConfigError(
                "there is no reference model; set policy.keep_reference=true (or policy.loss.kl above 0)"
            )
        for request in requests:
            if len(request.prompt_ids) + len(request.response_ids) > self.context_length:
                raise ContextOverflow(
                    f"{len(request.prompt_ids)} + {len(request.response_ids)} tokens do not fit the context length "
                    f"{self.context_length}"
                )
        return self._scorer.logprobs(requests, which) if requests else []

    def update(self, rows: Sequence[Row]) -> dict[str, float]:
        """Train on all rows, one optimizer step per mini-batch; returns metrics."""
        self.forget_sessions()
        compared = self._compare(rows)
        metrics = self._updater.update(rows) | compared
        now = (self.engine.restarts, self._calls.repeated + self._scorer.calls.repeated)
        for name, after, before in zip(
            ("servers_restarted", "calls_repeated"), now, self._counted, strict=True
        ):
            metrics[name] = float(after - before)
        self._counted = now
        return metrics

    def _compare(self, rows: Sequence[Row]) -> dict[str, float]:
        """How far the old log-probs of some rows' trained tokens are from the trainer's, before the update moves it."""
        fitting = [
            row
            for row in rows
            if row.trained_tokens and len(row.prompt_ids) + len(row.response_ids) <= self.context_length
        ]
        count = min(self.settings.monitor_rows, len(fitting))
        if not count:
            return {}
        chosen = [fitting[i * len(fitting) // count] for i in range(count)]
        requests = [ScoreRequest(row.prompt_ids, row.response_ids) for row in chosen]
        scored = self._scorer.logprobs(requests, "live", source="actor")
        gaps = np.concatenate(
            [
                np.abs(new - row.old_logprobs)[... if row.mask is None else row.mask]
                for new, row in zip(scored, chosen, strict=True)
            ]
        )
        return {"logprob_diff_mean": float(gaps.mean()), "logprob_diff_max": float(gaps.max())}

    def start_teacher(
        self, *, name: str, model: str, gpus: int, nodes: int, tensor_parallel: int, context: int
    ) -> TeacherServers:
        """A frozen model on verl's teacher pool, on GPUs beside this policy's; ``close`` it to give them back."""
        from turnpoint.policy.verl.teacher import TeacherServers

        with redirect_stdout(sys.stderr):
            servers = TeacherServers(
                self.config,
                name=name,
                model=model,
                gpus=gpus,
                nodes=nodes,
                tensor_parallel=tensor_parallel,
                context=context,
            )
        self._teachers.append(servers)
        return servers

    def save(self, folder: Path) -> None:
        """Write the merged model in Hugging Face form and verl's shards, optimizer included, beside it."""
        from turnpoint.policy.verl import checkpoint

        counters = {"updates": self._updater.updates, "optimizer_steps": self._updater.optimizer_steps}
        checkpoint.save(self.engine, Path(folder), self._tokenizer, counters)

    def load(self, folder: Path) -> None:
        """Read back what ``save`` wrote: weights, optimizer and counters, bitwise."""
        from turnpoint.policy.verl import checkpoint

        self.forget_sessions()
        counters = checkpoint.load(self.engine, Path(folder))
        self._updater.updates = counters["updates"]
        self._updater.optimizer_steps = counters["optimizer_steps"]

    def close(self) -> None:
        """End verl's processes, and Ray if it was started here."""
        for teacher in self._teachers:
            teacher.close()
        self.engine.close()
        if self.owns_ray:
            import ray

            ray.shutdown()
