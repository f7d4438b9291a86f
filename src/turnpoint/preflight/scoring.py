"""Checks of scoring teachers: their tokenizer, where their scores lie, and whether they repeat themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from turnpoint.config import ConfigError
from turnpoint.policy.protocol import Floats
from turnpoint.preflight.bench import Bench, alone
from turnpoint.preflight.report import Doubt, Fault, NotApplicable
from turnpoint.preflight.stand_ins import Remembering, StudentScores
from turnpoint.records import Episode, Turn
from turnpoint.teachers.protocol import ScoringTeacher, TeacherError, TurnScore
from turnpoint.teachers.scoring.counters import as_passages, as_scores
from turnpoint.training.run import add_scoring

LOCAL_NOISE, REMOTE_NOISE = 1e-3, 0.1
"""Differences in nats between two answers about the same tokens: of one process, and of servers in low precision."""
_TRIED = 4


async def fit(bench: Bench) -> str:
    """Teachers can be built, read the student's tokens, and are what the method needs."""
    run = bench.run
    if run.config.scoring and not run.config.method.asks_scoring:
        raise Fault(
            f"scoring is set, but method '{run.config.method.kind}' with these settings asks no scoring teacher, so "
            "its signal reaches nothing; remove scoring, or choose a method that distils from one"
        )
    add_scoring(run)
    run.config.method.check(run.suite.capabilities, run.teachers)
    bench.remember_scores()
    if not run.teachers.scoring:
        raise NotApplicable("no scoring teacher is set, and the method needs none")
    return f"{_names(bench)}: tokenizer equal to the student's"


async def answers(bench: Bench) -> str:
    """Teachers answer; an endpoint returns log-probs of prompt tokens."""
    named = bench.run.teachers.named()
    if not named:
        raise NotApplicable("no teacher is set")
    told = []
    for name, teacher in named.items():
        await teacher.check()
        notes = getattr(_real(teacher), "notes", None)
        told.append(f"{name}: {'; '.join(notes or ['ready'])}")
    return "; ".join(told)


def _names(bench: Bench) -> str:
    return ", ".join(name for name in bench.run.teachers.named() if name.startswith("scoring"))


def _cases(bench: Bench) -> Iterator[tuple[str, ScoringTeacher, Episode, list[Turn], float]]:
    """Each scoring teacher with an episode that it would score."""
    found = dict[str, tuple[ScoringTeacher, Episode, list[Turn]]]()
    scoring = bench.run.teachers.scoring
    if not scoring:
        raise NotApplicable("no scoring teacher is set")
    for episode, _ in bench.need_turns():
        turns = [turn for turn in episode.new_turns if turn.response_ids and turn.hint is None]
        domain = episode.task.domain if episode.task.domain in scoring else ""
        if turns and domain not in found and domain in scoring:
            found[domain] = (_real(scoring[domain]), episode, turns)
    for domain, (teacher, episode, turns) in found.items():
        noise = REMOTE_NOISE if teacher.remote else max(LOCAL_NOISE, bench.tolerance)
        yield f"scoring.{domain}" if domain else "scoring", teacher, episode, turns, noise


def _real(teacher: Any) -> Any:
    return teacher.teacher if isinstance(teacher, Remembering) else teacher


async def positions(bench: Bench) -> str:
    """Another last token changes its own score and no other: scores lie where their tokens lie."""
    told = []
    for name, teacher, episode, turns, noise in _cases(bench):
        turn = max(turns[:_TRIED], key=lambda turn: len(turn.response_ids))
        base = await _one(teacher, episode, turn)
        if not teacher.frozen and np.array_equal(base, turn.logprobs):
            told.append(f"{name}: nothing to say about task {episode.task.id}")
            continue
        first = await _one(teacher, episode, replace(turn, response_ids=turn.response_ids[:1]))
        earlier, last = 0.0, 0.0
        for token in _others(bench, turn):
            moved = await _one(teacher, episode, replace(turn, response_ids=(*turn.response_ids[:-1], token)))
            gaps = np.abs(moved - base)
            earlier, last = max(earlier, float(gaps[:-1].max(initial=0.0))), max(last, float(gaps[-1]))
        shifted = max(earlier, abs(float(first[0] - base[0])))
        if shifted > noise or last <= min(noise, 1e-6):
            raise Fault(
                f"{name}: the teacher's scores do not lie where their tokens lie (another last token changed earlier "
                f"scores by {shifted:.2g} nats and its own by {last:.2g}): they are shifted; mend the teacher: entry i "
                "is the log-prob of response token i given all before it"
            )
        told.append(f"{name}: own score moved by {last:.2g}, others by {shifted:.2g} nats")
    return "; ".join(told) or "no turn could be scored"


async def _one(teacher: ScoringTeacher, episode: Episode, turn: Turn) -> Floats:
    """Scores of one turn, which must be about exactly its tokens."""
    padded = replace(
        turn, logprobs=(*turn.logprobs, *[0.0] * len(turn.response_ids))[: len(turn.response_ids)]
    )
    (answer,) = await teacher.score(alone(episode, [padded], "probe"), [padded])
    if answer.token_ids != turn.response_ids or answer.logprobs.shape != (len(turn.response_ids),):
        raise Fault(
            f"the teacher scored {len(answer.token_ids)} tokens, the response has {len(turn.response_ids)}; "
            "it must give one log-prob for each response token"
        )
    return answer.logprobs


