"""The result of a cell, as the model reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.rlm.link import CellEnd

__all__ = ["cell_text", "is_error"]

_SHOWN_NAMES = 30


def is_error(end: CellEnd) -> bool:
    """Return whether a cell did not end well."""
    return bool(end.error or end.lost or end.interrupted_sec)


def cell_text(end: CellEnd, footers: list[str]) -> str:
    """Return what was printed, what went wrong, what changed, and what the harness has to say."""
    parts = [end.output.rstrip("\n")]
    if end.interrupted_sec:
        parts.append(
            f"[the cell was interrupted after {end.interrupted_sec:g} s; do the work in smaller "
            "steps]"
        )
    if end.error:
        parts.append(end.error)
    if end.lost:
        parts.append(
            f"[the REPL was restarted, because {end.lost}. Your variables are lost; the documents, "
            "your notes and filled sections are there again]"
        )
    if end.missing:
        parts.append(f"[an input could not be loaded again: {end.missing[0]}]")
    if end.new:
        parts.append(f"[new: {_listed(end.new)}]")
    if end.removed:
        parts.append(f"[removed: {', '.join(end.removed[:_SHOWN_NAMES])}]")
    if end.restored:
        parts.append(f"[{', '.join(end.restored)}: these names are the REPL's own; restored]")
    shown = [part for part in parts if part] or ["(no output)"]
    return "\n".join([*shown, *footers])


def _listed(variables: Mapping[str, str]) -> str:
    shown = [f"{name}: {text}" for name, text in list(variables.items())[:_SHOWN_NAMES]]
    left_out = len(variables) - len(shown)
    return ", ".join(shown) + (f" and {left_out} more" if left_out > 0 else "")
