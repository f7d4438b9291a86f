"""Rollout dumps as verl itself writes them are read as episodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from turnpoint.exchange import ExchangeReport, read_foreign

PROMPT = "system\nYou play.\nuser\nGo to the shelf.\nassistant\n"
FIRST = "<think>where?</think>\n<action>look</action>"
OUTPUT = FIRST + "\nuser\nYou see a shelf.\nassistant\n<action>go to shelf 1</action>"


@pytest.mark.parametrize("trainer", [RayPPOTrainer, PPOTrainer])
def test_turns_scores_and_steps(trainer: type, tmp_path: Path) -> None:
    trainer._write_generations(
        inputs=[PROMPT, PROMPT],
        outputs=[OUTPUT, "no idea"],
        gts=[None, "shelf"],
        scores=[1.0, 0.0],
        reward_extra_infos_dict={"uid": ["a_0_0", "a_1_0"], "acc": [True, False]},
        dump_path=str(tmp_path),
        global_steps=7,
    )
    report = ExchangeReport()
    good, bad = read_foreign(tmp_path / "7.jsonl", report)
    assert not report.dropped
    assert [t.action for t in good.turns] == ["look", "go to shelf 1"]
    assert good.turns[1].observation.text == "You see a shelf."
    assert (good.success, bad.success) == (True, False)
    assert good.step == 7
    assert good.task.id == bad.task.id
    assert good.task.instruction == "Go to the shelf."
    assert (good.id, bad.id) == ("a_0_0", "a_1_0")
