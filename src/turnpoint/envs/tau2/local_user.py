"""A Hugging Face model of a folder as the simulated customer: a provider of litellm's in this process."""

from __future__ import annotations

import functools
import threading
from typing import Any

PROVIDER = "turnpoint-local"
_lock = threading.Lock()
"""One message at a time: copies of the environment may live in several threads."""


def register() -> None:
    """Make ``turnpoint-local/FOLDER`` a model name for litellm; once is enough."""
    import litellm

    if not any(item["provider"] == PROVIDER for item in litellm.custom_provider_map):
        litellm.custom_provider_map.append({"provider": PROVIDER, "custom_handler": _handler()})


def _handler() -> Any:
    from litellm import CustomLLM
    from litellm.types.utils import Choices, Message, ModelResponse, Usage

    class LocalUser(CustomLLM):  # type: ignore[misc]
        """Answers completions with ``generate``; tool calls are read from the reply as everywhere."""

        def completion(self, *args: Any, **given: Any) -> Any:
            options = given.get("optional_params") or {}
            with _lock:
                text = say(
                    given["model"],
                    given["messages"],
                    int(options.get("max_tokens") or 512),
                    float(options.get("temperature") or 0.0),
                )
            response = ModelResponse(model=given["model"])
            message = Message(role="assistant", content=text)
            response.choices = [Choices(message=message, finish_reason="stop", index=0)]
            response.usage = Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
            return response

    return LocalUser()


def say(folder: str, messages: list[Any], max_tokens: int, temperature: float) -> str:
    """The model's answer to chat messages, with its own chat template."""
    import torch

    tokenizer, model = _load(folder)
    chat = [{"role": m["role"], "content": m.get("content") or ""} for m in messages]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
    with torch.inference_mode():
        out = model.generate(ids, max_new_tokens=max_tokens, **sampling)
    return str(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True))


@functools.lru_cache(maxsize=2)
def _load(folder: str) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder), model.eval()
