"""``-s``: what a trial prints while it runs; its name is before each line where others run too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_aecbench.host.lanes import current
from pytest_aecbench.plugin.unread import print_if_read

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

__all__ = ["printer_of"]


def printer_of(item: pytest.Item) -> Callable[[str], None]:
    """Return what prints whole lines of a trial at once; ask for it on the floor of its lane."""
    if current() is None:
        return partial(print_if_read, end="")
    return partial(_print_named, item.reportinfo()[2])


def _print_named(name: str, text: str) -> None:
    lines = text.removesuffix("\n").split("\n")
    named = [f"{name} | {line}".rstrip() for line in lines]
    if not lines[0]:  # it ends a line of another
        named[0] = ""
    print_if_read("".join(f"{line}\n" for line in named), end="")
