"""The installation of an agent: what is added to a task's image before the agent works in it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from pytest_aecbench.errors import SettingsError

__all__ = ["MAX_SCRIPT_BYTES", "Installation"]

# The script becomes one line of a Dockerfile, which may have 64 KiB, and grows by a third.
MAX_SCRIPT_BYTES = 40_000


@dataclass(frozen=True, slots=True)
class Installation:
    """A script that installs an agent in any Linux image; bash runs it once, as root.

    The image is built anew when the script or ``version`` changes; the script finds the latter in
    ``AGENT_VERSION``. ``program`` is the command that the script installs: a backend without images
    needs it on PATH.
    """

    script: str
    version: str = ""
    program: str | None = None

    def __post_init__(self) -> None:
        size = len(self.text.encode())
        if size > MAX_SCRIPT_BYTES:
            raise SettingsError(
                f"install: the script has {size} bytes; use at most {MAX_SCRIPT_BYTES}, "
                "and download the rest"
            )

    @property
    def text(self) -> str:
        """The script as it runs in the image."""
        return f"export AGENT_VERSION={shlex.quote(self.version)}\ncd /\n{self.script.strip()}\n"
