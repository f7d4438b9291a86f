"""Privileged texts: what a self teacher may read and the student may not, and where it goes in a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from turnpoint.prompts import Prompter
from turnpoint.records import Episode, Group, Message, Turn


@dataclass(frozen=True, slots=True)
class Insertion:
    """Privileged text in a prompt: the messages, and the text as it stands there."""

    messages: tuple[Message, ...]
    text: str


def as_lesson(turn: Turn, lesson: str, prompter: Prompter) -> Insertion:
    """The turn's prompt with ``lesson`` after the task line."""
    text = prompter.lesson_text(lesson)
    return Insertion(prompter.with_lesson(turn.messages, text), text)


def as_hint(turn: Turn, text: str, prompter: Prompter) -> Insertion:
    """The turn's prompt with ``text`` before its last line."""
    return Insertion(prompter.with_hint(turn.messages, text), text)


def sibling_plan(turn: Turn, episode: Episode, group: Group, prompter: Prompter) -> Insertion | None:
    """The actions of another episode of the group that solved the task, if there is one."""
    sibling = solved_sibling(group, episode)
    return None if sibling is None else as_lesson(turn, plan_text(sibling, prompter), prompter)


def solved_sibling(group: Group, episode: Episode) -> Episode | None:
    """Another episode of the group that solved the task: the shortest, of equal ones the first."""
    solved = [e for e in group.episodes if e is not episode and e.success and e.turns]
    return min(solved, key=lambda e: len(e.turns), default=None)


def plan_text(episode: Episode, prompter: Prompter) -> str:
    """The actions that the environment accepted, in order; as a sentence unless the wording is compact."""
    actions = [turn.executed.strip() for turn in episode.turns if turn.valid and turn.effective]
    listed = ", ".join(action for action in actions if action)
    return listed if prompter.settings.compact else f"these actions solved it: {listed}."


def episode_lesson(turn: Turn, episode: Episode, prompter: Prompter) -> Insertion | None:
    """The naming teacher's lesson on the episode, if it gave one."""
    return as_lesson(turn, episode.lesson, prompter) if episode.lesson else None


def gold_hint(turn: Turn, episode: Episode, prompter: Prompter) -> Insertion | None:
    """The gold action of the turn as a hint, if the naming teacher gave one that exists there."""
    action = next((p.resolved for p in episode.pivots if p.turn == turn.index and p.resolved), None)
    return None if action is None else as_hint(turn, prompter.hint_text(action), prompter)


def step_lesson(turn: Turn, episode: Episode, prompter: Prompter) -> Insertion | None:
    """What the naming teacher says about this very turn: its lesson, or else the gold action."""
    note = next((p.note for p in episode.pivots if p.turn == turn.index and p.note), None)
    if note is None:
        return gold_hint(turn, episode, prompter)
    return as_hint(turn, prompter.lesson_text(note), prompter)


def feedback(turn: Turn, episode: Episode, prompter: Prompter) -> Insertion | None:
    """What the environment answered to the turn, if that is on record (feedback as in SDPO, arXiv 2601.20802)."""
    if turn.index + 1 >= len(episode.turns) and episode.final_observation is None:
        return None
    answer = episode.observation_at(turn.index + 1).text.strip()
    if not answer:
        return None
    if prompter.settings.compact:
        return as_hint(turn, prompter.hint_text(answer), prompter)
    text = f"After your reply the environment will answer: {answer}\nNever mention that you know this."
    return as_hint(turn, text, prompter)
