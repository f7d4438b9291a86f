"""Checkpoints: resume with the method's state, a killed run, and the merged model in the local policy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray
from safetensors.torch import load_file

from turnpoint.testing.verl_cpu import OVERRIDES
from turnpoint.training.evaluate import evaluate
from turnpoint.training.run import build_run

from .conftest import POLICY, TINY, load, steps, train

STRIDE = ["method.stop.lambda=-0.5"]


def weights(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


def test_a_resumed_run_repeats_a_whole_one(
    policy: Any, first: Any, model: Path, cache: Path, tmp_path: Path
) -> None:
    """STRIDE, whose buffer of prefixes is the method's own state."""
    own = [*STRIDE, f"scoring.model={model}", f"policy.model={model}"]
    train(load("stride_household", cache, *own, "train.steps=2"), tmp_path / "whole")
    policy.load(first[1])
    train(load("stride_household", cache, *own, "train.steps=1"), tmp_path / "half")
    policy.load(first[1])  # nothing of the first half is left in the workers
    train(load("stride_household", cache, *own, "train.steps=2"), tmp_path / "half", resume=True)
    one, two = (tmp_path / name / "checkpoints" / "step_000002" for name in ("whole", "half"))
    whole, half = steps(tmp_path / "whole"), steps(tmp_path / "half")
    assert [record["step"] for record in half] == [1, 2]
    assert [record["sampled_tokens"] for record in half] == [record["sampled_tokens"] for record in whole]
    states = [json.loads((folder / "state.json").read_text()) for folder in (one, two)]
    assert states[0]["method"] == states[1]["method"] != {}
    mine, other = weights(one / "policy"), weights(two / "policy")
    gap = max(float((mine[name] - other[name]).abs().max()) for name in mine)
    assert gap < 1e-6


def test_the_merged_model_evaluates_equal_in_the_local_policy(
    policy: Any, model: Path, cache: Path, tmp_path: Path
) -> None:
    own = [f"policy.model={model}", "method.group=2", "train.steps=1", "eval.tasks=4", "eval.temperature=0"]
    run = train(load("pivotopd_household", cache, *own), tmp_path / "run")
    there = asyncio.run(evaluate(run, run.config.eval))
    merged = tmp_path / "run" / "checkpoints" / "step_000001" / "policy"
    config = load("pivotopd_household", cache, *own, f"policy.model={merged}", backend=[])
    assert config.policy.kind == "small"  # a local policy, from the folder that it is given
    here_run = build_run(config, tmp_path / "local", training=False)
    here = asyncio.run(evaluate(here_run, config.eval))
    replies = [[[turn.response for turn in e.turns] for e in found.episodes] for found in (there, here)]
    assert replies[0] == replies[1]
    assert there.as_dict() == here.as_dict()


def test_a_killed_run_goes_on_from_its_checkpoint(
    policy: Any, model: Path, cache: Path, tmp_path: Path
) -> None:
    """The command line: killed without warning after its first checkpoint, resumed to the end."""
    address = (
        ray.get_runtime_context().gcs_address
    )  # the cluster of this session, so that Ray is not started anew
    environment = os.environ | {
        "RAY_ADDRESS": address,
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": os.environ["RAY_AUTH_MODE"],
    }
    own = [
        f"policy.model={model}",
        "method.group=2",
        "policy.gpus_per_node=1",
        f"out={tmp_path}",
        "name=killed",
    ]
    overrides = [*TINY, *POLICY, f"cache={cache}", *own, *OVERRIDES, "train.steps=50"]
    begun = subprocess.Popen(
        [sys.executable, "-m", "turnpoint.policy.verl", "pivotopd_household", *overrides],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    folder = tmp_path / "killed"
    try:
        wait_for(folder / "checkpoints" / "step_000001" / "state.json", begun)
    finally:
        begun.send_signal(signal.SIGKILL)
        begun.wait()
    kept = max(int(p.name[-6:]) for p in (folder / "checkpoints").glob("step_*"))
    done = subprocess.run(
        [sys.executable, "-m", "turnpoint.cli", "resume", str(folder), f"train.steps={kept + 1}"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = steps(folder)
    assert [record["step"] for record in found] == list(range(1, kept + 2))
    assert all(record["update/optimizer_steps"] == 1 for record in found)
    state = json.loads(
        (folder / "checkpoints" / f"step_{kept + 1:06d}" / "policy/training_state/state.json").read_text()
    )
    assert state["optimizer_steps"] == state["updates"] == kept + 1
    assert state["backend"] == "verl"


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 400.0) -> None:
    end = time.monotonic() + seconds
    while not path.is_file():
        assert process.poll() is None, process.stderr and process.stderr.read()[-3000:]
        assert time.monotonic() < end, "no checkpoint came"
        time.sleep(0.05)
