"""``turnpoint serve retriever`` refuses what it would ignore, and names what it cannot do."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from turnpoint.cli import app
from turnpoint.envs import retrieval, retrieval_server
from turnpoint.envs.text_store import TextStoreWriter


def store(path: Path, **facts: Any) -> Path:
    writer = TextStoreWriter(path)
    writer.add("0", {"id": "0", "title": "Zebra", "text": "An animal."}, "Zebra\nAn animal.")
    writer.finish(facts).close()
    return path


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return store(tmp_path / "search_qa.sqlite", passages=1, sets={})


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["serve", "retriever", *arguments])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--index", "vectors.npz"], "--index would be ignored: it needs --dense MODEL"),
        (["--no-prefixes", "--index", "v.npz"], "--index and --no-prefixes would be ignored"),
        (["--dense", "any", "--b", "0.4"], "--b would be ignored: it belongs to BM25"),
        (["--dense", "any", "--k1", "0.9"], "--k1 would be ignored: it belongs to BM25"),
    ],
)
def test_options_that_would_be_ignored_are_refused(passages: Path, options: list[str], said: str) -> None:
    done = run(str(passages), *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    done = run(str(store(tmp_path / "webshop.sqlite", products=1, goals={})))
    assert done.exit_code == 2
    assert "holds no passages" in done.stderr


def test_a_taken_address_is_no_fault_of_the_index_and_the_other_way_round(
    passages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(str(passages), "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2
    assert "cannot listen on 127.0.0.1" in done.stderr

    def forbidden(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/vectors.npz")

    monkeypatch.setattr(retrieval, "make_retriever", forbidden)
    done = run(str(passages), "--dense", "any", "--index", "/vectors.npz")
    assert done.exit_code == 2
    assert "/vectors.npz: Permission denied" in done.stderr
    assert "listen" not in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_answers_at_the_address_that_it_names(
    passages: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    answers: list[httpx.Response] = []
    serve = retrieval_server.RetrieverServer.serve

    def ask_once(self: retrieval_server.RetrieverServer) -> None:
        thread = threading.Thread(target=serve, args=(self,), daemon=True)
        thread.start()
        answers.append(httpx.post(self.url, json={"queries": ["zebra"]}, timeout=30))
        self._server.shutdown()
        thread.join()

    monkeypatch.setattr(retrieval_server.RetrieverServer, "serve", ask_once)
    done = run(str(passages), "--host", host, "--port", "0", "--k1", "1.2")
    assert done.exit_code == 0, done.output
    assert "1 passages at http://" in done.stdout
    assert answers[0].json()["result"][0][0]["id"] == "0"
