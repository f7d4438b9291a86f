from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from turnpoint.envs.household.engine import Engine
from turnpoint.envs.household.game import Game
from turnpoint.envs.household.generator import Generator
from turnpoint.envs.household.goals import LOOK, TASK_TYPES
from turnpoint.envs.household.index import load_game
from turnpoint.envs.household.oracle import Oracle
from turnpoint.envs.household.settings import GeneratorSettings
from turnpoint.envs.household.statistics import load_statistics, room_of
from turnpoint.envs.household.text import introduction
from turnpoint.envs.household.traps import draw_look_alikes, likeness
from turnpoint.envs.household.vocabulary import generated_texts
from turnpoint.envs.household.writing import write_game

TINY: dict[str, Any] = {"layout": "fixed", "receptacles": (10, 10), "objects": (8, 8), "object_types": 12}
CONFIGS: list[dict[str, Any]] = [
    {},
    TINY,
    TINY | {"temptations": 0.5},
    {"receptacles": (4, 6), "objects": (3, 5), "shared_locations": 0.5},
    {"rooms": ("bathroom",), "task_types": ("pick_clean_then_place_in_recep", "pick_two_obj_and_place")},
]


def stuck(game: Game) -> list[int]:
    """Objects that could never be put down again."""
    return [
        thing
        for inner in game.start.contents
        for thing in inner
        if thing in game.able["pickupable"] and not game.accepts[thing]
    ]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_game_can_be_won_by_its_walkthrough(config: dict[str, Any]) -> None:
    generator = Generator(GeneratorSettings(**config))
    for seed in range(60):
        game = generator.game(seed)
        engine, state = Engine(game), game.start
        assert game.goal.kind == generator.kind(seed)
        assert not engine.won(state)
        assert len(game.problem.walkthrough) == Oracle(engine).distance(state)
        for command in game.problem.walkthrough:
            state, _, known = engine.step(state, command)
            assert known
        assert engine.won(state)
        assert bool(stuck(game)) <= generator.tempting(seed)


def test_sizes_and_types_are_as_configured() -> None:
    settings = GeneratorSettings(receptacles=(9, 11), objects=(7, 8), object_types=14)
    generator = Generator(settings)
    for seed in range(60):
        game = generator.game(seed)
        assert 9 <= len(game.receptacles) <= 11
        assert 7 <= len(game.objects) <= 8
        assert {name.rsplit(" ", 1)[0] for name in game.objects} <= {*generator.types, "desklamp"}
    assert len(generator.types) == 14


def test_a_fixed_layout_is_the_same_room_in_every_game() -> None:
    generator = Generator(GeneratorSettings(layout="fixed", layout_seed=3))
    rooms = {(g.receptacles, g.locations, g.openable) for g in map(generator.game, range(12))}
    assert len(rooms) == 1
    places = {generator.game(seed).start.contents for seed in range(12)}
    assert len(places) == 12
    other = Generator(GeneratorSettings(layout="fixed", layout_seed=4)).game(0)
    assert other.receptacles != next(iter(rooms))[0]


def test_drawn_layouts_differ_and_suit_their_tasks() -> None:
    generator = Generator(GeneratorSettings())
    games = [generator.game(seed) for seed in range(60)]
    assert len({game.receptacles for game in games}) > 50
    for game in games:
        kinds = set(game.receptacle_types)
        needed = {"pick_heat": "microwavetype", "pick_cool": "fridgetype", "pick_clean": "sinkbasintype"}
        assert needed.get("_".join(game.goal.kind.split("_")[:2]), next(iter(kinds))) in kinds
        assert bool(game.lamps) == (game.goal.kind == LOOK)
    assert Counter(game.goal.kind for game in games) == dict.fromkeys(TASK_TYPES, 10)


