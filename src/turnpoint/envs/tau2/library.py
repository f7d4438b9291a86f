"""τ²-bench's package: loaded once, quiet, and without asking the network for prices of models."""

from __future__ import annotations

import os
from functools import lru_cache, partial
from typing import Any

from turnpoint.envs.tau2.worlds import World

JUDGED = frozenset({"NL_ASSERTION"})
"""Parts of a reward that need a language model as a judge; tasks with them are left out."""


@lru_cache(maxsize=1)
def registry() -> Any:
    """The package's registry of domains."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from loguru import logger

    logger.disable("tau2")
    from tau2.registry import registry as found

    for domain, construct in found._domains.items():  # evaluations construct two environments each
        found._domains[domain] = _Quick(construct)
    return found


class _Quick:
    """A constructor of environments that reads a domain's files once: airline's take seconds to read."""

    def __init__(self, construct: Any) -> None:
        self._construct = construct
        self._worlds: dict[bool, World] = {}

    def __call__(self, solo_mode: bool = False, **given: Any) -> Any:
        if given:
            return self._construct(solo_mode=solo_mode, **given)
        if solo_mode not in self._worlds:
            self._worlds[solo_mode] = World(partial(self._construct, solo_mode=solo_mode))
        return self._worlds[solo_mode]()


def new_environment(domain: str, solo: bool) -> Any:
    """A domain's environment before any task."""
    return registry().get_env_constructor(domain)(solo_mode=solo)


@lru_cache(maxsize=8)
def agent_tools(domain: str, solo: bool) -> tuple[dict[str, Any], ...]:
    """Name and parameters of each tool of the agent; read from source text and documentation, which takes its time."""
    return tuple(tool.openai_schema["function"] for tool in new_environment(domain, solo).get_tools())


@lru_cache(maxsize=16)
def load_tasks(domain: str, split: str | None) -> tuple[Any, ...]:
    """The benchmark's tasks. Raises ``ValueError`` or ``KeyError`` for a split that it does not have."""
    loader = registry().get_tasks_loader(domain)
    return tuple(loader() if split is None else loader(split))


def splits(domain: str) -> dict[str, list[str]]:
    """Splits of a domain; empty if it has none."""
    loader = registry().get_task_splits_loader(domain)
    return {} if loader is None else dict(loader())


def needs_judge(task: Any) -> bool:
    """Whether the benchmark's reward of a task asks a language model."""
    criteria = task.evaluation_criteria
    return criteria is not None and any(basis.value in JUDGED for basis in criteria.reward_basis)


def set_up(environment: Any, task: Any, messages: list[Any]) -> None:
    """Bring a fresh environment into the task's first state, then through ``messages``, verified.

    Raises ``ValueError`` where a tool answers anything else than what is recorded.
    """
    first = task.initial_state
    environment.set_state(
        initialization_data=first.initialization_data if first else None,
        initialization_actions=first.initialization_actions if first else None,
        message_history=messages,
    )


def reward_of(task: Any, messages: list[Any], domain: str, solo: bool) -> float:
    """The benchmark's own reward of a finished conversation."""
    from tau2.data_model.simulation import SimulationRun, TerminationReason
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    run = SimulationRun(
        id="turnpoint",
        task_id=task.id,
        start_time="0",
        end_time="0",
        duration=0.0,
        termination_reason=TerminationReason.AGENT_STOP if solo else TerminationReason.USER_STOP,
        messages=messages,
    )
    return float(evaluate_simulation(run, task, EvaluationType.ALL, solo, domain).reward)
