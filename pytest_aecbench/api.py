"""Runs and evaluations from Python: pytest in a process of its own, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_aecbench.ledger.checks import CheckRecord
    from pytest_aecbench.ledger.record import TrialRecord

__all__ = ["RunResult", "evaluate", "execute", "pytest_command", "run"]

_USAGE_ERROR, _NOTHING_SELECTED = 4, 5
FULL = "full"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: pytest's exit code and the record of every attempt and check."""

    command: tuple[str, ...]
    exit_code: int
    experiment_id: str | None = None
    records: tuple[TrialRecord, ...] = ()
    checks: tuple[CheckRecord, ...] = ()

    @property
    def passed(self) -> bool:
        """True if all trials passed, or the gate did."""
        return self.exit_code == 0

    @property
    def rewards(self) -> tuple[float, ...]:
        """The rewards of the attempts that have one."""
        found = (record.evaluation.reward for record in self.records)
        return tuple(reward for reward in found if reward is not None)

    @property
    def mean_reward(self) -> float | None:
        """The mean of the rewards; None where there is none."""
        return sum(self.rewards) / len(self.rewards) if self.rewards else None


def run(
    run_name: str | None = None,
    subset: str | None = None,
    backend: str | None = None,
    concurrency: int | None = None,
    *,
    tasks: Sequence[str | Path] = (),
    agents: Sequence[str] = (),
    repetitions: int | None = None,
    experiment: str | Path | None = None,
    options: Mapping[str, object] | None = None,
    pytest_args: Sequence[str] = (),
    directory: str | Path | None = None,
) -> RunResult:
    """Run trials and return their records; the terminal shows them as they come.

    ``run_name`` is the experiment's id, ``subset`` a word of the tasks' metadata, ``concurrency``
    the number of workers. ``options`` are any others, without their ``--aec-``; ``directory`` is
    the project's, by default the current one.

    Raises:
        SettingsError: something that was asked for is wrong, and nothing ran.

    """
    ours = {
        "experiment": experiment,
        "experiment-id": run_name,
        "agent": list(agents),
        "backend": backend,
        "repetitions": repetitions,
        **(options or {}),
    }
    return _run(tasks, ours, subset, concurrency, pytest_args, directory)


def evaluate(
    run_name: str,
    subset: str | None = None,
    backend: str | None = None,
    concurrency: int | None = None,
    *,
    tasks: Sequence[str | Path] = (),
    agents: Sequence[str] = (),
    experiment_id: str | None = None,
    options: Mapping[str, object] | None = None,
    pytest_args: Sequence[str] = (),
    directory: str | Path | None = None,
) -> RunResult:
    """Verify again what the agents of experiment ``run_name`` left; see ``run`` for the rest.

    ``agents`` picks among the experiment's agents by name; the new records go to
    ``experiment_id``, by default a new one.

    Raises:
        SettingsError: something that was asked for is wrong, and nothing ran.

    """
    ours = {
        "evaluate": run_name,
        "experiment-id": experiment_id,
        "agent": list(agents),
        "backend": backend,
        **(options or {}),
    }
    return _run(tasks, ours, subset, concurrency, pytest_args, directory)


def _run(
    tasks: Sequence[str | Path],
    options: Mapping[str, object],
    subset: str | None,
    concurrency: int | None,
    pytest_args: Sequence[str],
    directory: str | Path | None,
) -> RunResult:
    if concurrency is not None and concurrency < 1:
        raise SettingsError(f"concurrency: {concurrency!r} is not valid; use a number from 1")
    project = Path(directory or ".")
    selection = [] if subset in (None, FULL) else ["-m", str(subset)]
    extra = [*selection, *pytest_args]
    workers = concurrency
    if options.get("backend") == "gcp":  # one job runs all trials, so there are no workers
        workers, options = None, {"concurrency": concurrency, **options}
    command = pytest_command(tasks, options, workers=workers, extra=extra, directory=project)
    result, said = execute(command, directory=project)
    if result.exit_code == _USAGE_ERROR:
        raise SettingsError(said.strip().rpartition("ERROR: ")[2] or "pytest refused the run")
    if selection and result.exit_code == _NOTHING_SELECTED:
        raise SettingsError(
            f"subset: no task has the word {subset!r} in its metadata; add it to metadata.tags, "
            f"or use {FULL!r} for all tasks"
        )
    sys.stderr.write(said)
    return result


