"""Trajectories for people: the entries of a trajectory as lines of a terminal."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from pytest_aecbench.text import counted, duration_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Only for types, because reports and agents do not know one another.
    from pytest_aecbench.agents.trajectory import Entry

__all__ = ["Follower", "Style", "entry_lines"]

_MAX_LINES = 12
_NARROWEST = 20
# Of calls beside the conversation, of which there may be many.
_BESIDE_LINES = 4
_DEEPEST = 10
_BRIEF_SEC = 0.05  # shorter times would be shown as 0.0 s
_INDENT = "  "
_BOLD, _DIM, _RED, _CYAN = "1", "2", "31", "36"
# Reasons to stop that a reader does not expect.
_CUT_SHORT = {
    "length": "cut at max_tokens",
    "refusal": "refused",
    "context": "no context left",
}


@dataclass(frozen=True, slots=True)
class Style:
    """The look of entries: their columns and lines, and whether they have colours.

    ``max_lines`` of None shows texts whole. ``more`` is said where lines are left out.
    """

    width: int = 100
    colour: bool = False
    max_lines: int | None = _MAX_LINES
    more: str = ""

    @classmethod
    def of(cls, stream: IO[str]) -> Style:
        """Return the style for a stream; colours are for terminals, unless NO_COLOR is set."""
        is_terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        return cls(
            max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST),
            is_terminal and not os.environ.get("NO_COLOR"),
        )


@dataclass(frozen=True, slots=True)
class Follower:
    """Shows each entry of a trajectory as it happens, as one text."""

    write: Callable[[str], object]
    style: Style = field(default_factory=Style)

    def __call__(self, entry: Entry) -> None:
        """Show an entry."""
        self.write("\n".join(entry_lines(entry, self.style)))


def entry_lines(entry: Entry, style: Style) -> Iterator[str]:
    """Yield the lines of an entry; a turn begins with an empty one."""
    if entry.role == "tool_call":
        yield from _call_lines(entry, style)
    elif entry.role == "tool_result":
        yield from _result_lines(entry, style)
    elif entry.is_beside:
        yield from _beside_lines(entry, style)
    else:
        yield ""
        heading = _turn_heading(entry) if entry.role == "assistant" else entry.role
        for line in textwrap.wrap(printable(heading), style.width):
            yield _painted(line, _BOLD, style)
        if reasoning := entry.text("reasoning"):
            for line in _text_lines(reasoning, style, "| ", wrap=True):
                yield _painted(line, _DIM, style)
        yield from _text_lines(entry.content, style, wrap=True)


def _beside_lines(entry: Entry, style: Style) -> Iterator[str]:
    """Yield a call that was not a turn of its own, below the one that it belongs to."""
    depth = entry.number("depth")
    indent = _INDENT * (min(int(depth), _DEEPEST) if depth else 1)
    kind = entry.text("kind") or entry.text("call_type") or entry.role
    heading = f"{indent}{kind}: {_known(entry)}".rstrip(": ")
    yield _painted(_clipped(printable(heading), style.width), _BOLD, style)
    brief = replace(style, max_lines=_BESIDE_LINES) if style.max_lines else style
    for text, mark in ((entry.text("prompt") or "", "> "), (entry.content, "")):
        yield from _text_lines(text, brief, f"{indent}{_INDENT}{mark}")


def _turn_heading(entry: Entry) -> str:
    """Return the turn, and what is known of its call."""
    known = _known(entry)
    turn = "turn" if entry.turn is None else f"turn {entry.turn}"
    return f"{turn}: {known}" if known else turn


def _known(entry: Entry) -> str:
    """Return a call's model, tokens, cost and times, as far as they are known."""
    usage, cost_usd = entry.usage, entry.number("cost_usd")
    counts = {
        "in": usage.tokens_in,
        "from cache": usage.tokens_cache_read,
        "to cache": usage.tokens_cache_write,
        "out": usage.tokens_out,
    }
    waited_sec, failures = entry.number("waited_sec") or 0.0, entry.metadata.get("failures")
    parts = (
        entry.text("model"),
        *(f"{count} {name}" for name, count in counts.items() if count),
        None if cost_usd is None else f"{cost_usd:.4f} USD",
        "from the cache of replies" if entry.metadata.get("cached") else None,
        _seconds(entry),
        f"waited {duration_text(waited_sec)}" if waited_sec >= _BRIEF_SEC else None,
        f"failed before: {len(failures)}" if isinstance(failures, list) else None,
        _CUT_SHORT.get(entry.text("stop") or ""),
        f"refused: {entry.text('refused')}" if entry.text("refused") else None,
    )
    return ", ".join(part for part in parts if part)


