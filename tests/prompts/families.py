"""Chat templates of four model families, written from their public formats, over small tokenizers trained here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

QWEN3 = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n" }}
    {{- "You are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within " }}
    {{- "<tool_call></tool_call> XML tags:\\n<tool_call>\\n" }}
    {{- '{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(searching=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(
        message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}
            {{- content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA3 = """
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if not tools is none %}
    {%- set first_user_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "Given the following functions, please respond with a JSON for a function call " }}
    {{- "with its proper arguments that best answers the given prompt.\\n\\n" }}
    {{- 'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.' }}
    {{- "Do not use variables.\\n\\n" }}
    {%- for t in tools %}{{- t | tojson }}{{- "\\n\\n" }}{%- endfor %}
    {{- first_user_message + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_GEMMA_TURNS = """
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {{- message['content'] | trim }}{{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""
GEMMA3 = (
    """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}"""
    + _GEMMA_TURNS
)
GEMMA2 = (
    """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- set first_user_prefix = "" -%}{%- set loop_messages = messages -%}"""
    + _GEMMA_TURNS
)

CORPUS = (
    "You are in the middle of a room. Go to the fridge 1 and open it. <action>go to fridge 1</action>\n\n"
    "<think>\nThe apple is in the fridge.\n</think>\n\nOn the countertop 2, you see an apple 1 and a mug 3.\n"
    "system user assistant model tool question answer Your turn. Admissible actions: look, open, take.\n" * 3
)


@dataclass(frozen=True, slots=True)
class Family:
    """A model family as its tokenizer and template show it."""

    template: str
    bos: str | None
    eos: str
    end: str
    """The token that ends a turn."""
    marks: tuple[str, ...]
    pad: str | None = None
    sentencepiece: bool = False


FAMILIES = {
    "qwen3": Family(QWEN3, None, "<|im_end|>", "<|im_end|>", ("<|im_start|>",), "<|endoftext|>"),
    "llama3": Family(
        LLAMA3, "<|begin_of_text|>", "<|eot_id|>", "<|eot_id|>",
        ("<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>"),
    ),
    "smollm2": Family(SMOLLM2, "<|im_start|>", "<|im_end|>", "<|im_end|>", ("<|endoftext|>",), "<|im_end|>"),
    "gemma3": Family(
        GEMMA3, "<bos>", "<eos>", "<end_of_turn>", ("<start_of_turn>",), "<pad>", sentencepiece=True
    ),
    "gemma2": Family(
        GEMMA2, "<bos>", "<eos>", "<end_of_turn>", ("<start_of_turn>",), "<pad>", sentencepiece=True
    ),
}  # fmt: skip


@cache
def _core(sentencepiece: bool) -> str:
    """Vocabulary and merges learnt from the corpus, as JSON."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    core = Tokenizer(models.BPE())
    if sentencepiece:
        core.normalizer = normalizers.Replace(" ", "▁")
        trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    else:
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    core.train_from_iterator(CORPUS.split("\n"), trainer)
    model = json.loads(core.to_str())["model"]
    return json.dumps({"vocab": model["vocab"], "merges": model["merges"]})


def family_tokenizer(name: str) -> Any:
    """The tokenizer of a family: byte-level, or of SentencePiece's kind with byte fallback; special tokens last."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    family = FAMILIES[name]
    learnt = json.loads(_core(family.sentencepiece))
    merges = [tuple(merge) for merge in learnt["merges"]]
    if family.sentencepiece:
        words = dict.fromkeys(["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *learnt["vocab"]])
        vocabulary = {word: number for number, word in enumerate(words)}
        core = Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>"))
        core.normalizer = normalizers.Replace(" ", "▁")
        core.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
    else:
        core = Tokenizer(models.BPE(learnt["vocab"], merges))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
    named = {"bos_token": family.bos, "eos_token": family.eos, "pad_token": family.pad}
    given = {key: value for key, value in named.items() if value is not None}
    others = [mark for mark in (*family.marks, family.end) if mark not in given.values()]
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        additional_special_tokens=others,
        chat_template=family.template,
        clean_up_tokenization_spaces=False,
        **given,
    )
