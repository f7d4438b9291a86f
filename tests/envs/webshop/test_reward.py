"""Scores against an independent reading of the rules, and the quirks that they have."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnpoint.envs.webshop.catalogue import price_of
from turnpoint.envs.webshop.reward import COLOURS, colour, fits, option_text, similarity
from turnpoint.envs.webshop.suite import WebShopSuite

from . import reference

LETTERS = st.text("ab cdé-|2Ω", max_size=12)


def wander(suite: WebShopSuite, task, rng: random.Random) -> tuple[int, list[str], float]:
    """Search, open a product, choose some options, buy: the product, the values, the score."""
    env = suite.make()
    env.reset(task)
    words = task.instruction.removeprefix("Find me ").split()
    query = " ".join(words) if rng.random() < 0.5 else " ".join(rng.sample(words, min(3, len(words))))
    if not env.step(f"search[{query}]").effective:
        env.step("search[a]")
    links = [
        a for a in env.restore(env.snapshot()).admissible or () if suite.find(a[6:-1].upper()) is not None
    ]
    if not links:
        return -1, [], 0.0
    step = env.step(links[0] if rng.random() < 0.4 else rng.choice(links))
    fixed = {"back to search", "< prev", "description", "features", "reviews", "buy now"}
    values = [a for a in step.observation.admissible or () if a[6:-1] not in fixed]
    for action in rng.sample(values, min(len(values), rng.randrange(5))):
        env.step(action)
    state = env.snapshot().state
    step = env.step("click[buy now]")
    assert step.done
    assert step.success is (env.score() == 1.0)
    assert step.reward == 10.0 * (env.score() == 1.0)
    return state.product, [value for _, value in state.chosen], env.score()


def compare(suite: WebShopSuite, episodes: int) -> list[float]:
    rng, scores = random.Random(7), []
    tasks = [*suite.tasks("valid"), *suite.tasks("train")]
    for task in rng.choices(tasks, k=episodes):
        bought, chosen, got = wander(suite, task, rng)
        if bought < 0:
            continue
        item, store = suite.store.item(task.data["goal"]), suite.store
        price = price_of(suite.product(bought), task.data["price_seed"])
        target, record = store.record(item["product"]), store.record(bought)
        assert got == reference.score(item, task.data["cap"], target, record, price, chosen, COLOURS)
        scores.append(got)
    return scores


def test_generated_purchases_score_as_the_rules_say(generated: WebShopSuite) -> None:
    scores = compare(generated, 320)
    assert len(scores) >= 300
    assert len(set(scores)) >= 5  # not all alike


def test_real_purchases_score_as_the_rules_say(real: WebShopSuite) -> None:
    scores = compare(real, 310)
    assert len(scores) >= 300
    assert len(set(scores)) >= 10


@given(LETTERS, LETTERS)
def test_similarity_is_the_token_set_ratio(one: str, two: str) -> None:
    assert similarity(one, two) == reference.token_set_ratio(one, two)


@pytest.mark.parametrize(
    ("one", "two", "ratio"),
    [  # computed with thefuzz 0.22
        ("army green", "('color', 'army green')", 100),
        ("brown", "('color', 'r.brown2060')", 45),
        ("tea tree", "tea tree oil", 100),
        ("easy clean", "easy use", 67),
        ("", "x", 0),
        ('28" x 28"', "('size', '28\" x 28\"')", 100),
    ],
)
def test_similarity_of_known_pairs(one: str, two: str, ratio: int) -> None:
    assert similarity(one, two) == ratio


def test_colours_stand_for_the_first_one_inside() -> None:
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert (colour("fashion black girl"), colour("steelivy fuchsia"), colour("webshop")) == (
        "ash",
        "fuchsia",
        "webshop",
    )
    assert option_text(("color", "wine red")) == "('color', 'wine red')"
    assert option_text(("color", "red")) == "red"
    assert option_text("dark blue") == "blue"
    assert fits("red", ("color", "red"))
    assert not fits(
        "r.brown2060", ("color", "r.brown2060")
    )  # one side is reduced, the other not: it never fits
