from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from turnpoint.exchange import ExchangeReport, read_foreign
from turnpoint.records import Episode, StopReason

TALK = [{"role": "assistant", "content": "slate"}, {"role": "user", "content": "no"},
        {"role": "assistant", "content": "crane"}]  # fmt: skip


def read(tmp_path: Path, **fields: Any) -> tuple[Episode, ExchangeReport]:
    path, report = tmp_path / "results.jsonl", ExchangeReport()
    record = {"example_id": 1, "prompt": "guess", "completion": TALK, "reward": 0.0, **fields}
    path.write_text(json.dumps(record) + "\n")
    (episode,) = read_foreign(path, report)
    return episode, report


def step(*ids: int, **tokens: Any) -> dict[str, Any]:
    given = {"prompt_ids": [1, 2], "completion_ids": list(ids), "completion_logprobs": [-0.5] * len(ids)}
    return {"prompt": [], "completion": [], "tokens": given | tokens}


def test_tokens_of_saved_steps(tmp_path: Path) -> None:
    episode, report = read(tmp_path, trajectory=[step(3, 4), step(5, is_truncated=True)])
    assert [(t.prompt_ids, t.response_ids, t.logprobs, t.truncated) for t in episode.turns] == [
        ((1, 2), (3, 4), (-0.5, -0.5), False),
        ((1, 2), (5,), (-0.5,), True),
    ]
    assert report.notes() == []


@pytest.mark.parametrize("steps", [[step(3)], {"a": 1}])
def test_steps_that_are_not_the_turns_are_counted(steps: Any, tmp_path: Path) -> None:
    episode, report = read(tmp_path, trajectory=steps)
    assert not any(turn.response_ids for turn in episode.turns)
    assert report.changed == {"field 'trajectory' whose steps are not the turns": 1}


def test_log_probs_of_another_length_are_counted(tmp_path: Path) -> None:
    episode, report = read(tmp_path, trajectory=[step(3, completion_logprobs=[-1.0, -2.0]), {"tokens": None}])
    assert (episode.turns[0].response_ids, episode.turns[0].logprobs) == ((3,), ())
    assert report.changed == {"log-probs of another length than the tokens": 1}


@pytest.mark.parametrize("value", [None, "x", float("nan"), float("-inf")])
def test_log_probs_that_are_no_numbers_cost_no_more_than_themselves(value: Any, tmp_path: Path) -> None:
    episode, report = read(tmp_path, trajectory=[step(3, 4, completion_logprobs=[value, -1.0]), step(5)])
    assert [(t.response_ids, t.logprobs) for t in episode.turns] == [((3, 4), ()), ((5,), (-0.5,))]
    assert report.changed == {"log-probs that are no numbers": 1}


def test_token_ids_that_are_none_are_counted(tmp_path: Path) -> None:
    bad = {"completion_ids": ["a", 4], "completion_logprobs": []}
    episode, report = read(tmp_path, trajectory=[step(3, prompt_ids=[1.5]), step(**bad)])
    assert [(t.prompt_ids, t.response_ids) for t in episode.turns] == [((), (3,)), ((), ())]
    assert report.changed == {"token ids that are no whole numbers": 2}


def test_fields_that_no_one_reads_are_counted(tmp_path: Path) -> None:
    episode, report = read(
        tmp_path, state={"a": 1}, tool_defs=[{"name": "t"}], timing={"total_ms": 1500.0}, letters=3, empty=[]
    )
    assert (episode.seconds, episode.info["letters"]) == (1.5, 3)
    assert report.changed == {"field 'state'": 1, "field 'tool_defs'": 1}
    _, report = read(tmp_path, timing={"start_time": 3.0})
    assert report.changed == {"field 'timing' without total_ms": 1}


@pytest.mark.parametrize(
    "error", ["boom", {"error": "E", "error_chain_repr": "E('boom')", "error_chain_str": "boom"}]
)
def test_a_rollout_that_broke_off_has_no_outcome(error: Any, tmp_path: Path) -> None:
    episode, _ = read(tmp_path, error=error)
    assert (episode.stop, episode.success) == (StopReason.ENV_ERROR, None)
    assert "boom" in episode.error
