"""Agents without a model: what they choose, how their episodes end, and what they cannot play."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.config import ConfigError
from turnpoint.envs import env_registry
from turnpoint.records import read_episodes
from turnpoint.testing import crashing_suite, toy_suite
from turnpoint.training.scripted import evaluate_scripted
from turnpoint.training.settings import EvalSettings

TEN = EvalSettings(tasks=10)


def success(suite: Any, agent: Any, **changes: Any) -> float:
    summary = evaluate_scripted(suite, agent, EvalSettings(tasks=30, **changes)).summary
    assert summary is not None
    return summary.success.mean


def test_the_more_an_agent_knows_the_more_it_solves() -> None:
    suite = toy_suite(rooms=2, max_turns=8)
    random, observer, oracle = (success(suite, agent) for agent in ("random", "observer", "oracle"))
    assert 0 < random < observer <= oracle == 1.0


def test_episodes_are_recorded_like_those_of_a_model() -> None:
    suite = toy_suite()
    found = evaluate_scripted(suite, "oracle", TEN)
    for episode in found.episodes:
        assert episode.distances_known
        assert [turn.distance for turn in episode.turns] == list(range(len(episode.turns), 0, -1))
        assert (episode.final_distance, str(episode.stop)) == (0, "success")
    again = evaluate_scripted(suite, "random", TEN, seed=3)
    assert actions(again) == actions(evaluate_scripted(suite, "random", TEN, seed=3))
    assert actions(again) != actions(evaluate_scripted(suite, "random", TEN, seed=4))
    twice = evaluate_scripted(suite, "random", EvalSettings(tasks=2, samples=2))
    assert len({episode.id for episode in twice.episodes}) == 4
    assert twice.episodes[0].turns != twice.episodes[1].turns


def actions(evaluation: Any) -> list[list[str]]:
    return [[turn.executed for turn in episode.turns] for episode in evaluation.episodes]


def test_a_broken_environment_has_no_outcome() -> None:
    found = evaluate_scripted(crashing_suite(fault_every=2), "random", TEN)
    stops = {(e.task.seed % 2, str(e.stop)) for e in found.episodes}
    assert (0, "env_error") in stops
    assert (1, "env_error") not in stops
    assert evaluate_scripted(crashing_suite(fault_turn=0), "random", TEN).summary is None


def test_an_environment_without_an_oracle_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no oracle, so agent 'observer' cannot play it"):
        evaluate_scripted(toy_suite(oracle=False), "observer", TEN)


@pytest.mark.parametrize("settings", [{"kind": "webshop"}, {"kind": "search_qa"}, {"kind": "math"}])
def test_random_agents_where_nothing_is_listed(settings: dict[str, Any]) -> None:
    found = evaluate_scripted(env_registry.parse(settings).build(), "random", TEN)
    turns = [turn for episode in found.episodes for turn in episode.turns]
    assert found.stops.keys() <= {"success", "failure", "max_turns"}
    assert all(turn.effective for turn in turns)
    assert len({turn.executed for turn in turns}) > 5


def test_scores_are_told_where_the_environment_gives_them() -> None:
    found = CliRunner().invoke(app, ["eval", "webshop", "eval.tasks=20", "--agent", "random", "--json"])
    assert found.exit_code == 0, found.output
    figures = json.loads(found.stdout)
    assert figures["success"]["mean"] <= figures["score"]["mean"] < 1
    assert figures["score"]["n"] == figures["success"]["n"]
    told = CliRunner().invoke(app, ["eval", "webshop", "eval.tasks=5", "--agent", "oracle"])
    assert "mean score: 100.0% [100.0%, 100.0%]" in told.output
    other = CliRunner().invoke(app, ["eval", "household", "eval.tasks=5", "--agent", "oracle"])
    assert "score" not in other.output


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    done = CliRunner().invoke(
        app, ["eval", "sokoban", "eval.tasks=3", "--agent", "oracle", "--json", "--episodes", str(path)]
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["success"]["mean"] == 1.0
    assert len(read_episodes(path)) == 3
    done = CliRunner().invoke(app, ["eval", "grpo_search_qa", "eval.tasks=3", "--agent", "oracle"])
    assert done.stdout.startswith("success 100.0% [100.0%, 100.0%] over 3 episodes")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "--agent", "random"], "there is no config file nowhere"),
        (["math", "--agent", "oracle"], "has no oracle"),
        (["sokoban", "eval.taks=3", "--agent", "random"], "taks"),
        (["sokoban", "--agent", "random", "--checkpoint", "x"], "--checkpoint names weights"),
    ],
)
def test_wrong_uses_are_named(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["eval", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
