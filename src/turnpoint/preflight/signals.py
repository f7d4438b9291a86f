"""Checks of signals: each one that is configured reaches tokens of the tiny step, and rewards tell episodes apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turnpoint.methods.experts import play_expert
from turnpoint.preflight.bench import Bench, TinyStep
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.preflight.stand_ins import Moved, Silent
from turnpoint.preflight.tokens import rollout_stops, trained
from turnpoint.records import Episode, Row
from turnpoint.rollouts import Rollouts

_EXTRA = 8
"""Episodes played beside those of the tiny step to see rewards."""


async def advantages(bench: Bench) -> str:
    """Some token has an advantage or a divergence to be trained with; signals that the method itself found empty."""
    step = bench.need_step()
    if not step.rows:
        raise Doubt(
            f"the tiny step gave no row to train ({rollout_stops(step)}); try more tasks with --tasks"
        )
    empty = [name.removeprefix("signal_empty/") for name in step.tally if name.startswith("signal_empty/")]
    tokens, losses = _signal(step)
    if not tokens and not losses:
        raise Doubt(
            f"every advantage of {len(step.rows)} rows is 0, so this step would train nothing; where rewards are all "
            "equal see the check of the reward, else try more tasks with --tasks"
        )
    if empty:
        raise Doubt(
            f"the method found no token for {', '.join(empty)} in this step; try more tasks with --tasks"
        )
    return f"{tokens} tokens have an advantage, {losses} a divergence"


def _signal(step: TinyStep) -> tuple[int, int]:
    """Tokens of a step that have an advantage, and those that have a divergence."""
    tokens = sum(int(np.count_nonzero(trained(row))) for row in step.rows)
    return tokens, sum(row.trained_tokens for row in step.rows if row.divergence is not None)


async def scoring(bench: Bench) -> str:
    """Moving the scoring teacher's log-probs moves advantages."""
    run, step = bench.run, bench.need_step()
    if not run.teachers.scoring:
        raise NotApplicable("no scoring teacher is set")
    if not step.rows:
        raise NotApplicable("the tiny step gave no row")
    moved = {domain: Moved(teacher) for domain, teacher in run.teachers.scoring.items()}
    other = await bench.play(run.config.method.build(), replace(run.teachers, scoring=moved))
    changed = _changed(step.rows, other.rows)
    if not changed:
        raise Fault(
            f"method '{run.config.method.kind}' asks the scoring teacher, but its scores reach no token: advantages "
            "stayed the same when they were moved by half a nat; mend credit(), or remove scoring"
        )
    return f"moving the teacher's scores moved the advantages of {changed} tokens"


async def naming(bench: Bench) -> str:
    """A naming teacher that falls silent changes what is trained."""
    run, step = bench.run, bench.need_step()
    if run.teachers.naming is None:
        raise NotApplicable("no naming teacher is set")
    asked = sum(step.teachers.get(f"teacher/{name}", 0.0) for name in ("reports", "recoveries"))
    silent = Silent(run.teachers.naming.remote)
    other = await bench.play(run.config.method.build(), replace(run.teachers, naming=silent))
    changed = _changed(step.rows, other.rows)
    if changed:
        return f"without the teacher {changed} tokens would be trained differently"
    failed = {
        n.rsplit("/", 1)[-1]: int(v) for n, v in step.tally.items() if n.startswith("teacher_failures/")
    }
    if failed:
        raise Fault(
            f"the teacher failed on every question of the tiny step ({failed}); see its log and settings"
        )
    if asked and step.tally.get("pivots_used", 0.0):
        raise Fault(
            f"the teacher named {int(step.tally['pivots_used'])} usable pivots, but none of them changes a row of "
            f"method '{run.config.method.kind}'; raise the weights of its terms, or remove teacher"
        )
    raise Doubt(
        f"the teacher answered {int(asked)} times and changed no token of {len(step.episodes)} episodes; try more "
        f"tasks with --tasks, or remove teacher if method '{run.config.method.kind}' does not use one"
    )


