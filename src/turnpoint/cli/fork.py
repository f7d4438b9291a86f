"""``turnpoint fork``: go on from a recorded turn with another model, an action, or a hint."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnpoint.cli.common import console, fail, print_json, user_faults
from turnpoint.cli.targets import show_notes

if TYPE_CHECKING:
    from turnpoint.pivots.forks import ForkSession
    from turnpoint.records import Episode

_HELP = (
    "an action; ?ACTION = the model's turn with a hint that names it; ! = the oracle's action; "
    "+ = one turn of the model; empty = the model plays to the end; q = stop without saving"
)


def fork(
    run_folder: Annotated[Path, typer.Argument(help="The run that holds the episode.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as section.setting=value.")] = None,
    episode: Annotated[str, typer.Option(help="Id of the episode, or the end of it.")] = "",
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Step of the run that the episode is of, where several have its id."),
    ] = None,
    turn: Annotated[int, typer.Option(min=0, help="Turn to take over at, from 0.")] = 0,
    action: Annotated[
        list[str] | None, typer.Option(help="Take this action (may be repeated: turn after turn).")
    ] = None,
    hint: Annotated[
        str | None, typer.Option(help="Let the model act with a hint that names this action.")
    ] = None,
    oracle: Annotated[int, typer.Option(min=0, help="Let the oracle act for so many turns.")] = 0,
    model_of: Annotated[
        Path | None, typer.Option(help="Run whose model goes on, instead of this one's.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A checkpoint folder of the model's run.")] = None,
    initial: Annotated[bool, typer.Option(help="Go on with the initial weights.")] = False,
    branches: Annotated[int, typer.Option(min=1, help="How many branches the model plays from there.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Restore a recorded state, take over, and keep the branch beside its parent, where the inspector shows it.

    On a terminal, without --action, --hint and --oracle, it asks turn by turn.

    Example: turnpoint fork runs/quickstart --episode eval/valid-00003/0 --step 16 --turn 4 --action "go to shelf 1"
    """
    if not episode:
        fail("name an episode with --episode; turnpoint inspect shows the ids of a run")
    if hint is not None and action:
        fail("--hint and --action exclude each other; use one of them")
    with user_faults():
        from turnpoint.inspector.store import find_sources
        from turnpoint.pivots.forks import find_episode

        sources = find_sources(run_folder)
        files = [source.path for source in sources if step is None or source.step == step]
        if not files:
            steps = ", ".join(map(str, sorted({source.step for source in sources})))
            fail(f"{run_folder} holds no episodes of step {step}; it has those of steps {steps}")
        parent, path = find_episode(files, episode)
        taken = _taken(action or [], hint, oracle)
        talk = not (action or hint or oracle or as_json) and sys.stdin.isatty() and sys.stdout.isatty()
        from turnpoint.cli.runs import open_run

        run = open_run(run_folder, overrides or [], checkpoint, initial=initial, speaker=model_of)
        saved = asyncio.run(_fork(run, parent, turn, taken, path, branches, talk=talk))
    if as_json:
        print_json(saved)
        return
    for branch in saved["branches"]:
        outcome = "solved" if branch["success"] else branch["stop"]
        typer.echo(f"{branch['id']}: {outcome} after {branch['turns']} turns ({branch['new_turns']} new)")
        if branch["error"]:
            show_notes([branch["error"]])
    typer.echo(saved["file"] or "nothing was saved")


def _taken(actions: list[str], hint: str | None, oracle: int) -> list[Any]:
    from turnpoint.pivots.intervene import HintedTurn, OracleTurn, TypedTurn

    taken: list[Any] = [TypedTurn(text) for text in actions]
    taken += [HintedTurn(hint)] if hint is not None else []
    return taken + [OracleTurn() for _ in range(oracle)]


async def _fork(
    run: Any, parent: Episode, turn: int, taken: list[Any], path: Path, branches: int, *, talk: bool
) -> dict[str, Any]:
    from turnpoint.pivots.forks import ForkSession, branch_ids, save_branch
    from turnpoint.records import RecordError
    from turnpoint.training.evaluate import eval_rollouts

    rollouts = eval_rollouts(run, run.config.eval, prefix="fork")
    ids = branch_ids(path)
    done: list[Episode] = []
    file: Path | None = None
    try:
        session = ForkSession(rollouts, parent, turn, name=f"t{turn}-{len(ids)}")
        now = await session.open()
        if now.stop is not None:
            raise RecordError(
                f"episode {parent.id} cannot be taken over before turn {turn}: "
                + (now.error or f"it is over there ({now.stop})")
            )
        for one in taken:
            if now.stop is None:
                now = await session.take(one)
        if talk and not await _talk(session):
            return {"file": None, "branches": []}
        for index in range(branches):
            branch = await session.finish(index)
            branch.info = {**branch.info, "fork": {"parent_file": path.name, "model": str(run.folder)}}
            file = save_branch(branch, path, ids)
            done.append(branch)
            if branch is session.episode:
                break  # it ended before the model had a turn: there is nothing to repeat
    finally:
        await rollouts.close()
    return {
        "file": str(file),
        "branches": [
            {
                "id": b.id,
                "success": b.success,
                "stop": str(b.stop),
                "error": b.error,
                "turns": len(b.turns),
                "new_turns": len(b.new_turns),
                "actions": [t.executed for t in b.new_turns],
            }
            for b in done
        ],
    }


async def _talk(session: ForkSession) -> bool:
    """Ask turn by turn; False if nothing is to be kept."""
    from turnpoint.inspector.text import clip_note
    from turnpoint.pivots.intervene import HintedTurn, OracleTurn, OwnTurn, TakenTurn, TypedTurn
    from turnpoint.records import RecordError

    out = console()

    def say(text: str, limit: int = 4000) -> None:
        out.print(clip_note(text, limit), markup=False, highlight=False)

    say(_HELP)
    while True:
        now = session.episode
        assert now is not None
        if now.stop is not None:
            say(f"it is over: {now.stop} {now.error}")
            return True
        observation = now.final_observation
        place = len(now.turns)
        say(f"\n--- turn {place} ---\n{observation.text if observation else ''}")
        if observation is not None and observation.admissible:
            say("admissible: " + " | ".join(observation.admissible))
        if place < len(session.parent.turns):
            say(f"recorded: {session.parent.turns[place].executed}")
        said = _ask()
        if said == "q":
            return False
        if not said:
            return True
        taken: TakenTurn
        if said == "+":
            taken = OwnTurn()
        elif said == "!":
            taken = OracleTurn()
        elif said.startswith("?"):
            taken = HintedTurn(said[1:].strip())
        else:
            taken = TypedTurn(said)
        try:
            after = await session.take(taken)
        except RecordError as error:  # the turn is impossible here; another one may follow
            say(str(error))
            continue
        if len(after.turns) > place:
            say(f"did: {after.turns[place].executed}")


def _ask() -> str:
    """A line from the terminal; ``q`` for its end and for Ctrl-C.

    It is read in the thread of the event loop, which has nothing to do meanwhile. The loop's own handler would take
    Ctrl-C without ending ``input``, so the usual one stands in for it.
    """
    of_the_loop = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        return "q"
    finally:
        signal.signal(signal.SIGINT, of_the_loop)
