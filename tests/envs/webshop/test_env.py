"""Pages, clicks, prices and rewards on a generated catalogue, and the contract."""

from __future__ import annotations

from typing import Any

import pytest

from turnpoint.envs import EnvError
from turnpoint.envs.check import check_env
from turnpoint.envs.protocol import EnvDataError
from turnpoint.envs.webshop.catalogue import NO_CAP, cap_of, price_of
from turnpoint.envs.webshop.engine import parse
from turnpoint.envs.webshop.settings import CatalogueGeneratorSettings, WebShopSettings
from turnpoint.envs.webshop.suite import WebShopSuite


def opened(suite: WebShopSuite, number: int = 0):
    """The goal's product, open, with its task."""
    env, task = suite.make(), suite.tasks("train")[number]
    env.reset(task)
    product = suite.product(suite.find(task.data["asin"]))
    env.step(f"search[{product.title}]")
    env.step(f"click[{product.asin}]")
    return env, task, product


def text(env) -> str:
    return env.restore(env.snapshot()).text


def test_pages_are_the_visible_strings(generated: WebShopSuite) -> None:
    env, task = generated.make(), generated.tasks("train")[0]
    assert env.reset(task).text == f"WebShop [SEP] Instruction: [SEP] {task.instruction} [SEP] Search"
    env, task, product = opened(generated)
    head = f"Instruction: [SEP] {task.instruction} [SEP] Back to Search [SEP] < Prev [SEP] "
    options = "".join(f"{name} [SEP] {' [SEP] '.join(values)} [SEP] " for name, values in product.options)
    tail = f"{product.title} [SEP] Price: {product.price} [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] "
    assert text(env) == f"{head}{options}{tail}Reviews [SEP] Buy Now"
    assert env.step("click[Features]").observation.text == head + " [SEP] ".join(product.bullets)
    assert env.step("click[description]").effective is False  # the item's button, not on this page
    assert env.step("click[< Prev]").observation.text.endswith("Buy Now")
    assert env.step("click[reviews]").observation.text.endswith("No reviews found")


def test_results_come_in_pages_of_ten(generated: WebShopSuite) -> None:
    env = generated.make()
    env.reset(generated.tasks("train")[0])
    shown = env.step("search[shop lightweight cotton steel living room]").observation
    total = int(shown.text.split("Total results: ")[1].split(")")[0])
    assert total > 10
    links = [a for a in shown.admissible if a.startswith("click[g0")]
    assert len(links) == 10
    assert "click[next >]" in shown.admissible
    assert "click[< prev]" not in shown.admissible
    second = env.step("click[next >]").observation
    assert "Page 2 (" in second.text
    assert not set(links) & set(second.admissible)
    assert env.step("click[< prev]").observation == shown
    env.step(links[3])
    assert env.step("click[< prev]").observation == shown  # back on the same page of results


def test_options_are_chosen_changed_and_forgotten(generated: WebShopSuite) -> None:
    number = next(i for i in range(50) if len(opened(generated, i)[2].options) == 2)
    env, _, product = opened(generated, number)
    (name, values), (other, more) = product.options
    for value in (values[0], more[0], values[1]):
        assert env.step(f"click[{value}]").effective
    assert dict(env.snapshot().state.chosen) == {name: values[1], other: more[0]}
    one = env.restore(env.snapshot()).state_key
    env, _, _ = opened(generated, number)
    env.step(f"click[{values[1]}]")
    assert env.step(f"click[{more[0]}]").observation.state_key == one  # whatever the order
    env.step("click[< prev]")
    env.step(f"click[{product.asin.lower()}]")
    assert env.snapshot().state.chosen == ()


def test_a_purchase_ends_the_episode_with_its_score() -> None:
    partial = WebShopSettings(reward="score").build()
    env, _, _ = opened(partial, 1)
    step = env.step("click[buy now]")
    assert step.done
    assert 0 < env.score() < 1
    assert step.reward == 10.0 * env.score()
    assert step.score == env.score()
    assert step.success is False
    assert step.observation.text.endswith(f"[SEP] {env.score()}")
    assert step.observation.admissible == ()
    again = env.step("click[back to search]")
    assert (again.done, again.success, again.reward, again.effective) == (True, False, 0.0, False)
    assert again.score == step.score


def test_before_a_purchase_the_score_is_zero(generated: WebShopSuite) -> None:
    env = generated.make()
    env.reset(generated.tasks("train")[0])
    assert env.step("search[cotton]").score == 0.0
    assert env.step("buy it").score == 0.0


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[Red Dress]", ("search", "red dress")),
        ("click[size [m]]", ("click", "size [m]")),
        (" click[< Prev] please", ("click", "< prev")),
        ("search[]", None),
        ("click[", None),
        ("buy now", None),
        ("SEARCH[x]", None),
        ("think[x] search[y]", None),
    ],
)
def test_actions_are_read(action: str, parsed: tuple[str, str] | None) -> None:
    assert parse(action) == parsed


