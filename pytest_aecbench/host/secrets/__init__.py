"""Secrets: find the values that are secret, and replace them in text, JSON, files and names."""

from pytest_aecbench.host.secrets.scrubber import Scrubber
from pytest_aecbench.host.secrets.stream import ScrubbedStream
from pytest_aecbench.host.secrets.values import (
    handed_over,
    names_credential,
    names_open,
    secrets_from,
)

__all__ = [
    "ScrubbedStream",
    "Scrubber",
    "handed_over",
    "names_credential",
    "names_open",
    "secrets_from",
]
