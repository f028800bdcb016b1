"""The backend ``local``: run trials as subprocesses on this machine, without resource limits."""

from pytest_aecbench.backends.local.backend import LocalBackend, Mode

__all__ = ["LocalBackend", "Mode"]
