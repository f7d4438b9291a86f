"""Base of every settings class: unknown keys are refused with the nearest valid name."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class ConfigError(ValueError):
    """A configuration that cannot do what it says; the message names the setting and the way out."""


class Settings(BaseModel):
    """A typed, frozen group of settings; every field has a one-sentence description."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = list(cls.model_fields)
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
                hint = f"did you mean '{near[0]}'?" if near else f"known settings: {', '.join(known)}"
                raise ValueError(f"unknown setting '{key}'; {hint}")
        return {key: _over_default(cls.model_fields[key].default, value) for key, value in data.items()}


def _over_default(default: Any, given: Any) -> Any:
    """A section given in part, laid over the section's own default.

    Without this, setting one field of a nested section would silently put the section's other fields back to
    those of its class. Another ``kind`` starts from that kind's own defaults.
    """
    if not isinstance(default, Settings) or not isinstance(given, dict):
        return given
    fields = {name: getattr(default, name) for name in type(default).model_fields}
    if given.get("kind", fields.get("kind")) != fields.get("kind"):
        return given
    return fields | {key: _over_default(fields.get(key), value) for key, value in given.items()}
