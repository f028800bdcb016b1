"""Reports of trials: their records and what their files tell, free of secrets."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.agents.atif import ATIF_FILE
from pytest_aecbench.agents.atif_reading import MAX_BYTES, parse_atif
from pytest_aecbench.agents.trajectory import FILE, read_entries
from pytest_aecbench.host.below import found_below, open_below, read_below
from pytest_aecbench.host.files import read_text
from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.ledger.checks import checked
from pytest_aecbench.ledger.instructions import read_instruction
from pytest_aecbench.reports.html.source import Evidence, Source
from pytest_aecbench.tasks.task import INSTRUCTION_FILE
from pytest_aecbench.text import counted
from pytest_aecbench.trials.record import scrubbed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.ledger.checks import CheckSummary
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.settings.model import Settings

__all__ = ["evidence_of", "report_source"]

MAX_FILE_BYTES = 64_000
_MAX_TEXTS_BYTES = 256_000
_MAX_FILES = 200
_MAX_FOUND = 2000
# Where a trajectory may be: our own, or one that a program in the sandbox has left.
_TRAJECTORIES = tuple(
    f"{place}/{name}" for place in ("agent", "logs/agent") for name in (FILE, ATIF_FILE)
)
_VERIFIER = ("logs/verifier/test-stdout.txt", "logs/verifier/test-stderr.txt")


def report_source(settings: Settings, records: Sequence[TrialRecord], **more: Any) -> Source:
    """Return what a report of these records is made from; ``more`` are fields of ``Source``."""
    scrubber = Scrubber(settings.secrets())
    if scrubber:
        records = [scrubbed(record, scrubber) for record in records]
    root = settings.tasks_root
    shown = root.relative_to(settings.root) if root.is_relative_to(settings.root) else root
    return Source(
        records=records,
        tasks_root=shown.as_posix(),
        evidence=partial(evidence_of, settings),
        checks=partial(_checks, settings.ledger_root),
        scrub=scrubber.json,
        **more,
    )


def evidence_of(settings: Settings, record: TrialRecord) -> Evidence:
    """Return what the files of an attempt tell; links that an agent made are not followed."""
    # Not by the path in the record, which may come from another project.
    files = _Files(settings.jobs_root, f"{record.experiment_id}/{record.trial_id}")
    found = files.found()
    problems: list[str] = []
    entries = _entries(files, {path for path, _ in found}, problems)
    text, origin = _instruction(settings, record, entries)
    if not found:
        problems.append("the files of this trial are not there any more")
    return Evidence(
        instruction=text,
        instruction_from=origin,
        entries=[entry.to_json() for entry in entries],
        verifier_output=_verifier_output(files),
        files=_texts(files, found),
        problems=problems,
    )


def _checks(ledger_root: Path, digest: str) -> CheckSummary | None:
    """Return what checks found of a task; None also for a digest that is not one of ours."""
    return checked(ledger_root, digest) if re.fullmatch("sha256:[0-9a-f]{64}", digest) else None


class _Files(NamedTuple):
    """The files of an attempt, by their paths from its directory, which is below ``root``."""

    root: Path
    directory: str

    def found(self) -> list[tuple[str, int]]:
        """Return the paths and sizes of regular files."""
        try:
            found = found_below(self.root, self.directory, _MAX_FOUND)
        except OSError:
            return []
        return [(one.path, one.size) for one in found if one.target is None]

    def open(self, path: str) -> IO[bytes]:
        return open_below(self.root, f"{self.directory}/{path}")

    def read(self, path: str, max_bytes: int) -> bytes:
        return read_below(self.root, f"{self.directory}/{path}", max_bytes)

    def text(self, path: str, max_bytes: int) -> str | None:
        """Return a file's text; None if it is not text or cannot be read."""
        try:
            data = self.read(path, max_bytes)
            return None if b"\0" in data else data.decode()
        except (OSError, UnicodeDecodeError):
            return None


def _entries(files: _Files, names: set[str], problems: list[str]) -> list[Entry]:
    for name in _TRAJECTORIES:
        if name not in names:
            continue
        try:
            if name.endswith(FILE):
                damaged: list[str] = []
                entries = list(read_entries(files.open(name), name, damaged.append))
                if damaged:
                    problems.append(f"{name}: {counted(len(damaged), 'damaged line')} left out")
            else:
                entries = list(parse_atif(files.read(name, MAX_BYTES)))
        except (OSError, ValueError) as error:
            problems.append(f"{name}: cannot be read, {error}")
            continue
        if entries:
            return entries
    return []


def _instruction(
    settings: Settings, record: TrialRecord, entries: Sequence[Entry]
) -> tuple[str | None, str]:
    """Return the instruction and where it is from: stored, the task's file, or the trajectory."""
    sha256 = record.inputs.instruction_sha256
    experiments = [record.experiment_id]
    if record.evaluates is not None:
        experiments.append(record.evaluates.experiment_id)
    for experiment in experiments:
        if (text := read_instruction(settings.jobs_root, experiment, sha256)) is not None:
            return text, "stored"
    # Only a text with this digest is shown, wherever the task's name may lead.
    with suppress(OSError, ValueError):
        text = read_text(settings.tasks_root / record.task.task_id / INSTRUCTION_FILE)
        if hashlib.sha256(text.encode()).hexdigest() == sha256:
            return text, "the task's file"
    said = next((entry.content for entry in entries if entry.role == "user"), None)
    return said, "the trajectory" if said is not None else ""


def _verifier_output(files: _Files) -> str:
    texts = (files.text(name, MAX_FILE_BYTES * 4) for name in _VERIFIER)
    return "\n".join(text for text in texts if text)


def _texts(files: _Files, found: Sequence[tuple[str, int]]) -> list[tuple[str, int, str | None]]:
    """Return the files with the texts of short ones; those that are shown elsewhere have none."""
    listed = []
    left = _MAX_TEXTS_BYTES
    for path, size in found[:_MAX_FILES]:
        text = None
        if size <= min(MAX_FILE_BYTES, left) and path not in (*_TRAJECTORIES, *_VERIFIER):
            text = files.text(path, MAX_FILE_BYTES)
            left -= size if text is not None else 0
        listed.append((path, size, text))
    return listed
