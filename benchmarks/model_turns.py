"""What the tool loop costs a turn besides the model and the tools, and whether its memory grows.

The model is in this process and answers at once. Each turn runs one command that prints 10 MB. The
floor is the same commands in the same kind of sandbox, without the loop.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from pytest_aecbench.agents import AgentContext, AgentLimits
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.agents.tool_loop import ToolLoopAgent
from pytest_aecbench.agents.trajectory import Trajectory, read_trajectory
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.tasks.task import Task

COMMAND = "head -c 10000000 /dev/zero | tr '\\0' x"
FILES = {"task.toml": "", "instruction.md": "Work.", "tests/test.sh": "true"}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_script(path: Path, turns: int, command: str) -> None:
    usage = {"input": 1000, "output": 10}
    call = {"name": "bash", "arguments": {"command": command}}
    replies: list[object] = [{"text": "on", "tool_calls": [call], "usage": usage}] * (turns - 1)
    replies.append({"tool_calls": [{"name": "submit"}], "usage": usage})
    path.write_text(json.dumps({"replies": replies}))


def run_loop(task: Task, sandbox: Sandbox, root: Path, turns: int, command: str) -> float:
    """Return the seconds of one trial's loop."""
    script = root / f"script-{turns}.json"
    write_script(script, turns, command)
    spec = AgentSpec("a", "tool_loop", f"scripted:{script}", {"max_turns": turns})
    directory = root / f"agent-{turns}-{time.monotonic_ns()}"
    sandbox.context = AgentContext(Trajectory(directory))
    limits = AgentLimits.of(spec.parameters, 86_400)
    start = time.perf_counter()
    result = ToolLoopAgent(spec).run(task, sandbox, limits)
    spent = time.perf_counter() - start
    sandbox.context.trajectory.close()
    assert result.end == "submitted", result
    assert (
        sum(entry.role == "assistant" for entry in read_trajectory(directory / "trajectory.jsonl"))
        == turns
    )
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    arguments = parser.parse_args()
    turns = arguments.turns
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for file, text in FILES.items():
            path = root / "task" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        task, backend = Task.load(root / "task"), LocalBackend()
        (root / "workspace").mkdir()
        image = backend.build_environment(task_dir=task.path)
        handle = backend.launch_trial(image_ref=image, workspace_dir=root / "workspace")
        sandbox = Sandbox(backend, handle)
        try:
            run_loop(task, sandbox, root, 2, "true")  # imports
            start = time.perf_counter()
            for _ in range(turns - 1):
                sandbox.execute("true")
            floor = time.perf_counter() - start
            cost = run_loop(task, sandbox, root, turns, "true")
            print(
                f"model turns: {1000 * (cost - floor) / turns:.1f} ms a turn besides the command, "
                f"{1000 * cost / turns:.1f} ms with it, floor {1000 * floor / turns:.1f} ms, "
                f"ratio {cost / floor:.2f} ({turns} turns)"
            )
            run_loop(task, sandbox, root, 20, COMMAND)
            early = peak_mb()
            run_loop(task, sandbox, root, turns, COMMAND)
            print(
                f"model turns: {early:.0f} MB after 20 turns of 10 MB of output, "
                f"{peak_mb():.0f} MB after {turns}"
            )
        finally:
            sandbox.close()


if __name__ == "__main__":
    main()
