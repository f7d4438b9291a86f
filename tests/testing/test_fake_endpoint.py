"""The scripted endpoint does what its script says."""

from __future__ import annotations

import threading

import httpx
import pytest

from turnpoint.testing import FakeEndpoint, Request, Scripted


def post(endpoint: FakeEndpoint, text: str = "hello there", timeout: float = 5.0) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    with httpx.Client(trust_env=False, timeout=timeout) as client:
        return client.post(f"{endpoint.url}/chat/completions", json=body)


def test_answers_come_in_order_and_the_last_is_repeated() -> None:
    with FakeEndpoint(["one", Scripted("two", headers={"X-Kind": "test"})]) as endpoint:
        replies = [post(endpoint) for _ in range(3)]
    assert [r.json()["choices"][0]["message"]["content"] for r in replies] == ["one", "two", "two"]
    assert replies[1].headers["x-kind"] == "test"
    assert replies[0].json()["usage"] == {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    assert len(endpoint.requests) == 3


def test_a_function_sees_the_request() -> None:
    def echo(request: Request) -> str:
        return str(request.body["messages"][-1]["content"]).upper()

    with FakeEndpoint(echo) as endpoint:
        assert post(endpoint, "shout").json()["choices"][0]["message"]["content"] == "SHOUT"


def test_errors_keep_their_status() -> None:
    with FakeEndpoint([Scripted("too fast", status=429)]) as endpoint:
        reply = post(endpoint)
    assert reply.status_code == 429
    assert reply.json()["error"]["message"] == "too fast"


def test_garbage_is_no_json() -> None:
    with FakeEndpoint([Scripted(behaviour="garbage")]) as endpoint, pytest.raises(ValueError):
        post(endpoint).json()


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("half_close", httpx.RemoteProtocolError),
        ("reset", httpx.RemoteProtocolError),
        ("hang", httpx.ReadTimeout),
    ],
)
def test_connections_fail_as_scripted(behaviour: str, error: type[Exception]) -> None:
    script = [Scripted(behaviour=behaviour)]  # type: ignore[arg-type]
    with FakeEndpoint(script) as endpoint, pytest.raises(error):
        post(endpoint, timeout=0.2 if behaviour == "hang" else 5.0)


def test_models_are_listed_or_missing() -> None:
    with FakeEndpoint(models=["a", "b"]) as endpoint:
        listing = httpx.get(f"{endpoint.url}/models", trust_env=False).json()
        assert [model["id"] for model in listing["data"]] == ["a", "b"]
        assert httpx.get(f"{endpoint.url}/other", trust_env=False).status_code == 404
    with FakeEndpoint(models=None) as endpoint:
        assert httpx.get(f"{endpoint.url}/models", trust_env=False).status_code == 404


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with FakeEndpoint(["x"]) as endpoint:
        post(endpoint)
    assert set(threading.enumerate()) <= before
    with pytest.raises(httpx.ConnectError):
        post(endpoint)
