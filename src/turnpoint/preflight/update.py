"""Checks of the update, which computes everything and moves no weight: learning rate and weight decay are 0."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from turnpoint.policy import ScoreRequest
from turnpoint.preflight.bench import Bench
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.records import Row

_NOTHING = 1e-7
"""Gradient norms up to this are none."""


def _plain_row(bench: Bench) -> Row:
    """A sampled turn as a row that ends with the end of a turn."""
    _, turn = min(bench.need_turns(), key=lambda pair: len(pair[1].prompt_ids) + len(pair[1].response_ids))
    policy, renderer = bench.run.policy, bench.run.renderer
    end = renderer.end_of_turn_id if renderer.end_of_turn_id in policy.eos_ids else min(policy.eos_ids)
    body = turn.response_ids[:-1] if turn.response_ids[-1] in policy.eos_ids else turn.response_ids
    ids = (*body[-8:], end)
    (old,) = policy.logprobs([ScoreRequest(turn.prompt_ids, ids)])
    return Row(turn.prompt_ids, ids, old, np.zeros(len(ids)), task="preflight", episode="preflight")


def _norm(bench: Bench, row: Row) -> float:
    metrics = bench.run.policy.update([row])
    if "grad_norm" not in metrics:
        raise NotApplicable("the policy's update reports no grad_norm")
    return metrics["grad_norm"]


async def end_learnt(bench: Bench) -> str:
    """An advantage on the end-of-turn token alone gives a gradient."""
    row = _plain_row(bench)
    row = replace(row, advantages=np.array([0.0] * (len(row.response_ids) - 1) + [1.0]))
    norm, end = _norm(bench, row), row.response_ids[-1]
    if norm > _NOTHING:
        return f"an advantage on the end-of-turn token (id {end}) alone gives a gradient of norm {norm:.2g}"
    pad = getattr(bench.run.policy.tokenizer, "pad_token_id", None)
    raise Fault(
        f"an advantage on the end-of-turn token (id {end}) alone gives no gradient, so the model never learns to stop: "
        + (
            "pad is EOS, and the update masks by token ids; masks must come from lengths, or give the tokenizer a pad "
            "token of its own"
            if end == pad
            else "the update leaves it out; mend the policy's mask"
        )
    )


async def nothing_else(bench: Bench) -> str:
    """Without advantages there is no gradient: prompts and observations are not trained."""
    loss = getattr(bench.run.config.policy, "loss", None)
    if getattr(loss, "kl", 0.0) > 0:
        raise NotApplicable("policy.loss.kl trains every sampled token beside the advantages")
    norm = _norm(bench, _plain_row(bench))
    if norm > _NOTHING:
        raise Fault(
            f"a row whose advantages are all 0 gives a gradient of norm {norm:.2g}: tokens outside the sampled ones "
            "are trained; mend the policy's loss mask"
        )
    return "a row without advantages gives no gradient, so only sampled tokens with an advantage are trained"


async def dry_run(bench: Bench) -> str:
    """The tiny step's rows go through the update; log-probs agree with the recorded ones, and no weight moves."""
    step, policy = bench.need_step(), bench.run.policy
    if not step.rows:
        raise NotApplicable("the tiny step gave no row")
    row = _plain_row(bench)
    request = ScoreRequest(row.prompt_ids, row.response_ids)
    (before,) = policy.logprobs([request])
    began = time.perf_counter()
    bench.update = policy.update(step.rows)
    bench.seconds_update = time.perf_counter() - began
    (after,) = policy.logprobs([request])
    metrics = bench.update
    if bad := [name for name, value in metrics.items() if not np.isfinite(value)]:
        raise Fault(
            f"the update gave {bad[0]} = {metrics[bad[0]]}; lower the learning rate or use dtype float32"
        )
    dropped = int(metrics.get("rows_dropped/too_long", 0))
    if dropped:
        raise Doubt(
            f"{dropped} of {len(step.rows)} rows are longer than policy.context_length and were dropped; raise it, or "
            "lower rollout.max_turns or prompt.max_prompt_tokens"
        )
    plain = not any(turn.hint for _, turn in step.turns)
    gap = metrics.get("logprob_diff_max", 0.0)
    if plain and gap > bench.tolerance:
        raise Fault(
            f"the update's log-probs differ from the recorded ones by up to {gap:.2g} nats (allowed "
            f"{bench.tolerance:g}); set train.recompute_old_logprobs=true, or policy.dtype=float32"
        )
    still = (
        "no weight moved"
        if np.array_equal(before, after)
        else "weights moved in memory only, nothing was kept"
    )
    return f"{len(step.rows)} rows, gradient norm {metrics.get('grad_norm', 0.0):.3g}, {still}"
