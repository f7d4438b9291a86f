"""Search-R1's ``/retrieve`` protocol, as a server: on the loopback interface unless told otherwise.

It answers whatever it is sent: broken requests with a status and a reason, too many at once with 503, slow clients
with the end of their connection.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from turnpoint.envs.retrieval import MOST_RESULTS, Retriever, RetrieverError

MOST_BYTES = 4 << 20
"""Longest request."""
MOST_QUERIES = 1024
"""Most queries of a request."""
MOST_WAITING = 256
"""Requests that may be under way; further ones are told to come again."""
_PATIENCE = 30.0
"""Seconds that a client may take between two pieces of its request."""
_BODY_SECONDS = 60.0
"""Seconds that a whole body may take, however often a piece of it comes."""


class BadRequest(ValueError):
    """What is wrong with a request."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no fault of the server's."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


class RetrieverServer:
    """Serves one retriever until it is closed; ``with`` starts and closes it in a thread of its own."""

    def __init__(self, retriever: Retriever, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """``port`` 0 takes a free one. Raises ``OSError`` if the address is taken."""
        self.retriever = retriever
        self.places = threading.BoundedSemaphore(MOST_WAITING)
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._server = (_Server6 if ":" in host else _Server)((host, port), handler)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Address of ``/retrieve``."""
        host, port = self._server.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/retrieve"

    def serve(self) -> None:
        """Answer requests until ``close``."""
        self._server.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        """Stop, from another thread than the one that serves."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> RetrieverServer:
        self._thread = threading.Thread(target=self.serve, name="retriever", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, raw: bytes) -> dict[str, Any]:
        """The answer to a request's body. Raises ``BadRequest``."""
        queries, topk, scores = read_request(raw)
        found = self.retriever.search(queries, topk) if queries else []
        documents = [
            [({"id": hit.id, "contents": hit.contents}, hit.score) for hit in hits] for hits in found
        ]
        if scores:
            return {"result": [[{"document": d, "score": s} for d, s in hits] for hits in documents]}
        return {"result": [[d for d, _ in hits] for hits in documents]}


def read_request(raw: bytes) -> tuple[list[str], int, bool]:
    """Queries, passages per query, and whether scores are wanted. Raises ``BadRequest``."""
    bad = HTTPStatus.BAD_REQUEST
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadRequest(bad, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(bad, 'the body must be an object such as {"queries": ["…"], "topk": 3}')
    queries, topk, scores = body.get("queries"), body.get("topk"), body.get("return_scores", False)
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise BadRequest(bad, "'queries' must be a list of texts")
    if len(queries) > MOST_QUERIES:
        raise BadRequest(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_QUERIES} queries fit in a request"
        )
    topk = 3 if topk is None else topk
    if not isinstance(topk, int) or isinstance(topk, bool) or not 1 <= topk <= MOST_RESULTS:
        raise BadRequest(bad, f"'topk' must be a whole number from 1 to {MOST_RESULTS}")
    return queries, topk, bool(scores)


class _Handler(BaseHTTPRequestHandler):
    server_of: RetrieverServer
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """``/health`` says that the server is up."""
        self._send(*((HTTPStatus.OK, {"ok": True}) if self.path == "/health" else _nothing_here()))

    def do_POST(self) -> None:
        """``/retrieve``."""
        if not self.server_of.places.acquire(blocking=False):
            self.close_connection = True
            return self._send(
                HTTPStatus.SERVICE_UNAVAILABLE, {"error": "too many requests at once; try again"}
            )
        try:
            self._send(*self._answer())
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client is gone
        finally:
            self.server_of.places.release()

    def _answer(self) -> tuple[HTTPStatus, dict[str, Any]]:
        if self.path.rstrip("/") != "/retrieve":
            self.close_connection = True  # its body stays unread
            return _nothing_here()
        try:
            raw = self._body()
        except BadRequest as error:
            self.close_connection = True
            return error.status, {"error": str(error)}
        try:
            return HTTPStatus.OK, self.server_of.answer(raw)
        except BadRequest as error:
            self.close_connection = True
            return error.status, {"error": str(error)}
        except RetrieverError as error:
            return HTTPStatus.BAD_GATEWAY, {"error": str(error)}
        except Exception as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}

    def _body(self) -> bytes:
        """Raises ``BadRequest``; ``ConnectionError`` or ``TimeoutError`` where the client leaves or takes too long."""
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length") from None
        if not 0 <= length <= MOST_BYTES:
            raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES} bytes are read")
        body, ends = bytearray(), time.monotonic() + _BODY_SECONDS
        while len(body) < length:
            piece = self.rfile.read1(length - len(body))
            if not piece:
                raise ConnectionError("the client left in the middle of its request")
            if time.monotonic() > ends:
                raise TimeoutError(f"a body took longer than {_BODY_SECONDS:g} s")
            body += piece
        return bytes(body)

    def _send(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""


def _nothing_here() -> tuple[HTTPStatus, dict[str, Any]]:
    return HTTPStatus.NOT_FOUND, {"error": "there is only POST /retrieve and GET /health"}
