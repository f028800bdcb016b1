"""The progress of a run: counts, rewards, running trials, and the time left."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.text import counted, duration_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_aecbench.ledger.journal import Attempt

__all__ = ["Standing"]


class Standing:
    """Counts trials as they begin and end; ``past`` gives how long one took recently.

    The past is asked for only when the time left is, since reading it takes a while.
    """

    def __init__(
        self,
        node_ids: Iterable[str],
        past: Callable[[str], float | None],
        *,
        reusable: int,
        workers: int,
    ) -> None:
        self.workers = workers
        self.done = 0
        self.errors = 0
        self.rewards: list[float] = []
        self.running: dict[str, float] = {}
        self._past = cache(past)
        self._reusable = reusable
        self._unsettled = dict.fromkeys(node_ids)
        self._total = len(self._unsettled)
        self._durations: list[float] = []

    def begin(self, node_id: str) -> None:
        """Count a trial that begins."""
        self.running[node_id] = time.monotonic()

    def end(self, node_id: str, reward: float | None, *, failed: bool, reused: bool) -> None:
        """Count a trial that is settled."""
        started = self.running.pop(node_id, None)
        if started is None:
            return
        self._unsettled.pop(node_id, None)
        self.done += 1
        if reused:
            self._reusable -= 1
        else:
            self._durations.append(time.monotonic() - started)
        if reward is not None:
            self.rewards.append(reward)
        elif failed:
            self.errors += 1

    def line(self, waiting: int = 0) -> str:
        """Return where the run stands, for a log; ``waiting`` is how many have no slot yet."""
        now = time.monotonic()
        parts = [f"{self.done} of {counted(self._total, 'trial')} done"]
        if self.rewards:
            parts.append(f"mean reward {fmean(self.rewards):.2f}")
        if self.errors:
            parts.append(counted(self.errors, "error"))
        running = list(self.running.items())  # the main thread adds and removes meanwhile
        if running:
            node_id, since = min(running, key=lambda trial: trial[1])
            name = node_id.partition("/task.toml::")[0].rpartition("/")[2]
            parts.append(f"{len(running)} running, longest {name} for {now - since:.0f} s")
        if waiting:
            parts.append(f"{waiting} of them waiting for a slot")
        if (left := self.left_sec()) is not None:
            parts.append(f"about {_whole(left)} left")
        return "aec: " + ", ".join(parts)

    def lines(self, attempts: Sequence[Attempt], width: int, most: int) -> list[str]:
        """Return where the run stands and what runs, for ``most`` lines of a screen.

        There is a line for each worker even while it has none, so that nothing on the screen moves.
        """
        height = min(1 + max(self.workers, len(attempts)), most)
        rows = [_row(attempt, width) for attempt in attempts]
        if len(rows) > height - 1:
            beyond = len(rows) - (height - 2)
            rows = [*rows[: height - 2], f"  and {beyond} more"]
        lines = [self._head(width), *rows]
        return lines + [""] * (height - len(lines))

    def _head(self, width: int) -> str:
        left = self.left_sec()
        mean = f"{fmean(self.rewards):.2f}" if self.rewards else None
        errors = counted(self.errors, "error") if self.errors else None
        time_left = None if left is None else _whole(left)
        wide = [
            f"aec: {self.done} of {counted(self._total, 'trial')} done",
            mean and f"mean reward {mean}",
            errors,
            time_left and f"about {time_left} left",
        ]
        narrow = [
            f"{self.done}/{self._total}",
            mean and f"mean {mean}",
            errors,
            time_left and f"{time_left} left",
        ]
        texts = [", ".join(filter(None, parts)) for parts in (wide, narrow)]
        return next((text for text in texts if len(text) <= width), texts[-1][:width])

    def left_sec(self) -> float | None:
        """Return how long the rest may take, by the ledger where it knows, else by this run."""
        expected = {node_id: self._past(node_id) for node_id in list(self._unsettled)}
        known = self._durations or [past for past in expected.values() if past is not None]
        if not known:
            return None
        usual = fmean(known)
        durations = {node_id: usual if past is None else past for node_id, past in expected.items()}
        now = time.monotonic()
        running = [
            max(0.0, durations.pop(node_id, usual) - (now - since))
            for node_id, since in list(self.running.items())
        ]
        pending = list(durations.values())
        # Reused trials take no time, but it is not known yet which they are.
        share = max(0.0, 1 - self._reusable / len(pending)) if pending else 0.0
        work = sum(running) + share * sum(pending)
        longest = max([*running, *(pending if share == 1 else ())], default=0.0)
        return max(work / self.workers, longest)


def _whole(seconds: float) -> str:
    return duration_text(seconds) if seconds >= 60 else f"{seconds:.0f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _row(attempt: Attempt, width: int) -> str:
    spent = (datetime.now(timezone.utc) - attempt.started_at).total_seconds()
    right = f" {attempt.phase:<8} {_clock(max(0.0, spent)):>7}"
    name = f"{attempt.task_id}[{attempt.agent}-{attempt.repetition}]"
    shown = printable(name)
    room = max(0, width - 2 - len(right))
    if len(shown) > room:  # its end tells trials apart
        shown = "..." + shown[len(shown) - room + 3 :] if room > 3 else shown[:room]
    return f"  {shown:<{room}}{right}"[:width]
