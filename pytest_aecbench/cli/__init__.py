"""The ``aec-bench`` command: its entry point and exit codes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 for success, 1 for a negative result, 2 for a user's mistake.

    A mistake or any other expected error is printed as one line.
    """
    from pytest_aecbench.cli.app import app
    from pytest_aecbench.errors import AecBenchError, UserError

    try:
        app(args=arguments, prog_name="aec-bench")
    except AecBenchError as error:
        print(f"aec-bench: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UserError) else 1)
