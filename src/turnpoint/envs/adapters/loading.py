"""Things that settings name as ``module:attr``."""

from __future__ import annotations

import importlib
import re
from typing import Any

from turnpoint.envs.protocol import EnvDataError

PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_path(text: str) -> bool:
    """Whether a text has the form ``module:attr``."""
    return PATH.fullmatch(text) is not None


def load(path: str, setting: str) -> Any:
    """The thing at ``module:attr``. Raises ``EnvDataError`` that names the setting."""
    module, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EnvDataError(f"{setting} is {path}, which cannot be imported: {error}") from error
    return found
