"""The native household engine against the real TextWorld/ALFWorld engine, verbatim.

``python -m benchmarks.alfworld_parity FOLDER`` plays released games (``game.tw-pddl`` files below FOLDER) and generated
ones in both engines with the same random commands, ``look``, ``inventory``, ``help`` and unknown commands among them,
drawn from a stream of each game's own. After the first observation and after every command it compares the text, the
whole list of admissible commands, and whether the task is won. It needs the extra ``[alfworld]``. Exit code 1 if
anything differs.

``--real textworld`` (default) starts games as ALFWorld does: about 50 ms a step. ``--real adapter`` asks the engine of
``env.kind: alfworld``, which is the same TextWorld state, planner library and grammar with rendered commands kept, and
forks besides: it goes back to the state before every third command and repeats it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.index import index_game
from turnpoint.envs.household.problem import TASK_PATTERN, parse_problem
from turnpoint.envs.household.settings import GeneratorSettings
from turnpoint.envs.household.text import introduction
from turnpoint.envs.household.writing import problem_text

UNKNOWN = ("fly to the moon", "", "GO TO fridge 1", "take", "go to fridge 99", "examine nothing")
IDLE = ("look", "inventory", "help")
GENERATED = GeneratorSettings(shared_locations=0.4, temptations=0.4)


@dataclass
class Report:
    """What was compared, and what differed."""

    games: Counter[str] = field(default_factory=Counter)
    """Games by origin: ``released``, ``generated``."""
    steps: int = 0
    won: int = 0
    verbs: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"real": 0.0, "native": 0.0})
    """CPU time spent in either engine's steps."""


class RealGame:
    """The released engine, as ALFWorld starts it."""

    def __init__(self, path: Path) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        wrappers = [AlfredDemangler(shuffle=False), AlfredInfos]
        self.env: Any = textworld.start(str(path), request_infos=infos, wrappers=wrappers)

    def reset(self) -> tuple[str, list[str], bool]:
        """First observation, admissible commands, won."""
        state = self.env.reset()
        return state.feedback, list(state.admissible_commands), bool(state.won)

    def step(self, command: str) -> tuple[str, list[str], bool]:
        """Likewise after a command."""
        state, _, _ = self.env.step(command)
        return state.feedback, list(state.admissible_commands), bool(state.won)

    def close(self) -> None:
        """Release the engine."""
        self.env.close()


class AdapterGame:
    """The same engine as ``env.kind: alfworld`` drives it."""

    def __init__(self, path: Path) -> None:
        from turnpoint.envs.alfworld.engine import RealGame as Adapter

        self.game = Adapter(str(path))
        self.commands: tuple[str, ...] = ()
        self.key = ""

    def reset(self) -> tuple[str, list[str], bool]:
        """First observation, admissible commands, won."""
        return self._shown(self.game.start())

    def step(self, command: str) -> tuple[str, list[str], bool]:
        """Likewise after a command; every third one is executed twice, from the same state."""
        before, answer = self.key, self.game.step(self.commands, self.key, command)
        if len(self.commands) % 3 == 2:
            again = self.game.step(self.commands, before, command)
            assert again == answer, (command, answer, again)
        if answer["known"]:
            self.commands = (*self.commands, command)
        return self._shown(answer)

    def close(self) -> None:
        """Release the engine."""
        self.game.close()

    def _shown(self, answer: dict[str, Any]) -> tuple[str, list[str], bool]:
        self.key = answer["key"]
        return answer["text"], answer["admissible"], answer["won"]


REAL: dict[str, type[RealGame] | type[AdapterGame]] = {"textworld": RealGame, "adapter": AdapterGame}


def compare(path: Path, game: Game, name: str, steps: int, report: Report, kind: str = "textworld") -> None:
    """Play one game in both engines; the first difference ends it and goes into the report."""
    real, engine, state = REAL[kind](path), Engine(game), game.start
    rng = random.Random(f"parity/{name}")
    expected = real.reset()
    got = (introduction(game), list(engine.commands(state)), engine.won(state))
    won = False
    for number in range(steps + 1):
        if expected != got:
            report.differences.append(f"{name}, after command {number}: {_first_difference(expected, got)}")
            break
        won = won or got[2]
        if number == steps:
            break
        command = choose(rng, got[1], number)
        began = time.process_time()
        expected = real.step(command)
        between = time.process_time()
        state, text, _ = engine.step(state, command)
        got = (text, list(engine.commands(state)), engine.won(state))
        report.seconds["real"] += between - began
        report.seconds["native"] += time.process_time() - between
        report.steps += 1
        report.verbs[
            command.split(" ")[0] if command in expected[1] or text != "Nothing happens." else "?"
        ] += 1
    report.won += won
    real.close()


