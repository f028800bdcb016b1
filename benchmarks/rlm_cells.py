"""Cells of ``rlm`` against one command of the sandbox, and its calls against the ideal.

The floor of a cell is one command that starts Python. A model on the loopback interface takes a
fixed time for each answer; the ideal of 8 calls is the time of two, with four workers.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from tests.agents.recursion import Run, Workshop
from tests.standins.models import ModelServer, Tokens, Turn, Wish

MODEL, SUB = "claude-sonnet-4-20250514", "claude-3-5-haiku-20241022"
TOML = f'[execution]\nsubcall_model = "{SUB}"\n[inputs.doc]\ntype = "string"\nsource = "doc.txt"\n'
DELAY_SEC = 0.2
CELLS = 20


def milliseconds(work: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        work()
    return 1000 * (time.perf_counter() - start) / times


def cells_of(run: Run) -> list[int]:
    return [entry.duration_ms or 0 for entry in run.entries if entry.role == "tool_result"]


def scripted(server: ModelServer, *codes: str) -> None:
    server.scripts[MODEL] = tuple(
        Turn("", (Wish("repl", {"code": code}),), tokens=Tokens(100, out=10)) for code in codes
    )


def main() -> None:
    server = ModelServer()
    os.environ.update(server.environment("anthropic"))
    server.policies[SUB] = lambda body: Turn("yes")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in ("empty", "trial/workspace"):
            (root / name).mkdir(parents=True)
        backend = LocalBackend()
        image = backend.build_environment(task_dir=root / "empty")
        handle = backend.launch_trial(image_ref=image, workspace_dir=root / "trial/workspace")
        workshop = Workshop(root, Sandbox(backend, handle))
        try:
            measure(workshop, server)
        finally:
            workshop.sandbox.close()
            server.close()


def measure(workshop: Workshop, server: ModelServer) -> None:
    floor = milliseconds(lambda: workshop.sandbox.execute("python3 -I -S -c 1"), CELLS)
    scripted(server, *["1"] * CELLS, "FINAL(1)")
    run = workshop.run(MODEL, workshop.task(TOML, {"doc.txt": "x"}))
    cell = sum(cells_of(run)[:CELLS]) / CELLS
    print(f"rlm: {cell:.0f} ms a cell, floor {floor:.0f} ms, ratio {cell / floor:.2f}")

    scripted(server, "[llm_query('x') for _ in range(10)]", "FINAL(1)")
    run = workshop.run(MODEL, workshop.task(TOML, {"doc.txt": "x"}))
    asked = sum(entry.duration_ms or 0 for entry in run.calls("subcall"))
    added = (cells_of(run)[0] - cell - asked) / 10
    print(f"rlm: {added:.0f} ms added to a call, floor {floor:.0f} ms, ratio {added / floor:.2f}")

    server.delay_sec = DELAY_SEC
    scripted(server, "llm_query_batched(['x'] * 8)", "FINAL(1)")
    run = workshop.run(MODEL, workshop.task(TOML, {"doc.txt": "x"}))
    wall, ideal = cells_of(run)[0], 2000 * DELAY_SEC
    print(f"rlm: 8 calls at once {wall} ms, ideal {ideal:.0f} ms, ratio {wall / ideal:.2f}")

    server.delay_sec = 0.0
    sizes = []
    for size in (50_000, 5_000_000, 50_000_000):
        scripted(server, "print(len(doc), doc[:1000])", "FINAL(1)")
        server.calls.clear()
        task = workshop.task(TOML, {"doc.txt": b"0123456789" * (size // 10)})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        workshop.run(MODEL, task)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        sizes.append(sum(len(str(call.body)) for call in server.calls))
        print(
            f"rlm: document of {size // 1000} kB, {sizes[-1]} characters of requests, ratio "
            f"{sizes[-1] / sizes[0]:.3f}; host's peak memory grew by {grown / 1024:.0f} MB"
        )


if __name__ == "__main__":
    main()
