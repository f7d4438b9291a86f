"""Log-probs of given tokens: by the rollout servers, by the trainer, or by the reference model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import ray

from turnpoint.config import ConfigError
from turnpoint.policy.local.merge import chains
from turnpoint.policy.protocol import Floats, ScoreRequest, Which
from turnpoint.policy.verl.batch import TokenSequence, fill_up, tensor_batch
from turnpoint.policy.verl.calls import Call, Calls
from turnpoint.policy.verl.engine import VerlEngine
from turnpoint.policy.verl.errors import EngineError

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25}
"""Largest difference between servers and trainer that is rounding."""
_PROBE = 24
"""Tokens of a start-up check."""


class Scorer:
    """Scores requests; such that extend each other are one sequence, computed once."""

    def __init__(self, engine: VerlEngine, *, context: int) -> None:
        self.engine, self.context = engine, context
        self.calls = Calls(engine)
        self.source = "servers" if engine.settings.scores_by_servers else "actor"

    def logprobs(
        self, requests: Sequence[ScoreRequest], which: Which, *, source: str | None = None
    ) -> list[Floats]:
        """Log-probs [len(response)] of each request; ``source`` overrides who computes live ones."""
        items = [(request.prompt_ids, request.response_ids) for request in requests]
        groups = chains(items)
        whole = [(*items[group[-1]][0], *items[group[-1]][1]) for group in groups]
        first = [len(items[group[0]][0]) for group in groups]
        if which == "live" and (source or self.source) == "servers":
            scored = self._by_servers(whole, first)
        else:
            scored = self._by_trainer(whole, first, which)
        result: list[Floats] = [np.zeros(0)] * len(requests)
        for group, values in zip(groups, scored, strict=True):
            for i in group:
                prompt, response = items[i]
                result[i] = values[len(prompt) - 1 : len(prompt) + len(response) - 1].copy()
        return result

    def _by_servers(self, whole: list[tuple[int, ...]], first: list[int]) -> list[Floats]:
        """Entry i scores token i + 1. What fills the context leaves a server no room, and is left to the trainer."""
        params = {"prompt_logprobs": 0, "max_tokens": 1, "temperature": 1.0, "detokenize": False}
        sent = {
            self.calls.send(Call(list(tokens), params)): n
            for n, tokens in enumerate(whole)
            if len(tokens) < self.context
        }
        scored: dict[int, Floats] = {}
        while len(self.calls):
            for ticket, output in self.calls.collect():
                n = sent[ticket]
                values = [entry[0] for entry in output.extra_fields["prompt_logprobs"]]
                ids = [entry[0] for entry in output.extra_fields["prompt_ids"]]
                if ids[:-1] != list(whole[n][1:]):
                    raise EngineError(
                        "a rollout server returned log-probs of other tokens than it was asked for; "
                        "set policy.scoring=actor"
                    )
                scored[n] = np.asarray(values, dtype=np.float64)
        rest = [n for n in range(len(whole)) if n not in scored]
        if rest:
            by_trainer = self._by_trainer([whole[n] for n in rest], [first[n] for n in rest], "live")
            scored |= dict(zip(rest, by_trainer, strict=True))
        return [scored[n] for n in range(len(whole))]

    def _by_trainer(self, whole: list[tuple[int, ...]], first: list[int], which: Which) -> list[Floats]:
        engine, settings = self.engine, self.engine.settings
        engine.to_trainer()
        sequences = []
        for tokens, start in zip(whole, first, strict=True):
            n = len(tokens) - start
            zeros = np.zeros(n)
            sequences.append(
                TokenSequence(tokens[:start], tokens[start:], np.ones(n, dtype=np.bool_), zeros, zeros)
            )
        full = fill_up(sequences, settings.gpus)
        batch = tensor_batch(
            full, temperature=settings.temperature, real=len(sequences), extra={"compute_loss": False}
        )
        try:
            worker = engine.workers
            output = worker.compute_log_prob(batch) if which == "live" else worker.compute_ref_log_prob(batch)
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"a training worker failed while scoring {len(whole)} sequences: {error}"
            ) from error
        values = output["log_probs"].unbind()
        return [values[n].double().numpy() for n in range(len(sequences))]

    def check(self, vocabulary: int) -> float:
        """Compare servers and trainer on random tokens, where servers are to score; the largest difference.

        Raises ``ConfigError`` if it is more than rounding: an engine with a prefix cache may return stale values.
        """
        if self.source != "servers":
            return 0.0
        rng = np.random.default_rng(0)
        ids = rng.integers(0, vocabulary, (3, min(_PROBE, self.context - 1))).tolist()
        half = len(ids[0]) // 2
        requests = [ScoreRequest(tuple(line[:half]), tuple(line[half:])) for line in ids]
        requests.append(
            ScoreRequest(requests[0].prompt_ids, requests[1].response_ids)
        )  # a prefix seen before
        theirs = [self.logprobs([request], "live", source="servers")[0] for request in requests]
        ours = self.logprobs(requests, "live", source="actor")
        gap = max(float(np.abs(a - b).max()) for a, b in zip(theirs, ours, strict=True))
        if not gap <= TOLERANCE[self.engine.settings.dtype]:
            raise ConfigError(
                f"the rollout servers' log-probs of given tokens are off by {gap:.3g} from the trainer's; "
                "set policy.scoring=actor to let the trainer score"
            )
        return gap
