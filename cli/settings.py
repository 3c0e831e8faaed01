"""The agent's settings from flags and environment, which the agent itself does not read."""

from collections.abc import Mapping
from typing import Any

from agent.settings import AgentSettings
from shared.server.read_settings import read_settings_of


def read_agent_settings(flags: Mapping[str, Any] | None = None) -> AgentSettings:
    """Return the agent's settings, as `read_settings_of` does."""
    return read_settings_of("agent", AgentSettings, flags)
