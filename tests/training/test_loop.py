from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from turnpoint.config import ConfigError
from turnpoint.records import Episode, Group, StopReason, Task, read_episodes
from turnpoint.training.checkpoint import list_checkpoints
from turnpoint.training.loop import Trainer, rollout_metrics
from turnpoint.training.metrics import open_loggers, read_metrics
from turnpoint.training.outcome import outcome_lines
from turnpoint.training.view import View

TIMES = ("seconds",)


def train(run) -> Trainer:
    trainer = Trainer(run, View())
    asyncio.run(trainer.train())
    return trainer


def timeless(records):
    return [{k: v for k, v in r.items() if not k.startswith(TIMES)} for r in records]


def all_episodes(folder: Path):
    found = {}
    for path in sorted(folder.glob("*/step_*.jsonl")):
        episodes = read_episodes(path)
        for episode in episodes:
            episode.seconds = 0.0
        found[path.relative_to(folder).as_posix()] = episodes
    return found


def test_the_mean_score_is_a_metric_where_there_are_scores() -> None:
    task = Task("t", "toy")
    episodes = [
        Episode("a", task, stop=StopReason.SUCCESS, success=True, score=1.0),
        Episode("b", task, stop=StopReason.MAX_TURNS, success=False, score=0.0),
        Episode("c", task, stop=StopReason.ENV_ERROR, score=0.5),
    ]
    assert rollout_metrics([Group(task, episodes)])["score"] == 0.5
    for episode in episodes:
        episode.score = None
    assert "score" not in rollout_metrics([Group(task, episodes)])


def test_a_run_leaves_everything_behind(tmp_path: Path, make_run) -> None:
    run = make_run(tmp_path)
    train(run)
    records = read_metrics(tmp_path / "metrics.jsonl")
    assert [(r["kind"], r["step"]) for r in records] == [
        ("eval", 0), ("train", 1), ("train", 2), ("eval", 2), ("train", 3), ("train", 4), ("eval", 4),
    ]  # fmt: skip
    assert [step for step, _ in list_checkpoints(tmp_path / "checkpoints")] == [2, 4]
    header = json.loads((tmp_path / "header.json").read_text())
    assert header["packages"]["numpy"]
    assert (tmp_path / "config.yaml").is_file()
    episodes = all_episodes(tmp_path)
    assert len(episodes["episodes/step_000001.jsonl"]) >= 12
    trained = records[1]
    assert trained["rows"] > 0
    assert trained["sampled_tokens"] > 0
    assert trained["pivots_used"] > 0
    assert trained["recovery_tokens"] > 0


def test_resume_repeats_exactly_what_a_whole_run_does(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path / "whole"))
    train(make_run(tmp_path / "parts", ["train.steps=2"]))
    again = make_run(tmp_path / "parts")
    trainer = Trainer(again, View())
    assert trainer.resume() == 2
    asyncio.run(trainer.train())
    assert all_episodes(tmp_path / "parts") == all_episodes(tmp_path / "whole")
    whole = read_metrics(tmp_path / "whole" / "metrics.jsonl")
    assert timeless(read_metrics(tmp_path / "parts" / "metrics.jsonl")) == timeless(whole)


def test_resume_after_a_crash_in_mid_step_leaves_no_trace_of_it(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path / "whole"))
    crashing = make_run(tmp_path / "parts")
    update, calls = crashing.policy.update, []

    def dies(rows):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return update(rows)

    crashing.policy.update = dies
    with pytest.raises(KeyboardInterrupt):
        train(crashing)
    trainer = Trainer(make_run(tmp_path / "parts"), View())
    assert trainer.resume() == 2
    asyncio.run(trainer.train())
    assert all_episodes(tmp_path / "parts") == all_episodes(tmp_path / "whole")


def test_only_the_newest_checkpoints_stay(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path, ["train.checkpoint_every=1", "train.keep_checkpoints=2"]))
    assert [step for step, _ in list_checkpoints(tmp_path / "checkpoints")] == [3, 4]


def test_a_half_written_checkpoint_is_not_taken(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path, ["train.steps=2"]))
    (tmp_path / "checkpoints" / "step_000009" / "policy").mkdir(parents=True)
    assert Trainer(make_run(tmp_path), View()).resume() == 2
    with pytest.raises(ConfigError, match="no checkpoint"):
        Trainer(make_run(tmp_path / "elsewhere"), View()).resume()


