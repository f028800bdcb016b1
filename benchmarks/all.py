"""Run every benchmark and print its ratios."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    for name in ("plugin_load", "collection", "local_trials", "noop_trials", "makespan", "ledger"):
        subprocess.run([sys.executable, HERE / f"{name}.py"], check=True)


if __name__ == "__main__":
    main()
