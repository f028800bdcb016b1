"""Names of checks, and their records in the ledger: one file per check."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pytest_aecbench import __version__
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.ledger.store import CHECKS, place_new
from pytest_aecbench.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "EXPLOITS",
    "GROUPS",
    "STANDARD",
    "CheckRecord",
    "CheckSummary",
    "checked",
    "keep_check",
    "parse_checks",
]

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """The outcome of one check of one task: ``passed``, ``failed``, ``error`` or ``skipped``."""

    task_id: str
    task_digest: str
    check: str
    outcome: str
    backend: str
    message: str = ""
    hint: str = ""
    run_id: str = ""
    finished_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat())
    harness_version: str = __version__
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The latest outcome of each check of a task, in one state of its files.

    A check that passed on one backend and failed on another has failed.
    """

    task_digest: str
    passed: tuple[str, ...]
    failed: tuple[str, ...]
    errors: tuple[str, ...]
    skipped: tuple[str, ...]
    backends: tuple[str, ...]
    last_at: datetime

    @property
    def sound(self) -> bool:
        """True if every standard check was made and no check failed."""
        made = {*self.passed, *self.skipped}
        return not self.failed and not self.errors and made.issuperset(STANDARD)


def keep_check(ledger_root: Path, record: CheckRecord) -> Path:
    """Keep ``record`` and return its file."""
    path = _directory(ledger_root, record.task_digest) / f"{uuid.uuid4()}.json"
    place_new(path, json.dumps(asdict(record), indent=2).encode() + b"\n")
    return path


def checked(ledger_root: Path, task_digest: str) -> CheckSummary | None:
    """Return what checks found of the task whose files have this digest; None if none was made."""
    latest: dict[tuple[str, str], CheckRecord] = {}
    for record in sorted(_records(ledger_root, task_digest), key=lambda one: one.finished_at):
        latest[record.check, record.backend] = record
    if not latest:
        return None
    outcomes: dict[str, set[str]] = {}
    for record in latest.values():
        outcomes.setdefault(record.check, set()).add(record.outcome)
    # The worst of what backends say.
    by_outcome: dict[str, list[str]] = {}
    for check, seen in outcomes.items():
        worst = next(one for one in ("failed", "error", "passed", "skipped") if one in seen)
        by_outcome.setdefault(worst, []).append(check)
    return CheckSummary(
        task_digest,
        passed=tuple(sorted(by_outcome.get("passed", ()))),
        failed=tuple(sorted(by_outcome.get("failed", ()))),
        errors=tuple(sorted(by_outcome.get("error", ()))),
        skipped=tuple(sorted(by_outcome.get("skipped", ()))),
        backends=tuple(sorted({record.backend for record in latest.values()})),
        last_at=max(datetime.fromisoformat(record.finished_at) for record in latest.values()),
    )


def _directory(ledger_root: Path, task_digest: str) -> Path:
    return ledger_root / CHECKS / task_digest.removeprefix("sha256:")


def _records(ledger_root: Path, task_digest: str) -> Iterator[CheckRecord]:
    """Yield the records of one task, passing over files that hold none."""
    for path in _directory(ledger_root, task_digest).glob("[!.]*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            data = json.loads(path.read_bytes())
            if data["schema_version"] != SCHEMA_VERSION:
                continue
            known = {name: data[name] for name in CheckRecord.__slots__ if name in data}
            record = CheckRecord(**known)
            datetime.fromisoformat(record.finished_at)
            if record.task_digest == task_digest:
                yield record


STANDARD = (
    "structure",
    "instruction",
    "image",
    "secrecy",
    "leaks",
    "solution",
    "empty",
    "golden_pass",
    "golden_fail",
    "deterministic",
    "offline",
    "timely",
    "writes",
    "malformed",
    "isolation",
)
EXPLOITS = tuple(
    f"exploit:{name}"
    for name in (
        "written-reward",
        "locked-reward",
        "background-writer",
        "planted-verifier",
        "shadowed-python",
        "shadowed-modules",
        "shadowed-tools",
        "sitecustomize",
        "conftest",
        "shell-startup",
        "replaced-shell",
        "poisoned-bytecode",
        "edited-modules",
        "pth-file",
        "preload",
        "linked-output",
        "watched-tests",
        "watched-processes",
        "killed-verifier",
        "parent-search",
        "git-objects",
    )
)
GROUPS = {"standard": STANDARD, "exploits": EXPLOITS, "all": (*STANDARD, *EXPLOITS)}


def parse_checks(text: str, where: str) -> tuple[str, ...]:
    """Read which checks to make: names of checks and of groups, separated by commas."""
    chosen: dict[str, None] = {}
    for word in filter(None, map(str.strip, text.split(","))):
        if word not in GROUPS and word not in GROUPS["all"]:
            near = nearest(word, (*GROUPS, *GROUPS["all"]), cutoff=0.75)
            valid = ", ".join((*GROUPS, *STANDARD, "or exploit:NAME"))
            listed = f"use some of {valid}; paths go before {where}"
            right = f"did you mean {near!r}?" if near else listed
            raise SettingsError(f"{where}: {word!r} is not a check; {right}")
        chosen.update(dict.fromkeys(GROUPS.get(word, (word,))))
    if not chosen:
        raise SettingsError(
            f"{where}: {text!r} does not name a check; use {', '.join(GROUPS)} or names"
        )
    return tuple(name for name in GROUPS["all"] if name in chosen)
