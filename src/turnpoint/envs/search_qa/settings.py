"""Settings of search QA and of its generated world."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from turnpoint.config import Settings
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings
from turnpoint.envs.retrieval import BM25Settings, RetrieverSettings

if TYPE_CHECKING:
    from turnpoint.envs.search_qa.suite import SearchQASuite


class WorldSettings(Settings):
    """What a generated world looks like: people, towns, countries and companies that nobody knows."""

    people: PositiveInt = 40
    """People, each with a passage and questions; towns and companies are drawn to match."""
    seed: NonNegativeInt = 0
    """Another value gives another world."""


class SearchQASettings(EnvSettings):
    """Questions that are answered with a search engine."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        deterministic=True, snapshots=True, oracle=True, admissible=False
    )
    extra: ClassVar[str] = "search"
    packages: ClassVar[tuple[str, ...]] = ("snowballstemmer",)
    data: ClassVar[str] = (
        "a generated world; questions and passages of your own through prepare and data_file=FILE"
    )
    prepared: ClassVar[str] = "data/search_qa/search_qa.sqlite"

    kind: Literal["search_qa"] = "search_qa"
    data_file: str = "generated"
    """``generated``, or a file made by ``turnpoint envs prepare search_qa``."""
    world: WorldSettings = WorldSettings()
    """What a generated world looks like; unused with a file."""
    sets: tuple[str, ...] = ()
    """Only questions of these sets, for example ``[nq, hotpotqa]``; empty = all."""
    retriever: RetrieverSettings = BM25Settings()
    """Who finds passages: ``bm25`` and ``dense`` search the prepared corpus, ``http`` asks a server."""
    topk: PositiveInt = 3
    """Passages shown for a search."""
    passage_characters: PositiveInt = 1024
    """Where the text of a passage is cut."""
    actions: Literal["open", "listed"] = "open"
    """``open``: any query and answer; ``listed``: searches for the question and for things named so far, and things
    of the world as answers, all listed as admissible actions: for small models, with a generated world."""
    success_reward: float = 10.0
    """Reward of an answer that matches exactly; another answer gives 0."""
    malformed_penalty: NonNegativeFloat = 0.5
    """Subtracted for every action without a complete ``<search>`` or ``<answer>``."""
    max_turns: PositiveInt = 4
    """Turn budget of an episode, the answer included."""

    @model_validator(mode="after")
    def _consistent(self) -> SearchQASettings:
        if self.data_file != "generated" and self.world != WorldSettings():
            raise ValueError(
                f"data_file is '{self.data_file}', so the world settings would be ignored; remove them or set "
                "data_file: generated"
            )
        if self.data_file != "generated" and self.actions == "listed":
            raise ValueError(
                "actions can be listed in a generated world only, whose things are known; set actions: open"
            )
        return self

    @classmethod
    def prepare(cls, source: Path, folder: Path) -> dict[str, Any]:
        """Read questions and passages (JSONL) into ``folder/search_qa.sqlite``."""
        cls.require()
        from turnpoint.envs.search_qa.prepare import prepare

        return prepare(source, folder)

    def build(self) -> SearchQASuite:
        """The suite; raises ``EnvDataError`` if the file is missing, of another version, or has no such questions."""
        self.require()
        from turnpoint.envs.search_qa.suite import SearchQASuite

        return SearchQASuite(self)
