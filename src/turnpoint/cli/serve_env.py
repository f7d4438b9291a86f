"""``turnpoint serve env``: any environment in OpenEnv's protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from turnpoint.cli.common import console, fail, user_faults


def serve_env(
    kind: Annotated[str, typer.Argument(help="Kind of the environment.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, as setting=value.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    sessions: Annotated[int, typer.Option(min=1, help="Most clients at a time.")] = 64,
) -> None:
    """Serve any environment in OpenEnv's protocol until interrupted.

    Example: turnpoint serve env household valid_tasks=50 --port 8000
    """
    from pydantic import ValidationError

    from turnpoint.config import apply_overrides, explain
    from turnpoint.envs import env_registry
    from turnpoint.envs.exports.openenv import OpenEnvServer

    with user_faults():
        try:
            suite = env_registry.parse(apply_overrides({"kind": kind}, overrides or [])).build()
        except ValidationError as error:
            fail(explain(error))
        try:
            server = OpenEnvServer(suite, host=host, port=port, sessions=sessions)
        except OSError as error:
            fail(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port")
        typer.echo(f"{suite.name} at {server.url}")
        if host not in ("127.0.0.1", "localhost", "::1"):
            console().print("anybody who reaches this machine can play: there is no password", markup=False)
        try:
            server.serve()
        except KeyboardInterrupt:
            console().print("stopped", markup=False)
        finally:
            server.close()
