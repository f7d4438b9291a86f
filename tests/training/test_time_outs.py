from __future__ import annotations

import asyncio
import time
from pathlib import Path

from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.view import View


def test_episodes_that_time_out_while_the_policy_samples_do_not_stop_the_run(
    tmp_path: Path, make_run
) -> None:
    run = make_run(tmp_path, ["train.steps=2", "rollout.episode_seconds=0.1", "eval.before=false"])
    advance = run.policy.advance

    def late():
        """Works once nobody waits for it any more."""
        if not all(future.done() for future in run.rollouts.sampler._open.values()):
            time.sleep(0.005)
            return []
        return advance()

    run.policy.advance = late
    trainer = Trainer(run, View())
    trainer._evaluate = lambda log: asyncio.sleep(0, {})
    asyncio.run(trainer.train())
    steps = [record for record in read_metrics(tmp_path / "metrics.jsonl") if record["kind"] == "train"]
    assert [step["stops"] for step in steps] == [{"time_out": 12}] * 2
    assert [step["sampled_tokens"] for step in steps] == [0, 0]
