"""What the policy is asked after a failed attempt, and how its answer is read (PivoARL, arXiv 2607.03702, section 3).

The answer names the *pivot* ``k``, the earliest wrong turn, from which the next attempt is played on, and a
*remark* for that attempt. Reading is strict: a policy that is rewarded for its reflections must not profit from
an answer that can be read in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnpoint.prompts.analysis import transcript
from turnpoint.prompts.hints import REMARK_LIMIT
from turnpoint.prompts.reply import drop_reasoning
from turnpoint.records import Episode, Message, Turn

if TYPE_CHECKING:
    from turnpoint.prompts.prompter import Prompter

_TURN = re.compile(r"[0-9]{1,9}")
_TAGS = {name: re.compile(f"<(/?){name}>", re.IGNORECASE) for name in ("pivot", "remark")}
_COMPACT_TURNS = 51

COMPACT_VOCABULARY = (
    "Failed. Reflect: Remark: <pivot> </pivot> <remark> </remark> ",
    " ".join(f"{turn}:" for turn in range(_COMPACT_TURNS)),
)
"""Every word the compact wording adds to what the environment and its prompts show, for up to 51 turns."""


@dataclass(frozen=True, slots=True)
class ReflectionReply:
    """What could be read from a reflection."""

    pivot: int | None = None
    """0-based turn, one of the attempt's; None = full restart."""
    remark: str = ""
    """At most 2,000 characters; empty if there was none."""
    valid: bool = False
    """Everything that was asked for is there; only then does the reflection earn a return."""


def parse_reflection(
    text: str, n_turns: int, *, truncated: bool = False, pivot: bool = True
) -> ReflectionReply:
    """Read a reflection on an attempt of ``n_turns`` turns; never raises, linear in the length of ``text``.

    Of several ``<pivot>`` (or ``<remark>``) pairs outside the reasoning the last one counts. A pivot that is
    no integer in ``0..n_turns-1`` is none, even if an earlier pair held one. A remark is cut at 2,000
    characters. Nothing is read from a truncated reflection. Without ``pivot`` only a remark is asked for.
    """
    if truncated:
        return ReflectionReply()
    answer = drop_reasoning(text)
    named = _last_block(answer, "pivot") if pivot else None
    turn = int(named) if named is not None and _TURN.fullmatch(named) else None
    if turn is not None and turn >= n_turns:
        turn = None
    remark = (_last_block(answer, "remark") or "")[:REMARK_LIMIT].rstrip()
    return ReflectionReply(turn, remark, valid=bool(remark) and (turn is not None or not pivot))


def reflection_reply(pivot: int | None, remark: str) -> str:
    """The answer that ``parse_reflection`` reads back as ``pivot`` (None = not asked for) and ``remark``."""
    named = "" if pivot is None else f"<pivot>{pivot}</pivot>\n"
    return f"{named}<remark>{remark}</remark>"


def reflection_messages(
    prompter: Prompter, episode: Episode, *, pivot: bool = True, standalone: bool = False
) -> tuple[Message, ...]:
    """Ask the policy for a reflection on its failed ``episode``, which has at least one turn.

    With chat history the question is one more user message of the attempt's conversation, so its prompt
    extends the attempt's tokens. With a window, or if ``standalone``, it is a message of its own that shows the
    whole trajectory without admissible actions, and so is shorter than the conversation. Without ``pivot`` only
    a remark is asked for (full restarts). Raises ``ValueError`` for no turn.
    """
    if not episode.turns:
        raise ValueError(f"episode {episode.id} has no turn to reflect on")
    remarks = episode.attempt.remarks
    compact, last = prompter.settings.compact, episode.turns[-1]
    shown = episode.final_observation.text.strip() if episode.final_observation is not None else ""
    ask = _compact_ask(pivot) if compact else _full_ask(prompter, len(episode.turns), pivot)
    if prompter.settings.history == "chat" and not standalone:
        asked = prompter.messages(episode.task, episode.turns[:-1], last.observation, remarks=remarks)
        content = last.response or prompter.reply(last.executed)
        answered = Message("assistant", content, last.response_ids or None)
        parts = [shown, _outcome(episode, compact), _actions(episode.turns, compact), ask]
        return (*asked, answered, Message("user", _joined(parts, compact)))
    opening = [prompter.style.opening(prompter.instructions, episode.task.instruction)]
    opening += [prompter.style.remark(remark, number) for number, remark in enumerate(remarks, start=1)]
    trajectory = _compact_transcript(episode.turns) if compact else transcript(episode.turns)
    final = f"{'Now:' if compact else 'Observation after the last turn:'} {shown}" if shown else ""
    parts = ["\n".join(opening), trajectory, final, _outcome(episode, compact), ask]
    system = prompter.settings.system
    head = (Message("system", system),) if system is not None else ()
    return (*head, Message("user", _joined(parts, compact)))


def _full_ask(prompter: Prompter, turns: int, pivot: bool) -> str:
    lines = []
    if pivot:
        lines += [
            "Look back and find the earliest turn that went wrong: the first one whose action should have been "
            f"another, given what was known then. Turns are numbered 0 to {turns - 1}. You will go on from the "
            "state before that turn: turns before it are kept, it and all later ones are played again.",
            "Then leave a remark for that attempt: what went wrong, and what to do instead.",
        ]
    else:
        lines.append(
            "You will try this task again from its beginning. Look back and leave a remark for that attempt: "
            "what went wrong, and what to do instead."
        )
    lines.append(f"The remark may have up to {REMARK_LIMIT:,} characters; it is all that you will remember.")
    if prompter.settings.reasoning:
        lines.append("Reason inside <think> </think> tags first.")
    form = reflection_reply(None, "your remark")
    lines.append("Answer in this form:\n" + ("<pivot>number of the turn</pivot>\n" if pivot else "") + form)
    return "\n".join(lines)


def _compact_ask(pivot: bool) -> str:
    return "Reflect:" if pivot else "Remark:"


def _outcome(episode: Episode, compact: bool) -> str:
    if compact:
        return "Failed."
    reason = f" ({episode.stop.value.replace('_', ' ')})" if episode.stop is not None else ""
    return f"This attempt is over and the task is not solved{reason}."


def _actions(turns: Sequence[Turn], compact: bool) -> str:
    """Which number is which turn: a conversation does not show it."""
    none = "none" if compact else "(no action could be read)"
    lines = [f"{turn.index}: {turn.executed.strip() if turn.valid else none}" for turn in turns]
    return "\n".join(lines if compact else ["Your turns and their actions:", *lines])


def _compact_transcript(turns: Sequence[Turn]) -> str:
    return "\n".join(
        f"{turn.index}: {turn.observation.text.strip()}\nDid: {turn.executed.strip() or 'none'}"
        for turn in turns
    )


def _joined(parts: Sequence[str], compact: bool) -> str:
    return ("\n" if compact else "\n\n").join(part for part in parts if part)


def _last_block(text: str, name: str) -> str | None:
    """Content of the last complete pair of tags, without surrounding space (of nested pairs the innermost)."""
    found: str | None = None
    opened: int | None = None
    for tag in _TAGS[name].finditer(text):
        if not tag.group(1):
            opened = tag.end()
        elif opened is not None:
            found, opened = text[opened : tag.start()].strip(), None
    return found
