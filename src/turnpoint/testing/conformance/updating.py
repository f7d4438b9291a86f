"""Assertions about updates: one step, the right loss, the right tokens, nothing else; and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turnpoint.policy.protocol import ScoreRequest
from turnpoint.records import Row
from turnpoint.testing.conformance.bench import Bench, largest
from turnpoint.testing.conformance.outcome import Measured, NotSeen


def _metric(metrics: dict[str, float], name: str) -> float:
    if name not in metrics:
        raise KeyError(f"the update reports no '{name}', only {', '.join(sorted(metrics))}")
    return float(metrics[name])


def _expected_loss(rows: Sequence[Row]) -> float:
    """-(sum of advantages) / (number of trained tokens): the value where policy and old policy are one."""
    trained = [row.advantages if row.mask is None else row.advantages[row.mask] for row in rows]
    return -float(sum(values.sum() for values in trained)) / sum(len(values) for values in trained)


def one_optimizer_step(bench: Bench) -> Measured:
    """An update of an odd number of rows is exactly one optimizer step."""
    steps = _metric(bench.need_base(), "optimizer_steps")
    return Measured(
        abs(steps - 1.0),
        0.0,
        f"{len(bench.rows)} rows took {steps:g} optimizer steps",
        "how the batch is cut into mini-batches: its size must be the mini-batch size",
    )


def on_policy_kl_is_zero(bench: Bench) -> Measured:
    """On rows just scored, the trainer's log-probs are the old ones: ppo_kl is 0."""
    kl = _metric(bench.need_base(), "ppo_kl")
    return Measured(
        abs(kl),
        bench.bounds.logprob,
        f"ppo_kl is {kl:.2g} on rows scored with the same weights",
        "whether the update recomputes log-probs at another temperature, after a step, or of other positions",
    )


def loss_is_mean_advantage(bench: Bench) -> Measured:
    """On policy, pg_loss = -(sum of advantages) / (number of trained tokens)."""
    loss, wanted = _metric(bench.need_base(), "pg_loss"), _expected_loss(bench.rows)
    gap = abs(loss - wanted) / max(abs(wanted), 1e-9)
    return Measured(
        gap,
        bench.bounds.relative,
        f"pg_loss is {loss:.6g}, -(sum A)/(sum mask) is {wanted:.6g} ({gap:.1e} relative)",
        "the denominator (tokens that do not train must not count), synthetic rows, and whether advantages are scaled",
    )


def _norms_differ(bench: Bench, metrics: dict[str, float], scale: float = 1.0) -> float:
    """Relative difference of gradient norms, where both are reported."""
    if "grad_norm" not in metrics or not bench.base.get("grad_norm"):
        return 0.0
    return abs(metrics["grad_norm"] * scale / bench.base["grad_norm"] - 1.0)


def observations_never_train(bench: Bench) -> Measured:
    """Advantages and old log-probs of masked tokens (observations inside a row) have no effect at all."""
    bench.need_moved()
    rows = [replace(row) for row in bench.rows]
    hidden = ~np.asarray(rows[2].mask)
    rows[2].advantages = np.where(hidden, 50.0, rows[2].advantages)
    rows[2].old_logprobs = np.where(hidden, rows[2].old_logprobs - 3.0, rows[2].old_logprobs)
    bench.back()
    metrics, moved = bench.train(rows)
    loss = abs(_metric(metrics, "pg_loss") - _metric(bench.base, "pg_loss"))
    norm = _norms_differ(bench, metrics)
    return _equal_updates(
        bench, max(norm, loss), bench.off(moved), "with advantages of 50 on tokens that do not train",
        "every place where the mask enters: loss, ratio, clip, denominator, and the attention mask used for it",
    )  # fmt: skip