def _call_lines(entry: Entry, style: Style) -> Iterator[str]:
    arguments = dict(entry.arguments or {})
    command = entry.command or arguments.pop("command", None)
    if isinstance(command, str) and not arguments:
        head, *rest = _text_lines(command, style, _INDENT)
        lines = [f"$ {head.removeprefix(_INDENT)}", *rest]
    else:
        arguments = {**arguments, **({"command": command} if command is not None else {})}
        lines = [*_text_lines(entry.tool_name or "a tool without a name", style, "")]
        for name, value in arguments.items():
            lines += _argument_lines(name, value, style)
        lines += _text_lines(entry.content, style, _INDENT)
    for line in lines:
        yield _painted(line, _CYAN, style)


def _argument_lines(name: str, value: object, style: Style) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if "\n" in text.strip():
        yield f"{_INDENT}{printable(name)}:"
        yield from _text_lines(text, style, 2 * _INDENT)
    else:
        yield from _text_lines(f"{name}: {text.strip()}", style, _INDENT)


def _result_lines(entry: Entry, style: Style) -> Iterator[str]:
    exit_code, is_error = entry.exit_code, bool(entry.metadata.get("is_error"))
    ended = None if exit_code is None else f"exit {exit_code}"
    about = (ended or ("error" if is_error else None), _seconds(entry))
    if any(about):
        line = f"{_INDENT}{', '.join(part for part in about if part)}"
        yield _painted(line, _RED if exit_code or is_error else _DIM, style)
    if entry.stdout is None and entry.stderr is None:
        yield from _text_lines(entry.content, style, _INDENT)
        return
    yield from _text_lines(entry.stdout or "", style, _INDENT)
    if (entry.stderr or "").strip():
        yield _painted(f"{_INDENT}stderr:", _DIM, style)
        yield from _text_lines(entry.stderr or "", style, _INDENT)


def _seconds(entry: Entry) -> str | None:
    seconds = (entry.duration_ms or 0) / 1000
    return duration_text(seconds) if seconds >= _BRIEF_SEC else None


def _text_lines(text: str, style: Style, indent: str = "", *, wrap: bool = False) -> list[str]:
    """Return a text's lines, safe to print; wrapped or clipped to the width if not shown whole."""
    text = text.replace("\r\n", "\n").expandtabs(4).rstrip()
    if not text:
        return []
    lines = [f"{indent}{printable(line)}".rstrip() for line in text.split("\n")]
    if style.max_lines is None:
        return lines
    if wrap:
        lines = [part for line in lines for part in _wrapped(line, indent, style.width)]
    return _shortened([_clipped(line, style.width) for line in lines], style, indent)


def _wrapped(line: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent) or [line]


def _clipped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."


def _shortened(lines: list[str], style: Style, indent: str) -> list[str]:
    most = style.max_lines or len(lines)
    if len(lines) <= most:
        return lines
    tail = most // 3
    left_out = f"{indent}[{counted(len(lines) - most, 'line')} left out{style.more}]"
    return [*lines[: most - tail], _painted(left_out, _DIM, style), *lines[-tail:]]


def _painted(line: str, code: str, style: Style) -> str:
    if style.max_lines is not None:
        line = _clipped(line, style.width)
    return f"\x1b[{code}m{line}\x1b[0m" if style.colour and line else line
