"""The backend ``daytona``: run trials in sandboxes of Daytona."""

from pytest_aecbench.backends.daytona.backend import DaytonaBackend

__all__ = ["DaytonaBackend"]