def padding_never_trains(bench: Bench) -> Measured:
    """A much longer row without an advantage, which pads the others, leaves their gradient as it is."""
    bench.need_moved()
    long = Row(bench.ids(31), bench.ids(60), np.zeros(60), np.zeros(60), episode="conformance", turn=90)
    long.old_logprobs = bench.policy.logprobs([ScoreRequest(long.prompt_ids, long.response_ids)])[0]
    bench.back()
    long.old_logprobs = bench.policy.logprobs([ScoreRequest(long.prompt_ids, long.response_ids)])[0]
    long.mask = np.zeros(60, dtype=np.bool_)
    long.mask[-1] = True
    rows = [*bench.rows[::-1], long]
    metrics, moved = bench.train(rows)
    tokens = sum(row.trained_tokens for row in bench.rows)
    wanted = _expected_loss(rows)
    loss = abs(_metric(metrics, "pg_loss") - wanted) / max(abs(wanted), 1e-9)
    norm = _norms_differ(bench, metrics, (tokens + 1) / tokens)
    return _equal_updates(
        bench, max(norm, loss), bench.off(moved), "beside a row seven times as long and in another order",
        "padded positions (both masks must be 0 there), and synthetic rows that fill the batch up",
    )  # fmt: skip


def _equal_updates(bench: Bench, numbers: float, effect: float, when: str, look: str) -> Measured:
    """One measure of two: loss and gradient norm within ``relative``, the effect within ``effect``."""
    worst = max(numbers / bench.bounds.relative, effect / bench.bounds.effect)
    said = f"{when} loss and gradient norm differ by {numbers:.1e} (relative), the effect by {effect:.1e} of itself"
    return Measured(worst, 1.0, said, look)


def nothing_trains_without_advantage(bench: Bench) -> Measured:
    """Rows whose advantages are all 0 move no weight: prompts and padding have no loss of their own."""
    bench.back()
    zero = [replace(row, advantages=np.zeros(len(row.response_ids))) for row in bench.rows]
    metrics, moved = bench.train(zero)
    gap = max(float(np.abs(moved).max()), abs(float(metrics.get("grad_norm", 0.0))))
    return Measured(
        gap,
        bench.bounds.logprob,
        f"an update without advantages moved log-probs (or has a gradient norm) of {gap:.2g}",
        "weight decay, entropy or KL terms, and losses on prompt tokens",
    )


def advantages_hit_their_tokens(bench: Bench) -> Measured:
    """One token with a positive advantage gains more than every other token of its row."""
    bench.back()
    rows, places = [], (0, 2, 4)
    for turn, place in enumerate(places):
        response = (*bench.ids(4), min(bench.policy.eos_ids))
        row = Row(bench.ids(10), response, np.zeros(5), np.zeros(5), episode="conformance", turn=turn)
        row.advantages[place] = 5.0
        rows.append(row)
    requests = [ScoreRequest(row.prompt_ids, row.response_ids) for row in rows]
    before = bench.policy.logprobs(requests)
    for row, values in zip(rows, before, strict=True):
        row.old_logprobs = values
    bench.train(rows)
    gains = [a - b for a, b in zip(bench.policy.logprobs(requests), before, strict=True)]
    if max(float(np.abs(gain).max()) for gain in gains) <= bench.bounds.moved:
        raise NotSeen("the update did not move these log-probs; give the policy a larger learning rate")
    wrong = [
        f"turn {turn}: token {int(gain.argmax())} instead of {place}"
        for turn, (gain, place) in enumerate(zip(gains, places, strict=True))
        if int(gain.argmax()) != place
    ]
    said = f"other tokens gained most ({'; '.join(wrong)})"
    return Measured(
        float(len(wrong)),
        0.0,
        said if wrong else "the rewarded token gained most in each of three rows",
        "a shift between advantages and tokens, the end token above all",
    )


def checkpoints_restore_all(bench: Bench) -> Measured:
    """What was saved comes back: the same log-probs, and the same next update (the optimizer's moments too)."""
    bench.back()
    bench.train(bench.rows)
    bench.policy.save(bench.folder / "second")
    saved = bench.scores()
    rows = [replace(row, advantages=-row.advantages) for row in bench.rows]
    _, wanted = bench.train(rows)
    bench.policy.load(bench.folder / "second")
    gap = largest(bench.scores(), saved)
    _, moved = bench.train(rows)
    largest_move = float(np.abs(wanted).max())
    if largest_move <= bench.bounds.moved:
        raise NotSeen("the second update moved too little to compare; give the policy a larger learning rate")
    effect = float(np.abs(moved - wanted).max()) / largest_move
    worst = max(gap / bench.bounds.logprob, effect / bench.bounds.effect)
    return Measured(
        worst,
        1.0,
        f"after save, update and load log-probs are off by {gap:.2g} nats, the next update by {effect:.1e} of itself",
        "whether weights, optimizer moments, master copies and step counters are all in the checkpoint",
    )
