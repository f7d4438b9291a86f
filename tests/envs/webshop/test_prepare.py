"""From released files to a catalogue: WebShop's loading rules, and the numbers of the real small catalogue."""

from __future__ import annotations

import io
import json
import lzma
import time
from pathlib import Path

import pytest

from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.webshop.nouns import rules
from turnpoint.envs.webshop.prepare import FILE, prepare, stream_array
from turnpoint.envs.webshop.settings import WebShopSettings
from turnpoint.envs.webshop.suite import WebShopSuite


def item(asin: str, **changes) -> dict:
    return {
        "asin": asin,
        "name": f"Blue Chair {asin}",
        "full_description": "A chair.",
        "small_description": ["sits well "],
        "pricing": "$1,005.99 - $1,007.50",
        "query": " Chairs ",
        "category": "garden",
        "product_category": "Home › Chairs",
        "customization_options": {"Color": [{"value": " Red/Blue "}, {"value": "Green"}], "Size": None},
    } | changes


PRODUCTS = [
    item("A1"),
    item("A1", name="again"),
    item("B2", pricing="", customization_options="", small_description="one line"),
    item("a-much-too-long-id"),
    item("nan"),
]
ATTRIBUTES = {
    "A1": {
        "attributes": ["solid wood"],
        "instruction": "Find me chairs",
        "instruction_attributes": ["solid wood"],
    },
    "B2": {"attributes": []},
}
HUMAN = {
    "B2": [
        {"instruction": "a chair.", "instruction_attributes": ["wood"], "instruction_options": ["red"]},
        {"instruction": "left out", "instruction_attributes": [], "instruction_options": []},
    ]
}


def released(folder: Path) -> Path:
    """WebShop's own files."""
    folder.mkdir()
    (folder / "items_shuffle_1000.json").write_text(json.dumps(PRODUCTS, indent=1))
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(ATTRIBUTES))
    (folder / "items_human_ins.json").write_text(json.dumps(HUMAN))
    return folder


def test_released_files_are_loaded_by_webshops_rules(tmp_path: Path) -> None:
    facts = prepare(released(tmp_path / "data"), tmp_path / "out")
    assert (facts["products"], facts["goals"]) == (2, {"synthetic": 2, "human": 1})
    assert len(facts["source"]["items_human_ins.json"]) == 64
    suite = WebShopSettings(catalogue=str(tmp_path / "out" / FILE)).build()
    first, second = suite.product(0), suite.product(1)
    assert (first.pricing, first.price, first.query) == ((1005.99, 1007.5), "$1005.99 to $1007.5", "chairs")
    assert first.options == (("color", ("red | blue", "green")),)
    assert (second.pricing, second.price, second.bullets, second.attributes) == (
        (100.0,),
        "$100.0",
        ("one line",),
        (),
    )
    texts = {task.instruction for split in ("train", "valid") for task in suite.tasks(split)}
    assert texts == {
        "Find me chairs with color: red | blue",
        "Find me chairs with color: green",
    }  # above every cap
    with pytest.raises(EnvDataError, match="has 1 human goals"):
        WebShopSettings(catalogue=str(tmp_path / "out" / FILE), goals="human").build()


def test_a_compact_file_gives_the_same_catalogue(tmp_path: Path) -> None:
    docs = [{"product": product} for product in PRODUCTS]
    for document in docs:
        document["product"]["instructions"] = HUMAN.get(document["product"]["asin"], [])
    with lzma.open(tmp_path / "small.json.xz", "wt") as stream:
        json.dump({"docs": docs, "ins": ATTRIBUTES}, stream)
    one = prepare(released(tmp_path / "data"), tmp_path / "one")
    two = prepare(tmp_path / "small.json.xz", tmp_path / "two")
    assert one["sha256"] == two["sha256"]


def test_arrays_are_read_piece_by_piece() -> None:
    values = [{"n": n, "text": "]},{[ é" * 50} for n in range(500)]

    class Slow(io.StringIO):
        def read(self, size: int | None = -1) -> str:
            return super().read(7)

    assert list(stream_array(Slow(json.dumps(values[:9], indent=3)))) == values[:9]
    assert list(stream_array(io.StringIO(json.dumps(values)))) == values
    assert list(stream_array(io.StringIO("[ ]\n"))) == []
    with pytest.raises(EnvDataError, match="broken"):
        list(stream_array(io.StringIO('[{"a": 1}, {"b": ')))


def test_unusable_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(EnvDataError, match="does not exist"):
        prepare(tmp_path / "nothing", tmp_path)
    with pytest.raises(EnvDataError, match=r"no items_shuffle\*"):
        prepare(tmp_path, tmp_path)
    (tmp_path / "bad.json").write_text("[1, 2")
    with pytest.raises(EnvDataError, match="cannot be read"):
        prepare(tmp_path / "bad.json", tmp_path)
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(EnvDataError, match="no 'docs'"):
        prepare(tmp_path / "other.json", tmp_path)
    (tmp_path / "empty.json").write_text(json.dumps({"docs": [{"product": PRODUCTS[0]}], "ins": {}}))
    with pytest.raises(EnvDataError, match="nothing to buy"):
        prepare(tmp_path / "empty.json", tmp_path)


def test_nouns_by_rules() -> None:
    assert rules("Women's 2 Pack of Soft Chairs, 28x28 for the Home") == [
        "women",
        "pack",
        "soft",
        "chairs",
        "home",
    ]


def test_the_real_catalogue_has_the_papers_goals(real: WebShopSuite, shared_data: Path) -> None:
    assert real.store.facts["goals"]["synthetic"] == 6910
    assert [len(real.tasks(split)) for split in ("train", "valid")] == [6410, 500]
    with lzma.open(shared_data / "webshop" / "webshop_small.json.xz", "rt") as stream:
        documents = json.load(stream)["docs"]
    assert real.store.count == len(documents) == 1000
    for number, document in enumerate(documents):
        product, loaded = real.product(number), document["product"]
        assert (product.asin, product.title, product.price) == (
            document["id"],
            loaded["Title"],
            loaded["Price"],
        )
        assert {name: list(values) for name, values in product.options} == loaded["options"]
        assert list(product.attributes) == loaded["Attributes"]


def test_a_real_step_takes_less_than_two_milliseconds(real: WebShopSuite) -> None:
    env, seconds, steps = real.make(), 0.0, 0
    for task in real.tasks("train")[:40]:
        env.reset(task)
        title = real.product(env.snapshot().desk.play.goal.product).title
        for action in (
            f"search[{task.instruction}]",
            "click[next >]",
            "click[back to search]",
            f"search[{title}]",
        ):
            began = time.process_time()
            env.step(action)
            seconds, steps = seconds + time.process_time() - began, steps + 1
    assert 1000 * seconds / steps < 2
