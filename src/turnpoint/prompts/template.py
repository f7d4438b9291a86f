"""A model's chat template: messages as text, and what the template does with system messages, tools and reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.exceptions import TemplateError

from turnpoint.config import ConfigError

Tools = Sequence[Mapping[str, Any]]
Messages = list[dict[str, str]]

MARK = "@@sampled-reply@@"
"""Stands for a sampled reply while the text around it is rendered."""


class ChatTemplate:
    """Renders messages with a tokenizer's chat template, or with a ChatML-like one of our own (``plain``).

    A system message that the template refuses or leaves out goes in front of the first user message.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        plain: bool = False,
        arguments: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
    ) -> None:
        """Raises ``ConfigError`` if there is no template, or none that shows ``tools``."""
        self.tokenizer = tokenizer
        self.plain = plain
        self.arguments = dict(arguments or {})
        self.tools = tools
        self._check()
        self.takes_system = self._probe_system()
        """Whether the template itself shows a system message."""
        self._check_tools()

    def render(self, messages: Messages, tools: Tools | None = None, *, generate: bool = True) -> str:
        """The conversation as text; ``generate``: with the generation prompt at its end.

        Raises ``ConfigError``, with the template's own words, for messages that it refuses.
        """
        return self._render(messages if self.takes_system else _merged(messages), tools, generate)

    def _render(self, messages: Messages, tools: Tools | None, generate: bool) -> str:
        if self.plain:
            end = self.tokenizer.eos_token
            turns = [f"<|im_start|>{m['role']}\n{m['content']}{end}\n" for m in messages]
            return "".join(turns) + ("<|im_start|>assistant\n" if generate else "")
        try:
            text = self.tokenizer.apply_chat_template(
                messages,
                tools=list(tools or self.tools or ()) or None,
                tokenize=False,
                add_generation_prompt=generate,
                **self.arguments,
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ConfigError(
                f"the model's chat template refuses the messages ({roles}): {error}; set prompt.template to 'plain', "
                "or prompt.template_arguments to what the template needs"
            ) from error
        return str(text)

    def keeps_reasoning(self) -> bool:
        """Whether the template shows the reasoning of earlier replies when it renders them from their text."""
        ask = {"role": "user", "content": "question"}
        reply = {"role": "assistant", "content": f"<think>\n{MARK}\n</think>\n\nanswer"}
        return MARK in self.render([ask, reply, ask])

    def shows_date(self) -> bool:
        """Whether prompts hold today's date, so that a run started tomorrow reads other tokens."""
        text = getattr(self.tokenizer, "chat_template", None)
        return not self.plain and "strftime_now" in str(text) and "date_string" not in self.arguments

    def around_reply(self) -> tuple[str, str]:
        """What the generation prompt has beyond the header of an earlier reply (for example an empty think block),
        and the text that follows an earlier reply."""
        ask = {"role": "user", "content": "question"}
        asked = self.render([ask], generate=False)
        prompted = self.render([ask])
        pieces = self.render([ask, {"role": "assistant", "content": MARK}, ask]).split(MARK)
        if len(pieces) != 2:
            return "", ""
        prefix = ""
        if prompted.startswith(asked) and pieces[0].startswith(asked):
            header, generation = pieces[0][len(asked) :], prompted[len(asked) :]
            prefix = generation[len(header) :] if generation.startswith(header) else ""
        return prefix, pieces[1]

    def _check(self) -> None:
        if self.plain and not self.tokenizer.eos_token:
            raise ConfigError("template 'plain' ends turns with the tokenizer's EOS token, and it has none")
        if not self.plain and not getattr(self.tokenizer, "chat_template", None):
            raise ConfigError(
                "the tokenizer has no chat template; give it one (tokenizer.chat_template), or set template "
                "to 'plain' for a ChatML-like one (prompt.template: plain)"
            )

    def _probe_system(self) -> bool:
        ask = {"role": "user", "content": "question"}
        try:
            return MARK in self._render([{"role": "system", "content": MARK}, ask], None, True)
        except ConfigError:
            self._render([ask], None, True)  # a template that refuses this as well cannot be used
            return False

    def _check_tools(self) -> None:
        if not self.tools:
            return
        name = str(self.tools[0].get("function", {}).get("name"))
        if self.plain or name not in self.render([{"role": "user", "content": "question"}]):
            raise ConfigError(
                "the environment has tools, but the model's chat template does not show them; choose a model "
                "whose template takes tools (Qwen, Llama 3.1, Mistral, ...)"
            )


def _merged(messages: Messages) -> Messages:
    """The system message in front of the first user message."""
    if not messages or messages[0]["role"] != "system":
        return messages
    system, *rest = messages
    if not rest or rest[0]["role"] != "user":
        raise ConfigError(
            "the model's chat template takes no system message, and no user message follows it to take its text; "
            "remove prompt.system"
        )
    first = rest[0] | {"content": f"{system['content']}\n\n{rest[0]['content']}"}
    return [first, *rest[1:]]
