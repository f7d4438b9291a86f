"""The JSON form of an episode.

Long histories are stored once: a turn's prompt is written as the number of leading tokens (and messages) it
shares with what came before, plus the rest. Turns follow each other without gaps, so that only the index of the
first one is written, and only where it is not 0 (a branch starts after its parent's turns).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnpoint.records.episode import Attempt, Episode, EpisodeKind, Fork, Pivot, Reflection, StopReason, Turn
from turnpoint.records.task import Message, Observation, Task

EPISODE_VERSION = 1


class RecordError(ValueError):
    """Data that is not an episode; the message has the reason, and file and line number where there are any."""


def _drop_empty(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value not in (None, "", (), [], {})}


def _shared(new: tuple[Any, ...], old: tuple[Any, ...]) -> int:
    """Length of the common prefix; the whole of ``old`` is compared at once first, as that is the usual case."""
    if new[: len(old)] == old:
        return len(old)
    count = 0
    for a, b in zip(new, old, strict=False):
        if a != b:
            break
        count += 1
    return count


_Types = Mapping[str, type | tuple[type, ...]]
_NUMBER = (int, float)
_EPISODE: _Types = {
    "id": str, "success": bool, "step": int, "distances_known": bool, "final_distance": _NUMBER, "seconds": _NUMBER,
    "score": _NUMBER, "lesson": str, "summary": str, "error": str, "info": dict,
}  # fmt: skip
_TASK = {"id": str, "env": str, "instruction": str, "type": str, "domain": str, "seed": int, "data": dict}
_TURN: _Types = {"response": str, "action": str, "executed": str, "hint": str, "distance": _NUMBER}
_OBSERVATION = {"text": str, "state_key": str}
_MESSAGE = {"role": str, "content": str}
_REFLECTION: _Types = {"response": str, "pivot": int, "remark": str, "valid": bool}
_ATTEMPT = {"index": int, "chain": str}
_PIVOT: _Types = {
    "turn": int, "source": str, "gold_action": str, "resolved": str, "score": _NUMBER, "note": str,
}  # fmt: skip


def _typed(data: dict[str, Any], types: _Types, where: str = "") -> dict[str, Any]:
    """``data`` without what is null. Raises ``ValueError`` for another type: figures and pages rely on these."""
    for name, allowed in types.items():
        value = data.get(name)
        # True is an int to Python and no number to a reader.
        if value is not None and (
            isinstance(value, bool) is not (allowed is bool) or not isinstance(value, allowed)
        ):
            raise ValueError(f"{where}{name} is {value!r:.60}, of type {type(value).__name__}")
    return {name: value for name, value in data.items() if value is not None}


def _floats(data: dict[str, Any], name: str, where: str) -> tuple[float, ...]:
    values = tuple(data.get(name, ()))
    if not {*map(type, values)} <= {int, float}:
        raise ValueError(f"{where}{name} holds what is no number")
    return values


def _message_to_dict(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.token_ids is not None:
        data["token_ids"] = list(message.token_ids)
    return data


def _message_from_dict(data: dict[str, Any]) -> Message:
    data = _typed(data, _MESSAGE, "message.")
    ids = data.get("token_ids")
    return Message(data["role"], data["content"], None if ids is None else tuple(ids))


def _observation_to_dict(observation: Observation) -> dict[str, Any]:
    data: dict[str, Any] = {"text": observation.text}
    if observation.admissible is not None:
        data["admissible"] = list(observation.admissible)
    if observation.state_key is not None:
        data["state_key"] = observation.state_key
    return data


def _observation_from_dict(data: dict[str, Any]) -> Observation:
    data = _typed(data, _OBSERVATION, "observation.")
    admissible = data.get("admissible")
    return Observation(data["text"], None if admissible is None else tuple(admissible), data.get("state_key"))


def _turn_to_dict(turn: Turn, tokens: tuple[int, ...], messages: tuple[Message, ...]) -> dict[str, Any]:
    same_tokens, same_messages = _shared(turn.prompt_ids, tokens), _shared(turn.messages, messages)
    return _drop_empty(
        {
            "observation": _observation_to_dict(turn.observation),
            "messages": {
                "shared": same_messages,
                "new": [_message_to_dict(message) for message in turn.messages[same_messages:]],
            },
            "prompt": {"shared": same_tokens, "new": list(turn.prompt_ids[same_tokens:])},
            "response_ids": list(turn.response_ids),
            "logprobs": list(turn.logprobs),
            "response": turn.response,
            "truncated": turn.truncated or None,
            "action": turn.action,
            "executed": turn.executed,
            "effective": None if turn.effective else False,
            "reward": turn.reward or None,
            "done": turn.done or None,
            "hint": turn.hint,
            "reused": turn.reused or None,
            "distance": turn.distance,
            "gold_actions": list(turn.gold_actions),
            "scores": {name: list(values) for name, values in turn.scores.items()},
        }
    ) | ({"action": ""} if turn.action == "" else {})


def _turn_from_dict(
    data: dict[str, Any], index: int, tokens: tuple[int, ...], messages: tuple[Message, ...]
) -> Turn:
    where = f"turn {index}: "
    data = _typed(data, _TURN, where)
    scores = data.get("scores", {})
    prompt, chat = data.get("prompt", {}), data.get("messages", {})
    turn = Turn(
        index=index,
        observation=_observation_from_dict(data["observation"]),
        messages=messages[: chat.get("shared", 0)]
        + tuple(_message_from_dict(m) for m in chat.get("new", ())),
        prompt_ids=tokens[: prompt.get("shared", 0)] + tuple(prompt.get("new", ())),
        response_ids=tuple(data.get("response_ids", ())),
        logprobs=_floats(data, "logprobs", where),
        response=data.get("response", ""),
        truncated=data.get("truncated", False),
        action=data.get("action"),
        executed=data.get("executed", ""),
        effective=data.get("effective", True),
        reward=float(data.get("reward", 0.0)),
        done=data.get("done", False),
        hint=data.get("hint"),
        reused=data.get("reused", False),
        distance=data.get("distance"),
        gold_actions=tuple(data.get("gold_actions", ())),
        scores={name: _floats(scores, name, where) for name in scores},
    )
    if turn.logprobs and len(turn.logprobs) != len(turn.response_ids):
        raise ValueError(
            f"turn {index} has {len(turn.logprobs)} log-probs for {len(turn.response_ids)} response tokens"
        )
    return turn


def _reflection_to_dict(reflection: Reflection) -> dict[str, Any]:
    return _drop_empty(
        {
            "messages": [_message_to_dict(message) for message in reflection.messages],
            "prompt_ids": list(reflection.prompt_ids),
            "response_ids": list(reflection.response_ids),
            "logprobs": list(reflection.logprobs),
            "response": reflection.response,
            "truncated": reflection.truncated or None,
            "pivot": reflection.pivot,
            "remark": reflection.remark,
            "scores": {name: list(values) for name, values in reflection.scores.items()},
        }
    ) | {"valid": reflection.valid}


def _reflection_from_dict(data: dict[str, Any]) -> Reflection:
    where = "reflection."
    data = _typed(data, _REFLECTION, where)
    scores = data.get("scores", {})
    return Reflection(
        messages=tuple(_message_from_dict(message) for message in data.get("messages", ())),
        prompt_ids=tuple(data.get("prompt_ids", ())),
        response_ids=tuple(data.get("response_ids", ())),
        logprobs=_floats(data, "logprobs", where),
        response=data.get("response", ""),
        truncated=data.get("truncated", False),
        pivot=data.get("pivot"),
        remark=data.get("remark", ""),
        valid=data["valid"],
        scores={name: _floats(scores, name, where) for name in scores},
    )


def episode_to_dict(episode: Episode) -> dict[str, Any]:
    """The JSON form of an episode; snapshots stay behind."""
    turns, tokens, messages = [], (), ()
    tokens_so_far: tuple[int, ...] = tokens
    messages_so_far: tuple[Message, ...] = messages
    for turn in episode.turns:
        turns.append(_turn_to_dict(turn, tokens_so_far, messages_so_far))
        tokens_so_far, messages_so_far = turn.prompt_ids + turn.response_ids, turn.messages
    task = episode.task
    fork, attempt = episode.forked_from, episode.attempt
    return {"version": EPISODE_VERSION, "id": episode.id} | _drop_empty(
        {
            "task": {"id": task.id, "env": task.env}
            | _drop_empty(
                {
                    "instruction": task.instruction,
                    "type": task.type,
                    "domain": task.domain,
                    "seed": task.seed or None,
                    "data": dict(task.data),
                }
            ),
            "kind": episode.kind.value,
            "stop": episode.stop.value if episode.stop else None,
            "success": episode.success,
            "score": episode.score,
            "step": episode.step or None,
            "forked_from": {"episode": fork.episode, "turn": fork.turn} if fork else None,
            "attempt": _drop_empty(
                {"index": attempt.index or None, "remarks": list(attempt.remarks), "chain": attempt.chain}
            ),
            "first_turn": episode.turns[0].index or None if episode.turns else None,
            "turns": turns,
            "final_observation": _observation_to_dict(episode.final_observation)
            if episode.final_observation
            else None,
            "final_distance": episode.final_distance,
            "distances_known": episode.distances_known or None,
            "pivots": [
                {"turn": p.turn, "source": p.source}
                | _drop_empty(
                    {"gold_action": p.gold_action, "resolved": p.resolved, "score": p.score, "note": p.note}
                )
                for p in episode.pivots
            ],
            "reflection": _reflection_to_dict(episode.reflection) if episode.reflection else None,
            "lesson": episode.lesson,
            "summary": episode.summary,
            "error": episode.error,
            "seconds": round(episode.seconds, 4) or None,
            "info": episode.info,
        }
    )


def episode_from_dict(data: dict[str, Any]) -> Episode:
    """Inverse of ``episode_to_dict``. Raises ``RecordError`` naming what is missing or wrong."""
    version = data.get("version") if isinstance(data, dict) else None
    if version is None:
        raise RecordError(
            "no episode record (it has no version); trajectories of other tools are read by turnpoint diagnose, "
            "analyse, inspect, sft and export"
        )
    if version != EPISODE_VERSION:
        raise RecordError(
            f"episode record version {version!r} cannot be read; this release reads version {EPISODE_VERSION}"
        )
    try:
        return _episode_from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RecordError(f"episode {data.get('id', '?')}: {detail}") from error


def _episode_from_dict(data: dict[str, Any]) -> Episode:
    data = _typed(data, _EPISODE)
    task, fork = _typed(data["task"], _TASK, "task."), data.get("forked_from")
    attempt = _typed(data.get("attempt", {}), _ATTEMPT, "attempt.")
    turns: list[Turn] = []
    tokens: tuple[int, ...] = ()
    messages: tuple[Message, ...] = ()
    for index, item in enumerate(data.get("turns", ()), start=data.get("first_turn", 0)):
        turn = _turn_from_dict(item, index, tokens, messages)
        turns.append(turn)
        tokens, messages = turn.prompt_ids + turn.response_ids, turn.messages
    final = data.get("final_observation")
    return Episode(
        id=data["id"],
        task=Task(
            id=task["id"],
            env=task["env"],
            instruction=task.get("instruction", ""),
            type=task.get("type", ""),
            domain=task.get("domain", ""),
            seed=task.get("seed", 0),
            data=task.get("data", {}),
        ),
        turns=turns,
        stop=StopReason(data["stop"]) if data.get("stop") else None,
        success=data.get("success"),
        score=data.get("score"),
        kind=EpisodeKind(data.get("kind", "rollout")),
        forked_from=Fork(fork["episode"], fork["turn"]) if fork else None,
        attempt=Attempt(attempt.get("index", 0), tuple(attempt.get("remarks", ())), attempt.get("chain", "")),
        final_observation=_observation_from_dict(final) if final else None,
        final_distance=data.get("final_distance"),
        distances_known=data.get("distances_known", False),
        pivots=[
            Pivot(
                p["turn"],
                p["source"],
                p.get("gold_action"),
                p.get("resolved"),
                p.get("score"),
                p.get("note", ""),
            )
            for p in (_typed(p, _PIVOT, "pivot.") for p in data.get("pivots", ()))
        ],
        reflection=_reflection_from_dict(data["reflection"]) if data.get("reflection") else None,
        lesson=data.get("lesson"),
        summary=data.get("summary", ""),
        error=data.get("error", ""),
        step=data.get("step", 0),
        seconds=data.get("seconds", 0.0),
        info=data.get("info", {}),
    )
