"""Chat messages to token ids, with sampled replies kept token by token.

A sampled reply is never encoded again. The template is rendered with a mark in place of each one, the text
between the marks is encoded, and the sampled ids are put back. Where a template would rewrite an earlier
reply (drop its reasoning) or its header, the tokens that the policy really read and wrote stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, Self

from turnpoint.config import ConfigError
from turnpoint.prompts.settings import PromptSettings
from turnpoint.prompts.template import MARK, ChatTemplate, Tools
from turnpoint.records import Message

Ids = tuple[int, ...]
Replies = Literal["sampled", "template"]
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
        replies: Replies = "sampled",
    ) -> None:
        """``template="plain"`` uses a ChatML-like template of our own (turns end with the tokenizer's EOS);
        ``eos_ids`` are the tokens that end a reply (default: EOS and the template's end-of-turn token);
        ``template_arguments`` are passed to the template, for example ``{"enable_thinking": False}``; ``tools`` are
        shown in every prompt that names none of its own; ``replies="template"`` renders earlier replies from their
        text, as the template shows them, instead of keeping their tokens.

        Raises ``ConfigError`` if the tokenizer has no chat template, or none that shows earlier replies or tools.
        """
        self.tokenizer = tokenizer
        self.replies = replies
        self.template = ChatTemplate(
            tokenizer, plain=template == "plain", arguments=template_arguments, tools=tools
        )
        self._encode = lru_cache(maxsize=_PIECES_KEPT)(self._encode_text)
        self.reply_prefix, after = self.template.around_reply()
        """What the generation prompt puts in front of a reply beyond its header, as an empty think block."""
        ends = [token for token in self._encode(after)[:3] if token in _special_ids(tokenizer)]
        self.end_of_turn_id = ends[0] if ends else None
        """The token with which the template ends a reply; None if it is ordinary text."""
        given = {self.end_of_turn_id, tokenizer.eos_token_id} if eos_ids is None else set(eos_ids)
        self.eos_ids: frozenset[int] = frozenset(i for i in given if i is not None)

    @classmethod
    def from_settings(
        cls,
        tokenizer: Any,
        settings: PromptSettings,
        *,
        eos_ids: Iterable[int] = (),
        tools: Tools | None = None,
    ) -> Self:
        """The renderer of a ``prompt`` section; ``eos_ids`` end a reply beside EOS and the template's own end."""
        renderer = cls(
            tokenizer,
            template=settings.template,
            template_arguments=settings.template_arguments,
            tools=tools,
            replies=settings.earlier_replies,
        )
        renderer.eos_ids |= frozenset(eos_ids)
        return renderer

    def prompt_ids(self, messages: Sequence[Message], tools: Tools | None = None) -> Ids:
        """Token ids of ``messages`` with the generation prompt at the end.

        Without sampled replies this is exactly the encoded template. A reply that ends with its end-of-turn
        token does not get a second one; one that was cut off gets the template's.
        """
        if self.replies == "template":
            messages = [replace(message, token_ids=None) for message in messages]
        first, *rest = self._pieces(messages, tools)
        ids = list(self._encode(first))
        replies = (message.token_ids for message in messages if message.token_ids is not None)
        for reply, text in zip(replies, rest, strict=True):
            ids.extend(reply)
            ids.extend(self._after(reply, self._encode(text)))
        return tuple(ids)

    def text(self, messages: Sequence[Message], tools: Tools | None = None) -> str:
        """The rendered template as text, sampled replies by their content."""
        return self.template.render([_as_dict(message) for message in messages], tools)

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
        mark = MARK
        while any(mark in message.content for message in messages if message.token_ids is None):
            mark = f"@{mark}+@"
        shown = [_as_dict(message, mark) for message in messages]
        pieces = self.template.render(shown, tools).split(mark)
        if len(pieces) != sampled + 1:
            raise ConfigError(
                f"the chat template shows {len(pieces) - 1} of {sampled} assistant messages, so a growing "
                "conversation cannot be rendered; set template to 'plain', or history to a number of turns"
            )
        return [piece + self.reply_prefix for piece in pieces[:-1]] + pieces[-1:]

    def _after(self, reply: Ids, piece: Ids) -> Ids:
        """``piece`` without the end-of-turn token that ``reply`` already has."""
        if not reply or reply[-1] not in self.eos_ids:
            return piece
        for position, token in enumerate(piece[:3]):  # some templates put a line break before the token
            if token == reply[-1]:
                return piece[position + 1 :]
        return piece

    def _encode_text(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False)) if text else ()


def _special_ids(tokenizer: Any) -> set[int]:
    """Tokens that are marks, not text; some tokenizers list them among their added tokens only."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    marks = {token for token, entry in added.items() if entry.special}
    return {*tokenizer.all_special_ids, tokenizer.eos_token_id, *marks}


def _as_dict(message: Message, mark: str | None = None) -> dict[str, str]:
    sampled = mark is not None and message.token_ids is not None
    return {"role": message.role, "content": mark or "" if sampled else message.content}