def test_equal_settings_and_seed_give_the_same_game_in_every_process() -> None:
    code = (
        "from turnpoint.envs.household.generator import Generator\n"
        "from turnpoint.envs.household.settings import GeneratorSettings\n"
        "from turnpoint.envs.household.writing import problem_text\n"
        "import hashlib\n"
        "digest = hashlib.sha256()\n"
        "for config in ({}, {'layout': 'fixed', 'temptations': 0.7, 'shared_locations': 0.4}):\n"
        "    generator = Generator(GeneratorSettings(**config))\n"
        "    for seed in range(12):\n"
        "        problem = generator.game(seed).problem\n"
        "        digest.update(repr((problem.task, problem_text(problem), problem.walkthrough)).encode())\n"
        "print(digest.hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_games_survive_a_file(tmp_path: Any) -> None:
    generator = Generator(GeneratorSettings(temptations=0.5))
    for seed in range(12):
        game = generator.game(seed)
        write_game(game.problem, tmp_path / "game.tw-pddl")
        back = load_game(tmp_path / "game.tw-pddl")
        assert back == game
        assert back.start == game.start
        assert introduction(back) == introduction(game)


def test_seeds_and_layout_seeds_give_other_games() -> None:
    one, two = Generator(GeneratorSettings()), Generator(GeneratorSettings(layout_seed=1))
    assert one.game(0) != one.game(6)
    assert one.game(0) != two.game(0)


def test_temptations_ruin_a_share_of_careless_play_and_plain_games_none() -> None:
    """An agent that takes anything in sight on three of ten occasions and otherwise plays well."""

    def ruined(temptations: float) -> float:
        generator = Generator(GeneratorSettings(**TINY, temptations=temptations))
        return sum(careless(generator.game(seed), seed) for seed in range(150)) / 150

    assert ruined(0.0) == 0.0
    assert 0.12 <= ruined(1.0) <= 0.35


def careless(game: Game, seed: int) -> bool:
    engine = Engine(game)
    oracle, rng, state = Oracle(engine), random.Random(seed), game.start
    for _ in range(24):
        takes = [c for c in engine.commands(state) if c.startswith("take")]
        wrong = bool(takes) and rng.random() < 0.3
        state = engine.step(state, rng.choice(takes) if wrong else oracle.best_actions(state)[0])[0]
        distance = oracle.distance(state)
        if not distance:
            return distance is None
    return False


def test_tempting_games_are_the_configured_share() -> None:
    generator = Generator(GeneratorSettings(temptations=0.3))
    assert 0.25 < sum(generator.tempting(seed) for seed in range(2000)) / 2000 < 0.35
    tempted = [seed for seed in range(60) if generator.tempting(seed)]
    assert all(stuck(generator.game(seed)) for seed in tempted)


def test_look_alikes() -> None:
    statistics = load_statistics()
    assert likeness(statistics, "fork", "spoon") > 0.9 > likeness(statistics, "fork", "pillow")
    assert likeness(statistics, "mug", "mug") == pytest.approx(1.0)
    rng = random.Random(0)
    drawn = Counter(
        name
        for _ in range(300)
        for name in draw_look_alikes(rng, statistics, "fork", ("spoon", "pillow", "fork"), 1)
    )
    assert set(drawn) <= {"spoon", "pillow"}
    assert drawn["spoon"] > 250


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+|[^\w\s]", text))


@pytest.mark.parametrize("config", CONFIGS)
def test_the_vocabulary_is_closed(config: dict[str, Any]) -> None:
    generator = Generator(GeneratorSettings(**config))
    known: set[str] = set()
    for text in generated_texts(generator):
        known |= words(text)
    for seed in range(40):
        game = generator.game(seed)
        engine, rng, state = Engine(game), random.Random(seed), game.start
        shown = words(introduction(game))
        for _ in range(60):
            commands = list(engine.commands(state))
            state, answer, _ = engine.step(state, rng.choice(commands))
            shown |= words(answer).union(*map(words, commands))
        assert shown <= known, shown - known


def test_a_small_configuration_has_a_small_vocabulary() -> None:
    known: set[str] = set()
    for text in generated_texts(Generator(GeneratorSettings(**TINY))):
        known |= words(text)
    assert len(known) < 180


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"receptacles": (5, 3)}, r"5\.\.3 is not a range"),
        ({"receptacles": (1, 3)}, "within 2..60"),
        ({"objects": (0, 3)}, "within 2..90"),
        ({"rooms": ()}, "at least one"),
        ({"task_types": ()}, "at least one"),
        ({"rooms": ("bathroom",)}, "needs one of the rooms"),
        ({"temptation": 0.5}, "temptations"),
        ({"temptations": 1.5}, "less than or equal to 1"),
        ({"task_types": ("pick",)}, "pick_and_place_simple"),
    ],
)
def test_settings_that_cannot_work_are_refused(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        GeneratorSettings(**config)


def test_statistics_describe_real_rooms() -> None:
    statistics = load_statistics()
    assert sum(statistics.games.values()) == 3553
    assert {kind: sum(row.values()) for kind, row in statistics.tasks.items()}.keys() == set(TASK_TYPES)
    assert statistics.prior("toiletpaper", "toiletpaperhanger") > statistics.prior("toiletpaper", "drawer")
    assert statistics.prior("apple", "drawer") == 0.0 == statistics.prior("unheard", "drawer")
    game = Generator(GeneratorSettings(task_types=("pick_cool_then_place_in_recep",))).game(0)
    assert room_of(game) == "kitchen"
