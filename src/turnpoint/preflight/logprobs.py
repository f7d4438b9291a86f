"""Checks of log-probs: what the sampler reports is what the trainer computes."""

from __future__ import annotations

import numpy as np

from turnpoint.preflight.bench import Bench, alone
from turnpoint.preflight.report import Fault, NotApplicable
from turnpoint.preflight.stand_ins import StudentScores


async def sampler(bench: Bench) -> str:
    """Log-probs reported while sampling equal those of the trainer on the same tokens."""
    bench.need_turns()
    config, gaps = bench.run.config, np.asarray(bench.sampler_gaps)
    largest, mean = float(gaps.max()), float(gaps.mean())
    told = f"largest difference {largest:.2g}, mean {mean:.2g} nats over {len(gaps)} tokens"
    if largest <= bench.tolerance:
        return told
    if config.train.recompute_old_logprobs:
        return f"{told}; train.recompute_old_logprobs puts the trainer's in place"
    raise Fault(
        f"{told}, above {bench.tolerance:g}: importance ratios would be wrong from the first step; set "
        "train.recompute_old_logprobs=true, or sample from the whole distribution at policy.temperature "
        "(rollout.top_p=1, rollout.top_k=0, rollout.temperature unset)"
    )


async def cutting(bench: Bench) -> str:
    """Sampling draws from the policy's own distribution."""
    rollout, trained = bench.run.config.rollout, bench.run.policy.temperature
    drawn = trained if rollout.temperature is None else rollout.temperature
    whole = rollout.top_p == 1 and rollout.top_k == 0 and drawn == trained
    if whole:
        return f"top_p 1, top_k 0, temperature {trained:g} for sampling and training"
    if not bench.run.config.train.recompute_old_logprobs:
        raise Fault(
            f"rollout.top_p={rollout.top_p:g}, rollout.top_k={rollout.top_k}, temperature {drawn:g} against "
            f"{trained:g} in training: what is sampled is not the policy's distribution; set top_p=1, top_k=0 and one "
            "temperature, or train.recompute_old_logprobs=true"
        )
    return "sampling is cut or tempered; train.recompute_old_logprobs scores what was sampled again"


async def student_teacher(bench: Bench) -> str:
    """A teacher that is the student itself differs from it by nothing, on one-token responses too."""
    run = bench.run
    turns = [(episode, turn) for episode, turn in bench.need_turns() if turn.hint is None]
    if not turns:
        raise NotApplicable("only hinted turns were sampled")
    if bench.run.config.train.recompute_old_logprobs is False and max(bench.sampler_gaps) > bench.tolerance:
        raise NotApplicable("sampler and trainer differ (see the check of the sampler)")
    teacher, largest = StudentScores(run.policy), 0.0
    for episode, turn in turns[:8]:
        (whole,) = await teacher.score(alone(episode, [turn], "student"), [turn])
        last = len(turn.response_ids) - 1
        (one,) = await teacher.score(alone(episode, [turn], "student"), [turn], last)
        largest = max(largest, float(np.abs(whole.logprobs - np.asarray(turn.logprobs)).max()))
        largest = max(largest, abs(float(one.logprobs[0]) - turn.logprobs[last]))
    if largest > bench.tolerance:
        raise Fault(
            f"the student as its own teacher differs from itself by up to {largest:.2g} nats (allowed "
            f"{bench.tolerance:g}); set train.recompute_old_logprobs=true, or policy.dtype=float32"
        )
    return f"the student as its own teacher gives 0 (largest difference {max(largest, 0.0):.2g} nats)"
