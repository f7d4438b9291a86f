"""Settings of the prompt: how a task and its history are shown, and how the policy answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from turnpoint.config import Settings


class PromptSettings(Settings):
    """The ``prompt`` section."""

    history: Literal["chat"] | Annotated[int, Field(ge=0)] = "chat"
    """``chat``: one growing conversation; a number: a single message with the last so many turns."""
    show_admissible: bool = True
    """List the admissible actions of the current turn, where the environment knows them."""
    reasoning: bool = False
    """Ask for reasoning inside ``<think>`` tags before the action."""
    action_tags: bool = True
    """The action stands inside ``<action>`` tags; otherwise the whole reply is the action."""
    system: str | None = None
    """System message; None = none."""
    compact: bool = False
    """Very short wording without the environment's instructions, for tiny models with a closed vocabulary."""
    max_prompt_tokens: PositiveInt | None = None
    """Longest prompt in tokens, where a longer one ends the episode; None = the model's limit."""
    template: Literal["model", "plain"] = "model"
    """``model``: the model's own chat template; ``plain``: a ChatML-like one, for models without."""
    template_arguments: dict[str, Any] = Field(default_factory=dict)
    """Passed to the chat template, as ``enable_thinking: false`` (Qwen3) or ``date_string`` (Llama 3)."""
    earlier_replies: Literal["sampled", "template"] = "sampled"
    """``sampled``: earlier replies stay in the prompt token by token, reasoning included, so that an episode is one
    sequence; ``template``: the template renders them from their text. Where it strips their reasoning (Qwen3), prompts
    are shorter, and each turn begins a sequence of its own."""