def _others(bench: Bench, turn: Turn) -> list[int]:
    """Other last tokens, known to the tokenizer: those of the prompt."""
    known = [token for token in dict.fromkeys(turn.prompt_ids) if token != turn.response_ids[-1]]
    return known[:: max(1, len(known) // _TRIED)][:_TRIED]


async def repeatable(bench: Bench) -> str:
    """Scored turn by turn while it is played, an episode has the scores it has at once afterwards."""
    told = []
    for name, teacher, episode, turns, noise in _cases(bench):
        if not teacher.frozen:
            told.append(f"{name}: moves with the student")
            continue
        largest = 0.0
        single = [
            (await teacher.score(alone(episode, turns[: i + 1], "turns", open_=True), [turn]))[0]
            for i, turn in enumerate(turns)
        ]
        whole = await teacher.score(alone(episode, turns, "whole"), turns)
        await teacher.score(alone(episode, turns[-1:], "turns"), turns[-1:])  # ends the cached session
        largest = _gap(single, whole)
        if largest > noise:
            raise Fault(
                f"{name}: scores of an episode scored turn by turn and at once differ by up to {largest:.2g} nats "
                f"(allowed {noise:g}): the teacher's answers depend on how it is asked; serve it without prefix "
                "caching or with a wider data type"
            )
        told.append(f"{name}: turn by turn and at once differ by {largest:.2g} nats")
    return "; ".join(told) or "no turn could be scored"


def _gap(a: list[TurnScore], b: list[TurnScore]) -> float:
    return max(float(np.abs(x.logprobs - y.logprobs).max()) for x, y in zip(a, b, strict=True))


async def fresh_scorer(bench: Bench) -> str:
    """An endpoint whose weights are at hand says what these say; a teacher of the student's weights says 0."""
    told = []
    for name, teacher, episode, turns, noise in _cases(bench):
        folder = _weights(bench, name)
        if folder is None:
            told.append(
                f"{name}: its weights are not at hand (set {name}.tokenizer to the folder of its model)"
            )
            continue
        given = await teacher.score(alone(episode, turns, "given"), turns)
        wanted = await _fresh(bench, folder, episode, turns)
        largest = _gap(given, wanted)
        if largest > noise:
            raise Fault(
                f"{name}: scores differ from those of a fresh scorer over {folder} by up to {largest:.2g} nats "
                f"(allowed {noise:g}): it serves other weights, another temperature or shifted positions; serve the "
                "very model of that folder at temperature 1"
            )
        told.append(f"{name}: a fresh scorer over {folder} differs by {largest:.2g} nats")
    if all("not at hand" in text for text in told):
        raise NotApplicable("; ".join(told) or "no turn could be scored")
    return "; ".join(told)


def _weights(bench: Bench, name: str) -> Path | None:
    """The folder that holds the weights of a teacher, where its settings name one."""
    settings = bench.run.config.scoring[name.partition(".")[2] or "default"]
    given: Any = (
        getattr(settings, "model", None) if settings.kind == "local" else getattr(settings, "tokenizer", None)
    )
    folder = Path(given) if given else None
    return folder if folder is not None and any(folder.glob("*.safetensors")) else None


async def _fresh(bench: Bench, folder: Path, episode: Episode, turns: list[Turn]) -> list[TurnScore]:
    policy = bench.run.config.policy
    if Path(getattr(policy, "model", "")) == folder and getattr(policy, "temperature", 1.0) == 1.0:
        return await StudentScores(bench.run.policy).score(alone(episode, turns, "fresh"), turns)
    from turnpoint.policy.local.frozen import FrozenModel

    model = FrozenModel(folder, section="scoring", device=getattr(policy, "device", "auto"))
    passages = as_passages(turns, 0)
    return as_scores(turns, passages, model.score(passages))


async def zero(bench: Bench) -> str:
    """With the student as its own teacher a method of pure distillation has no advantage anywhere."""
    run = bench.run
    if not run.config.method.asks_scoring:
        raise NotApplicable("the method asks no scoring teacher")
    if any("outcome" in term for term in run.config.method.terms):
        raise NotApplicable("the method's advantages have an outcome in them, too")
    bench.need_turns()
    own = StudentScores(run.policy)
    teachers = replace(run.teachers, scoring=dict.fromkeys(run.teachers.scoring, own))
    try:
        step = await bench.play(run.config.method.build(), teachers)
    except (ConfigError, TeacherError) as error:
        raise Doubt(f"the method could not be run with the student as teacher: {error}") from error
    largest = max((float(np.abs(row.advantages).max()) for row in step.rows), default=0.0)
    allowed = bench.tolerance * max(1.0, float(getattr(run.config.method, "coef", 1.0)))
    if largest > allowed:
        raise Fault(
            f"with the student as its own teacher the method's largest advantage is {largest:.2g}, not 0 (allowed "
            f"{allowed:g}); mend credit(): the advantage of a token is teacher log-prob minus old log-prob at the same "
            "position"
        )
    return f"with the student as teacher the largest advantage is {largest:.2g} over {len(step.rows)} rows"
