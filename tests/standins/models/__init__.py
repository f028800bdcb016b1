"""Stand-ins for the providers of models: one loopback server that speaks all of their formats.

In a test, ``ModelServer`` serves from a thread. ``python -m tests.standins.models [SCRIPTS.json]``
serves from a process of its own for runs in other processes; it prints its address and ends when
its standard input does.
"""

from tests.standins.models.scripts import FAULTS, RETRY_SEC, Fault, Tokens, Turn, Wish
from tests.standins.models.server import ACCESS_KEY_ID, KEY, ModelServer

__all__ = [
    "ACCESS_KEY_ID",
    "FAULTS",
    "KEY",
    "RETRY_SEC",
    "Fault",
    "ModelServer",
    "Tokens",
    "Turn",
    "Wish",
]
