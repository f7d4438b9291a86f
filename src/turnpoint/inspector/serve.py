"""Serving the inspector on this machine only: loopback, a token in the address, and the ``Host`` header checked."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from turnpoint.inspector.page import data_file, render_page
from turnpoint.inspector.store import MOST_EPISODES, Loaded, Piece, Plan, Progress, load, plan

HOST = "127.0.0.1"


class LiveRun:
    """A run that may still grow: list entries are kept, details are read on demand."""

    def __init__(self, target: Path, *, most: int = MOST_EPISODES) -> None:
        self._target, self._most = target, most
        self._lock = threading.Lock()
        self._entries: dict[Piece, Loaded] = {}
        self._pieces: dict[str, Piece] = {}
        self._plan = Plan("")

    def page(self, progress: Progress | None = None) -> str:
        """The page as the run is now; only what is new or changed is parsed."""
        with self._lock:
            now = plan(self._target, most=self._most)
            known, self._entries = self._entries, {}
            done = 0
            for piece in now.pieces:
                self._entries[piece] = known.get(piece) or load(piece, None, details=False)
                done += len(piece.refs)
                if progress is not None:
                    progress(done, now.episodes)
            self._pieces = {piece.name: piece for piece in now.pieces}
            self._plan = now
            loaded = list(self._entries.values())
        summaries = [entry for item in loaded for entry in item.summaries]
        problems = [problem for item in loaded for problem in item.problems]
        return render_page(now, summaries, problems, None, "data/")

    def data(self, name: str) -> str | None:
        """The data file of a piece, or None if there is no such piece."""
        piece = self._pieces.get(name)
        return None if piece is None else data_file(name, load(piece, self._plan.texts).details)


class InspectorServer:
    """Serves one run until it is closed. The address holds a token; nothing answers without it."""

    def __init__(self, run: LiveRun, *, port: int = 0) -> None:
        """``port`` 0 takes a free one. Raises ``OSError`` if the port is taken."""
        self.token = secrets.token_urlsafe(24)
        self._run = run
        self._server = ThreadingHTTPServer((HOST, port), _handler(self._answer))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve_forever(self) -> None:
        """Answer until ``close`` is called from another thread, or an interrupt."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, host: str, path: str) -> tuple[HTTPStatus, str, str]:
        """(status, content type, body) of a request."""
        if host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return HTTPStatus.FORBIDDEN, "text/plain", "wrong host\n"
        _, _, rest = path.partition("?")[0].partition("/")
        token, slash, name = rest.partition("/")
        if not slash or not hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return HTTPStatus.NOT_FOUND, "text/plain", "not found\n"
        if not name:
            return HTTPStatus.OK, "text/html", self._run.page()
        if name.startswith("data/") and name.endswith(".js"):
            body = self._run.data(name.removeprefix("data/").removesuffix(".js"))
            if body is not None:
                return HTTPStatus.OK, "text/javascript", body
        return HTTPStatus.NOT_FOUND, "text/plain", "not found\n"


Answer = Callable[[str, str], tuple[HTTPStatus, str, str]]


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "turnpoint", ""
        timeout = 30

        def do_GET(self) -> None:
            self._send(with_body=True)

        def do_HEAD(self) -> None:
            self._send(with_body=False)

        def _send(self, *, with_body: bool) -> None:
            try:
                status, kind, text = answer(self.headers.get("Host", ""), self.path)
            except Exception as error:  # a request must not end the server; the reader sees why
                status, kind, text = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", f"{error}\n"
            body = text.encode("utf-8")
            self.send_response(status)
            for name, value in {
                "Content-Type": f"{kind}; charset=utf-8",
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Cross-Origin-Opener-Policy": "same-origin",
                "X-Frame-Options": "DENY",
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged: their paths hold the token."""

    return Handler