def execute(
    command: Sequence[str], *, directory: Path | None = None, stdout: IO[str] | None = None
) -> tuple[RunResult, str]:
    """Run a pytest command line and return what came of it, and what it said on stderr."""
    from pytest_aecbench.ledger.checks import CheckRecord
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.plugin.handover import VARIABLE

    with tempfile.TemporaryDirectory(prefix="aecbench-handover-") as home:
        told, said = Path(home, "run.json"), Path(home, "stderr")
        with said.open("wb") as stderr:
            process = subprocess.Popen(
                [*command, "-p", "pytest_aecbench.plugin.handover"],
                cwd=directory,
                env={**os.environ, VARIABLE: str(told)},
                stdout=stdout,
                stderr=stderr,
            )
            exit_code = _wait(process)
        data = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {}
        text = said.read_text(encoding="utf-8", errors="replace")
    paths = (Path(data["directory"], f"{trial_id}.json") for trial_id in data.get("trial_ids", ()))
    records = tuple(TrialRecord.from_json(path.read_bytes()) for path in paths)
    checks = tuple(CheckRecord(**check) for check in data.get("checks", ()))
    return RunResult(tuple(command), exit_code, data.get("experiment_id"), records, checks), text


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for pytest's end, also after Ctrl-C: it gets that too, and takes its sandboxes down."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()
        raise


TASKS = "tasks"


def pytest_command(
    tasks: Iterable[str | Path],
    options: Mapping[str, object],
    *,
    workers: int | None = None,
    extra: Iterable[str] = (),
    directory: Path | None = None,
) -> list[str]:
    """Return what runs pytest on ``tasks``, by default on all in the project at ``directory``.

    Tasks are paths or ids. ``options`` are ours, without their ``--aec-``; None and False leave
    one out, a list repeats it.
    """
    directory = directory or Path()
    command = [sys.executable, "-m", "pytest"]
    command += [_path(directory, str(task)) for task in tasks] or _all_tasks(directory)
    for name, value in options.items():
        if value is True:
            command.append(f"--aec-{name}")
        elif value is not None and value is not False:
            values = value if isinstance(value, (list, tuple)) else [value]
            command += [f"--aec-{name}={one}" for one in values]
    if workers is not None:
        command.append(f"-n{workers}")
    return [*command, *extra]


def _path(directory: Path, task: str) -> str:
    """Return what pytest calls a task; raise SettingsError, with the nearest name, if it has none.

    ``task`` is a path, a task's id, a directory of them, or a node id.
    """
    path = Path(TASKS, task)
    if task and (directory / path).is_dir():
        return str(path)
    if not task or not (directory / task.partition("::")[0]).exists():
        raise SettingsError(f"{TASKS}: {task!r} is not a task; {_meant(directory, task)}")
    return task


def _meant(directory: Path, task: str) -> str:
    from pytest_aecbench.text import nearest

    below = directory / TASKS
    found = [path.parent.relative_to(below) for path in below.rglob("task.toml")]
    ids = {str(one) for path in found for one in (path, *path.parents)} - {"."}
    last = {one.rpartition("/")[2]: one for one in sorted(ids)}
    wanted = task.partition("::")[0].removeprefix(f"{TASKS}/")
    near = nearest(wanted, {*ids, *last})
    if near is None:
        return "use the path or the id of a task, or a directory of tasks"
    return f"did you mean {last.get(near, near)!r}?"


def _all_tasks(directory: Path) -> list[str]:
    # Where tasks are elsewhere, pytest's own testpaths say where.
    return [TASKS] if (directory / TASKS).is_dir() else []
