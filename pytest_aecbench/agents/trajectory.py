"""The trajectory of an agent: a file that grows with each turn, and ATIF at the end.

``trajectory.jsonl`` has a header and then one entry a line, flushed at once, so that a run can be
followed and a killed one leaves what it did. ``trajectory.json`` holds the same in ATIF, the
format of Harbor's viewers.
"""

from __future__ import annotations

import io
import json
import math
import threading
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.host.files import open_regular
from pytest_aecbench.providers import Usage
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.host.secrets import Scrubber
    from pytest_aecbench.providers import ToolSpec

__all__ = ["FILE", "HEADER", "Entry", "Role", "Trajectory", "read_entries", "read_trajectory"]

FILE = "trajectory.jsonl"
HEADER = {"version": 1, "format": "aec-bench-trajectory"}
# Fields of entries in which the harness alone writes.
_OURS = {"role", "turn", "exit_code", "duration_ms", "step", "timestamp", "metadata"}
# Of a longer text, the trajectory keeps both ends.
MAX_TEXT = 100_000

Role: TypeAlias = Literal["system", "user", "assistant", "tool_call", "tool_result"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a trajectory; keys that say nothing are not written.

    ``turn`` counts the replies of the model, from 1. ``call_id`` joins a tool's result to its call.
    ``metadata`` has what only some entries know: of a reply its ``model``, its tokens under the
    names of ``Usage``, ``cost_usd``, ``waited_sec``, ``stop`` and, if the provider shows it, the
    ``reasoning``.
    """

    role: Role
    content: str = ""
    turn: int | None = None
    call_id: str | None = None
    tool_name: str | None = None
    command: str | None = None
    arguments: Mapping[str, Any] | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    step: int = 0
    timestamp: str | None = None

    @property
    def usage(self) -> Usage:
        """The tokens of a reply, as far as they are known."""
        counts = {name: self.metadata.get(name) for name in Usage.__dataclass_fields__}
        return Usage(**{name: count for name, count in counts.items() if isinstance(count, int)})

    @property
    def is_beside(self) -> bool:
        """True for a call that a tool or the harness made, and for what came of it.

        The conversation of the agent's own model has no such entries.
        """
        call_type = self.metadata.get("call_type", "main")
        return bool(self.metadata.get("depth")) or call_type != "main"

    def number(self, name: str) -> float | None:
        """Return a number of the metadata; None if it is not known."""
        value = self.metadata.get(name)
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            return None
        return float(value)

    def text(self, name: str) -> str | None:
        """Return a text of the metadata; None if it has none."""
        value = self.metadata.get(name)
        return value if value and isinstance(value, str) else None

    def to_json(self) -> dict[str, Any]:
        """Return the entry as it is written."""
        data = asdict(self)
        kept = {name: value for name, value in data.items() if value not in (None, {})}
        return {"step": self.step, "role": self.role, "content": self.content, **kept}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Entry:
        """Read an entry; unknown keys are those of a newer version."""
        return cls(**{name: data[name] for name in _KINDS if data.get(name) is not None})


_KINDS: dict[str, type] = {
    **dict.fromkeys(("role", "content", "call_id", "tool_name", "command"), str),
    **dict.fromkeys(("stdout", "stderr", "timestamp"), str),
    **dict.fromkeys(("turn", "exit_code", "duration_ms", "step"), int),
    **dict.fromkeys(("arguments", "metadata"), dict),
}


class Trajectory:
    """Collects the entries of one attempt; without a directory they are only followed.

    ``tools`` are those that the agent has. ``follow`` gets each entry as soon as it is there,
    already without secrets. Threads may add entries at once.
    """

    def __init__(
        self,
        directory: Path | None = None,
        scrubber: Scrubber | None = None,
        follow: Callable[[Entry], object] | None = None,
    ) -> None:
        self.directory = directory
        self.tools: tuple[ToolSpec, ...] = ()
        self._scrubber = scrubber
        self._follow = follow
        self._steps = 0
        self._file: IO[str] | None = None
        self._lock = threading.Lock()

    def add(self, role: Role, content: str = "", **fields: Any) -> Entry:
        """Write an entry; return it as it was written."""
        with self._lock:
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
            self._steps += 1
            entry = self._clean(Entry(role, content, step=self._steps, timestamp=now, **fields))
            if self.directory is not None:
                self._write(self.directory, entry)
            if self._follow is not None:
                self._follow(entry)
            return entry

    @property
    def has_entries(self) -> bool:
        """True if an entry was added."""
        return self._steps > 0

    def scrub(self, data: Any) -> Any:
        """Return JSON-like data without secrets."""
        return self._scrubber.json(data) if self._scrubber else data

    def close(self) -> None:
        """Close the file; a later entry opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _clean(self, entry: Entry) -> Entry:
        entry = replace(
            entry,
            content=both_ends(entry.content, MAX_TEXT),
            stdout=both_ends(entry.stdout, MAX_TEXT) if entry.stdout else entry.stdout,
            stderr=both_ends(entry.stderr, MAX_TEXT) if entry.stderr else entry.stderr,
        )
        if not self._scrubber:
            return entry
        said = {name: value for name, value in asdict(entry).items() if name not in _OURS}
        about = entry.metadata  # its keys are ours as well
        *values, facts = self.scrub([*said.values(), [*about.values()]])
        clean = dict(zip(said, values, strict=True))
        return replace(entry, **clean, metadata=dict(zip(about, facts, strict=True)))

    def _write(self, directory: Path, entry: Entry) -> None:
        try:
            if self._file is None:
                directory.mkdir(parents=True, exist_ok=True)
                path = directory / FILE
                is_new = not path.exists()
                self._file = path.open("a", encoding="utf-8", errors="replace")
                if is_new:
                    self._file.write(f"{json.dumps(HEADER)}\n")
            self._file.write(f"{json.dumps(entry.to_json(), ensure_ascii=False, default=str)}\n")
            self._file.flush()
        except OSError as error:
            raise LedgerError(
                f"{directory / FILE}: cannot be written, {error.strerror}; the trajectory needs a "
                "directory that can be written and has space left"
            ) from None


def read_trajectory(
    path: Path, report: Callable[[str], object] = lambda problem: None
) -> Iterator[Entry]:
    """Yield the entries of a ``trajectory.jsonl``; ``report`` is told of lines that are damaged.

    A last line that was torn by a kill is not damage.

    Raises:
        OSError: the file cannot be read.

    """
    with open_regular(path) as file:
        yield from read_entries(file, str(path), report)


def read_entries(
    file: IO[bytes], name: str, report: Callable[[str], object] = lambda problem: None
) -> Iterator[Entry]:
    """Yield the entries of an open ``trajectory.jsonl``, as ``read_trajectory`` does."""
    with io.TextIOWrapper(file, "utf-8", "replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                data = json.loads(line)
            except (ValueError, RecursionError):
                data = None
                if not line.endswith("\n"):
                    return
            if _is_entry(data):
                yield Entry.from_json(data)
            elif number > 1 or data != HEADER:
                report(f"{name}: line {number} is not an entry of a trajectory")


def _is_entry(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and data.get("role") in get_args(Role)
        and all(isinstance(data.get(name), (kind, NoneType)) for name, kind in _KINDS.items())
    )
