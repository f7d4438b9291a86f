"""Every name of vLLM that the engine uses: one table, checked against the package that is installed.

A release that renames something is found by ``breaches``, before a run fails in the middle.
"""

from __future__ import annotations

import inspect
from typing import Any

CALLS: dict[str, tuple[str, ...]] = {
    "LLM": ("model", "dtype", "seed", "gpu_memory_utilization", "enforce_eager", "trust_remote_code"),
    "LLM.collective_rpc": ("method", "kwargs"),
    "LLM.reset_prefix_cache": (),
    "LLM.sleep": ("level",),
    "LLM.wake_up": ("tags",),
    "LLMEngine.add_request": ("request_id", "prompt", "params"),
    "LLMEngine.step": (),
    "LLMEngine.has_unfinished_requests": (),
    "SamplingParams": (
        "temperature", "max_tokens", "seed", "logprobs", "stop_token_ids", "detokenize",
    ),
    "TokensPrompt": (),
}  # fmt: skip
"""What is called, with the arguments that are passed by name."""

ENGINE_ARGUMENTS = (
    "max_model_len", "max_num_seqs", "enable_sleep_mode", "logprobs_mode", "generation_config",
    "enable_prefix_caching",
)  # fmt: skip
"""Arguments of ``vllm.LLM`` that it hands on to ``vllm.EngineArgs``."""


def breaches(vllm: Any) -> list[str]:
    """What the ``vllm`` module lacks, one sentence each; empty if everything is there."""
    found = []
    for name, arguments in CALLS.items():
        target = vllm
        for part in name.split("."):
            target = getattr(target, part, None)
        if target is None:
            found.append(f"vllm.{name} is not there")
            continue
        found += [f"vllm.{name} takes no {missing}" for missing in arguments if not _takes(target, missing)]
    fields = getattr(vllm.EngineArgs, "__dataclass_fields__", {})
    found += [f"vllm.EngineArgs has no {name}" for name in ENGINE_ARGUMENTS if name not in fields]
    return found


def _takes(target: Any, argument: str) -> bool:
    try:
        return argument in inspect.signature(target).parameters
    except (TypeError, ValueError):  # written in C
        return True
