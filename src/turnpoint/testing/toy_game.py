"""Rules of the corridor game: pure functions over an immutable state."""

from __future__ import annotations

from dataclasses import dataclass, replace

LEFT, RIGHT, LAMP, TAKE, THROW, OPEN, WAIT = (
    "go left",
    "go right",
    "switch on lamp",
    "take key",
    "throw key away",
    "open chest",
    "wait",
)
ACTIONS = (LEFT, RIGHT, LAMP, TAKE, THROW, OPEN, WAIT)
FEEDBACK = {
    LEFT: "You go left.",
    RIGHT: "You go right.",
    LAMP: "The lamp lights up.",
    TAKE: "You take the key.",
    THROW: "The key falls through a grate and is lost.",
    OPEN: "The chest opens.",
    WAIT: "Time passes.",
}
START, NOTHING, SLIP = "You wake up.", "Nothing happens.", "You slip."


@dataclass(frozen=True, slots=True)
class ToyState:
    """Whole state of a game: immutable, so a snapshot is a reference."""

    chest: int
    key: int
    """Room of the key; the agent knows it once that room is lit."""
    position: int
    lit: frozenset[int] = frozenset()
    holds: bool = False
    lost: bool = False
    opened: bool = False
    feedback: str = START
    turn: int = 0


def admissible(state: ToyState, rooms: int) -> tuple[str, ...]:
    """Actions the game accepts in ``state``, in a fixed order."""
    if state.opened:
        return ()
    here = state.position
    allowed = {
        LEFT: here > 0,
        RIGHT: here < rooms - 1,
        LAMP: here not in state.lit,
        TAKE: not state.holds and not state.lost and here == state.key and here in state.lit,
        THROW: state.holds,
        OPEN: state.holds and here == state.chest,
        WAIT: True,
    }
    return tuple(action for action in ACTIONS if allowed[action])


def advance(state: ToyState, action: str) -> ToyState:
    """State after an admissible action."""
    after = replace(state, turn=state.turn + 1, feedback=FEEDBACK[action])
    here = state.position
    if action == LEFT:
        return replace(after, position=here - 1)
    if action == RIGHT:
        return replace(after, position=here + 1)
    if action == LAMP:
        return replace(after, lit=state.lit | {here})
    if action == TAKE:
        return replace(after, holds=True)
    if action == THROW:
        return replace(after, holds=False, lost=True)
    if action == OPEN:
        return replace(after, opened=True)
    return after


def distance(state: ToyState) -> int | None:
    """Turns still needed by a player who knows where the key is; None once the key is lost."""
    if state.opened:
        return 0
    if state.lost:
        return None
    if state.holds:
        return abs(state.position - state.chest) + 1
    lamp = 0 if state.key in state.lit else 1
    return abs(state.position - state.key) + lamp + 1 + abs(state.key - state.chest) + 1


def state_key(state: ToyState) -> str:
    """Equal for states in which the same actions have the same effects; feedback and turn do not matter."""
    key = "held" if state.holds else "lost" if state.lost else "lying"
    lit = "".join(map(str, sorted(state.lit)))
    return f"{state.position}|{lit}|{key}|{int(state.opened)}"


def describe(state: ToyState) -> str:
    """What the agent reads: the last feedback, the room, and what is held."""
    parts = [state.feedback, f"Room {state.position + 1}."]
    if state.position in state.lit:
        here = state.position == state.key and not state.holds and not state.lost
        parts.append("You see a key." if here else "You see nothing.")
    else:
        parts.append("It is dark.")
    if state.position == state.chest:
        parts.append("The chest is open." if state.opened else "The chest is here.")
    parts.append("You hold the key." if state.holds else "You hold nothing.")
    return " ".join(parts)
