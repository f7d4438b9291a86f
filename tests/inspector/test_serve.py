from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from turnpoint.inspector import InspectorServer, LiveRun
from turnpoint.inspector import serve as serve_module
from turnpoint.inspector.store import load

from .conftest import embedded
from .samples import make_episode, write_episodes


@pytest.fixture
def folder(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder / "eval", tmp_path / "run" / "eval")).parent


@pytest.fixture
def server(folder: Path) -> Iterator[InspectorServer]:
    made = InspectorServer(LiveRun(folder))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.close()
    thread.join(10)
    assert not thread.is_alive()


def ask(
    server: InspectorServer, path: str, *, host: str | None = None, method: str = "GET"
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def test_page_and_data_are_served_under_the_token(server: InspectorServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/{server.token}/"
    response, text = ask(server, f"/{server.token}/")
    assert response.status == 200
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    data = embedded(text, "data")
    assert len(data["episodes"]) == 120
    response, text = ask(server, f"/{server.token}/{data['base']}{data['episodes'][0]['c']}.js")
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/javascript")
    assert text.startswith("TP.receive(")


@pytest.mark.parametrize("path", ["/", "/x/", "/{token}", "/{token}x/", "/{token}/data/0-9.js"])
def test_other_paths_answer_nothing(server: InspectorServer, path: str) -> None:
    response, text = ask(server, path.format(token=server.token))
    assert (response.status, text) == (404, "not found\n")


@pytest.mark.parametrize(
    "path", ["data/../config.yaml", "data/%2e%2e/x.js", "../eval/step_000000.jsonl", "data/.js"]
)
def test_files_of_the_machine_cannot_be_asked_for(server: InspectorServer, path: str) -> None:
    assert ask(server, f"/{server.token}/{path}")[0].status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_foreign_host_is_refused(server: InspectorServer, host: str) -> None:
    response, text = ask(server, f"/{server.token}/", host=host)
    assert response.status == 403
    assert "episodes" not in text


def test_localhost_is_this_machine_too(server: InspectorServer) -> None:
    assert ask(server, f"/{server.token}/", host=f"localhost:{server.port}")[0].status == 200


def test_it_reads_only(server: InspectorServer) -> None:
    assert ask(server, f"/{server.token}/", method="POST")[0].status == 501
    response, text = ask(server, f"/{server.token}/", method="HEAD")
    assert (response.status, text) == (200, "")


def test_it_listens_on_loopback_only(server: InspectorServer) -> None:
    assert server._server.server_address[0] == "127.0.0.1"


def test_tokens_differ(folder: Path) -> None:
    first, second = (InspectorServer(LiveRun(folder)) for _ in range(2))
    assert first.token != second.token
    assert len(first.token) >= 32
    for server in (first, second):
        server._server.server_close()


def test_a_run_that_grows_is_seen_and_old_pieces_are_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LiveRun(folder)
    assert len(embedded(run.page(), "data")["episodes"]) == 120
    read = []
    monkeypatch.setattr(
        serve_module, "load", lambda piece, *a, **k: read.append(piece.name) or load(piece, *a, **k)
    )
    write_episodes(folder / "eval" / "step_000011.jsonl", [make_episode(random.Random(1), "new")])
    episodes = embedded(run.page(), "data")["episodes"]
    assert episodes[-1]["id"] == "new"
    assert len(read) == 1


def test_a_run_that_vanished_is_an_answer_not_a_crash(server: InspectorServer, folder: Path) -> None:
    shutil.rmtree(folder)
    response, text = ask(server, f"/{server.token}/")
    assert response.status == 500
    assert "does not exist" in text
    assert ask(server, "/")[0].status == 404
