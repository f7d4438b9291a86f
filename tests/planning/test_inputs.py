from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnpoint.cli.recipes import list_recipes
from turnpoint.config import ConfigError
from turnpoint.planning import GPUS, KNOWN, Workload, make_plan, model_shape, workload_of
from turnpoint.planning.hardware import find_gpu
from turnpoint.planning.inputs import cluster, read_settings, student_shape, teacher_shape, workload
from turnpoint.training.settings import RunConfig, load_run_config

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def recipe(name: str, *overrides: str) -> RunConfig:
    return load_run_config(RECIPES / f"{name}.yaml", list(overrides))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_can_be_planned(path: Path) -> None:
    config = load_run_config(path)
    work = workload_of(config)
    machines = cluster(config, KNOWN["Qwen3-8B"], 8, "h100", read_settings([]))
    plan = make_plan(work, KNOWN["Qwen3-8B"], machines, teacher=teacher_shape(config, None), sizes=(64,))
    assert all(size.time.total > 0 for size in plan.same_step)
    assert list_recipes()


def test_a_recipe_decides_what_its_step_does() -> None:
    grpo, pivot = workload_of(recipe("grpo_alfworld")), workload_of(recipe("pivotopd_alfworld"))
    assert (grpo.tasks, grpo.group, grpo.history, grpo.recoveries) == (16, 8, 4, 0)
    assert (pivot.recoveries, pivot.recovery_turns, pivot.self_teacher) == (64, 2, True)
    assert pivot.teacher_calls == 16 * 8 + 64 * 2, (
        "a report on each episode, an action for each recovery turn"
    )
    assert pivot.forward_passes > grpo.forward_passes
    stride = workload_of(recipe("stride_tau2"))
    assert stride.scoring
    assert stride.scoring_per_turn
    assert (stride.turns, stride.max_turns) == (3, 6)
    assert workload_of(recipe("pivoarl_webshop")).attempts > 1
    outside = ["teacher.kind=http", "teacher.base_url=http://127.0.0.1/v1", "teacher.model=m"]
    votes = ["method.consistency.samples=3", "teacher.temperature=1.0"]
    assert workload_of(recipe("pivotopd_alfworld", *outside, *votes)).teacher_calls == 3 * (16 * 8 + 64 * 2)
    assert workload_of(recipe("opid_household", *outside)).teacher_calls == 16 * 8
    for source, calls in (("lesson", 16 * 8), ("sibling", 0)):
        rlsd = recipe("rlsd_household", *outside, f"method.privileged={source}")
        assert workload_of(rlsd).teacher_calls == calls
    assert workload_of(recipe("grpo_alfworld", *outside)).teacher_calls == 0
    assert not workload_of(recipe("grpo_alfworld")).scoring


def test_workers_that_nobody_set_come_with_the_gpus_whatever_size_the_plan_begins_with() -> None:
    config, student = recipe("grpo_alfworld"), KNOWN["Qwen3-1.7B"]
    work = workload_of(config).model_copy(update={"tasks": 64, "env_seconds": 2.0})

    def seconds(gpus: int, settings: list[str]) -> list[float]:
        machines = cluster(config, student, gpus, "h100", read_settings(settings))
        return [size.time.total for size in make_plan(work, student, machines, sizes=(8, 64)).same_step]

    assert seconds(8, []) == seconds(64, [])
    assert seconds(8, ["cluster.env_workers=128"])[1] > seconds(8, [])[1]


