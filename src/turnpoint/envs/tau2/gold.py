"""The benchmark's gold actions as replies of an agent: what shows that the reward here is the benchmark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from turnpoint.envs.protocol import Env
from turnpoint.envs.tau2.calls import render_call
from turnpoint.envs.tau2.env import DONE
from turnpoint.records import Step, Task


def gold_replies(task: Any, *, solo: bool) -> Iterator[str]:
    """Replies that carry out a benchmark task's gold actions, tell the customer what it must hear, and end."""
    criteria = task.evaluation_criteria
    for action in criteria.actions or ():
        if action.requestor == "user" and not solo:
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in action.arguments.items())
            yield f"Please use {action.name}({arguments})."
        else:
            yield render_call(action.name, action.arguments)
    if solo:
        yield render_call(DONE, {})
    else:
        yield ". ".join(criteria.communicate_info or ()) or "Everything is done."


def play_gold(env: Env, task: Task, found: Any, *, solo: bool) -> Step:
    """The last step of an episode that follows the gold actions."""
    env.reset(task)
    step: Step | None = None
    for reply in gold_replies(found, solo=solo):
        step = env.step(reply)
        if step.done:
            break
    assert step is not None
    return step