def choose(rng: random.Random, commands: Sequence[str], number: int) -> str:
    """A command: the idle ones first, then mostly those that handle something, now and then an unknown one."""
    if number < len(IDLE):
        return IDLE[number]
    if rng.random() < 0.05:
        return rng.choice(UNKNOWN)
    if rng.random() < 0.1:
        return rng.choice(IDLE)
    handling = [command for command in commands if not command.startswith(("go to", *IDLE))]
    return rng.choice(handling if handling and rng.random() < 0.6 else commands)


def _first_difference(expected: tuple[Any, ...], got: tuple[Any, ...]) -> str:
    for what, one, two in zip(("text", "admissible commands", "won"), expected, got, strict=True):
        if one != two:
            shown = (sorted(set(one) ^ set(two)) or "their order") if isinstance(one, list) else (one, two)
            return f"{what}: {shown}"
    return "nothing"


def released_games(folder: Path, count: int | None, seed: int) -> Iterator[tuple[str, Path, Game]]:
    """Games below ``folder`` in a random order."""
    paths = sorted(folder.rglob("game.tw-pddl"))
    random.Random(seed).shuffle(paths)
    for path in paths[:count]:
        document = json.loads(path.read_text())
        name = path.parent.relative_to(folder).as_posix()
        yield name, path, index_game(parse_problem(document, path), name)


def generated_games(template: Path, count: int, folder: Path) -> Iterator[tuple[str, Path, Game]]:
    """Generated games, written to ``folder`` with the rules and the grammar of a released one."""
    released = json.loads(template.read_text())
    generator = Generator(GENERATED)
    for seed in range(count):
        game = generator.game(seed)
        sentence = json.dumps(game.problem.task)[1:-1]
        grammar = TASK_PATTERN.sub(
            lambda found, s=sentence: found[0].replace(found[1], s), released["grammar"]
        )
        document = {**released, "grammar": grammar, "pddl_problem": problem_text(game.problem)}
        path = folder / f"generated-{seed}.tw-pddl"
        path.write_text(json.dumps(document | {"walkthrough": list(game.problem.walkthrough)}))
        yield f"generated-{seed}", path, game


def run(
    folder: Path,
    games: int | None,
    steps: int,
    generated: int,
    *,
    seed: int = 0,
    real: str = "textworld",
    loud: bool = True,
) -> Report:
    """Compare all of them. Raises ``FileNotFoundError`` if there is no released game below ``folder``."""
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        template = next(iter(sorted(folder.rglob("game.tw-pddl"))), None)
        if template is None:
            raise FileNotFoundError(f"there is no game.tw-pddl below {folder}")
        for origin, found in (
            ("released", released_games(folder, games, seed)),
            ("generated", generated_games(template, generated, Path(scratch))),
        ):
            for name, path, game in found:
                compare(path, game, name, steps, report, real)
                report.games[origin] += 1
                if loud and sum(report.games.values()) % 10 == 0:
                    print(
                        f"{sum(report.games.values())} games, {report.steps} steps, "
                        f"{len(report.differences)} differences",
                        file=sys.stderr,
                        flush=True,
                    )
    return report


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder with released game.tw-pddl files")
    parser.add_argument("--games", type=int, default=200, help="released games to play")
    parser.add_argument("--steps", type=int, default=80, help="commands in each game")
    parser.add_argument("--generated", type=int, default=50, help="generated games to play")
    parser.add_argument("--seed", type=int, default=0, help="which released games are drawn")
    parser.add_argument(
        "--real", choices=list(REAL), default="textworld", help="how the real engine is driven"
    )
    given = parser.parse_args()
    report = run(given.folder, given.games, given.steps, given.generated, seed=given.seed, real=given.real)
    for difference in report.differences:
        print(f"DIFFERENT {difference}")
    real, native = (report.seconds[name] / max(report.steps, 1) for name in ("real", "native"))
    print(
        f"{dict(report.games)} games, {report.steps} steps, {report.won} games won on the way, "
        f"{len(report.differences)} differences; commands {dict(report.verbs.most_common())}; CPU time a step: "
        f"real {1000 * real:.1f} ms, native {1000 * native:.3f} ms"
    )
    sys.exit(1 if report.differences else 0)


if __name__ == "__main__":
    main()
