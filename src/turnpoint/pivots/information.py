"""What a remark is worth: its information gain on the right action, turn by turn (PivoARL, 2607.03702, Eq. 10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnpoint.envs import Env, Knowledge
from turnpoint.envs.replay import Replay
from turnpoint.records import Episode, Turn
from turnpoint.rollouts import Scorer

if TYPE_CHECKING:
    from turnpoint.policy import ScoreRequest


@dataclass(frozen=True, slots=True)
class TurnGain:
    """Information gain of an attempt's remarks in one of its turns."""

    episode: str
    turn: int
    gain: float
    """``log pi(a*|s, e) - log pi(a*|s)`` in nats, summed over the tokens of the reply that gives a*."""
    plain: float
    """``log pi(a*|s)``."""
    reused: bool
    """The turn was played before the remark was known."""


@dataclass(frozen=True, slots=True)
class GainsOfTurn:
    """Gains of all attempts in the same turn."""

    turn: int
    mean: float
    above: float
    """Share of gains above the threshold."""
    n: int


def name_best_actions(env: Env, episode: Episode, knowledge: Knowledge = "observed") -> None:
    """Ask the oracle for the best actions before every turn; they are kept as ``Turn.gold_actions``.

    Raises ``EnvError`` without an oracle, ``ReplayMismatch`` if the episode cannot be reproduced.
    """
    replay = Replay(env, episode)
    for turn in episode.turns:
        replay.seek(turn.index)
        turn.gold_actions = tuple(env.best_actions(knowledge))


async def information_gain(episodes: Sequence[Episode], scorer: Scorer) -> list[TurnGain]:
    """IG(e, t) of every turn with a gold action, in attempts that were given remarks.

    a* is the first of ``Turn.gold_actions`` (see ``name_best_actions``), given as a plain reply. The prompts of
    both terms differ in the remarks alone. Turns whose prompt does not fit the model are left out.
    """
    wanted: list[tuple[Episode, Turn]] = []
    requests: list[ScoreRequest] = []
    for episode in episodes:
        for turn in episode.turns if episode.attempt.remarks else ():
            pair = _requests(episode, turn, scorer) if turn.gold_actions else None
            if pair is not None:
                wanted.append((episode, turn))
                requests.extend(pair)
    totals = [float(values.sum()) for values in await scorer.logprobs(requests)]
    return [
        TurnGain(episode.id, turn.index, told - plain, plain, turn.reused)
        for (episode, turn), told, plain in zip(wanted, totals[::2], totals[1::2], strict=True)
    ]


def gains_by_turn(gains: Sequence[TurnGain], threshold: float = 0.0) -> list[GainsOfTurn]:
    """Mean gain and share above ``threshold`` (the paper's delta), by turn."""
    by_turn: dict[int, list[float]] = defaultdict(list)
    for gain in gains:
        by_turn[gain.turn].append(gain.gain)
    return [
        GainsOfTurn(turn, sum(v) / len(v), sum(value > threshold for value in v) / len(v), len(v))
        for turn, v in sorted(by_turn.items())
    ]


def _requests(episode: Episode, turn: Turn, scorer: Scorer) -> tuple[ScoreRequest, ScoreRequest] | None:
    """The reply that gives a*, after the prompt with the remarks and after the one without."""
    prompter, renderer = scorer.prompter, scorer.renderer
    ids = tuple(renderer.tokenizer.encode(prompter.reply(turn.gold_actions[0]), add_special_tokens=False))
    reply = ids if renderer.end_of_turn_id is None else (*ids, renderer.end_of_turn_id)
    before = episode.turns[: turn.index]
    told, plain = (
        scorer.request(prompter.messages(episode.task, before, turn.observation, remarks=remarks), reply)
        for remarks in (episode.attempt.remarks, ())
    )
    return None if told is None or plain is None else (told, plain)
