"""Small tokenizers and chat templates of the usual shapes, written for these tests."""

from __future__ import annotations

from typing import Any

WORDS = "system user assistant tool go to look open fridge 1 2 3 yes hm question < > / think . @ sampled - reply + :"

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|head|>' + m.role + '<|/head|>\n\n' + m.content | trim + '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|head|>assistant<|/head|>\n\n' }}{% endif %}"
)
THINKING = (
    "{% for m in messages %}{% set text = m.content %}"
    "{% if m.role == 'assistant' and '</think>' in text %}{% set text = text.split('</think>')[-1] %}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
BREAK_BEFORE_END = CHATML.replace("m.content + '<|im_end|>", "m.content + '\n<|im_end|>")
LAST_TURN_MARKED = CHATML.replace("m.content +", "(m.content + ' .' if loop.last else m.content) +")
USERS_ONLY = CHATML.replace("in messages %}", "in messages if m.role == 'user' %}")

TEMPLATES = {"chatml": CHATML, "llama": LLAMA, "thinking": THINKING, "break": BREAK_BEFORE_END}
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|head|>", "<|/head|>", "<|eot|>", "<|bos|>", "<|end|>"]
END = {"chatml": "<|im_end|>", "llama": "<|eot|>", "thinking": "<|im_end|>", "break": "<|im_end|>"}


def word_tokenizer(template: str | None, eos: str = "<|im_end|>") -> Any:
    """A word-level tokenizer in which line breaks are tokens."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<unk>", "\n", *WORDS.split(), *SPECIAL]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys(words))}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n|\w+|[^\w\s]"), "isolated"),
            pre_tokenizers.Split(Regex(r"[ \t]+"), "removed"),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=eos,
        bos_token="<|bos|>",
        unk_token="<unk>",
        additional_special_tokens=[token for token in SPECIAL if token not in (eos, "<|bos|>")],
        chat_template=template,
    )
