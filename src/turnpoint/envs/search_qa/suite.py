"""Search QA with its questions: what the ``search_qa`` section of a run config builds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.retrieval import HttpSettings, make_retriever
from turnpoint.envs.search_qa import text
from turnpoint.envs.search_qa.answers import holds
from turnpoint.envs.search_qa.env import SearchQAEnv
from turnpoint.envs.search_qa.generator import GENERATOR_VERSION, World, generate
from turnpoint.envs.search_qa.oracle import Progress
from turnpoint.envs.search_qa.prepare import split_in, write_data
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.envs.seeded import SeededTasks
from turnpoint.envs.text_store import TextStore, open_store
from turnpoint.records import Task


class SearchQASuite:
    """Questions, and the retriever that all copies share."""

    name = "search_qa"
    instructions = text.INSTRUCTIONS

    def __init__(self, settings: SearchQASettings) -> None:
        """Raises ``EnvDataError`` if the file is missing or has no questions of the wanted sets."""
        self.settings = settings
        self.max_turns = settings.max_turns
        self.world: World | None = None
        if settings.data_file == "generated":
            self.world = generate(settings.world.people, settings.world.seed)
            facts = {"source": {"generator": GENERATOR_VERSION, **settings.world.model_dump(mode="json")}}
            self.store = write_data(self.world.passages, self.world.questions, None, facts)
        else:
            self.store = _file(settings)
        retriever = settings.retriever
        self.capabilities = replace(
            type(settings).capabilities,
            deterministic=not isinstance(retriever, HttpSettings) or retriever.deterministic,
            admissible=settings.actions == "listed",
        )
        self._places = self._split()
        self._tasks = {
            split: SeededTasks(split, len(places), self._task) for split, places in self._places.items()
        }
        self.retriever = make_retriever(retriever, self.store)
        self._listed = lru_cache(maxsize=512)(self._list_actions)

    def tasks(self, split: str) -> Sequence[Task]:
        """Questions of ``train`` or ``valid`` in the order of the files."""
        if split not in self._tasks:
            raise EnvDataError(f"search_qa has no split '{split}'; use train or valid")
        return self._tasks[split]

    def make(self) -> SearchQAEnv:
        """A new copy; all share the retriever."""
        lister = self._listed if self.settings.actions == "listed" else None
        return SearchQAEnv(self.settings, self.capabilities, self.retriever, lister)

    def header(self) -> dict[str, Any]:
        """Where questions and passages come from, their hash, the retriever and counts."""
        facts = {
            name: self.store.facts.get(name) for name in ("passages", "sets", "source", "release", "sha256")
        }
        return {
            "env": self.name,
            "data_file": self.settings.data_file,
            **facts,
            "retriever": self.settings.retriever.model_dump(mode="json"),
            "tasks": {split: len(places) for split, places in self._places.items()},
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Every word of a generated world; raises ``EnvError`` where any words can be asked or shown."""
        if self.world is None or self.settings.actions == "open":
            raise EnvError(
                "the language of search QA is open; a closed one has data_file: generated with actions: listed"
            )
        yield text.MALFORMED + text.NOTHING + text.ENDED + text.GIVEN + text.QUESTION
        yield text.information([], 1) + text.search("") + text.answer("")
        yield 'Doc (Title: "") ' + " ".join(str(number) for number in range(1, self.settings.topk + 1))
        yield from (f"{passage['title']} {passage['text']}" for passage in self.world.passages)
        yield from (question["question"] for question in self.world.questions)
        yield from self.world.names

    def _list_actions(self, question: str, progress: Progress) -> tuple[str, ...]:
        """Searches for the question and for whatever was named so far, and everything of the world as an answer."""
        assert self.world is not None
        known = "\n".join((question, *(f"{p.title}\n{p.text}" for p in progress.passages)))
        named = [name for name in self.world.names if holds(known, name)]
        return (text.search(question), *map(text.search, named), *map(text.answer, self.world.names))

    def _split(self) -> dict[str, list[int]]:
        wanted, known = set(self.settings.sets), set(self.store.facts.get("sets", {}))
        if wanted - known:
            raise EnvDataError(
                f"sets: there are no questions of '{min(wanted - known)}'; there are {', '.join(sorted(known))}"
            )
        places: dict[str, list[int]] = {"train": [], "valid": []}
        for number in range(self.store.items):
            item = self.store.item(number)
            if not wanted or item["set"] in wanted:
                places[split_in(item)].append(number)
        for split, found in places.items():
            if not found:
                raise EnvDataError(
                    f"no question is in the split '{split}'; add some, or leave the field 'split' of all of them out"
                )
        return places

    def _task(self, split: str, number: int) -> Task:
        item = self.store.item(self._places[split][number])
        return Task(
            id=f"{split}-{number:05d}",
            env=self.name,
            instruction=item["question"],
            type=item["set"],
            data={"answers": item["answers"], "source": item["id"]},
        )


def _file(settings: SearchQASettings) -> TextStore:
    store = open_store(Path(settings.data_file).expanduser())
    if "passages" not in store.facts:
        store.close()
        raise EnvDataError(f"data_file: '{settings.data_file}' holds no passages; prepare search_qa")
    return store
