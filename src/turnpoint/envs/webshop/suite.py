"""The shop with its tasks: what the ``webshop`` section of a run config builds."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.seeded import SeededTasks
from turnpoint.envs.text_store import TextStore, open_store
from turnpoint.envs.webshop import pages
from turnpoint.envs.webshop.catalogue import PRICE_STEP, PRICE_STEPS, Product, goal_of
from turnpoint.envs.webshop.engine import Play
from turnpoint.envs.webshop.env import Desk, WebShopEnv
from turnpoint.envs.webshop.generator import GENERATOR_VERSION, generate, tag
from turnpoint.envs.webshop.prepare import write_catalogue
from turnpoint.envs.webshop.settings import WebShopSettings
from turnpoint.records import Task

INSTRUCTIONS = (
    "You shop online for the product that the instruction describes. On the search page, search[words] finds "
    "products. Elsewhere, click[name] opens a product by its id, chooses an option, opens a page or presses a button, "
    "such as click[back to search] or click[next >]. Choose every option that the instruction names, then "
    "click[buy now]: this ends the episode. What counts is that type, attributes, options and price all match."
)
_DESKS_KEPT = 128
_PRODUCTS_KEPT = 4096
_SEARCHES_KEPT, _LISTS_KEPT = 2048, 8
SPECIAL = ("<r>", "<a>", "<c>", "<q>")
"""First words of searches that do not rank: random products, an attribute, a category, a collecting query."""


class WebShopSuite:
    """A catalogue, its search, and its goals as tasks. Also the ``Shop`` that the engine works on."""

    name = "webshop"
    instructions = INSTRUCTIONS

    def __init__(self, settings: WebShopSettings) -> None:
        """Raises ``EnvDataError`` if the catalogue is missing, or has no goals of the wanted kind."""
        self.settings = settings
        self.max_turns = settings.max_turns
        self.capabilities = replace(type(settings).capabilities, admissible=settings.searches == "listed")
        self.store = _generated(settings) if settings.catalogue == "generated" else _file(settings)
        self.sha256 = str(self.store.facts["sha256"])
        self._search = self.store.searcher(k1=settings.search.k1, b=settings.search.b)
        self.product = lru_cache(maxsize=_PRODUCTS_KEPT)(self._product)
        self._ranked = lru_cache(maxsize=_SEARCHES_KEPT)(self._found)
        self._listed = lru_cache(maxsize=_LISTS_KEPT)(self._special)
        goals: dict[str, int] = self.store.facts["goals"]
        count = goals[settings.goals]
        if count < 2:
            raise EnvDataError(
                f"catalogue: '{settings.catalogue}' has {count} {settings.goals} goals; set goals: "
                f"{'human' if settings.goals == 'synthetic' else 'synthetic'}, or prepare it with instructions"
            )
        valid = min(settings.valid_tasks, count // 2)
        self._first = {"valid": 0, "train": valid}
        self._offset = goals["synthetic"] if settings.goals == "human" else 0
        counts = {"train": count - valid, "valid": valid}
        self._tasks = {split: SeededTasks(split, number, self._task) for split, number in counts.items()}
        self._desks: OrderedDict[tuple[int, int], Desk] = OrderedDict()

    def tasks(self, split: str) -> Sequence[Task]:
        """Goals of ``train`` or ``valid`` in WebShop's order, read when they are asked for."""
        if split not in self._tasks:
            raise EnvDataError(f"webshop has no split '{split}'; use train or valid")
        return self._tasks[split]

    def make(self) -> WebShopEnv:
        """A new shopper; all share the catalogue and what was found in it."""
        return WebShopEnv(self.settings, self.capabilities, self._desk)

    def header(self) -> dict[str, Any]:
        """Catalogue, its hash, how nouns were found, search settings and counts."""
        facts = {
            name: self.store.facts.get(name) for name in ("products", "goals", "nouns", "source", "release")
        }
        return {
            "env": self.name,
            "catalogue": self.settings.catalogue,
            **facts,
            "sha256": self.sha256,
            "search": self.settings.search.model_dump(mode="json"),
            "price_seed": self.settings.price_seed,
            "tasks": {split: len(tasks) for split, tasks in self._tasks.items()},
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word of a generated catalogue; raises ``EnvError`` where any words can be searched or shown."""
        if self.settings.catalogue != "generated" or self.settings.searches == "open":
            raise EnvError(
                "WebShop's language is open; a closed one has catalogue: generated with searches: listed"
            )
        return self._texts()

    def find(self, asin: str) -> int | None:
        """Number of the product with this id."""
        return self.store.number(asin)

    def search(self, query: str) -> tuple[int, ...]:
        """Products found by BM25, best first; after one of ``SPECIAL`` all that it means, in the catalogue's order."""
        return self._listed(query) if query.split(" ", 1)[0] in SPECIAL else self._ranked(query)

    def _texts(self) -> Iterable[str]:
        yield f"WebShop Instruction: {pages.THANKS} {pages.SCORED} Chosen: [SEP] search[] click[]"
        yield "No reviews found No Description No Features N.A."
        yield "Page (Total results: ) Back to Search < Prev Next > Buy Now Price: Rating: and price lower than dollars"
        yield " ".join((*pages.RESERVED, *(name.capitalize() for name in pages.SUB_PAGES), "0.0 1.0"))
        yield " ".join(f"{PRICE_STEP * step:.2f}" for step in PRICE_STEPS if step < 20)
        yield " ".join(str(number) for number in range(self.store.count + 1))
        for number in range(self.store.count):
            product = self.product(number)
            named = " ".join(f"{name}: {' '.join(values)}" for name, values in product.options)
            yield f"{product.asin} {product.asin.lower()} {product.title} {product.description} {product.price}"
            yield f"{' '.join(product.bullets)} {named} {' '.join(product.attributes)} {product.query}"
            yield f"{product.title} {product.description} {' '.join(product.bullets)}".lower()
        yield from ("Find me with, and", "find me with, and")
        # The score of a purchase: shares of up to five points times the type's factor.
        yield " ".join(
            str(points / parts * kind) for parts in range(2, 7) for points in range(parts + 1)
            for kind in (0.0, 0.1, 0.5, 1.0)
        )  # fmt: skip

    def _product(self, number: int) -> Product:
        return Product.of(number, self.store.record(number))

    def _found(self, query: str) -> tuple[int, ...]:
        hits = self._search.search(query, self.settings.search.results)
        # WebShop breaks ties of scores by the products' ids.
        ranked = sorted(hits, key=lambda hit: (-hit[1], self.product(hit[0]).asin))
        return tuple(number for number, _ in ranked)

    def _special(self, query: str) -> tuple[int, ...]:
        """As WebShop's engine does it, but ``<r>`` draws once per ``price_seed``, so that a page can be returned to."""
        first, *rest = query.split(" ")
        if first == "<r>":
            count = min(self.settings.search.results, self.store.count)
            return tuple(
                random.Random(f"search/{self.settings.price_seed}").sample(range(self.store.count), count)
            )
        wanted = " ".join(rest[:1] if first == "<c>" else rest).strip()  # a category is one word
        return self.store.labelled(f"{first} {wanted}")

    def _task(self, split: str, number: int) -> Task:
        place = self._offset + self._first[split] + number
        item = self.store.item(place)
        goal = goal_of(item, self.product(item["product"]), self.settings.price_seed)
        return Task(
            id=f"{split}-{number:05d}",
            env=self.name,
            instruction=goal.text,
            type=self.store.record(goal.product)["category"],
            seed=self.settings.price_seed,
            data={
                "goal": place,
                "asin": self.product(goal.product).asin,
                "cap": goal.cap,
                "price_seed": self.settings.price_seed,
                "catalogue": self.sha256,
            },
        )

    def _desk(self, task: Task) -> Desk:
        place, seed = task.data.get("goal"), task.data.get("price_seed")
        if (
            not isinstance(place, int)
            or not isinstance(seed, int)
            or task.data.get("catalogue") != self.sha256
        ):
            raise EnvError(
                f"task {task.id} belongs to another catalogue ({task.data.get('catalogue')}, here {self.sha256}); "
                "use the env section of the run it comes from"
            )
        desk = self._desks.pop((place, seed), None)
        if desk is None:
            if not 0 <= place < self.store.items:
                raise EnvError(f"task {task.id} names goal {place}; the catalogue has {self.store.items}")
            item = self.store.item(place)
            goal = goal_of(item, self.product(item["product"]), seed)
            desk = Desk(Play(self, goal, seed))
            if len(self._desks) >= _DESKS_KEPT:
                self._desks.popitem(last=False)
        self._desks[place, seed] = desk
        return desk


def _generated(settings: WebShopSettings) -> TextStore:
    look = settings.generator
    facts = {"nouns": "generated", "source": {"generator": GENERATOR_VERSION, **look.model_dump(mode="json")}}
    return write_catalogue(generate(look.products, look.seed), None, tag, facts)


def _file(settings: WebShopSettings) -> TextStore:
    store = open_store(Path(settings.catalogue).expanduser())
    if "goals" not in store.facts:
        store.close()
        raise EnvDataError(f"catalogue: '{settings.catalogue}' is not a catalogue of WebShop; prepare one")
    return store
