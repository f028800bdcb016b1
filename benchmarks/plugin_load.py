"""What the plugin costs a pytest run that has no tasks."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def cpu_seconds(directory: Path, *arguments: str) -> float:
    """Return the processor time of a run, which other load on the machine distorts least."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},  # else each run compiles everything
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "test_it.py").write_text("def test_it(): pass\n")
        (directory / "pytest.ini").write_text("[pytest]\n")
        with_plugin, without = [], []
        for _ in range(runs):  # by turns, so that noise hits both alike
            without.append(cpu_seconds(directory, "-p", "no:aecbench"))
            with_plugin.append(cpu_seconds(directory))
    floor, cost = min(without), min(with_plugin)
    print(
        f"plugin load: without {floor * 1000:.0f} ms, with {cost * 1000:.0f} ms, "
        f"ratio {cost / floor:.3f}, added {(cost - floor) * 1000:.1f} ms "
        f"(processor time, best of {runs})"
    )


if __name__ == "__main__":
    main()