def test_a_finished_run_gives_turns_and_lengths(tmp_path: Path) -> None:
    steps = [
        {"kind": "eval", "turns": 99},
        {
            "kind": "train",
            "turns": 10.0,
            "sampled_tokens": 3000,
            "interactions": 100,
            "teacher/requests": 4.0,
        },
        {
            "kind": "train",
            "turns": 12.0,
            "sampled_tokens": 3200,
            "interactions": 100,
            "teacher/requests": 2.0,
            "teacher/cached_requests": 4.0,
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    work = workload(recipe("grpo_alfworld"), tmp_path, {"observation_tokens": 70})
    assert (work.turns, work.response_tokens, work.teacher_calls, work.observation_tokens) == (11, 31, 5, 70)
    with pytest.raises(ConfigError, match=r"no metrics\.jsonl"):
        workload(recipe("grpo_alfworld"), tmp_path / "none", {})
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ConfigError, match="no training step yet"):
        workload(recipe("grpo_alfworld"), tmp_path, {})


def write_model(folder: Path, config: dict[str, int], weights: int) -> Path:
    """A model's config, and a weight file that ends after its header."""
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [weights], "data_offsets": [0, 4 * weights]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


def test_shapes_are_read_from_files_or_known(tmp_path: Path) -> None:
    config = {
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    }  # fmt: skip
    folder = write_model(tmp_path, config, 5000)
    shape = model_shape(str(folder))
    assert (shape.layers, shape.heads, shape.kv_heads, shape.head_dim) == (1, 2, 1, 16)
    assert shape.parameters == shape.active == 5000
    assert model_shape("Qwen/Qwen3-8B") is KNOWN["Qwen3-8B"]
    assert student_shape(recipe("grpo_alfworld", f"policy.model={folder}"), None)[0] == shape
    assert "set --model" in student_shape(recipe("grpo_household"), None)[1]
    with pytest.raises(ConfigError, match="did you mean 'Qwen3-8B'"):
        model_shape("Qwen3-8")


def test_experts_that_a_token_does_not_visit_are_not_active(tmp_path: Path) -> None:
    config = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    }  # fmt: skip
    shape = model_shape(str(write_model(tmp_path, config, 100_000)))
    assert (shape.parameters, shape.active) == (100_000, 100_000 - 2 * 6 * 3 * 64 * 32)


def test_gpus_by_name_or_by_measured_profile(tmp_path: Path) -> None:
    assert find_gpu("H200") is GPUS["h200"]
    with pytest.raises(ConfigError, match="did you mean 'h100'"):
        find_gpu("h10")
    path = tmp_path / "here.json"
    gpu = {
        name: getattr(GPUS["a100"], name) for name in ("flops", "bandwidth", "memory", "node_link", "network")
    }
    path.write_text(json.dumps({"gpu": gpu | {"name": "here"}, "efficiency": {"train_mfu": 0.9}}))
    machines = cluster(recipe("grpo_household"), KNOWN["Qwen3-0.6B"], 1, str(path), read_settings([]))
    assert (machines.gpu.name, machines.efficiency.train_mfu) == ("here", 0.9)
    over = read_settings(["efficiency.train_mfu=0.1", "cluster.env_workers=7"])
    machines = cluster(recipe("grpo_household"), KNOWN["Qwen3-0.6B"], 1, str(path), over)
    assert (machines.efficiency.train_mfu, machines.env_workers) == (0.1, 7)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="no hardware profile"):
        find_gpu(str(path))
    with pytest.raises(ConfigError, match="no hardware profile"):
        find_gpu(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("turns=3", "section.setting=value"),
        ("work.turns=3", "one of workload, efficiency, cluster"),
        ("workload.turn=3", "did you mean 'turns'"),
        ("efficiency.train_mfu=1.5", "train_mfu"),
    ],
)
def test_wrong_settings_are_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_settings([text])


def test_a_workload_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError):
        Workload(turn=3)  # type: ignore[call-arg]


def test_a_verl_recipe_brings_its_machines() -> None:
    path = RECIPES.parent / "launch" / "stride_tau2_4b_2x8gpu.yaml"
    machines = cluster(load_run_config(path), KNOWN["Qwen3-4B"], 8, "h100", read_settings([]))
    assert (machines.teacher_gpus, machines.tensor_parallel, machines.env_workers) == (8, 1, 24)
    assert (machines.efficiency.checkpointing, machines.efficiency.micro_batch_tokens) == (True, 32768)
    changed = read_settings(["cluster.teacher_gpus=0", "cluster.lockstep=false"])
    machines = cluster(load_run_config(path), KNOWN["Qwen3-4B"], 8, "h100", changed)
    assert (machines.teacher_gpus, machines.lockstep) == (0, False)
