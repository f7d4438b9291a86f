"""Supervised training on episodes: weighted cross-entropy in batches of about equal token counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from pydantic import Field, NonNegativeFloat, PositiveInt

from turnpoint.config import ConfigError, Settings
from turnpoint.policy.protocol import Floats, ScoreRequest, Which
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Episode
from turnpoint.rollouts.streams import Streams
from turnpoint.training.sequences import Example, Hints, SequenceBuilder


class SupervisedPolicy(Protocol):
    """What supervised training asks of a policy."""

    context_length: int

    def supervised_update(self, sequences: Sequence[Example], *, lr_scale: float = 1.0) -> dict[str, float]:
        """One optimizer step on ``sum(weight * cross-entropy) / sum(weight)``, at a share of the learning rate."""

    def logprobs(self, requests: Sequence[ScoreRequest], which: Which = "live") -> list[Floats]:
        """Log-probabilities of response tokens."""


class SftSettings(Settings):
    """Supervised training on episodes."""

    epochs: PositiveInt = 1
    """Passes over the episodes."""
    batch_tokens: PositiveInt = 8192
    """About so many tokens per optimizer step."""
    observation_weight: NonNegativeFloat = 0.1
    """Weight of prompt tokens against 1 for responses; a little teaches a small model how the world answers.
    ``turnpoint sft`` has 0 unless it is set."""
    hints: Hints = "separate"
    """Where hints of demonstrations stand: in sequences of their own, inline, or nowhere (``off``)."""
    train_noise: bool = False
    """Train actions that were drawn at random."""
    decay: bool = True
    """Let the learning rate fall linearly to zero."""
    held_out: float = Field(default=0.02, ge=0.0, lt=1.0)
    """Share of episodes kept out of training to measure the loss on."""


@dataclass(frozen=True, slots=True)
class SftProgress:
    """Where supervised training stands."""

    step: int
    steps: int
    loss: float
    """Weighted loss of the last batch, in nats per token."""


@dataclass(slots=True)
class SftReport:
    """What supervised training did."""

    steps: int = 0
    episodes: int = 0
    tokens: int = 0
    """Tokens in all sequences, over all epochs."""
    losses: list[float] = field(default_factory=list)
    """Weighted training loss of each step."""
    held_out_before: float | None = None
    held_out_after: float | None = None
    """Mean loss of response tokens of held-out episodes, in nats."""
    counts: dict[str, int] = field(default_factory=dict)
    """Turns trained and left out, by reason, and sequences too long for the context."""


def run_sft(
    policy: SupervisedPolicy,
    episodes: Iterable[Episode],
    renderer: ChatRenderer,
    settings: SftSettings | None = None,
    *,
    prompter: Prompter | None = None,
    seed: int = 0,
    progress: Callable[[SftProgress], None] | None = None,
) -> SftReport:
    """Train ``policy`` on ``episodes``; works on demonstrations and on any episode file.

    ``prompter`` builds the prompts; without it the recorded messages are used. Raises ``ConfigError`` if nothing
    can be trained.
    """
    settings = settings or SftSettings()
    builder = SequenceBuilder(
        renderer, prompter, settings.observation_weight, settings.hints, settings.train_noise
    )
    streams = Streams(seed)
    report = SftReport()
    train, held = _split(episodes, builder, settings.held_out, policy.context_length, streams, report)
    if not train:
        raise ConfigError(
            "supervised training has no sequence to train on: "
            + (", ".join(f"{name} {number}" for name, number in report.counts.items()) or "no episodes")
        )
    plan = [
        batch
        for epoch in range(settings.epochs)
        for batch in batches(train, settings.batch_tokens, streams.rng("sft", epoch))
    ]
    report.held_out_before = response_loss(policy, held)
    for step, batch in enumerate(plan):
        scale = 1 - step / len(plan) if settings.decay else 1.0
        loss = policy.supervised_update([train[i] for i in batch], lr_scale=scale)["loss"]
        report.losses.append(loss)
        report.steps += 1
        report.tokens += sum(len(train[i][0]) for i in batch)
        if progress is not None:
            progress(SftProgress(report.steps, len(plan), loss))
    report.held_out_after = response_loss(policy, held)
    return report


def _split(
    episodes: Iterable[Episode],
    builder: SequenceBuilder,
    held_out: float,
    context: int,
    streams: Streams,
    report: SftReport,
) -> tuple[list[Example], list[Example]]:
    """Sequences of training and of held-out episodes; the choice depends on the episode's place only."""
    train: list[Example] = []
    held: list[Example] = []
    long = 0
    for number, episode in enumerate(episodes):
        report.episodes += 1
        keep = streams.rng("held-out", number).random() < held_out
        for example in builder.build(episode):
            if len(example[0]) > context:
                long += 1
            else:
                (held if keep else train).append(example)
    report.counts = dict(builder.counts) | ({"too_long": long} if long else {})
    return train, held


def batches(examples: Sequence[Example], tokens: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Indices of all examples in random order, in groups of about ``tokens`` tokens, similar lengths together."""
    order = rng.permutation(len(examples))
    mean = sum(len(ids) for ids, _ in examples) / len(examples)
    window = max(1, round(8 * tokens / mean))  # sort within about eight batches: little padding, still random
    groups: list[list[int]] = []
    for start in range(0, len(order), window):
        part = sorted(order[start : start + window].tolist(), key=lambda i: len(examples[i][0]))
        group: list[int] = []
        filled = 0
        for index in part:
            length = len(examples[index][0])
            if group and filled + length > tokens:
                groups.append(group)
                group, filled = [], 0
            group.append(index)
            filled += length
        groups.append(group)
    for at in rng.permutation(len(groups)):
        yield groups[at]


def response_loss(policy: SupervisedPolicy, examples: Sequence[Example]) -> float | None:
    """Mean negative log-probability, in nats, of the tokens of full weight; None without any."""
    chosen = [(ids, weights[1:] >= 1) for ids, weights in examples if (weights[1:] >= 1).any()]
    if not chosen:
        return None
    requests = [ScoreRequest((int(ids[0]),), tuple(ids[1:].tolist())) for ids, _ in chosen]
    scores = policy.logprobs(requests)
    total = sum(float(values[mask].sum()) for values, (_, mask) in zip(scores, chosen, strict=True))
    return -total / sum(int(mask.sum()) for _, mask in chosen)
