"""The time and memory that a suite of ten thousand tasks takes, and what collecting it takes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUITE = """\
name = "many"
seed = 1
coverage.difficulties = {{ easy = 0.34, medium = 0.33, hard = 0.33 }}
visibility.mix = {{ all_given = 0.8, partial = 0.2 }}
instances = {{ per_task = {count}, total_max = {count} }}
output.dir = "tasks/many"
"""


def run(directory: Path, *arguments: str) -> tuple[str, float]:
    """Return the time of a command, and the MB it needed at most."""
    start = time.perf_counter()
    process = subprocess.Popen(arguments, cwd=directory, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    seconds = time.perf_counter() - start
    cpu = usage.ru_utime + usage.ru_stime
    return f"{seconds:.1f} s ({cpu:.1f} s of CPU)", usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    count = parser.parse_args().tasks
    aec_bench = [sys.executable, "-m", "pytest_aecbench", "generate", "suite", "--config"]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "pytest.ini").write_text("[pytest]\n")
        (root / "suite.toml").write_text(SUITE.format(count=count))
        written, written_mb = run(root, *aec_bench, "suite.toml")
        again, _ = run(root, *aec_bench, "suite.toml", "--check")
        collect = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider"]
        collected, collected_mb = run(root, *collect, "tasks", "--collect-only")
    print(f"generation of {count} tasks: {written}, {written_mb:.0f} MB; check {again}")
    print(f"  collecting them: {collected}, {collected_mb:.0f} MB")


if __name__ == "__main__":
    main()
