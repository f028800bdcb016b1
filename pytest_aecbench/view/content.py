"""The contents of the viewer's pages: experiments, figures, trials, trajectories and files.

Each method returns JSON-like data whose texts are as a page shows them. Figures come from
``reports``; nothing is computed here.
"""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from pytest_aecbench.agents.trajectory import FILE, read_entries
from pytest_aecbench.host.below import found_below, slice_below
from pytest_aecbench.host.secrets import Scrubber
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.ledger.store import LedgerProblem, read_record
from pytest_aecbench.reports.html.columns import columns
from pytest_aecbench.reports.html.details import detail_of, shown_entries
from pytest_aecbench.reports.html.page import render_figures, render_served
from pytest_aecbench.reports.html.source import Figures
from pytest_aecbench.reports.html.tasks import task_pages
from pytest_aecbench.reports.html.texts import shown, shown_in
from pytest_aecbench.trials.record import scrubbed
from pytest_aecbench.trials.reporting import evidence_of, report_source
from pytest_aecbench.view.history import history
from pytest_aecbench.view.library import Library
from pytest_aecbench.view.live import UnderWay, runs_of, trials_done

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_aecbench.host.below import Slice
    from pytest_aecbench.ledger.entry import Entry, Recorded
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.view.library import Shelf

__all__ = ["Content"]

SLICE_BYTES = 256 * 1024
# A line of a trajectory is shorter than this, or it is left out.
_MAX_LINE_BYTES = 4 << 20
_MAX_FOUND = 20
_MAX_FILES = 2000

_Made = TypeVar("_Made")


