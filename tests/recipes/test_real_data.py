"""Recipes for data sets of the user's own: their prompts say what an answer needs, and they train."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from turnpoint.cli.recipes import find_recipe
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.envs.webshop.generator import generate
from turnpoint.envs.webshop.nouns import best_tagger
from turnpoint.envs.webshop.prepare import write_catalogue
from turnpoint.training.loop import Trainer
from turnpoint.training.metrics import read_metrics
from turnpoint.training.run import build_run
from turnpoint.training.settings import load_run_config
from turnpoint.training.view import View

pytest.importorskip("torch")

from turnpoint.testing.tiny_model import write_tiny_model

METHODS = ("grpo", "pivotopd", "pivoarl", "stride")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The setting that names the prepared file, by environment."""
    folder = tmp_path_factory.mktemp("data")
    shop = folder / "webshop.sqlite"
    write_catalogue(generate(16, 0), shop, best_tagger()[1], {"nouns": "rules", "source": {}}).close()
    texts = folder / "texts"
    texts.mkdir()
    names = ["Arvik", "Belo", "Carda", "Dunmore", "Esk", "Farrow", "Gilt", "Hollin"]
    passages = [{"id": name, "contents": f'"{name}"\n{name} is a town by a lake.'} for name in names]
    questions = [
        {"question": f"Which town is number {n}?", "golden_answers": [name], "split": "train" if n % 2 else "test"}
        for n, name in enumerate(names)
    ]  # fmt: skip
    for name, rows in (("corpus", passages), ("questions", questions)):
        (texts / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = SearchQASettings.prepare(texts, folder / "search_qa")["data_file"]
    return {"webshop": f"env.catalogue={shop}", "search_qa": f"env.data_file={found}"}


@pytest.mark.parametrize(
    ("env", "explained", "reply", "shown"),
    [
        ("webshop", "search[words] finds", "<action>search[a]</action>", "Page 1"),
        ("search_qa", "with <search>query</search>", "<search>Arvik lake</search>", "a town by a lake"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_for_real_data_explains_itself_and_trains(
    data: dict[str, str], method: str, env: str, explained: str, reply: str, shown: str, tmp_path: Path
) -> None:
    student = write_tiny_model(tmp_path / "student", context=4096)
    teacher = write_tiny_model(tmp_path / "teacher", context=4096, seed=1)
    config = load_run_config(
        find_recipe(f"{method}_{env}_real"),
        [data[env], f"policy.model={student}", "env.max_turns=2", "train.steps=1", "train.tasks_per_step=1",
         "eval.before=false", "eval.every=0", "eval.tasks=1", "rollout.max_response_tokens=6", "loggers=[]",
         f"cache={tmp_path}"]
        + (["method.group=2"] if method != "stride" else [f"scoring.model={teacher}"])
        + (["method.reflection_tokens=6"] if method == "pivoarl" else []),
    )  # fmt: skip
    run = build_run(config, tmp_path / "run")
    task, copy = run.suite.tasks("train")[0], run.suite.make()
    prompt = run.renderer.text(run.prompter.messages(task, [], copy.reset(task)))
    assert explained in prompt
    assert task.instruction in prompt
    step = copy.step(run.prompter.parse(reply) or "")
    assert step.effective
    assert shown in step.observation.text
    asyncio.run(Trainer(run, View()).train())
    (trained,) = [r for r in read_metrics(tmp_path / "run" / "metrics.jsonl") if r["kind"] == "train"]
    assert trained["episodes"] >= 1
