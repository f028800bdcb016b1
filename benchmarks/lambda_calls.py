"""Calls of ``lambda-rlm`` against its plan and its bound, and its time against the ideal.

A model on the loopback interface takes a fixed time for each answer. The ideal is the time of all
calls, shared by the workers, but not less than that of the calls that wait for one another.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from tests.agents.lambda_rlm import Trial, honest, policy, review
from tests.standins.models import Turn
from tests.standins.models.policy import Asked, PolicyServer

LINE = "One line of a document that has many of them.\n"
WINDOW = 10_000
# Calls of a section that wait for one another: to extract, to reduce, to review, to generate.
CHAIN = 4


def never_content(phase: str, asked: Asked) -> Turn | None:
    """Ask for everything to be read again, as long as that is done."""
    return review("needs_reextract", reextract_sources=["long"]) if phase == "review" else None


def run(root: Path, sandbox: Sandbox, server: PolicyServer, workers: int, sections: int) -> str:
    """Return what a report of so many sections took."""
    toml = f"[planner]\ncontext_window_chars = {WINDOW}\n"
    toml += f"[execution]\nmax_parallel_workers = {workers}\n"
    named = {f"s{n}": {"input_mapping": ["long"]} for n in range(sections)}
    document = LINE * (4 * WINDOW // len(LINE))
    trial = Trial(sandbox, root, named, {"long.txt": document}, toml)
    start = time.perf_counter()
    result = trial.run()
    wall = time.perf_counter() - start
    plan = result.plan
    assert plan is not None
    assert result.calls is not None
    ideal = max(result.calls / workers, CHAIN) * server.delay_sec
    return (
        f"lambda-rlm: {result.calls} calls, {plan['calls_planned']} planned, bound "
        f"{plan['calls_bound']}; {wall:.2f} s, ideal {ideal:.2f} s, ratio {wall / ideal:.2f} "
        f"({workers} workers, {1000 * server.delay_sec:.0f} ms a call)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", type=int, default=8)
    parser.add_argument("--delay", type=float, default=0.1)
    arguments = parser.parse_args()
    server = PolicyServer(honest, arguments.delay)
    os.environ |= server.environment("anthropic")
    backend = LocalBackend()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "workspace").mkdir()
        (root / "empty").mkdir()
        image = backend.build_environment(task_dir=root / "empty")
        handle = backend.launch_trial(image_ref=image, workspace_dir=root / "workspace")
        sandbox = Sandbox(backend, handle)
        try:
            run(root, sandbox, server, 4, 1)  # imports
            for workers in (1, 4, 16):
                print(run(root, sandbox, server, workers, arguments.sections))
            server.policy = policy(never_content)
            print(run(root, sandbox, server, 4, arguments.sections))
        finally:
            sandbox.close()
            server.close()


if __name__ == "__main__":
    main()
