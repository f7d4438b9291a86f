"""Warm-started models, made once for equal settings: the result is cached by what it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.envs import EnvError, EnvSuite
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.small import split_words
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import Episode
from turnpoint.training.demonstrations import make_demonstrations
from turnpoint.training.sft import SftProgress, SftReport, run_sft
from turnpoint.training.small_agent import SmallPolicySettings, WarmStartSettings

FORMAT = 1
"""Raised when the same settings come to make another agent."""
REPORT = "warm_start.json"
_PROBES = 16
"""Demonstrations whose text enters the key: it changes with tasks, observations, wording and mistakes."""


def warm_started_folder(
    settings: SmallPolicySettings,
    suite: EnvSuite,
    prompter: Prompter,
    cache_root: Path,
    seed: int,
    *,
    progress: Callable[[SftProgress], None] | None = None,
) -> Path:
    """Folder of the warm-started agent, in Hugging Face form with ``warm_start.json`` beside the weights.

    It is made if the cache does not have it. Raises ``ConfigError`` if the environment's language is open, or if
    it has no oracle to demonstrate.
    """
    texts = _texts(suite, prompter)
    folder = small_folder(settings, suite, prompter, cache_root, seed)

    def make(fresh: Path) -> SftReport:
        return _make_small(settings, suite, prompter, texts, seed, fresh, progress or ProgressLines())

    return cached_folder(folder, make)


def small_folder(
    settings: SmallPolicySettings, suite: EnvSuite, prompter: Prompter, cache_root: Path, seed: int
) -> Path:
    """Where the cache keeps the agent, made or not."""
    return cache_root / "small" / _key(settings, suite, prompter, _texts(suite, prompter), seed)


def cached_folder(folder: Path, make: Callable[[Path], SftReport]) -> Path:
    """``folder``, made whole or not at all if it is not there yet, with the report of its training in it."""
    if (folder / REPORT).is_file():
        return folder
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    began, cpu = time.perf_counter(), time.process_time()
    try:
        fresh.mkdir(parents=True)
        report = asdict(make(fresh))
        seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        (fresh / REPORT).write_text(json.dumps({"format": FORMAT, **report, **seconds}, indent=1) + "\n")
        _keep(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def train_on_demonstrations(
    local: LocalPolicySettings,
    warm: WarmStartSettings,
    suite: EnvSuite,
    prompter: Prompter,
    seed: int,
    folder: Path,
    progress: Callable[[SftProgress], None],
) -> SftReport:
    """Train a model on demonstrations, in its own chat template, and write the whole model to ``folder``."""
    from turnpoint.policy.local import LocalPolicy

    policy = LocalPolicy(local, seed=seed)
    renderer = ChatRenderer.from_settings(policy.tokenizer, prompter.settings, eos_ids=policy.eos_ids)
    tasks = suite.tasks("train")
    episodes = make_demonstrations(suite, prompter, tasks, warm.play, seed=seed, limit=warm.demonstrations)
    report = run_sft(policy, episodes, renderer, warm.sft, prompter=prompter, seed=seed, progress=progress)
    policy.save(folder)
    for beside in ("training_state", "adapter"):
        shutil.rmtree(folder / beside, ignore_errors=True)
    return report


def _make_small(
    settings: SmallPolicySettings,
    suite: EnvSuite,
    prompter: Prompter,
    texts: list[str],
    seed: int,
    folder: Path,
    progress: Callable[[SftProgress], None],
) -> SftReport:
    from turnpoint.policy.small import build_small_agent

    build_small_agent(
        texts,
        layers=settings.layers,
        width=settings.width,
        heads=settings.heads,
        kv_heads=settings.kv_heads,
        ffn=settings.ffn,
        seed=seed,
        context_length=settings.context_length,
        folder=folder,
        max_vocabulary=settings.max_vocabulary,
    )
    warm = settings.warm_start
    if not warm.demonstrations:
        return SftReport()
    local = LocalPolicySettings(
        model=str(folder), device=settings.device, threads=settings.threads, optimizer=warm.optimizer
    )
    return train_on_demonstrations(local, warm, suite, prompter, seed, folder, progress)


def _wording(settings: PromptSettings) -> dict[str, Any]:
    """What a prompt section makes of a demonstration; how templates render it counts only where it was changed."""
    rendering = ("template", "template_arguments", "earlier_replies")
    plain = PromptSettings().model_dump(mode="json")
    values = settings.model_dump(mode="json")
    return {name: v for name, v in values.items() if name not in rendering or v != plain[name]}


def _keep(fresh: Path, folder: Path) -> None:
    """Put a finished folder in its place; another process may have been faster with an equal one."""
    try:
        fresh.rename(folder)
    except OSError:
        if not (folder / REPORT).is_file():
            raise


def _texts(suite: EnvSuite, prompter: Prompter) -> list[str]:
    try:
        return [*suite.vocabulary_texts(), *prompter.vocabulary_texts()]
    except EnvError as error:
        raise ConfigError(
            f"policy.kind 'small' needs an environment with a closed language, and '{suite.name}' has none "
            f"({error}); use policy.kind 'local' with a language model"
        ) from error


def _key(
    settings: SmallPolicySettings,
    suite: EnvSuite,
    prompter: Prompter,
    texts: list[str],
    seed: int,
) -> str:
    """Name of everything the agent depends on."""
    sizes = ("layers", "width", "heads", "kv_heads", "ffn", "max_vocabulary", "context_length")
    parts: dict[str, Any] = {
        "format": FORMAT,
        "size": {name: getattr(settings, name) for name in sizes},
        "warm_start": settings.warm_start.model_dump(mode="json"),
        "prompt": _wording(prompter.settings),
        "words": sorted({word for text in texts for word in split_words(text)}),
        **shown_by(suite, prompter, settings.warm_start, seed),
    }
    return hash_of(parts)


def shown_by(suite: EnvSuite, prompter: Prompter, warm: WarmStartSettings, seed: int) -> dict[str, Any]:
    """What the demonstrations of an environment depend on: its tasks, and a few of them as they are shown."""
    tasks = suite.tasks("train")
    probes: list[Any] = []
    if warm.demonstrations:
        demonstrations = make_demonstrations(suite, prompter, tasks, warm.play, seed=seed, limit=_PROBES)
        probes = [_shown(episode, prompter) for episode in demonstrations if episode.turns]
    return {
        "env": [suite.name, suite.max_turns],
        "tasks": [[task.id, task.instruction, task.seed, dict(task.data)] for task in islice(tasks, 4096)],
        "probes": probes,
        "seed": seed,
    }


def hash_of(parts: dict[str, Any]) -> str:
    """A short name of JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _shown(episode: Episode, prompter: Prompter) -> list[Any]:
    *past, last = episode.turns
    messages = prompter.messages(episode.task, past, last.observation)
    return [[message.content for message in messages], [turn.hint for turn in episode.turns], last.response]


class ProgressLines:
    """Progress for a person: a few lines on the error stream."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: SftProgress) -> None:
        share = progress.step / progress.steps
        if share >= self._next:
            print(f"warm start: {share:4.0%}  loss {progress.loss:.3f}", file=sys.stderr, flush=True)
            self._next += 0.25
