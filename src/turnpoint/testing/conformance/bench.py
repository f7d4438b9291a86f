"""What the assertions work on: a policy, prompts, rows, and the way back to the first weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from turnpoint.policy.protocol import Floats, Policy, Sample, SampleRequest, Sampling, ScoreRequest
from turnpoint.records import Row
from turnpoint.testing.conformance.outcome import NotSeen

Teacher = Callable[[Sequence[ScoreRequest]], Sequence[Floats]]
"""Log-probs of each response token, by a scoring teacher that holds the student's first weights."""
_WORDS = 4096
"""Tokens are drawn from the first so many of the vocabulary."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far numbers that should be equal may lie apart."""

    logprob: float = 1e-5
    """Nats, between two ways to compute a log-prob."""
    relative: float = 1e-4
    """Of losses and gradient norms."""
    effect: float = 0.02
    """Of what two equal updates do to log-probs, over the largest change; optimizers amplify rounding."""
    moved: float = 1e-4
    """Least change of a log-prob by an update, in nats, that counts as one."""
    samples: float = 0.0
    """Share of samples that may come out otherwise when the same seed is drawn in another batch."""


FP32 = Bounds()
BF16 = Bounds(logprob=0.5, relative=0.05, effect=0.35, moved=0.02, samples=0.5)
"""For half precision on GPUs, whose kernels depend on the shape of the batch."""


@dataclass(slots=True)
class Bench:
    """A policy under test. Use ``run_conformance``."""

    policy: Policy
    folder: Path
    """Where checkpoints go."""
    bounds: Bounds = FP32
    teacher: Teacher | None = None
    seed: int = 0
    changed: bool = False
    """The weights are no longer the first ones."""
    rows: list[Row] = field(default_factory=list)
    probes: list[ScoreRequest] = field(default_factory=list)
    first: list[Floats] = field(default_factory=list)
    """Log-probs of ``probes`` at the first weights."""
    base: dict[str, float] = field(default_factory=dict)
    """Metrics of the update on ``rows`` from the first weights."""
    moved: Floats = field(default_factory=lambda: np.zeros(0))
    """What that update did to the log-probs of ``probes``."""

    def __post_init__(self) -> None:
        """Draw rows and save the first weights."""
        self.rows = draw_rows(self)
        self.probes = [ScoreRequest(row.prompt_ids, row.response_ids) for row in self.rows]
        self.probes += [ScoreRequest(self.ids(9), self.ids(3)), ScoreRequest(self.ids(2), self.ids(1))]
        self.first = self.policy.logprobs(self.probes)
        for row, values in zip(self.rows, self.first, strict=False):
            row.old_logprobs = np.asarray(values, dtype=np.float64)
        self.policy.save(self.folder / "first")

    # ---- tokens ---------------------------------------------------------------------------------

    def ids(self, count: int) -> tuple[int, ...]:
        """Ordinary tokens, other ones at every call; the same in every run."""
        tokenizer, self.seed = self.policy.tokenizer, self.seed + 1
        special = {*getattr(tokenizer, "all_special_ids", ()), *self.policy.eos_ids}
        size = len(tokenizer) if hasattr(tokenizer, "__len__") else 128
        words = [i for i in range(min(size, _WORDS)) if i not in special]
        return tuple(int(i) for i in np.random.default_rng(self.seed).choice(words, count))

    def chat(self) -> tuple[int, ...] | None:
        """A prompt that asks for one word, where the tokenizer has a chat template."""
        tokenizer = self.policy.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            return None
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": "Reply with the single word: ok"}],
            tokenize=False,
            add_generation_prompt=True,
        )
        return tuple(tokenizer.encode(text, add_special_tokens=False))

    # ---- calls ----------------------------------------------------------------------------------

    def sample(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """All results, in the order of the requests."""
        tickets = [self.policy.submit(request) for request in requests]
        results: dict[int, Sample] = {}
        while len(results) < len(tickets):
            results |= dict(self.policy.advance())
        return [results[ticket] for ticket in tickets]

    def request(
        self, prompt: tuple[int, ...], seed: int, tokens: int = 12, session: str = ""
    ) -> SampleRequest:
        """A model call at the training temperature."""
        return SampleRequest(prompt, seed, Sampling(self.policy.temperature, max_tokens=tokens), session)

    def scores(self) -> list[Floats]:
        """Log-probs of the probes now."""
        return self.policy.logprobs(self.probes)

    def gap_to_trainer(self, requests: Sequence[SampleRequest], samples: Sequence[Sample]) -> float:
        """Largest difference in nats between the sampler's log-probs and the trainer's."""
        pairs = [ScoreRequest(r.prompt_ids, s.token_ids) for r, s in zip(requests, samples, strict=True)]
        scored = self.policy.logprobs(pairs)
        return largest(scored, [np.array(sample.logprobs) for sample in samples])

    # ---- updates --------------------------------------------------------------------------------

    def back(self) -> None:
        """The first weights again, optimizer included."""
        if self.changed:
            self.policy.load(self.folder / "first")
        self.changed = False

    def train(self, rows: Sequence[Row]) -> tuple[dict[str, float], Floats]:
        """Update, from wherever the weights are; gives metrics and the change of the probes' log-probs."""
        before = np.concatenate(self.scores())
        self.changed = True
        metrics = self.policy.update([replace(row) for row in rows])
        return metrics, np.concatenate(self.scores()) - before

    def need_base(self) -> dict[str, float]:
        """The update on ``rows`` from the first weights, done once; the weights are left there."""
        if not self.base:
            self.back()
            self.base, self.moved = self.train(self.rows)
        return self.base

    def need_moved(self) -> Floats:
        """What that update did. Raises ``NotSeen`` if it did nothing that could be compared."""
        self.need_base()
        if not np.abs(self.moved).max() > self.bounds.moved:
            raise NotSeen(
                f"the update moved log-probs by {np.abs(self.moved).max():.2g} nats at most, too little to compare; "
                "give the policy a larger learning rate"
            )
        return self.moved

    def off(self, moved: Floats) -> float:
        """How far an update that must do the same as that on ``rows`` is from it, over its largest change."""
        base = self.need_moved()
        return float(np.abs(moved - base).max() / np.abs(base).max())


def draw_rows(bench: Bench) -> list[Row]:
    """Rows as methods make them: of odd number and unlike lengths, one with observation tokens inside, one that goes
    on from another, one that ends its turn."""
    end = min(bench.policy.eos_ids)
    start = bench.ids(7)
    parts = [(start, bench.ids(5)), (bench.ids(23), bench.ids(1)), (bench.ids(3), bench.ids(9))]
    parts += [(bench.ids(12), (*bench.ids(5), end))]
    parts += [((*start, *parts[0][1], *bench.ids(3)), bench.ids(4))]
    rng = np.random.default_rng(bench.seed)
    rows = []
    for turn, (prompt, response) in enumerate(parts):
        count = len(response)
        advantages = rng.normal(size=count) + 0.5
        rows.append(Row(prompt, response, np.zeros(count), advantages, episode="conformance", turn=turn))
    masked = np.ones(9, dtype=np.bool_)
    masked[3:6] = False
    rows[2].mask = masked
    rows[2].advantages[~masked] = 0.0
    return rows


def largest(a: Sequence[Floats], b: Sequence[Floats]) -> float:
    """Largest absolute difference of two lists of arrays; unequal shapes are infinitely far apart."""
    if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return float("inf")
    return max((float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True)), default=0.0)
