"""Environments that hang, crash, answer nonsense or leak, through whole training steps: the run goes on."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from turnpoint.records import Episode, read_episodes
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.view import View

sys.path.append(str(Path(__file__).parent))  # the engine's process finds ``faulty_env`` there too

STEPS = 2


def train(make_run: Any, folder: Path, wrong: str, *more: str) -> tuple[list[dict[str, Any]], list[Episode]]:
    overrides = ["env.kind=faulty_env:FaultySettings", f"env.wrong={wrong}", "method.kind=grpo", "method.group=2",
                 "teacher=null", f"train.steps={STEPS}", "train.tasks_per_step=3", "eval.before=false",
                 *more]  # fmt: skip
    run = make_run(folder, overrides)
    trainer = Trainer(run, View())
    trainer._evaluate = lambda log: asyncio.sleep(0, {})
    asyncio.run(trainer.train())
    if hasattr(run.suite, "engine"):
        run.suite.engine.close()
    steps = [record for record in read_metrics(folder / "metrics.jsonl") if record["kind"] == "train"]
    assert len(steps) == STEPS
    return steps, [e for path in sorted((folder / "episodes").glob("*.jsonl")) for e in read_episodes(path)]


def stops_of(episodes: list[Episode], wrong: bool) -> set[str]:
    return {str(e.stop) for e in episodes if (e.task.seed % 19 == 0) is wrong}


@pytest.mark.parametrize(
    ("wrong", "said", "counted"),
    [
        ("engine hangs", r"Engine\.work took longer than 0\.4 s and was ended", "env/lost_processes_hung"),
        ("engine crashes", r"the process of Engine\.work ended with signal 11", "env/lost_processes_crashed"),
        ("no step", r"answered with None, which is no Step", None),
        ("no number", r"the reward is 'a lot', no finite number", None),
        ("not finite", r"the reward is nan, no finite number", None),
        ("no text", r"the observation's text is 7, no text", None),
        ("exit", r"SystemExit: bye", None),
    ],
)
def test_a_fault_ends_its_episode_and_the_run_goes_on(
    make_run: Any, tmp_path: Path, wrong: str, said: str, counted: str | None
) -> None:
    steps, episodes = train(make_run, tmp_path, wrong)
    broken = [e for e in episodes if e.stop is not None and e.stop == "env_error"]
    assert broken, [(e.task.seed, str(e.stop), e.error) for e in episodes]
    assert all(re.search(said, e.error) for e in broken)
    assert all(e.task.seed % 19 == 0 and e.success is None for e in broken)
    assert "env_error" not in stops_of(episodes, wrong=False) != set()
    assert sum(step["stops"].get("env_error", 0) for step in steps) == len(broken)
    assert all(step["rows"] > 0 for step in steps)
    if counted is not None:
        assert sum(step[counted] for step in steps) == len(broken)


def test_a_process_that_leaks_is_replaced_and_no_episode_is_lost(make_run: Any, tmp_path: Path) -> None:
    steps, episodes = train(make_run, tmp_path, "engine leaks")
    assert {str(e.stop) for e in episodes} <= {"success", "max_turns"}
    assert sum(step["env/lost_processes_memory"] for step in steps) >= 1
    assert sum(step["env/lost_processes_hung"] + step["env/lost_processes_crashed"] for step in steps) == 0


def test_a_call_that_hangs_in_this_process_is_timed_out(make_run: Any, tmp_path: Path) -> None:
    steps, episodes = train(
        make_run, tmp_path, "engine hangs", "env.kind=turnpoint.testing.toy_env:ToySettings", "env.fault=hang",
        "env.fault_turn=1", "env.fault_every=19", "env.hang_seconds=600", "rollout.env_seconds=2",
    )  # fmt: skip
    assert "time_out" in stops_of(episodes, wrong=True)
    assert "time_out" not in stops_of(episodes, wrong=False) != set()
    assert all(step["rows"] > 0 for step in steps)


def fail_in(make_run: Any, folder: Path, break_it: Any) -> tuple[BaseException, list[Episode]]:
    """What ended a run in its second step, and the episodes on record of that step."""
    overrides = [
        "method.kind=grpo",
        "method.group=4",
        "teacher=null",
        "rollout.concurrent=5",
        "eval.before=false",
    ]
    run = make_run(folder, overrides)
    trainer = Trainer(run, View())
    break_it(run, lambda: trainer.step == 1)
    with pytest.raises(RuntimeError, match="the engine is gone") as caught:
        asyncio.run(trainer.train())
    path = folder / "episodes" / "step_000002.jsonl"
    assert (folder / "episodes" / "step_000001.jsonl").is_file()
    return caught.value, read_episodes(path) if path.is_file() else []


@pytest.mark.parametrize("where", ["credit", "update"])
def test_episodes_are_on_record_before_anything_else_can_fail(
    make_run: Any, tmp_path: Path, where: str
) -> None:
    def break_it(run: Any, now: Any) -> None:
        owner = run.method if where == "credit" else run.policy
        works = getattr(owner, where)

        def fails(*arguments: Any) -> Any:
            if now():
                raise RuntimeError("the engine is gone")
            return works(*arguments)

        setattr(owner, where, fails)

    error, episodes = fail_in(make_run, tmp_path, break_it)
    assert len(episodes) == 12
    assert all(e.stop is not None and e.step == 1 for e in episodes)
    assert not getattr(error, "__notes__", [])


def test_what_a_failed_collection_loses_is_counted(make_run: Any, tmp_path: Path) -> None:
    """The engine goes when some of the step's episodes are finished and others are not."""
    lost: list[Any] = []

    def break_it(run: Any, now: Any) -> None:
        advance = run.policy.advance

        def fails() -> Any:
            if now() and run.rollouts.finished >= 5:
                lost.append((run.rollouts.finished, run.rollouts.sampled_tokens))
                raise RuntimeError("the engine is gone")
            return advance()

        run.policy.advance = fails

    error, episodes = fail_in(make_run, tmp_path, break_it)
    finished, tokens = lost[0]
    assert 5 <= finished < 12
    assert (episodes, tokens > 0) == ([], True)
    assert error.__notes__ == [
        f"step 2 ended while it collected: {finished} finished episodes and {tokens} sampled tokens are lost; resume "
        "goes on from the last checkpoint",
        "closing the rollouts failed as well: RuntimeError: the engine is gone",
    ]
