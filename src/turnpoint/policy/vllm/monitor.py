"""How far the sampler's log-probs are from the trainer's, for the same tokens under the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from turnpoint.policy.protocol import Floats, Sample, SampleRequest, ScoreRequest

Score = Callable[[Sequence[ScoreRequest]], list[Floats]]


class Monitor:
    """Remembers calls sampled at the training temperature since the weights last changed."""

    def __init__(self, temperature: float, calls: int) -> None:
        """``calls``: most that are compared at a time; 0 = none."""
        self.temperature, self.calls = temperature, calls
        self._seen: list[tuple[ScoreRequest, tuple[float, ...]]] = []

    def saw(self, request: SampleRequest, sample: Sample) -> None:
        """A call came back. Those at other temperatures, as in evaluations, have other log-probs by intent."""
        if self.calls and request.sampling.temperature == self.temperature:
            self._seen.append((ScoreRequest(request.prompt_ids, sample.token_ids), sample.logprobs))

    def forget(self) -> None:
        """The weights change."""
        self._seen = []

    def compare(self, score: Score) -> dict[str, float]:
        """Differences over calls spread evenly over those seen; empty if there are none.

        ``mean`` and ``max`` are of absolute differences in nats, ``kl`` is the mean of sampler minus trainer: an
        estimate of the divergence of what was sampled from what is trained.
        """
        if not self._seen:
            return {}
        places = np.unique(np.linspace(0, len(self._seen) - 1, min(self.calls, len(self._seen))).astype(int))
        chosen = [self._seen[i] for i in places]
        scored = score([request for request, _ in chosen])
        gaps = np.concatenate(
            [np.asarray(given) - values for (_, given), values in zip(chosen, scored, strict=True)]
        )
        return {
            "mean": float(np.abs(gaps).mean()),
            "max": float(np.abs(gaps).max()),
            "kl": float(gaps.mean()),
            "tokens": float(len(gaps)),
        }
