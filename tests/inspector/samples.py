"""Synthetic run folders, written through the real writers."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnpoint.pivots import summarise
from turnpoint.records import (
    Attempt,
    Episode,
    EpisodeKind,
    EpisodeWriter,
    Fork,
    Message,
    Observation,
    Pivot,
    Reflection,
    StopReason,
    Task,
    Turn,
)
from turnpoint.training.metrics import MetricsLog

ROOMS = ("kitchen", "hall", "cellar", "attic")
THINGS = ("lamp", "mug", "apple", "key", "book")
TYPES = ("pick_and_place", "pick_heat_then_place", "look_at_obj")
PROMPT = "You are in a household and solve a task there. Choose one of the admissible actions."


def make_turn(
    rng: random.Random, index: int, history: list[Message], *, advantage: float | None, invalid: bool = False
) -> Turn:
    """A turn with prompt, tokens and, if ``advantage`` is given, per-token signals."""
    thing, room = rng.choice(THINGS), rng.choice(ROOMS)
    admissible = tuple(f"take {t}" for t in THINGS) + tuple(f"go to {r}" for r in ROOMS)
    observation = Observation(
        f"You are in the {room}. You see a {thing} and a closed box.", admissible, f"{room}/{thing}"
    )
    action = None if invalid else rng.choice(admissible)
    response = (
        "I cannot decide what to do." if action is None else f"I should look. <action>{action}</action>"
    )
    history.append(Message("user", observation.text))
    ids = (*tuple(ord(c) for c in response), 3)
    turn = Turn(
        index=index,
        observation=observation,
        messages=tuple(history),
        prompt_ids=tuple(ord(c) for m in history for c in m.content),
        response_ids=ids,
        logprobs=tuple(round(-abs(rng.gauss(0, 1)), 4) for _ in ids),
        response=response,
        action=action,
        executed=action or "",
        effective=action is not None,
    )
    history.append(Message("assistant", response, ids))
    if advantage is not None:
        preventive = tuple(round(rng.gauss(0, 0.3), 4) for _ in ids)
        turn.scores["preventive"] = preventive
        turn.scores["advantage"] = tuple(advantage + p for p in preventive)
    return turn


def make_episode(
    rng: random.Random,
    name: str,
    *,
    task: int = 0,
    step: int = 0,
    turns: int = 12,
    skill: float = 0.5,
    train: bool = False,
    text: str = "",
) -> Episode:
    """An episode whose distance walks down with probability ``skill``; training ones carry advantages."""
    kind = TYPES[task % len(TYPES)]
    episode = Episode(
        id=name,
        task=Task(
            f"task-{task}",
            "household",
            f"Put the {THINGS[task % 5]} into the {ROOMS[task % 4]}. {text}",
            kind,
        ),
        step=step,
        distances_known=True,
        seconds=rng.random(),
    )
    history = [Message("system", PROMPT), Message("user", f"Your task: {episode.task.instruction}")]
    distance: int | None = rng.randint(3, 7)
    for index in range(turns):
        good = rng.random() < skill
        invalid = rng.random() < 0.04
        turn = make_turn(
            rng, index, history, advantage=rng.choice((-0.8, 0.4)) if train else None, invalid=invalid
        )
        turn.distance = distance
        turn.gold_actions = ("open box", "take lamp")
        episode.turns.append(turn)
        if distance is not None:
            move = -1 if good else rng.choice((0, 1, 1))
            if not good and not invalid and rng.random() < 0.03:
                distance = None
                continue
            if move > 0 and train and len(episode.pivots) < 3:
                episode.pivots.append(
                    Pivot(index, "teacher", "open the box", "open box", note="look inside first")
                )
            distance = max(0, distance + move)
            if distance == 0:
                turn.done, turn.reward = True, 1.0
                break
    episode.success = distance == 0
    episode.stop = StopReason.SUCCESS if episode.success else StopReason.MAX_TURNS
    episode.final_distance = distance
    episode.final_observation = Observation("The lamp is on." if episode.success else "Nothing happens.")
    if train:
        episode.lesson = "Open closed things before you leave a room."
        episode.summary = "The agent walked past the box."
    return episode


def make_branch(rng: random.Random, parent: Episode, turn: int) -> Episode:
    """A recovery branch of two hinted turns after ``turn``."""
    branch = Episode(
        id=f"{parent.id}/recovery-{turn}",
        task=parent.task,
        kind=EpisodeKind.RECOVERY,
        forked_from=Fork(parent.id, turn + 1),
        stop=StopReason.BRANCH_END,
        step=parent.step,
    )
    history = list(parent.turns[turn].messages)
    for index in range(2):
        made = make_turn(rng, index, history, advantage=1.5)
        made.hint = "Hint: the best next action is: open box"
        made.gold_actions = ("open box",)
        branch.turns.append(made)
    return branch


def make_retry(rng: random.Random, first: Episode, turn: int) -> Episode:
    """The next attempt of a chain: turns before ``turn`` are reused, the first attempt gets a reflection."""
    response = f"Turn {turn} was wrong."
    first.attempt = Attempt(0, (), first.id)
    first.reflection = Reflection(
        response=response,
        response_ids=tuple(ord(c) for c in response),
        pivot=turn,
        remark="Look into the box.",
        valid=True,
        scores={"advantage": (0.5,) * len(response)},
    )
    retry = make_episode(rng, f"{first.id}/a1", turns=turn + 3, skill=0.9, train=True)
    retry.task, retry.step = first.task, first.step
    retry.forked_from, retry.attempt = Fork(first.id, turn), Attempt(1, ("Look into the box.",), first.id)
    retry.turns[:turn] = [replace(old, reused=True, scores={}) for old in first.turns[:turn]]
    return retry


def write_episodes(path: Path, episodes: list[Episode]) -> None:
    with EpisodeWriter(path) as writer:
        for episode in episodes:
            writer.write(episode)


def write_run(
    folder: Path,
    *,
    steps: int = 10,
    eval_every: int = 5,
    tasks: int = 4,
    group: int = 4,
    eval_tasks: int = 40,
) -> Path:
    """A run folder as training leaves it: the agent gets better from step to step."""
    rng = random.Random(7)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "header.json").write_text(json.dumps(HEADER))
    log = MetricsLog(folder / "metrics.jsonl")

    def evaluate(step: int) -> None:
        skill = 0.45 + 0.35 * step / max(1, steps)
        episodes = [
            make_episode(rng, f"eval/{step}/{i}", task=i, step=step, skill=skill) for i in range(eval_tasks)
        ]
        write_episodes(folder / "eval" / f"step_{step:06d}.jsonl", episodes)
        log.write(step, "eval", summarise(episodes).as_dict() | {"seconds": 3.0})

    evaluate(0)
    for step in range(1, steps + 1):
        skill = 0.45 + 0.35 * step / steps
        episodes: list[Episode] = []
        for task in range(tasks):
            for sample in range(group):
                name = f"s{step}/t{task}/e{sample}"
                episode = make_episode(rng, name, task=task, step=step, skill=skill, train=True)
                episodes.append(episode)
                episodes += [
                    make_branch(rng, episode, p.turn)
                    for p in episode.pivots[:2]
                    if p.turn + 1 < len(episode.turns)
                ]
        write_episodes(folder / "episodes" / f"step_{step:06d}.jsonl", episodes)
        log.write(step, "train", step_metrics(rng, episodes))
        if step % eval_every == 0 or step == steps:
            evaluate(step)
    log.close()
    return folder


def step_metrics(rng: random.Random, episodes: list[Episode]) -> dict[str, Any]:
    rollouts = [e for e in episodes if e.kind is EpisodeKind.ROLLOUT]
    turns = [t for e in rollouts for t in e.turns]
    stops = {str(r): n for r in StopReason if (n := sum(e.stop is r for e in rollouts))}
    branches = len(episodes) - len(rollouts)
    return {
        "episodes": len(rollouts),
        "success": sum(bool(e.success) for e in rollouts) / len(rollouts),
        "reward": sum(e.total_reward for e in rollouts) / len(rollouts),
        "turns": len(turns) / len(rollouts),
        "interactions": len(turns),
        "invalid": sum(not t.valid for t in turns) / len(turns),
        "truncated": 0.0,
        "stops": stops,
        "sampled_tokens": sum(len(t.response_ids) for t in turns),
        "rows": len(turns),
        "pivots_named": branches + 2,
        "pivots_used": branches,
        "pivots_skipped/unresolved": 2.0,
        "recovery_jobs": branches,
        "recovery_ended/complete": branches,
        "recovery_tokens": 90.0,
        "dropped_tokens/recovery": 12.0,
        "teacher_failures/time_out": 1.0,
        "update/grad_norm": rng.random(),
        "seconds": 4.0 + rng.random(),
        "seconds_collect": 2.0 + rng.random(),
        "seconds_credit": 0.5,
        "seconds_update": 1.0,
    }


CONFIG = """name: sample
seed: 3
method: {kind: pivotopd, group: 4}
env: {kind: household, games: generated}
policy: {kind: small}
teacher: {kind: oracle}
train: {steps: 10, tasks_per_step: 4}
"""
HEADER = {
    "turnpoint": "0.1.0",
    "python": "3.11.2",
    "packages": {"torch": "2.13.0", "numpy": "2.0"},
    "env": {"env": "household", "tasks": {"train": 100, "valid": 40}, "sha256": "ab" * 32},
    "seed": 3,
}


def write_many(path: Path, count: int) -> None:
    """Many small episodes: enough to draw a strip and open a turn, without prompts and with few tokens."""
    rng = random.Random(5)
    patterns = [
        make_episode(rng, "pattern", task=i, turns=rng.randint(4, 40), train=True) for i in range(200)
    ]
    for episode in patterns:
        for turn in episode.turns:
            turn.messages, turn.prompt_ids = (), ()
            turn.response_ids, turn.logprobs = turn.response_ids[:8], turn.logprobs[:8]
            turn.scores = {name: values[:8] for name, values in turn.scores.items()}
    with EpisodeWriter(path) as writer:
        for number in range(count):
            episode = patterns[rng.randrange(len(patterns))]
            episode.id, episode.step = f"e{number}", 1 + number // 500
            writer.write(episode)