def test_searches_are_accepted_where_the_settings_say() -> None:
    free = WebShopSettings(search_anywhere=True).build()
    env, _, _ = opened(free)
    assert env.restore(env.snapshot()).admissible is None
    assert env.step("search[lamp]").effective
    listed = WebShopSettings(searches="listed").build()
    env, task = listed.make(), listed.tasks("train")[0]
    shown = env.reset(task)
    assert all(action.startswith("search[") for action in shown.admissible)
    assert not env.step("search[lamp]").effective
    assert env.step(shown.admissible[0]).effective
    assert not env.step(shown.admissible[0]).effective  # only where the search bar is


def test_prices_and_caps_are_drawn_from_the_seed_and_kept_with_the_task(generated: WebShopSuite) -> None:
    other = WebShopSettings(price_seed=5).build()
    tasks = [suite.tasks("train")[:100] for suite in (generated, other)]
    assert [t.data["cap"] for t in tasks[0]] != [t.data["cap"] for t in tasks[1]]
    # A task brings its own draw, also into a suite with another seed.
    env = other.make()
    env.reset(tasks[0][3])
    assert env.snapshot().desk.play.goal.cap == tasks[0][3].data["cap"]
    ranged = [p for p in map(generated.product, range(60)) if len(p.pricing) == 2]
    assert ranged
    for product in ranged:
        low, high = product.pricing
        price = price_of(product, 0)
        assert low <= price <= high
        assert price == price_of(product, 0) != price_of(product, 1)
        cap = cap_of(product, 0)
        assert price < cap - 10 or cap == NO_CAP
        assert cap % 10 == 0


@pytest.mark.parametrize(
    ("changes", "skipped"),
    [
        ({}, {"admissible actions", "vocabulary"}),
        ({"searches": "listed", "show_chosen": True, "show_instruction": False}, set()),
        (
            {"search_anywhere": True, "attributes_page": True, "reward": "score"},
            {"admissible actions", "vocabulary"},
        ),
    ],
)
def test_the_contract_is_kept(changes: dict[str, Any], skipped: set[str]) -> None:
    report = check_env(WebShopSettings(**changes).build(), quick=True, tasks=2)
    assert report.ok, report.failures
    assert {check.name for check in report.checks if check.skipped} == skipped


def test_what_cannot_be_played_is_refused(generated: WebShopSuite) -> None:
    env = generated.make()
    with pytest.raises(EnvError, match="reset"):
        env.step("search[x]")
    with pytest.raises(EnvError, match="not a snapshot"):
        env.restore(3)
    smaller = WebShopSettings(generator=CatalogueGeneratorSettings(products=30)).build()
    with pytest.raises(EnvError, match="another catalogue"):
        env.reset(smaller.tasks("train")[0])
    with pytest.raises(EnvDataError, match="no split"):
        generated.tasks("test")
    with pytest.raises(EnvDataError, match="turnpoint envs prepare"):
        WebShopSettings(catalogue="nowhere.sqlite").build()
    for wrong, reason in (
        ({"catalogue": "x", "generator": {"products": 3}}, "would be ignored"),
        ({"goals": "human"}, "no human goals"),
        ({"searches": "listed", "search_anywhere": True}, "one of them"),
    ):
        with pytest.raises(ValueError, match=reason):
            WebShopSettings(**wrong)


def found(suite: WebShopSuite, query: str) -> list[Any]:
    return [suite.product(number) for number in suite.search(query)]


def test_special_searches_list_by_attribute_category_and_query(generated: WebShopSuite) -> None:
    products = [generated.product(number) for number in range(generated.store.count)]
    categories = {p.number: generated.store.record(p.number)["category"] for p in products}
    assert found(generated, "<a> machine wash") == [p for p in products if "machine wash" in p.attributes]
    assert found(generated, "<c> clothing and more") == [
        p for p in products if categories[p.number] == "clothing"
    ]
    assert found(generated, "<q> lamp") == [p for p in products if p.query == "lamp"]
    assert len(found(generated, "<c> clothing")) > 10
    assert found(generated, "<a> nothing like it") == found(generated, "<c>") == []
    env = generated.make()
    env.reset(generated.tasks("train")[0])
    total = len(found(generated, "<c> clothing"))
    assert f"Page 1 (Total results: {total})" in env.step("search[<c> clothing]").observation.text


def test_random_products_are_drawn_once_for_a_seed(generated: WebShopSuite) -> None:
    drawn = generated.search("<r>")
    assert len(set(drawn)) == 50
    assert drawn == WebShopSettings().build().search("<r> whatever")
    assert drawn != WebShopSettings(price_seed=1).build().search("<r>")


def test_special_searches_of_the_released_catalogue(real: WebShopSuite) -> None:
    attributes = {a for number in range(real.store.count) for a in real.product(number).attributes}
    assert all(real.search(f"<a> {a}") for a in sorted(attributes)[:50])
    assert (
        sum(len(real.search(f"<c> {c}")) for c in ("beauty", "electronics", "fashion", "garden", "grocery"))
        == 1000
    )
