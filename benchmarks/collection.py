"""What collecting ten thousand tasks costs, against as many empty test functions."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from generated import write_tasks

ONE = "tasks/domain-0/task-00000/task.toml::trial[oracle-1]"


def run(directory: Path, *arguments: str) -> tuple[float, float]:
    """Return the least processor time of three runs, workers included, and the most MB of one."""
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", *arguments]
    seconds, megabytes = [], 0.0
    for _ in range(3):
        process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 5):
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
        seconds.append(usage.ru_utime + usage.ru_stime)
        megabytes = max(megabytes, usage.ru_maxrss / 1024)
    return min(seconds), megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    count = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as name:
        tasks, functions, bare = Path(name, "tasks"), Path(name, "functions"), Path(name, "bare")
        for directory in (tasks, functions, bare):
            directory.mkdir()
        write_tasks(tasks, count)
        body = "".join(f"def test_{number}(): pass\n" for number in range(count))
        (functions / "test_them.py").write_text(body)
        (bare / "test_it.py").write_text("def test_it(): pass\n")
        for directory in (functions, bare):
            (directory / "pytest.ini").write_text("[pytest]\n")
            run(directory, "--collect-only")
        floor, floor_mb = run(functions, "--collect-only")
        cost, cost_mb = run(tasks, "tasks", "--collect-only")
        # With nothing selected, workers collect everything and run nothing.
        nothing = ("-k", "nothing-is-called-this")
        spread = {n: run(tasks, "tasks", f"-n{n}", *nothing)[0] for n in (2, 8)}
        # As much for as many functions, which is what xdist itself costs.
        others = {n: run(functions, f"-n{n}", *nothing)[0] for n in (2, 8)}
        start_up, _ = run(bare, "--collect-only")
        one, _ = run(tasks, ONE, "--collect-only")
    print(
        f"collection of {count} tasks: {cost:.2f} s, {cost_mb:.0f} MB; of {count} functions in one "
        f"file: {floor:.2f} s, {floor_mb:.0f} MB; ratio {cost / floor:.2f}"
    )
    for n in spread:
        print(
            f"  with -n {n}: {spread[n]:.2f} s, ratio to plain {spread[n] / cost:.2f}; functions "
            f"{others[n]:.2f} s, ratio to plain {others[n] / floor:.2f}"
        )
    print(
        f"  one of them by id: {one:.2f} s; bare pytest on one test: {start_up:.2f} s; "
        f"ratio {one / start_up:.2f}"
    )


if __name__ == "__main__":
    main()
