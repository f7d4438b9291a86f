"""Retrievers of passages: BM25 over a prepared corpus, a dense model, or any server of Search-R1's protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Discriminator, Field, NonNegativeFloat, PositiveFloat

from turnpoint.config import Settings
from turnpoint.envs.protocol import EnvError
from turnpoint.envs.text_store import TextStore

MOST_RESULTS = 100
"""Most passages that one query may ask for."""


class RetrieverError(EnvError):
    """A retriever did not answer, or not in the protocol; the episode that asked ends with it, the run goes on."""


class Passage(NamedTuple):
    """A retrieved passage."""

    id: str
    """Equal for equal passages only."""
    title: str
    text: str
    score: float = 0.0

    @property
    def contents(self) -> str:
        """As the protocol sends it: the quoted title, and the text below it."""
        return f'"{self.title}"\n{self.text}'

    @classmethod
    def of(cls, document: Any, score: float = 0.0) -> Passage:
        """From a document of the protocol; one without an id is known by a hash of its contents.

        Raises ``ValueError`` if it is none.
        """
        contents = document.get("contents") if isinstance(document, dict) else None
        if not isinstance(contents, str):
            raise ValueError("a document needs 'contents', a text whose first line is the title")
        given = document.get("id")
        name = "" if given is None else str(given)
        if not name:
            name = hashlib.blake2b(contents.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
        title, _, text = contents.partition("\n")
        return cls(name, title.strip().strip('"'), text, score)


class Retriever(Protocol):
    """Finds passages; safe to use from several threads."""

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """The best ``topk`` passages of each query, best first. Raises ``RetrieverError``."""

    def close(self) -> None:
        """Release connections."""


class BM25Settings(Settings):
    """BM25 inside the process, over the prepared corpus; k1 and b are Pyserini's."""

    kind: Literal["bm25"] = "bm25"
    k1: NonNegativeFloat = 0.9
    """How slowly repeats of a word stop counting."""
    b: float = Field(default=0.4, ge=0.0, le=1.0)
    """How much long passages are put back."""


class HttpSettings(Settings):
    """A server that answers ``POST /retrieve`` in Search-R1's protocol: ours, Search-R1's own, or another."""

    kind: Literal["http"] = "http"
    url: str = "http://127.0.0.1:8000/retrieve"
    """Full address of the server."""
    seconds: PositiveFloat = 20.0
    """Longest wait for an answer, from the first byte sent to the last received."""
    deterministic: bool = False
    """The server gives equal answers to equal queries, so that episodes may be replayed."""


class DenseSettings(Settings):
    """A sentence-transformers model inside the process; needs ``turnpoint[dense]``."""

    kind: Literal["dense"] = "dense"
    model: str = "intfloat/e5-base-v2"
    """Name or folder of the model."""
    query_prefix: str = "query: "
    """Put before queries; the default is E5's."""
    passage_prefix: str = "passage: "
    """Put before passages."""
    device: str = "cpu"
    """Where the model runs."""
    index: str = ""
    """File that keeps the passages' vectors: written if it is not there, so that only the first start embeds them."""


RetrieverSettings = Annotated[BM25Settings | HttpSettings | DenseSettings, Discriminator("kind")]


class BM25Retriever:
    """BM25 over the records of a store: ``id``, ``title``, ``text``."""

    def __init__(self, store: TextStore, settings: BM25Settings) -> None:
        self._store = store
        self._search = store.searcher(k1=settings.k1, b=settings.b)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Passage]]:
        """See ``Retriever``."""
        return [
            [
                passage_of(self._store.record(number), score)
                for number, score in self._search.search(query, topk)
            ]
            for query in queries
        ]

    def close(self) -> None:
        """Nothing is held."""


def passage_of(record: dict[str, Any], score: float) -> Passage:
    """From a record of a prepared corpus."""
    return Passage(record["id"], record["title"], record["text"], score)


def make_retriever(settings: BM25Settings | HttpSettings | DenseSettings, store: TextStore) -> Retriever:
    """The retriever that ``settings`` describe; ``store`` holds the corpus of the two local ones."""
    if isinstance(settings, HttpSettings):
        from turnpoint.envs.retrieval_client import HttpRetriever

        return HttpRetriever(settings)
    if isinstance(settings, DenseSettings):
        from turnpoint.envs.retrieval_dense import DenseRetriever

        return DenseRetriever(store, settings)
    return BM25Retriever(store, settings)
