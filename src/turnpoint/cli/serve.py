"""``turnpoint serve``: servers that environments talk to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnpoint.cli.common import console, fail, user_faults

app = typer.Typer(help="Servers that environments talk to.", no_args_is_help=True)


@app.callback()
def serve() -> None:
    """Servers that environments talk to."""


@app.command("retriever")
def retriever(
    data: Annotated[Path, typer.Argument(help="A file made by turnpoint envs prepare search_qa.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    k1: Annotated[
        float | None, typer.Option(min=0.0, help="BM25: how slowly repeats stop counting (default 0.9).")
    ] = None,
    b: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="BM25: how much long passages are put back (default 0.4)."),
    ] = None,
    dense: Annotated[str, typer.Option(help="Search with this sentence-transformers model instead.")] = "",
    index: Annotated[str, typer.Option(help="File that keeps the vectors of --dense between starts.")] = "",
    prefixes: Annotated[
        bool, typer.Option(help="Put E5's 'query: ' and 'passage: ' before texts for --dense.")
    ] = True,
) -> None:
    """Answer POST /retrieve in Search-R1's protocol until interrupted.

    Example: turnpoint serve retriever data/search_qa/search_qa.sqlite --port 8000
    """
    unused = {"--k1": k1 is not None, "--b": b is not None} if dense else {}
    unused |= {} if dense else {"--index": bool(index), "--no-prefixes": not prefixes}
    if names := [name for name, given in unused.items() if given]:
        reason = "belongs to BM25, which --dense replaces" if dense else "needs --dense MODEL"
        fail(f"{' and '.join(names)} would be ignored: it {reason}")
    with user_faults():
        from turnpoint.envs.retrieval import BM25Settings, DenseSettings, make_retriever
        from turnpoint.envs.retrieval_server import RetrieverServer
        from turnpoint.envs.text_store import open_store

        store = open_store(data)
        if "passages" not in store.facts:
            fail(f"'{data}' holds no passages; make one with turnpoint envs prepare search_qa")
        settings: DenseSettings | BM25Settings
        if dense:
            settings = DenseSettings(model=dense, index=index)
            if not prefixes:
                settings = settings.model_copy(update={"query_prefix": "", "passage_prefix": ""})
        else:
            given = {"k1": k1, "b": b}
            settings = BM25Settings.model_validate({n: v for n, v in given.items() if v is not None})
        found = make_retriever(settings, store)
        try:
            server = RetrieverServer(found, host=host, port=port)
        except OSError as error:
            fail(
                f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port or --host"
            )
        typer.echo(f"{store.count} passages at {server.url}")
        if host not in ("127.0.0.1", "localhost", "::1"):
            console().print(
                "anybody who reaches this machine can search it: there is no password", markup=False
            )
        try:
            server.serve()
        except KeyboardInterrupt:
            console().print("stopped", markup=False)
        finally:
            server.close()