class Content:
    """Everything that can be asked of a ledger and of the files of its trials."""

    def __init__(self, settings: Settings, *, holdout: bool = False, mounted: bool = False) -> None:
        self.settings = settings
        self.library = Library(settings.ledger_root)
        self._holdout = holdout
        self._mounted = mounted
        self._scrubber = Scrubber(settings.secrets())
        self._started = os.urandom(4).hex()
        self._live: dict[str, UnderWay] = {}
        self._live_lock = threading.Lock()

    def experiments(self) -> dict[str, Any]:
        """Return the experiments, the latest first, and whether some are still being read."""
        is_reading = self.library.is_reading  # before, so that at the end all are listed
        found = self.library.experiments()
        return {
            "ledger": shown(str(self.settings.ledger_root)),
            "reading": is_reading,
            "experiments": [
                {
                    "name": one.name,
                    "started": one.started_at.timestamp(),
                    "finished": one.finished_at.timestamp(),
                    "outcomes": dict(one.outcomes),
                    "agents": [shown(agent) for agent in one.agents],
                    "running": sum(not a["dead"] for a in self._under_way(one.name)),
                }
                for one in found
            ],
        }

    def has(self, experiment_id: str) -> bool:
        """Return whether the ledger has such an experiment, if only attempts under way."""
        return (self.settings.ledger_root / experiment_id).is_dir()

    def page(self, experiment_id: str, baseline: str | None = None) -> dict[str, Any]:
        """Return the sections of an experiment's page as HTML, and what they hold for."""
        shelf = self.library.shelf(experiment_id)
        with shelf.lock:
            figures, mark, kept = self._figures(shelf), self._mark(shelf), shelf.kept
        # Rows and news do not wait for figures, which may take seconds.
        with shelf.drawing:
            html = _kept(kept, ("page", baseline), lambda: self._page(figures, baseline))
        return {"html": html, "mark": mark}

    def columns(self, experiment_id: str) -> dict[str, Any]:
        """Return all attempts of an experiment, a list per column."""
        shelf = self.library.shelf(experiment_id)
        with shelf.lock:
            make = lambda: self._scrubber.json(columns(self._figures(shelf)))  # noqa: E731
            return {**_kept(shelf.kept, "columns", make), "mark": self._mark(shelf)}

    def tasks(self, experiment_id: str) -> Any:
        """Return what the pages of an experiment's tasks show."""
        shelf = self.library.shelf(experiment_id)
        with shelf.lock:
            make = lambda: shown_in(self._scrubber.json(task_pages(self._figures(shelf))))  # noqa: E731
            return _kept(shelf.kept, "tasks", make)

    def changes(self, experiment_id: str) -> dict[str, Any]:
        """Return the mark and the number of attempts now, and what is under way."""
        shelf = self.library.shelf(experiment_id)
        attempts = self._under_way(experiment_id)
        with shelf.lock:
            under_way = [one for one in attempts if one["trial"] not in shelf.entries]
            entries = shelf.entries.values()
            n = _kept(shelf.kept, "n", lambda: sum(map(self._is_shown, entries)))
            done = _kept(shelf.kept, "done", lambda: trials_done(entries))
            mark, problems = self._mark(shelf), len(shelf.problems)
        runs = runs_of(self.settings.jobs_root, experiment_id, done, under_way)
        return {
            "mark": mark,
            "n": n,
            "problems": problems,
            "under_way": self._scrubber.json(under_way),
            "runs": runs,
        }

    def trial(self, experiment_id: str, trial_id: str) -> dict[str, Any] | None:
        """Return a trial's details; of one without a record, how far it has come; else None."""
        record = self._record(experiment_id, trial_id)
        if isinstance(record, LedgerProblem):
            under_way = [a for a in self._under_way(experiment_id) if a["trial"] == trial_id]
            if under_way:
                return {"under_way": self._scrubber.json(under_way[0])}
            is_there = (record.path).exists()
            return {"problem": shown(str(record))} if is_there else None
        evidence = evidence_of(self.settings, record)
        detail: dict[str, Any] = self._scrubber.json(detail_of(record, evidence))
        if evidence.instruction is not None:
            detail["instruction"] = shown(self._scrubber.text(evidence.instruction))
        return {**detail, "listed": self.files(experiment_id, trial_id)}

    def files(self, experiment_id: str, trial_id: str) -> list[list[Any]]:
        """Return a trial's files: shown path, size, address, and of a link where it points to."""
        with suppress(OSError):
            found = found_below(self.settings.jobs_root, f"{experiment_id}/{trial_id}", _MAX_FILES)
            return [
                [
                    shown(os.fsencode(one.path).decode("utf-8", "replace")),
                    one.size,
                    quote(os.fsencode(one.path)),
                    None if one.target is None else shown(one.target),
                ]
                for one in found
            ]
        return []

    def file(self, experiment_id: str, trial_id: str, path: str, offset: int) -> Slice:
        """Return a slice of a trial's file; raise OSError if there is none."""
        place = f"{experiment_id}/{trial_id}/{path}"
        return slice_below(self.settings.jobs_root, place, offset, SLICE_BYTES)

    def trajectory(self, experiment_id: str, trial_id: str, offset: int) -> dict[str, Any]:
        """Return the whole lines of a trajectory that come after an offset, and the next offset."""
        place = f"{experiment_id}/{trial_id}/agent/{FILE}"
        try:
            found = slice_below(self.settings.jobs_root, place, offset, _MAX_LINE_BYTES)
        except OSError:
            return {"entries": [], "next": offset, "problems": []}
        end = found.data.rfind(b"\n") + 1
        problems: list[str] = []
        if not end and len(found.data) == _MAX_LINE_BYTES:
            end, problems = _MAX_LINE_BYTES, ["a line that is too long is left out"]
            return {"entries": [], "next": offset + end, "problems": problems}
        lines = io.BytesIO(found.data[:end])
        entries = [entry.to_json() for entry in read_entries(lines, FILE)]
        return {
            "entries": self._scrubber.json([*shown_entries(entries)]),
            "next": offset + end,
            "problems": problems,
        }

    def find(self, prefix: str) -> list[dict[str, Any]]:
        """Return the trials whose id starts so, those under way included."""
        found = [
            {
                "trial": entry.trial_id,
                "experiment": entry.experiment_id,
                "task": shown(entry.task.task_id),
                "agent": shown(entry.agent.name),
                "repetition": entry.repetition,
                "outcome": outcome_of(entry),
            }
            for entry in self.library.find(prefix, _MAX_FOUND)
        ]
        known = {one["trial"] for one in found}
        for one in self.library.experiments_with_directories():
            found += [
                {**attempt, "experiment": one, "outcome": "dead" if attempt["dead"] else "running"}
                for attempt in self._under_way(one)
                if attempt["trial"].startswith(prefix) and attempt["trial"] not in known
            ]
        return found[:_MAX_FOUND]

    def history(self) -> dict[str, Any]:
        """Return the page of means over time."""
        sections = history(self.library, holdout=self._holdout, mounted=self._mounted)
        return {"html": render_served("History", sections)}

    def _page(self, figures: Figures, baseline: str | None) -> str:
        if baseline is not None:
            comparison = self._comparison(figures.source.records, baseline)
            figures = Figures(replace(figures.source, comparison=comparison))
        return render_figures(figures)

    def _comparison(self, after: Sequence[Recorded], baseline: str) -> Comparison:
        from pytest_aecbench.reports.comparison import compare
        from pytest_aecbench.reports.results import TrialResult

        before = list(self.library.shelf(baseline).entries.values())
        names = (baseline, after[0].experiment_id if after else "")
        sides = ([TrialResult.from_record(one) for one in side] for side in (before, after))
        return compare(*sides, names=names, holdout=self._holdout)

    def _figures(self, shelf: Shelf) -> Figures:
        def make() -> Figures:
            records: Sequence[Entry] = list(shelf.entries.values())
            if self._scrubber:
                records = [entry.cleaned(self._scrubber.json) for entry in records]
            problems = sorted(shelf.problems.values())
            source = report_source(
                self.settings,
                (),
                problems=problems,
                holdout=self._holdout,
                mounted=self._mounted,
                is_served=True,
            )
            return Figures(replace(source, records=records))

        return _kept(shelf.kept, "figures", make)

    def _record(self, experiment_id: str, trial_id: str) -> TrialRecord | LedgerProblem:
        found = read_record(self.settings.ledger_root / experiment_id, f"{trial_id}.json")
        if isinstance(found, LedgerProblem) or not self._scrubber:
            return found
        return scrubbed(found, self._scrubber)

    def _is_shown(self, entry: Entry) -> bool:
        return self._holdout or entry.task.visibility == "public"

    def _mark(self, shelf: Shelf) -> str:
        return f"{self._started}.{shelf.version}"

    def _under_way(self, experiment_id: str) -> list[dict[str, Any]]:
        with self._live_lock:
            if experiment_id not in self._live:
                self._live[experiment_id] = UnderWay(self.settings.ledger_root, experiment_id)
            return self._live[experiment_id].attempts()


def _kept(kept: dict[Any, Any], key: object, make: Callable[[], _Made]) -> _Made:
    """Return what was made from a shelf's entries, or make it."""
    if key not in kept:
        kept[key] = make()
    found: _Made = kept[key]
    return found
