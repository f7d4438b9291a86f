"""Chat messages to token ids, with sampled replies kept token by token.

A sampled reply is never encoded again. The template is rendered with a mark in place of each one, the text
between the marks is encoded, and the sampled ids are put back. Where a template would rewrite an earlier
reply (drop its reasoning) or its header, the tokens that the policy really read and wrote stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from turnpoint.config import ConfigError
from turnpoint.records import Message

Ids = tuple[int, ...]
Tools = Sequence[Mapping[str, Any]]

_MARK = "@@sampled-reply@@"
_PIECES_KEPT = 16384


class ChatRenderer:
    """Renders messages with a tokenizer's chat template.

    Encoded pieces are cached: a conversation that grows turn by turn costs one short encoding per turn.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        template: Literal["model", "plain"] = "model",
        eos_ids: Iterable[int] | None = None,
        template_arguments: Mapping[str, Any] | None = None,
        tools: Tools | None = None,
    ) -> None:
        """``template="plain"`` uses a ChatML-like template of our own (turns end with the tokenizer's EOS);
        ``eos_ids`` are the tokens that end a reply (default: EOS and the template's end-of-turn token);
        ``template_arguments`` are passed to the template, for example ``{"enable_thinking": False}``; ``tools`` are
        shown in every prompt that names none of its own.

        Raises ``ConfigError`` if the tokenizer has no chat template, or none that shows earlier replies or tools.
        """
        self.tokenizer = tokenizer
        self._plain = template == "plain"
        self._arguments = dict(template_arguments or {})
        self._tools = tools
        self._encode = lru_cache(maxsize=_PIECES_KEPT)(self._encode_text)
        self._check_template()
        self._reply_prefix, self.end_of_turn_id = self._probe_reply()
        given = {self.end_of_turn_id, tokenizer.eos_token_id} if eos_ids is None else set(eos_ids)
        self.eos_ids: frozenset[int] = frozenset(i for i in given if i is not None)

    def prompt_ids(self, messages: Sequence[Message], tools: Tools | None = None) -> Ids:
        """Token ids of ``messages`` with the generation prompt at the end.

        Without sampled replies this is exactly the encoded template. A reply that ends with its end-of-turn
        token does not get a second one; one that was cut off gets the template's.
        """
        first, *rest = self._pieces(messages, tools)
        ids = list(self._encode(first))
        replies = (message.token_ids for message in messages if message.token_ids is not None)
        for reply, text in zip(replies, rest, strict=True):
            ids.extend(reply)
            ids.extend(self._after(reply, self._encode(text)))
        return tuple(ids)

    def text(self, messages: Sequence[Message], tools: Tools | None = None) -> str:
        """The rendered template as text, sampled replies by their content."""
        return self._render([_as_dict(message) for message in messages], tools)

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """A sampled reply as text, without its end-of-turn token."""
        ids = list(token_ids)
        while ids and ids[-1] in self.eos_ids:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    @staticmethod
    def extends(previous_ids: Ids, new_ids: Ids) -> bool:
        """Whether ``new_ids`` begin with ``previous_ids``: then both may share one training row."""
        return new_ids[: len(previous_ids)] == previous_ids

    def is_prefix_stable(self) -> bool:
        """Whether each prompt of a growing conversation extends the prompt and reply before it.

        False for templates that change earlier user turns; their turns train as rows of their own.
        """
        ending = () if self.end_of_turn_id is None else (self.end_of_turn_id,)
        word = self._encode("yes")
        messages: tuple[Message, ...] = ()
        seen: Ids = ()
        for number, reply in enumerate((word + ending, word, word + ending, word)):
            messages = (*messages, Message("user", f"question {number}"))
            prompt = self.prompt_ids(messages)
            if not self.extends(seen, prompt):
                return False
            seen = prompt + reply
            messages = (*messages, Message("assistant", "yes", reply))
        return True

    def _pieces(self, messages: Sequence[Message], tools: Tools | None) -> list[str]:
        """Template text before, between and after the sampled replies."""
        sampled = sum(message.token_ids is not None for message in messages)
        mark = _MARK
        while any(mark in message.content for message in messages if message.token_ids is None):
            mark = f"@{mark}+@"
        shown = [_as_dict(message, mark) for message in messages]
        pieces = self._render(shown, tools).split(mark)
        if len(pieces) != sampled + 1:
            raise ConfigError(
                f"the chat template shows {len(pieces) - 1} of {sampled} assistant messages, so a growing "
                "conversation cannot be rendered; set template to 'plain', or history to a number of turns"
            )
        return [piece + self._reply_prefix for piece in pieces[:-1]] + pieces[-1:]

    def _after(self, reply: Ids, piece: Ids) -> Ids:
        """``piece`` without the end-of-turn token that ``reply`` already has."""
        if not reply or reply[-1] not in self.eos_ids:
            return piece
        for position, token in enumerate(piece[:3]):  # some templates put a line break before the token
            if token == reply[-1]:
                return piece[position + 1 :]
        return piece

    def _render(self, messages: list[dict[str, str]], tools: Tools | None, generate: bool = True) -> str:
        if self._plain:
            return self._render_plain(messages, generate)
        return str(
            self.tokenizer.apply_chat_template(
                messages,
                tools=list(tools or self._tools or ()) or None,
                tokenize=False,
                add_generation_prompt=generate,
                **self._arguments,
            )
        )

    def _render_plain(self, messages: list[dict[str, str]], generate: bool) -> str:
        end = self.tokenizer.eos_token
        turns = [f"<|im_start|>{message['role']}\n{message['content']}{end}\n" for message in messages]
        return "".join(turns) + ("<|im_start|>assistant\n" if generate else "")

    def _encode_text(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()

    def _check_template(self) -> None:
        if self._plain and not self.tokenizer.eos_token:
            raise ConfigError("template 'plain' ends turns with the tokenizer's EOS token, and it has none")
        if not self._plain and not getattr(self.tokenizer, "chat_template", None):
            raise ConfigError(
                "the tokenizer has no chat template; give it one (tokenizer.chat_template), or set template "
                "to 'plain' for a ChatML-like one"
            )
        if self._tools:
            ask = [{"role": "user", "content": "question"}]
            name = str(self._tools[0].get("function", {}).get("name"))
            if self._plain or name not in self._render(ask, None):
                raise ConfigError(
                    "the environment has tools, but the model's chat template does not show them; choose a model "
                    "whose template takes tools (Qwen, Llama 3.1, Mistral, ...)"
                )

    def _probe_reply(self) -> tuple[str, int | None]:
        """What the generation prompt has beyond the header of an earlier reply (for example an empty think
        block), and the token with which the template ends a reply (None if it is ordinary text)."""
        ask = {"role": "user", "content": "question"}
        asked = self._render([ask], None, generate=False)
        prompted = self._render([ask], None)
        pieces = self._render([ask, {"role": "assistant", "content": _MARK}, ask], None).split(_MARK)
        if len(pieces) != 2:
            return "", None
        prefix = ""
        if prompted.startswith(asked) and pieces[0].startswith(asked):
            header, generation = pieces[0][len(asked) :], prompted[len(asked) :]
            prefix = generation[len(header) :] if generation.startswith(header) else ""
        special = {*self.tokenizer.all_special_ids, self.tokenizer.eos_token_id}
        ends = [token for token in self._encode(pieces[1])[:3] if token in special]
        return prefix, ends[0] if ends else None


def _as_dict(message: Message, mark: str | None = None) -> dict[str, str]:
    sampled = mark is not None and message.token_ids is not None
    return {"role": message.role, "content": mark or "" if sampled else message.content}
