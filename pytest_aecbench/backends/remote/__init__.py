"""Backends that rent sandboxes from a vendor: their shared code, and the calls of a vendor."""

from pytest_aecbench.backends.remote.backend import RemoteBackend
from pytest_aecbench.backends.remote.environment import Environment
from pytest_aecbench.backends.remote.vendor import Rented, Vendor

__all__ = ["Environment", "RemoteBackend", "Rented", "Vendor"]
