"""Settings of WebShop and of its catalogue generator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from turnpoint.config import Settings
from turnpoint.envs.protocol import Capabilities
from turnpoint.envs.registry import EnvSettings

if TYPE_CHECKING:
    from turnpoint.envs.webshop.suite import WebShopSuite


class RetrievalSettings(Settings):
    """The shop's search; WebShop's own index by default, PivotOPD's is ``k1: 1.5``, ``b: 0.75``."""

    k1: NonNegativeFloat = 0.9
    """How slowly repeats of a word stop counting."""
    b: float = Field(default=0.4, ge=0.0, le=1.0)
    """How much long texts are put back."""
    results: PositiveInt = 50
    """Most products found by a search; ten are shown on a page."""


class CatalogueGeneratorSettings(Settings):
    """What a generated catalogue looks like."""

    products: PositiveInt = 60
    """Products of the catalogue."""
    seed: NonNegativeInt = 0
    """Another value gives another catalogue."""


class WebShopSettings(EnvSettings):
    """WebShop: search a catalogue, compare products, choose options, buy."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        deterministic=True, snapshots=True, oracle=True, admissible=False
    )
    extra: ClassVar[str] = "webshop"
    packages: ClassVar[tuple[str, ...]] = ("snowballstemmer", "rapidfuzz")
    data: ClassVar[str] = "a generated catalogue; WebShop's own through prepare and catalogue=FILE"
    prepared: ClassVar[str] = "data/webshop/webshop.sqlite"

    kind: Literal["webshop"] = "webshop"
    catalogue: str = "generated"
    """``generated``, or a file made by ``turnpoint envs prepare webshop``."""
    goals: Literal["synthetic", "human"] = "synthetic"
    """Which goals a prepared catalogue is played with; ``human`` needs WebShop's human instructions."""
    generator: CatalogueGeneratorSettings = CatalogueGeneratorSettings()
    """What a generated catalogue looks like; unused with a file."""
    valid_tasks: PositiveInt = 500
    """The first so many goals are the split ``valid``, at most half of them; the others are ``train``."""
    price_seed: NonNegativeInt = 0
    """Draws prices of products that have a range, and the price caps of the goals."""
    search: RetrievalSettings = RetrievalSettings()
    """The shop's search."""
    searches: Literal["open", "listed"] = "open"
    """``open``: any words can be searched; ``listed``: only a few searches made of the instruction, which are then
    listed as admissible actions: for small models with a closed vocabulary."""
    search_anywhere: bool = False
    """Accept ``search[...]`` on every page as WebShop's text interface does, though only one shows the search bar;
    admissible actions cannot be listed then."""
    attributes_page: bool = False
    """Products have a fourth page that lists the hidden attributes (``show_attrs`` of WebShop)."""
    show_instruction: bool = True
    """Repeat the instruction at the head of every page, as WebShop does."""
    show_chosen: bool = False
    """Add the chosen options to the page of a product; WebShop's text does not show them."""
    reward: Literal["success", "score"] = "success"
    """``success``: ``success_reward`` for a score of 1.0, else 0; ``score``: ``success_reward`` times the score."""
    success_reward: float = 10.0
    """Reward of a purchase with score 1.0."""
    max_turns: PositiveInt = 15
    """Turn budget of an episode."""

    @model_validator(mode="after")
    def _consistent(self) -> WebShopSettings:
        if self.catalogue != "generated" and self.generator != CatalogueGeneratorSettings():
            raise ValueError(
                f"catalogue is the file '{self.catalogue}', so the generator settings would be ignored; remove them "
                "or set catalogue: generated"
            )
        if self.catalogue == "generated" and self.goals == "human":
            raise ValueError(
                "a generated catalogue has no human goals; set goals: synthetic, or a prepared catalogue"
            )
        if self.searches == "listed" and self.search_anywhere:
            raise ValueError(
                "searches: listed lists every accepted action, which search_anywhere forbids; set one of them"
            )
        return self

    @classmethod
    def prepare(cls, source: Path, folder: Path) -> dict[str, Any]:
        """Read WebShop's own files, or a compact file, into ``folder/webshop.sqlite``."""
        cls.require()
        from turnpoint.envs.webshop.prepare import prepare

        return prepare(source, folder)

    def build(self) -> WebShopSuite:
        """The suite; raises ``EnvDataError`` if the catalogue is missing, of another version, or has no goals."""
        self.require()
        from turnpoint.envs.webshop.suite import WebShopSuite

        return WebShopSuite(self)
