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
    k1: Annotated[float, typer.Option(min=0.0, help="BM25: how slowly repeats stop counting.")] = 0.9,
    b: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="BM25: how much long passages are put back.")
    ] = 0.4,
    dense: Annotated[str, typer.Option(help="Search with this sentence-transformers model instead.")] = "",
    index: Annotated[str, typer.Option(help="File that keeps the vectors of --dense between starts.")] = "",
    prefixes: Annotated[
        bool, typer.Option(help="Put E5's 'query: ' and 'passage: ' before texts for --dense.")
    ] = True,
) -> None:
    """Answer POST /retrieve in Search-R1's protocol until interrupted.

    Example: turnpoint serve retriever data/search_qa/search_qa.sqlite --port 8000
    """
    with user_faults():
        from turnpoint.envs.retrieval import BM25Settings, DenseSettings, make_retriever
        from turnpoint.envs.retrieval_server import RetrieverServer
        from turnpoint.envs.text_store import open_store

        store = open_store(data)
        settings: DenseSettings | BM25Settings = BM25Settings(k1=k1, b=b)
        if dense:
            settings = DenseSettings(model=dense, index=index)
            if not prefixes:
                settings = settings.model_copy(update={"query_prefix": "", "passage_prefix": ""})
        try:
            server = RetrieverServer(make_retriever(settings, store), host=host, port=port)
        except OSError as error:
            fail(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port")
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
