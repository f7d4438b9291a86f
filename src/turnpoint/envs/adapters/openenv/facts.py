"""What an OpenEnv server says of itself: the form of its actions, and its tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

from turnpoint.envs.adapters.openenv.settings import OpenEnvSettings
from turnpoint.envs.protocol import EnvDataError


class Facts(NamedTuple):
    """Read once, when the suite is built."""

    name: str
    description: str
    version: str
    action_field: str
    """Empty where the agent writes the whole action."""
    tasks: dict[str, int]
    """Number of the server's tasks by our split; empty where it has none, or seeds are asked for."""


def ask_server(settings: OpenEnvSettings) -> Facts:
    """Raises ``EnvDataError`` if the server does not answer, or its actions hold more than one text."""
    address = settings.base_url
    limits = httpx.Timeout(settings.call_seconds, connect=settings.connect_seconds)
    try:
        with httpx.Client(base_url=address, timeout=limits, trust_env=False) as http:
            schema = _get(http, "/schema")
            about = _get(http, "/metadata", needed=False)
            tasks = {} if settings.reset == "seed" else _tasks(http, settings)
    except httpx.HTTPError as error:
        raise EnvDataError(
            f"env.base_url is {address}, where no OpenEnv server answers: {error}; start one, as with turnpoint serve "
            "env KIND"
        ) from error
    if settings.reset == "task" and not tasks:
        raise EnvDataError(
            f"env.reset is task, but {address} has no tasks of splits '{settings.train_split}' and "
            f"'{settings.valid_split}'; set env.reset to seed, or name its splits"
        )
    field = "" if settings.action_json else _field(settings, schema.get("action"))
    return Facts(
        str(about.get("name", "")),
        str(about.get("description", ""))[:4000],
        str(about.get("version", "")),
        field,
        tasks,
    )


def _get(http: httpx.Client, path: str, *, needed: bool = True) -> dict[str, Any]:
    answer = http.get(path)
    if needed:
        answer.raise_for_status()
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or answer.is_error:
        if needed:
            raise EnvDataError(
                f"{http.base_url} answers {path} with something else than an OpenEnv server does"
            )
        return {}
    return found


def _field(settings: OpenEnvSettings, schema: Any) -> str:
    schema = schema if isinstance(schema, dict) else {}
    known = schema.get("properties") or {}
    if settings.action_field:
        if known and settings.action_field not in known:
            raise EnvDataError(
                f"env.action_field is '{settings.action_field}', but the server's actions have {', '.join(known)}"
            )
        return settings.action_field
    required = schema.get("required") or [name for name in known if name != "metadata"]
    if len(required) != 1:
        raise EnvDataError(
            f"the server's actions have {', '.join(known) or 'no named fields'}; name one with env.action_field, or "
            "set env.action_json: true, so that the agent writes them as JSON"
        )
    return str(required[0])


def _tasks(http: httpx.Client, settings: OpenEnvSettings) -> dict[str, int]:
    names = http.get("/list_environments")
    if names.is_error or not isinstance(names.json(), list) or not names.json():
        return {}
    name, found = str(names.json()[0]), {}
    for split, theirs in (("train", settings.train_split), ("valid", settings.valid_split)):
        answer = http.post(f"/{name}/num_tasks", json={"split": theirs})
        count = answer.json().get("num_tasks") if not answer.is_error else None
        if not isinstance(count, int) or count < 1:
            return {}
        found[split] = count
    return found
