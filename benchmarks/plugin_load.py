"""What the plugin costs a pytest run that has no tasks, also where much else is installed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DISTRIBUTIONS = 150


def install_empty(directory: Path) -> None:
    """Make distributions that consist of nothing but their metadata."""
    for number in range(DISTRIBUTIONS):
        name = f"empty_{number}"
        info = directory / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[console_scripts]\n{name} = {name}:main\n")


def cpu_seconds(directory: Path, *arguments: str, path: str = "") -> float:
    """Return the processor time of a run, which other load on the machine distorts least."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=directory,
        # Without bytecode, each run would compile everything.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": path},
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
        install_empty(directory / "installed")
        measure("plugin load", directory, runs)
        crowded = f"plugin load beside {DISTRIBUTIONS} more distributions"
        measure(crowded, directory, runs, path=str(directory / "installed"))


def measure(what: str, directory: Path, runs: int, path: str = "") -> None:
    with_plugin, without = [], []
    for _ in range(runs):  # by turns, so that noise hits both alike
        without.append(cpu_seconds(directory, "-p", "no:aecbench", path=path))
        with_plugin.append(cpu_seconds(directory, path=path))
    floor, cost = min(without), min(with_plugin)
    print(
        f"{what}: without {floor * 1000:.0f} ms, with {cost * 1000:.0f} ms, "
        f"ratio {cost / floor:.3f}, added {(cost - floor) * 1000:.1f} ms "
        f"(processor time, best of {runs})"
    )


if __name__ == "__main__":
    main()
