from __future__ import annotations

import json
import random

from turnpoint.inspector.views import Limits, episode_view, summary_view
from turnpoint.records import Episode, Observation, Pivot, StopReason, Task, Turn

from .samples import make_episode, make_retry


def episode(**changes: object) -> Episode:
    made = make_episode(random.Random(5), "e", turns=6, skill=0.2, train=True)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_views_are_plain_json_of_bounded_size() -> None:
    made = episode(lesson="x" * 1_000_000)
    made.turns[0].observation = Observation("y" * 1_000_000)
    limits = Limits(text=100, tokens=5, turns=3)
    view = episode_view(made, limits)
    assert len(json.dumps(view, allow_nan=False)) < 8_000
    assert view["turns"][0]["obs"] == ["y" * 100, 999_900]
    assert view["lesson"].endswith("(999,900 characters cut)")
    assert len(view["turns"]) == 3
    assert view["cutTurns"] == 3
    assert len(view["turns"][0]["tokens"]) == 5


def test_a_failed_episode_and_a_first_turn_are_not_mistaken_for_absent() -> None:
    made = episode(pivots=[Pivot(0, "teacher", "open", "open box")], success=False)
    view = episode_view(made, Limits())
    assert view["success"] is False
    assert view["pivots"] == [0]
    assert view["named"][0]["turn"] == 0
    assert "success" not in summary_view(episode(success=None, stop=StopReason.DEPTH_CAP), Limits())


def test_an_episode_that_never_began_has_a_list_of_no_turns() -> None:
    lost = Episode("e", Task("t", "toy"), [], StopReason.ENV_ERROR, error="the engine is gone")
    view = episode_view(lost, Limits())
    assert (view["turns"], view["error"]) == ([], "the engine is gone")


def test_distances_are_shown_only_where_they_were_measured() -> None:
    measured = episode()
    view = summary_view(measured, Limits())
    assert view["distances"] == [*(t.distance for t in measured.turns), measured.final_distance]
    assert all(
        view["distances"][t + 1] is None or view["distances"][t + 1] > view["distances"][t]
        for t in view["oracle"]
    )
    assert "distances" not in summary_view(episode(distances_known=False), Limits())


def test_not_finite_numbers_are_left_out() -> None:
    turn = Turn(0, Observation("o"), response_ids=(1, 2), scores={"advantage": (float("nan"), 0.5)})
    made = Episode("e", Task("t", "toy"), [turn], seconds=float("inf"))
    view = episode_view(made, Limits())
    json.dumps(view, allow_nan=False)
    assert view["turns"][0]["signals"]["advantage"] == [None, 0.5]
    assert "advantages" not in view


def test_a_constant_signal_is_one_number() -> None:
    turn = Turn(0, Observation("o"), response_ids=(1, 2, 3), scores={"advantage": (0.123456,) * 3})
    assert episode_view(Episode("e", Task("t", "toy"), [turn]), Limits())["turns"][0]["signals"] == {
        "advantage": 0.1235
    }


def test_a_chain_of_attempts_has_its_reflection_and_its_reused_turns() -> None:
    rng = random.Random(2)
    first = make_episode(rng, "e", turns=8, skill=0.1, train=True)
    first.pivots = []
    retry = episode_view(make_retry(rng, first, 3), Limits())
    view = episode_view(first, Limits())
    assert view["pivots"] == [3]
    assert view["reflection"]["pivot"] == 3
    assert view["reflection"]["valid"] is True
    assert "".join(view["reflection"]["tokens"]) == view["reflection"]["response"][0]
    assert view["chain"] == retry["chain"]
    assert (retry["attempt"], retry["reused"], retry["fork"]) == (1, 3, ["e", 3])
    assert "earlier episode" in retry["turns"][0]["untrained"]
    assert "untrained" not in retry["turns"][3]
