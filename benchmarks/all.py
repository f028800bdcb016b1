"""Run every benchmark and print its ratios."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    names = [
        "plugin_load",
        "collection",
        "local_trials",
        "noop_trials",
        "verification",
        "makespan",
        "concurrency",
        "ledger",
        "model_turns",
        "lambda_calls",
        "rlm_cells",
        "generation",
        "scrubbing",
        "html_report",
        "view",
        "notebooks",
    ]
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        names.append("docker_trials")
    for name in names:
        subprocess.run([sys.executable, HERE / f"{name}.py"], check=True)


if __name__ == "__main__":
    main()
