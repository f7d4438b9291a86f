"""A small world drawn from a seed: passages about made-up things, and questions over one or two of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

GENERATOR_VERSION = 1
"""Part of the header; raised whenever a seed gives another world."""

FIRST = ("Ada", "Bela", "Cora", "Dario", "Edda", "Finn", "Gita", "Hugo", "Ines", "Jonas", "Kira", "Lars")
LAST = (
    "Amsel",
    "Brandt",
    "Calder",
    "Dorn",
    "Eriks",
    "Falk",
    "Gerst",
    "Holm",
    "Ivers",
    "Jansen",
    "Keller",
    "Lund",
)
TOWNS = (
    "Arvik",
    "Belmor",
    "Corvale",
    "Dunmere",
    "Elsbach",
    "Farholt",
    "Glanport",
    "Hestead",
    "Ilmark",
    "Jorvin",
)
LANDS = ("Velonia", "Ostria", "Kandor", "Merovia")
MAKERS = ("Quarrel", "Rondel", "Sablon", "Tressel", "Umbral", "Vantor", "Wexley", "Yarrow")
JOBS = ("painter", "chemist", "pilot", "composer", "architect", "botanist")
GOODS = ("clocks", "boats", "lamps", "bells", "maps")


@dataclass
class World:
    """Passages, questions, and the names of everything in them."""

    passages: list[dict[str, str]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """What an answer can be."""

    def passage(self, title: str, text: str) -> None:
        """Add one."""
        self.passages.append({"id": f"w{len(self.passages)}", "title": title, "text": text})

    def ask(self, kind: str, question: str, answer: str) -> None:
        """Add a question."""
        number = f"{kind}-{len(self.questions):04d}"
        self.questions.append(
            {"question": question, "answers": [answer], "set": kind, "id": number, "split": ""}
        )


def generate(people: int, seed: int) -> World:
    """The world of a seed."""
    rng, world = random.Random(f"world/{GENERATOR_VERSION}/{seed}"), World()
    land_of = {town: rng.choice(LANDS) for town in TOWNS}
    for town, land in land_of.items():
        world.passage(town, f"{town} is a town in {land}. It is known for its {rng.choice(GOODS)}.")
    everybody = [f"{first} {last}" for first in FIRST for last in LAST]
    chosen = rng.sample(everybody, min(people, len(everybody)))
    home: dict[str, str] = {}
    for person in chosen:
        home[person], job = rng.choice(TOWNS), rng.choice(JOBS)
        world.passage(person, f"{person} is a {job}. {person} was born in {home[person]}.")
        world.ask("one_hop", f"In which town was {person} born?", home[person])
        world.ask("one_hop", f"What is the job of {person}?", job)
        world.ask("two_hop", f"In which country was {person} born?", land_of[home[person]])
    for maker in MAKERS:
        founder, goods = rng.choice(chosen), rng.choice(GOODS)
        world.passage(maker, f"{maker} is a company that makes {goods}. It was founded by {founder}.")
        world.ask("one_hop", f"Who founded the company {maker}?", founder)
        world.ask("two_hop", f"In which town was the founder of {maker} born?", home[founder])
    rng.shuffle(world.questions)
    world.names = [*TOWNS, *LANDS, *chosen, *MAKERS, *JOBS]
    return world