def test_lost_tokens_are_an_error(tmp_path: Path, make_run) -> None:
    run = make_run(tmp_path)
    credit = run.method.credit

    async def loses(groups, scorer, teachers):
        return (await credit(groups, scorer, teachers))[:-1]

    run.method.credit = loses
    with pytest.raises(RuntimeError, match="tokens were sampled"):
        train(run)


def test_recomputed_log_probs_equal_those_of_a_matching_sampler(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path / "a", ["train.steps=1"]))
    train(make_run(tmp_path / "b", ["train.steps=1", "train.recompute_old_logprobs=true"]))
    assert all_episodes(tmp_path / "a") == all_episodes(tmp_path / "b")


def test_evaluations_are_paired_and_do_not_touch_training(tmp_path: Path, make_run) -> None:
    train(make_run(tmp_path / "a"))
    train(make_run(tmp_path / "b", ["eval.every=1", "eval.before=false"]))
    a, b = all_episodes(tmp_path / "a"), all_episodes(tmp_path / "b")
    for name in a:
        if name.startswith("episodes/"):
            assert a[name] == b[name]
    assert a["eval/step_000002.jsonl"] == b["eval/step_000002.jsonl"]


class Notes(View):
    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, text: str) -> None:
        self.found.append(text)


def test_an_evaluation_without_outcomes_does_not_end_the_run(tmp_path: Path, make_run) -> None:
    run = make_run(tmp_path, ["train.steps=1", "method.kind=grpo", "env.fault=crash", "env.fault_turn=0"])
    view = Notes()
    asyncio.run(Trainer(run, view).train())
    records = read_metrics(tmp_path / "metrics.jsonl")
    assert [(r["kind"], r["step"]) for r in records] == [("eval", 0), ("train", 1), ("eval", 1)]
    assert records[0]["stops"] == {"env_error": 4}
    assert "success" not in records[0]
    assert any("eval at step 0: no episode has an outcome" in note for note in view.found)
    lines = outcome_lines(tmp_path)
    assert len(lines) == 2
    assert "evaluation at step 1: no episode has an outcome" in lines[1]


class Remembers:
    """A teacher that counts the steps of a run, over restarts."""

    def __init__(self) -> None:
        self.count = 0

    async def check(self) -> None:
        self.count += 1

    def metrics(self) -> dict[str, float]:
        return {}

    async def close(self) -> None: ...

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]


def test_teachers_go_on_where_they_were(tmp_path: Path, make_run) -> None:
    def run(*overrides: str):
        made = make_run(tmp_path, ["method.kind=grpo", "teacher=null", "eval.before=false", *overrides])
        made.teachers.naming = Remembers()
        return made

    train(run("train.steps=2"))
    again = run("train.steps=3")
    trainer = Trainer(again, View())
    trainer.resume()
    assert again.teachers.naming.count == 1
    asyncio.run(trainer.train())
    assert again.teachers.naming.count == 2


def test_tensorboard_forgets_the_steps_that_a_resumed_run_repeats(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for done, steps, value in ((None, range(1, 5), 1.0), (2, range(3, 4), 2.0)):
        (logger,), notes = open_loggers(["tensorboard"], tmp_path, done=done)
        assert not notes
        for step in steps:
            logger.log(step, {"x": value})
        logger.close()
    found = events.EventAccumulator(str(tmp_path / "tensorboard"))
    found.Reload()
    assert [(e.step, e.value) for e in found.Scalars("x")] == [(1, 1.0), (2, 1.0), (3, 2.0)]


def test_a_budget_of_interactions_ends_a_run_also_after_resume(tmp_path: Path, make_run) -> None:
    free = train(make_run(tmp_path / "free", ["eval.every=0"])).run
    played = [r["interactions"] for r in read_metrics(free.folder / "metrics.jsonl") if r["kind"] == "train"]
    limit = ["train.steps=30", "train.checkpoint_every=1", "train.keep_checkpoints=9", "eval.every=0",
             f"train.interactions={sum(played[:2]) + 1}"]  # fmt: skip
    trainer = train(make_run(tmp_path / "run", limit))
    assert trainer.step == 3
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["kind"] == "eval"
    again = Trainer(make_run(tmp_path / "run", limit), View())
    again.resume(tmp_path / "run" / "checkpoints" / "step_000001")
    asyncio.run(again.train())
    assert again.step == 3
