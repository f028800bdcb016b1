"""Signals that stop a run: the first one lets it end in order, with its own exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The signal comes while code from a string runs, as when a library makes a dataclass.
STOPPED = """
import os, signal, sys
from pytest_aecbench.host.signals import Interrupts

interrupts = Interrupts(hurries=True)
interrupts.listen()
try:
    exec("os.kill(os.getpid(), signal.SIGINT)")
except KeyboardInterrupt:
    print("stopped")
interrupts.ignore()
sys.exit(2)
"""


def test_a_program_started_with_m_keeps_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    result = subprocess.run(
        [sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == ("stopped\n", 2), result.stderr