def _changed(before: Sequence[Row], after: Sequence[Row]) -> int:
    """Tokens that are trained otherwise in one of two steps."""
    known = {_key(row): row for row in before}
    count = 0
    for row in after:
        old = known.pop(_key(row), None)
        if old is None or (old.divergence, old.teacher_prompt_ids) != (
            row.divergence,
            row.teacher_prompt_ids,
        ):
            count += row.trained_tokens
        else:
            count += int(np.count_nonzero(np.abs(old.advantages - row.advantages) > 1e-9))
    return count + sum(row.trained_tokens for row in known.values())


def _key(row: Row) -> tuple[object, ...]:
    return row.episode, row.turn, row.kind, row.prompt_ids, row.response_ids


async def reward(bench: Bench) -> str:
    """Rewards of a few episodes are not all equal.

    A fault only where that leaves nothing to train and the environment's oracle, if there is one, earns no other
    reward either: else the policy may just be weak.
    """
    run, step = bench.run, bench.need_step()
    judged = [e for group in step.groups for e in group.episodes if _judged(e)]
    if len({episode.total_reward for episode in judged}) < 2:
        judged += await _more(bench)
    rewards = [episode.total_reward for episode in judged]
    if not rewards:
        raise Doubt(
            f"no episode has an outcome ({rollout_stops(step)}); mend the environment or its time limits"
        )
    told = (
        f"{len(rewards)} episodes, rewards {min(rewards):g} to {max(rewards):g}, mean {np.mean(rewards):.3g}"
    )
    if len(set(rewards)) == 1:
        if not any(_signal(step)) and not await _oracle_earns_another(bench, rewards[0]):
            oracle = (
                "the environment's oracle earns no other"
                if run.suite.capabilities.oracle
                else "no oracle can tell"
            )
            raise Fault(
                f"all {len(rewards)} episodes have reward {rewards[0]:g} ({oracle}), and without a difference method "
                f"'{run.config.method.kind}' trains nothing; mend the reward of '{run.suite.name}', raise "
                "rollout.max_turns, take easier tasks or a warm start, or choose a method with a teacher's signal"
            )
        method = run.config.method
        harm = "the outcome parts of advantages are 0 until that changes"
        if method.asks_scoring and not any("outcome" in term for term in method.terms):
            harm = f"method '{method.kind}' trains on its teacher's scores all the same, but success rates say nothing"
        raise Doubt(
            f"all {len(rewards)} episodes have reward {rewards[0]:g}: {harm} ({run.suite.name}: is the reward right?); "
            "take easier tasks or a warm start, raise rollout.max_turns or method.group, or choose a method with a "
            "teacher's signal"
        )
    return told


async def _more(bench: Bench) -> list[Episode]:
    """Episodes of other training tasks, played as in training."""
    tasks = bench.run.suite.tasks("train")
    chosen = [tasks[i * len(tasks) // _EXTRA] for i in range(min(_EXTRA, len(tasks)))]
    rollouts = _rollouts(bench)
    try:
        episodes = await asyncio.gather(*(rollouts.play(task, 0) for task in chosen))
    finally:
        await rollouts.close()
    return [episode for episode in episodes if _judged(episode)]


async def _oracle_earns_another(bench: Bench, reward: float) -> bool:
    """Whether the oracle solves a task of the tiny step, within the budget of turns, for another reward."""
    if not bench.run.suite.capabilities.oracle:
        return False
    rollouts = _rollouts(bench)
    try:
        played = [await play_expert(task, rollouts, "full") for task in bench.tasks]
    finally:
        await rollouts.close()
    return any(episode is not None and episode.total_reward != reward for episode in played)


def _rollouts(bench: Bench) -> Rollouts:
    run = bench.run
    return Rollouts(
        run.suite, run.policy, run.prompter, run.renderer, run.config.rollout, run.streams,
        prefix="preflight", workers=run.env_workers,
    )  # fmt: skip


def _judged(episode: Episode) -> bool:
    return episode.stop is not None and episode.stop.has_outcome
