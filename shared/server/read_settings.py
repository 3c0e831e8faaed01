"""A service's settings from flags and environment; flags win."""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from shared.errors import InvalidSettings, quoted
from shared.mistakes import first_mistake

S = TypeVar("S", bound=BaseSettings)


def read_settings_of(service: str, kind: type[S], flags: Mapping[str, Any] | None = None) -> S:
    """Return the settings of a service from `flags` (None values count as not given) and the environment.

    Raises InvalidSettings, also for a variable with its prefix that is no setting: it is likely a misspelling.
    """
    prefix = kind.model_config.get("env_prefix", "")
    _refuse_unknown_variables(service, kind, prefix)
    try:
        return kind(**{name: value for name, value in (flags or {}).items() if value is not None})
    except ValidationError as error:
        first = first_mistake(error)
        raise InvalidSettings(
            f"the setting {first.place} cannot be {quoted(str(first.given))}: {first.why}",
            advice=f"correct the flag, or the variable {prefix}{first.place.upper()}",
        ) from error


def _refuse_unknown_variables(service: str, kind: type[BaseSettings], prefix: str) -> None:
    known = {f"{prefix}{name}".upper() for name in kind.model_fields}
    for variable in sorted(os.environ):
        if variable.upper().startswith(prefix) and variable.upper() not in known:
            raise InvalidSettings(
                f"the variable {quoted(variable)} is not a setting of the {service}",
                advice=f"known settings: {', '.join(sorted(known))}",
            )
