"""The agent's settings from flags and environment; flags win. The collector reads its own the same way."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from agent.settings import AgentSettings
from shared.errors import InvalidSettings, quoted

PREFIX = "UNHANG_AGENT_"


def read_agent_settings(flags: Mapping[str, Any] | None = None) -> AgentSettings:
    """Return the settings from `flags` (None values count as not given) and the environment.

    Raises InvalidSettings, also for a variable with our prefix that is no setting: it is likely a misspelling.
    """
    known = {f"{PREFIX}{name}".upper() for name in AgentSettings.model_fields}
    for variable in sorted(os.environ):
        if variable.upper().startswith(PREFIX) and variable.upper() not in known:
            raise InvalidSettings(
                f"the variable {quoted(variable)} is not a setting of the agent",
                advice=f"known settings: {', '.join(sorted(known))}",
            )
    try:
        return AgentSettings(**{name: value for name, value in (flags or {}).items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidSettings(
            f"the setting {name} cannot be {quoted(str(first['input']))}: {first['msg']}",
            advice=f"correct the flag or the variable {PREFIX}{name.upper()}",
        ) from error
