"""The ``aec-bench`` command: what there is to do before and after trials, beside pytest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: 0 all is well, 1 something is not, 2 a mistake in what was asked.

    A mistake of the user's, or trouble that has a name, is one line.
    """
    from pytest_aecbench.cli.app import app
    from pytest_aecbench.errors import AecBenchError, UserError

    try:
        app(args=arguments, prog_name="aec-bench")
    except AecBenchError as error:
        print(f"aec-bench: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UserError) else 1)
