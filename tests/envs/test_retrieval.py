"""The retriever as a server under load and abuse, and as a client of servers that fail."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from turnpoint.envs import EnvDataError
from turnpoint.envs.retrieval import (
    BM25Retriever,
    BM25Settings,
    DenseSettings,
    HttpSettings,
    Passage,
    RetrieverError,
    make_retriever,
)
from turnpoint.envs.retrieval_client import HttpRetriever
from turnpoint.envs.retrieval_dense import DenseRetriever
from turnpoint.envs.retrieval_server import MOST_BYTES, RetrieverServer
from turnpoint.envs.search_qa.settings import SearchQASettings
from turnpoint.envs.text_store import TextStore, TextStoreWriter
from turnpoint.prompts import PromptSettings
from turnpoint.records import StopReason
from turnpoint.rollouts import RolloutSettings
from turnpoint.testing.harness import make_rollouts
from turnpoint.testing.scripted_policy import ScriptedPolicy

ANIMALS = ["zebra", "lion", "heron", "otter", "badger"]


def corpus() -> TextStore:
    writer = TextStoreWriter(None)
    for number, name in enumerate(ANIMALS):
        text = f"The {name} is an animal."
        writer.add(str(number), {"id": str(number), "title": name.title(), "text": text}, f"{name}\n{text}")
    return writer.finish({})


@pytest.fixture
def server() -> Iterator[RetrieverServer]:
    with RetrieverServer(BM25Retriever(corpus(), BM25Settings())) as running:
        yield running


def client(url: str, seconds: float = 5.0) -> HttpRetriever:
    return HttpRetriever(HttpSettings(url=url, seconds=seconds))


def test_client_and_server_agree_with_the_index(server: RetrieverServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    local = server.retriever.search(["zebra", "the animal lion", "\ud800"], 2)
    with_client = client(server.url)
    assert with_client.search(["zebra", "the animal lion", "\ud800"], 2) == local
    assert [hits[0].title for hits in local[:2]] == ["Zebra", "Lion"]
    assert local[2] == []
    with_client.close()


def test_the_answer_has_search_r1s_form(server: RetrieverServer) -> None:
    body = {"queries": ["zebra"], "topk": 1, "return_scores": True}
    (hit,) = httpx.post(server.url, json=body).json()["result"][0]
    assert hit["document"] == {"id": "0", "contents": '"Zebra"\nThe zebra is an animal.'}
    assert hit["score"] > 0
    plain = httpx.post(server.url, json={"queries": ["zebra"]}).json()["result"]
    assert plain == [[hit["document"], *plain[0][1:]]]  # three by default, here as many as match
    assert Passage.of(hit["document"]).title == "Zebra"


def test_many_at_once_are_all_answered(server: RetrieverServer) -> None:
    def ask(number: int) -> bool:
        name = ANIMALS[number % len(ANIMALS)]
        found = client(server.url, 30.0).search([name, "animal " * number], 1)
        return found[0][0].title == name.title() and len(found) == 2

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(160)))


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[1]", 400),
        (b'{"queries": "zebra"}', 400),
        (b'{"queries": [1]}', 400),
        (b'{"queries": ["a"], "topk": 0}', 400),
        (b'{"queries": ["a"], "topk": true}', 400),
        (b'{"queries": ["a"], "topk": 100000}', 400),
        (b"[" * 100_000, 400),
        (b"\xff\xfe", 400),
        (json.dumps({"queries": ["a"] * 2000}).encode(), 413),
        (b'{"queries": []}', 200),
        (json.dumps({"queries": ["zebra " * 300_000]}).encode(), 200),
    ],
)
def test_broken_and_huge_requests_are_answered(server: RetrieverServer, raw: bytes, status: int) -> None:
    answer = httpx.post(server.url, content=raw, timeout=20)
    assert answer.status_code == status
    assert ("error" in answer.json()) is (status != 200)
    assert httpx.post(server.url, json={"queries": ["zebra"]}).status_code == 200


def test_other_paths_and_too_long_bodies_are_refused(server: RetrieverServer) -> None:
    base = server.url.removesuffix("/retrieve")
    assert httpx.get(f"{base}/health").json() == {"ok": True}
    assert httpx.get(f"{base}/etc/passwd").status_code == 404
    assert httpx.post(f"{base}/other", json={}).status_code == 404
    with socket.create_connection(("127.0.0.1", int(base.rsplit(":", 1)[1]))) as raw:
        raw.sendall(f"POST /retrieve HTTP/1.1\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n".encode())
        assert b"413" in raw.recv(200)
    assert httpx.post(server.url, content=iter([b"{}"])).status_code == 411


def test_a_client_that_leaves_or_stalls_holds_up_nobody(server: RetrieverServer) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    stalled = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    for connection in stalled:
        connection.sendall(b"POST /retrieve HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
    # the stalled ones keep their places for 30 s
    assert client(server.url, 25.0).search(["lion"], 1)[0][0].title == "Lion"
    for connection in stalled:
        connection.close()
    assert client(server.url, 25.0).search(["lion"], 1)[0][0].title == "Lion"


def stall(server: RetrieverServer, pieces: Iterator[bytes]) -> bytes:
    """What comes back from a request whose body comes in pieces, until the server ends the connection."""
    port, answer = server._server.server_address[1], b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST /retrieve HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{")
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.02)
            while part := connection.recv(4096):
                answer += part
        except ConnectionError:
            pass  # it has hung up
    return answer


def test_a_slow_body_ends_its_connection_without_a_word(
    server: RetrieverServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("turnpoint.envs.retrieval_server._BODY_SECONDS", 0.2)
    assert stall(server, (b" " for _ in range(3000))) == b""  # a minute of drops, each within the patience
    monkeypatch.setattr("turnpoint.envs.retrieval_server._Handler.timeout", 0.2)
    assert stall(server, iter([])) == b""  # nothing more comes
    assert client(server.url, 25.0).search(["lion"], 1)[0][0].title == "Lion"
    assert "Traceback" not in capfd.readouterr().err


def read_request(connection: socket.socket) -> None:
    connection.settimeout(60)
    head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += connection.recv(65_536)


@contextmanager
def failing(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads a request and then does as it likes."""
    listener, ended = socket.create_server(("127.0.0.1", 0)), threading.Event()
    listener.settimeout(0.05)

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                read_request(connection)  # all of it: what is left unread would reset the connection
                behave(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/retrieve"
    finally:
        ended.set()
        thread.join(3)
        listener.close()


def sends(body: bytes, status: str = "200 OK") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


def drips(connection: socket.socket) -> None:
    """An answer that goes on for as long as anybody waits."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        try:
            connection.sendall(b" ")
        except OSError:
            return
        time.sleep(0.05)


def sleeps(connection: socket.socket) -> None:
    """No answer until the client hangs up."""
    connection.recv(1)


@pytest.mark.parametrize(
    ("behave", "seconds", "reason"),
    [
        (sleeps, 0.3, "no answer within 0.3 s"),
        (drips, 2.0, "no whole answer within 2 s"),
        (lambda connection: None, 20.0, "cannot be reached"),
        (sends(b"oops", "500 Internal Server Error"), 20.0, "status 500"),
        (sends(b"<html>"), 20.0, "no JSON"),
        (sends(b"[" * 100_000), 20.0, "no JSON"),
        (sends(b'{"result": []}'), 20.0, "one result per query"),
        (sends(b'{"result": [[{"document": 3}]]}'), 20.0, "no list of documents"),
        (sends(b'{"result": [7]}'), 20.0, "no list of documents"),
    ],
)
def test_every_failure_of_a_server_is_a_typed_error(
    behave: Callable[[socket.socket], None], seconds: float, reason: str
) -> None:
    with failing(behave) as url, pytest.raises(RetrieverError, match=reason):
        client(url, seconds).search(["zebra"], 3)


def test_a_server_that_is_not_there_is_a_typed_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RetrieverError, match="cannot be reached"):
        client(f"http://127.0.0.1:{port}/retrieve").search(["zebra"], 3)


def test_episodes_end_with_the_error_and_the_run_goes_on() -> None:
    """Half of the searches meet a server that crashes; the other episodes are played to their end."""

    def script(prompt: str, seed: int) -> str:
        return "<search>zebra</search>" if seed % 2 else "<answer>Arvik</answer>"

    async def play(url: str) -> list[StopReason | None]:
        settings = SearchQASettings(retriever=HttpSettings(url=url, seconds=0.3), max_turns=2)
        suite = settings.build()
        prompt, rollout = PromptSettings(action_tags=False), RolloutSettings(env_seconds=5.0)
        rollouts, _ = make_rollouts(suite, ScriptedPolicy(script), prompt=prompt, rollout=rollout)
        episodes = await asyncio.gather(*(rollouts.play(task, 0) for task in suite.tasks("train")[:12]))
        await rollouts.close()
        assert all(
            "RetrieverError" in e.error or "retriever" in e.error
            for e in episodes
            if e.stop == StopReason.ENV_ERROR
        )
        return [episode.stop for episode in episodes]

    with failing(lambda connection: None) as url:
        stops = asyncio.run(play(url))
    assert StopReason.ENV_ERROR in stops
    assert {StopReason.SUCCESS, StopReason.FAILURE} & set(stops)
    assert set(stops) <= {StopReason.ENV_ERROR, StopReason.SUCCESS, StopReason.FAILURE}


class Letters:
    """A model that embeds a text as its letter counts."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)


def test_dense_retrieval_ranks_by_the_models_similarity() -> None:
    settings = DenseSettings(model="letters", query_prefix="", passage_prefix="")
    dense = DenseRetriever(corpus(), settings, Letters())
    query = "Zebra\nThe zebra is an animal."
    ((first, *others),) = dense.search([query], 3)
    assert first.title == "Zebra"
    assert first.score == pytest.approx(1.0)
    assert [hit.score for hit in others] == sorted((hit.score for hit in others), reverse=True)


def test_no_queries_have_no_results_whoever_searches() -> None:
    dense = DenseRetriever(corpus(), DenseSettings(model="letters"), Letters())
    with RetrieverServer(dense) as running:
        assert httpx.post(running.url, json={"queries": []}).json() == {"result": []}


def test_vectors_are_kept_in_a_file_and_belong_to_their_corpus(tmp_path: Path) -> None:
    embedded: list[int] = []

    class Counting(Letters):
        def encode(self, texts: list[str]) -> np.ndarray:
            embedded.append(len(texts))
            return super().encode(texts)

    path = tmp_path / "vectors" / "letters.npz"
    settings = DenseSettings(model="letters", index=str(path))
    first = DenseRetriever(corpus(), settings, Counting()).search(["zebra"], 3)
    count = sum(embedded)
    assert DenseRetriever(corpus(), settings, Counting()).search(["zebra"], 3) == first
    assert sum(embedded) == count + 1  # the query alone
    with pytest.raises(EnvDataError, match="has the vectors of"):
        DenseRetriever(corpus(), settings.model_copy(update={"passage_prefix": ""}), Counting())
    path.write_bytes(b"PK torn")
    with pytest.raises(EnvDataError, match="cannot be read"):
        DenseRetriever(corpus(), settings, Counting())


def test_a_dense_model_that_is_missing_says_what_to_install() -> None:
    with pytest.raises(ValueError, match=r"turnpoint\[dense\]|cannot be loaded"):
        make_retriever(DenseSettings(model="/nowhere/model"), corpus())
