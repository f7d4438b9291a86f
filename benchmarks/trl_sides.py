"""The two sides of ``benchmarks.trl``: the same run config, trained here and by TRL."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from turnpoint.envs import Env
from turnpoint.prompts import ChatRenderer, Prompter
from turnpoint.records import Observation, Task
from turnpoint.training.settings import RunConfig

TEMPLATE = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + ('user' if m['role'] == 'tool' else m['role']) + '\n' }}"
    "{{ m['content'] or '' }}"
    "{% for call in m['tool_calls'] or [] %}"
    "{% if call['function']['name'] != 'act' %}{{ call['function']['name'] }} {% endif %}"
    "{% for name, value in call['function']['arguments'].items() %}"
    "{{ '' if name == 'action' else name + ' ' }}{{ '<action>' + value + '</action>' }}"
    "{% endfor %}{% endfor %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML with actions as tool calls and tool answers as user messages: what both models read on our side."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "role": {"const": "assistant"},
        "content": {"type": "string"},
        "tool_calls": {
            "type": "array",
            "x-regex-iterator": r"<action>\s*(.+?)\s*</action>",
            "items": {
                "type": "object",
                "properties": {
                    "type": {"const": "function"},
                    "function": {
                        "type": "object",
                        "properties": {
                            "name": {"const": "act"},
                            "arguments": {"type": "object", "properties": {"action": {"type": "string"}}},
                        },
                    },
                },
            },
        },
    },
}
"""Reads an ``<action>`` as a call of the tool ``act``."""


def ours(config: RunConfig, folder: Path) -> list[dict[str, float]]:
    """Train here; figures of every step."""
    from turnpoint.training.loop import Trainer
    from turnpoint.training.run import build_run
    from turnpoint.training.view import View

    run = build_run(config, folder / "run")
    steps: list[dict[str, float]] = []
    clock = [time.process_time()]

    class Clock(View):
        """Reads the CPU time after every step."""

        def step(self, step: int, metrics: dict[str, Any]) -> None:
            now = time.process_time()
            steps.append(
                {
                    "cpu_seconds": now - clock[0],
                    "episodes": metrics["episodes"],
                    "turns": metrics["interactions"],
                    "sampled_tokens": metrics["sampled_tokens"],
                }
            )
            clock[0] = now

    asyncio.run(Trainer(run, Clock()).train())
    return steps


class Game:
    """The environment as TRL wants it: ``reset``, ``get_reward``, and a tool."""

    suite: Any
    prompter: Prompter
    tasks: list[Task]

    def __init__(self) -> None:
        self._env: Env = self.suite.make()
        self._reward = 0.0

    def reset(self, number: int, **_: Any) -> None:
        """Start the game of a row; its opening is the row's prompt."""
        self._env.reset(self.tasks[number])
        self._reward = 0.0

    def act(self, action: str) -> str:
        """
        Do something in the room.

        Args:
            action: What to do.

        Returns:
            What happens.
        """
        step = self._env.step(action)
        self._reward += step.reward
        return next_message(self.prompter, step.observation)

    def get_reward(self) -> float:
        """What the game paid."""
        return self._reward


def next_message(prompter: Prompter, observation: Observation) -> str:
    """The user message that follows an action, in our wording."""
    return f"{prompter.style.situation(observation)}\n{prompter.turn_line}"


def theirs(config: RunConfig, folder: Path) -> list[dict[str, float]]:
    """Train with TRL; figures of every step."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    policy: Any = config.policy
    method: Any = config.method
    suite = config.env.build()
    prompter = Prompter(config.prompt, suite.instructions)
    steps_in_all, count = config.train.steps, config.train.tasks_per_step
    tasks = list(suite.tasks("train"))[: steps_in_all * count]
    Game.suite, Game.prompter, Game.tasks = suite, prompter, tasks
    turns = suite.max_turns
    refuse_short(suite, tasks, turns)
    tokenizer = AutoTokenizer.from_pretrained(policy.model, padding_side="left")
    rows = openings(suite, prompter, tasks, ChatRenderer(tokenizer))
    tokenizer.chat_template, tokenizer.response_schema = TEMPLATE, SCHEMA
    steps: list[dict[str, float]] = []
    clock = [0.0]

    class Clock(TrainerCallback):  # type: ignore[misc]
        """Reads the CPU time after every step."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            clock[0] = clock[0] or time.process_time()

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
            if "completions/mean_length" not in logs:
                return
            now, episodes = time.process_time(), count * method.group
            steps.append(
                {
                    "cpu_seconds": now - clock[0],
                    "episodes": float(episodes),
                    "turns": episodes * (logs["tools/call_frequency"] + 1),
                    "sampled_tokens": episodes * logs["completions/mean_length"],
                }
            )
            clock[0] = now

    arguments = GRPOConfig(
        output_dir=str(folder / "trl"),
        use_cpu=True,
        bf16=False,
        max_steps=steps_in_all,
        per_device_train_batch_size=count * method.group,
        num_generations=method.group,
        max_completion_length=4096,
        max_tool_calling_iterations=turns - 1,
        generation_kwargs={"max_new_tokens": config.rollout.max_response_tokens},
        temperature=policy.temperature,
        beta=0.0,
        learning_rate=policy.optimizer.lr,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        shuffle_dataset=False,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(policy.model, dtype="float32"),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        environment_factory=Game,
        callbacks=[Clock()],
    )
    trainer.train()
    return steps


def openings(
    suite: Any, prompter: Prompter, tasks: list[Task], renderer: ChatRenderer
) -> list[dict[str, Any]]:
    """A row of TRL's data set per task: the messages that our side begins with, and the number of the task."""
    env = suite.make()
    rows = []
    for number, task in enumerate(tasks):
        messages = prompter.messages(task, (), env.reset(task))
        shown = [{"role": m.role, "content": m.content} for m in messages]
        text = renderer.text(messages)
        first, marker = text.split("<|im_end|>", 1)[0], "<|im_start|>system\n"
        if first.startswith(marker):  # a system message that the model's own template adds
            shown.insert(0, {"role": "system", "content": first.removeprefix(marker)})
        rows.append({"prompt": shown, "number": number})
    env.close()
    return rows


def refuse_short(suite: Any, tasks: list[Task], turns: int) -> None:
    """Raise ``ValueError`` if a game can be won within the turns that are played."""
    env = suite.make()
    for task in tasks:
        env.reset(task)
        distance = env.distance()
        if distance is not None and distance <= turns:
            raise ValueError(f"{task.id} can be won in {distance} turns; play fewer than {distance} turns")
    env.close()
