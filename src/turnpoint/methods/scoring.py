"""What methods do with a scoring teacher: ask it for turns, check the answer, turn it into rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from turnpoint.credit import reverse_kl_advantages
from turnpoint.methods.parts import act_row, usable_episodes
from turnpoint.methods.protocol import Teachers
from turnpoint.methods.tally import Tally
from turnpoint.records import Episode, Group, Row, Turn
from turnpoint.teachers.protocol import ScoringTeacher, TeacherError, TurnScore

TEACHER = "teacher"
"""Key of ``Turn.scores``: log-probs [len(response_ids)] of the turn's tokens under the scoring teacher."""

PerTurn = Callable[[Episode], Mapping[int, float]]
"""One number for each turn (by index) of an episode."""


async def score_turns(episode: Episode, turns: Sequence[Turn], teacher: ScoringTeacher, tally: Tally) -> bool:
    """Put the teacher's log-probs into ``turn.scores``; False (and a count) if the teacher failed.

    Turns that have all their scores are left alone; one that was scored in part, while it was being sampled, is
    scored from there on. Raises ``ValueError``, naming the row, for an answer that does not fit its tokens.
    """
    open_turns = [turn for turn in turns if _scored(turn) < len(turn.response_ids)]
    parts = [[turn] for turn in open_turns if _scored(turn)]
    if fresh := [turn for turn in open_turns if not _scored(turn)]:
        parts.append(fresh)
    return all(await asyncio.gather(*(_ask(episode, part, teacher, tally) for part in parts)))


async def _ask(episode: Episode, turns: Sequence[Turn], teacher: ScoringTeacher, tally: Tally) -> bool:
    """Score turns from their first token without a score on, which is the same one in each."""
    first = _scored(turns[0])
    try:
        answers = await teacher.score(episode, turns, first)
    except TeacherError as error:
        tally.add(f"teacher_failures/{error.reason}")
        return False
    if len(answers) != len(turns):
        raise ValueError(
            f"episode {episode.id}: {len(turns)} turns were to be scored, {len(answers)} scores came"
        )
    for turn, answer in zip(turns, answers, strict=True):
        values = _aligned(episode, turn, answer, first)
        turn.scores[TEACHER] = (*turn.scores.get(TEACHER, ())[:first], *values)
        tally.add("scored_tokens", len(values))
    return True


def _scored(turn: Turn) -> int:
    """Number of leading response tokens that have a score."""
    return len(turn.scores.get(TEACHER, ()))


def _aligned(episode: Episode, turn: Turn, answer: TurnScore, first: int) -> tuple[float, ...]:
    """The log-probs of an answer that is about exactly this turn's tokens from ``first`` on."""
    row, wanted = f"row {episode.id}#{turn.index}", turn.response_ids[first:]
    n = len(wanted)
    if answer.turn != turn.index:
        raise ValueError(f"{row}: the teacher's score is of turn {answer.turn}")
    if answer.logprobs.shape != (n,) or len(answer.token_ids) != n:
        raise ValueError(
            f"{row}: the teacher scored {len(answer.token_ids)} tokens with {answer.logprobs.shape} log-probs, "
            f"its response has {n} tokens to score"
        )
    if answer.start < 1 or answer.token_ids != wanted:
        raise ValueError(
            f"{row}: the tokens that the teacher scored from position {answer.start} are not the response"
        )
    if not np.isfinite(answer.logprobs).all():
        bad = int(np.flatnonzero(~np.isfinite(answer.logprobs))[0])
        raise ValueError(f"{row}: the teacher's log-prob of token {bad} is {answer.logprobs[bad]}")
    return tuple(answer.logprobs.tolist())


async def score_missing(episodes: Sequence[Episode], teachers: Teachers, tally: Tally) -> None:
    """Score every generated turn that has no score yet, each episode once; episodes in parallel.

    Reused turns keep the score they came with, unless their teacher moves with the student.
    """

    async def complete(episode: Episode) -> None:
        teacher = teachers.scoring_for(episode.task)
        for turn in episode.turns:
            if turn.reused and not teacher.frozen:
                turn.scores.pop(TEACHER, None)
        await score_turns(episode, episode.turns, teacher, tally)

    await asyncio.gather(*(complete(episode) for episode in episodes))


def turn_means(episode: Episode) -> list[float | None]:
    """Mean teacher log-prob of each turn's tokens, reused turns included; None for a turn without a score."""
    return [
        float(np.mean(turn.scores[TEACHER]))
        if _scored(turn) and _scored(turn) == len(turn.response_ids)
        else None
        for turn in episode.turns
    ]


def distillation_rows(
    groups: Sequence[Group],
    tally: Tally,
    *,
    coef: float,
    weights: PerTurn | None = None,
    limits: PerTurn | None = None,
    limit_reason: str = "truncated",
) -> list[Row]:
    """Rows of all new turns with ``weight * coef * (log pi_T - log pi_old)`` on every token; no reward enters.

    Args:
        weights: factor for each turn of an episode; None = none.
        limits: trained tokens of turns that are not trained whole; what is cut off is counted as dropped.

    Turns that the teacher could not score are dropped and counted; if that leaves no row, the trainer says so aloud.
    """
    rows = []
    for _, episode in usable_episodes(groups, tally):
        factor = weights(episode) if weights else {}
        limit = limits(episode) if limits else {}
        for turn in episode.new_turns:
            if _scored(turn) < len(turn.response_ids):
                tally.add("dropped_tokens/teacher_failed", len(turn.response_ids))
                continue
            advantages = reverse_kl_advantages(turn.scores[TEACHER], turn.logprobs, coef=coef)
            if turn.index in factor:
                advantages = advantages * factor[turn.index]
            kept = min(len(advantages), int(limit.get(turn.index, len(advantages))))
            tally.add(f"dropped_tokens/{limit_reason}", len(advantages) - kept)
            turn.scores["advantage"] = (*advantages[:kept].tolist(), *[0.0] * (len(advantages) - kept))
            _note(tally, turn, kept)
            if kept:
                rows.append(act_row(episode, turn, advantages, length=kept))
    if not rows and tally.get("dropped_tokens/teacher_failed"):
        tally.add("signal_empty/teacher")
    return rows


def _note(tally: Tally, turn: Turn, kept: int) -> None:
    """How far teacher and student are apart on the trained tokens."""
    if kept:
        teacher, student = np.asarray(turn.scores[TEACHER][:kept]), np.asarray(turn.logprobs[:kept])
        tally.mean("teacher_gap", float(np.mean(teacher - student)), kept)
        tally.mean("teacher_logprob", float(np.mean(teacher)), kept)
