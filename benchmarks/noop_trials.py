"""What the harness itself costs per trial under -n 2, on trials that do nothing.

The agent does nothing and the verifier writes one line. The floors are xdist on as many empty test
functions, which has no sandbox, no record and no fixture, and those plus one bare namespace, with a
shell that writes that line, per function. The latter needs root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generated import write_tasks

BARE = r"""
import subprocess
import pytest

COMMAND = "echo 1 > reward.txt"
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", COMMAND]

@pytest.mark.parametrize("number", range({count}))
def test_it(number, tmp_path_factory):
    directory = tmp_path_factory.getbasetemp() / str(number)
    directory.mkdir()
    subprocess.run(UNSHARE, cwd=directory, check=True)
    assert (directory / "reward.txt").read_text() == "1\n"
"""


def run(directory: Path, *arguments: str) -> float:
    """Return how long pytest takes under -n 2."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-qq", "-n2", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    count = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as name:
        tasks, functions, bare = Path(name, "tasks"), Path(name, "functions"), Path(name, "bare")
        for directory in (tasks, functions, bare):
            directory.mkdir()
            (directory / "pytest.ini").write_text("[pytest]\n")
        write_tasks(tasks, count)
        for script in tasks.glob("tasks/*/*/tests/test.sh"):
            script.write_text("echo 1 > /logs/verifier/reward.txt\n")
        body = "".join(f"def test_{number}(): pass\n" for number in range(count))
        (functions / "test_them.py").write_text(body)
        (bare / "test_them.py").write_text(BARE.format(count=count))
        floor = run(functions)
        sandboxes = run(bare) if os.geteuid() == 0 else None
        cost = run(tasks, "tasks", "--aec-agent=nop", "--aec-concurrency=2")
    print(
        f"no-op trials with -n 2: {cost / count * 1000:.1f} ms each; empty functions "
        f"{floor / count * 1000:.1f} ms each, ratio {cost / floor:.1f} ({count} of each)"
    )
    if sandboxes is not None:
        print(
            f"  functions with a bare namespace each: {sandboxes / count * 1000:.1f} ms each, "
            f"ratio {cost / sandboxes:.2f}"
        )


if __name__ == "__main__":
    main()
