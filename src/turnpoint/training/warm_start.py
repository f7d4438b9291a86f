"""Make and warm-start the built-in agent, once for equal settings: the result is cached by what it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from turnpoint.config import ConfigError
from turnpoint.envs import EnvError, EnvSuite
from turnpoint.policy.settings import LocalPolicySettings
from turnpoint.policy.small import split_words
from turnpoint.prompts import ChatRenderer, Prompter, PromptSettings
from turnpoint.records import Episode, Task
from turnpoint.training.demonstrations import make_demonstrations
from turnpoint.training.sft import SftProgress, SftReport, run_sft
from turnpoint.training.small_agent import SmallPolicySettings

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
    tasks = suite.tasks("train")
    folder = cache_root / "small" / _key(settings, suite, prompter, tasks, texts, seed)
    if (folder / REPORT).is_file():
        return folder
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _make(settings, suite, prompter, tasks, texts, seed, fresh, progress or _Lines())
        _keep(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def _make(
    settings: SmallPolicySettings,
    suite: EnvSuite,
    prompter: Prompter,
    tasks: Sequence[Task],
    texts: list[str],
    seed: int,
    folder: Path,
    progress: Callable[[SftProgress], None],
) -> None:
    from turnpoint.policy.local import LocalPolicy
    from turnpoint.policy.small import build_small_agent

    began, cpu = time.perf_counter(), time.process_time()
    warm = settings.warm_start
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
    report = SftReport()
    if warm.demonstrations:
        local = LocalPolicySettings(
            model=str(folder), device=settings.device, threads=settings.threads, optimizer=warm.optimizer
        )
        policy = LocalPolicy(local, seed=seed)
        renderer = ChatRenderer.from_settings(policy.tokenizer, prompter.settings, eos_ids=policy.eos_ids)
        episodes = make_demonstrations(
            suite, prompter, tasks, warm.play, seed=seed, limit=warm.demonstrations
        )
        report = run_sft(
            policy, episodes, renderer, warm.sft, prompter=prompter, seed=seed, progress=progress
        )
        policy.save(folder)
        shutil.rmtree(folder / "training_state", ignore_errors=True)
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    (folder / REPORT).write_text(json.dumps({"format": FORMAT, **asdict(report), **seconds}, indent=1) + "\n")


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
    tasks: Sequence[Task],
    texts: list[str],
    seed: int,
) -> str:
    """Name of everything the agent depends on."""
    sizes = ("layers", "width", "heads", "kv_heads", "ffn", "max_vocabulary", "context_length")
    play = settings.warm_start.play
    probes: list[Any] = []
    if settings.warm_start.demonstrations:
        demonstrations = make_demonstrations(suite, prompter, tasks, play, seed=seed, limit=_PROBES)
        probes = [_shown(episode, prompter) for episode in demonstrations if episode.turns]
    parts: dict[str, Any] = {
        "format": FORMAT,
        "size": {name: getattr(settings, name) for name in sizes},
        "warm_start": settings.warm_start.model_dump(mode="json"),
        "prompt": _wording(prompter.settings),
        "env": [suite.name, suite.max_turns],
        "tasks": [[task.id, task.instruction, task.seed, dict(task.data)] for task in islice(tasks, 4096)],
        "words": sorted({word for text in texts for word in split_words(text)}),
        "probes": probes,
        "seed": seed,
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _shown(episode: Episode, prompter: Prompter) -> list[Any]:
    *past, last = episode.turns
    messages = prompter.messages(episode.task, past, last.observation)
    return [[message.content for message in messages], [turn.hint for turn in episode.turns], last.response]


class _Lines:
    """Progress for a person: a few lines on the error stream."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, progress: SftProgress) -> None:
        share = progress.step / progress.steps
        if share >= self._next:
            print(f"warm start: {share:4.0%}  loss {progress.loss:.3f}", file=sys.stderr, flush=True)
            self._next += 0.25
