"""Cells of ``rlm`` against one command of the sandbox, calls against one call, and memory.

The floor of a cell is one command that starts Python, on each backend that there is. A model on the
loopback interface takes a fixed time for each answer; the floor of 8 calls at once is one call in
the same run. The floor of the host's memory is a process of its own that does the same work with a
document of a few bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from tests.agents.recursion import Run, Workshop, cell
from tests.standins.models import ModelServer, Tokens, Turn, Wish

MODEL, SUB = "claude-sonnet-4-20250514", "claude-3-5-haiku-20241022"
TOML = f'[execution]\nsubcall_model = "{SUB}"\n'
DELAY_SEC = 0.2
CELLS = 20
CALLS, WORKERS = 8, 4
# Types of an input, its file, and a line of it. The host parses JSON to find mistakes beforehand.
INPUTS = {
    "string": ("string", "", "doc.txt", b"0123456789 0123456789\n"),
    "csv": ("csv", "pre_parse = true\n", "doc.csv", b"0123456789," * 100 + b"\n"),
}
SIZE = 50_000_000


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


def with_input(kind: str) -> str:
    type_, more, name, _ = INPUTS[kind]
    return f'{TOML}[inputs.doc]\ntype = "{type_}"\nsource = "{name}"\n{more}'


@contextmanager
def workshop_on(backend: Any, dockerfile: str | None = None) -> Iterator[Workshop]:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in ("image/environment", "trial/workspace"):
            (root / name).mkdir(parents=True)
        if dockerfile:
            (root / "image/environment/Dockerfile").write_text(dockerfile)
        image = backend.build_environment(task_dir=root / "image")
        handle = backend.launch_trial(image_ref=image, workspace_dir=root / "trial/workspace")
        workshop = Workshop(root, Sandbox(backend, handle))
        try:
            yield workshop
        finally:
            workshop.sandbox.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", metavar="DOCUMENT", help="work on it, and print the peak memory")
    parser.add_argument("--kind", choices=INPUTS, default="string")
    arguments = parser.parse_args()
    if arguments.host:
        print(peak_with(Path(arguments.host), arguments.kind))
        return
    server = ModelServer()
    os.environ.update(server.environment("anthropic"))
    server.policies[SUB] = lambda body: Turn("yes")
    try:
        with workshop_on(LocalBackend()) as workshop:
            measure_cells("local", workshop, server)
            measure_calls(workshop, server)
            measure_requests(workshop, server)
        measure_memory()
        if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
            from pytest_aecbench.backends.docker import DockerBackend

            backend = DockerBackend(run_id="benchmark")
            dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"
            with workshop_on(backend, dockerfile) as workshop:
                measure_cells("docker", workshop, server)
            backend.close()
    finally:
        server.close()


def measure_cells(backend: str, workshop: Workshop, server: ModelServer) -> None:
    floor = milliseconds(lambda: workshop.sandbox.execute("python3 -I -S -c 1"), CELLS)
    scripted(server, *["1"] * CELLS, "FINAL(1)")
    took = cells_of(workshop.run(MODEL, workshop.task(TOML)))[:CELLS]
    mean = sum(took) / CELLS
    print(f"rlm: {mean:.0f} ms a cell on {backend}, floor {floor:.0f} ms, ratio {mean / floor:.2f}")

    scripted(server, "[llm_query('x') for _ in range(10)]", "FINAL(1)")
    run = workshop.run(MODEL, workshop.task(TOML))
    asked = sum(entry.duration_ms or 0 for entry in run.calls("subcall"))
    added = (cells_of(run)[0] - mean - asked) / 10
    print(
        f"rlm: {added:.0f} ms added to a call on {backend}, floor {floor:.0f} ms, "
        f"ratio {added / floor:.2f}"
    )


def measure_calls(workshop: Workshop, server: ModelServer) -> None:
    server.delay_sec = DELAY_SEC
    at_once = f"llm_query_batched(['x'] * {CALLS})"
    scripted(server, "llm_query('x')", at_once, at_once, at_once, "FINAL(1)")
    run = workshop.run(MODEL, workshop.task(TOML))
    server.delay_sec = 0.0
    floor = run.calls("subcall")[0].duration_ms or 0
    alone, *together = cells_of(run)[:4]
    print(
        f"rlm: {CALLS} calls at once in {min(together)} ms, floor {floor} ms for one of them, "
        f"ratio {min(together) / floor:.2f}, ideal {CALLS / WORKERS:.2f}; "
        f"a cell with one call {alone} ms, ratio {alone / floor:.2f}"
    )


def measure_requests(workshop: Workshop, server: ModelServer) -> None:
    sizes = []
    for size in (50_000, 5_000_000, SIZE):
        scripted(server, "print(len(doc), doc[:1000])", "FINAL(1)")
        server.calls.clear()
        workshop.run(MODEL, workshop.task(with_input("string"), {"doc.txt": document(size)}))
        sizes.append(sum(len(str(call.body)) for call in server.calls))
        print(
            f"rlm: document of {size // 1000} kB, {sizes[-1]} characters of requests, ratio "
            f"{sizes[-1] / sizes[0]:.3f}"
        )


def measure_memory() -> None:
    """Print the peak memory of processes that run a trial with a large document and a small one.

    A process of its own each, because a peak never falls.
    """
    with tempfile.TemporaryDirectory() as temporary:
        for kind, (_, _, name, line) in INPUTS.items():
            peaks = []
            for size in (len(line), SIZE):
                path = Path(temporary, str(size), name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(line * (size // len(line)))
                command = [sys.executable, __file__, "--host", str(path), "--kind", kind]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                peaks.append(int(done.stdout))
            small, large = peaks
            print(
                f"rlm: host's peak memory with {kind} of {SIZE // 10**6} MB {large / 1024:.0f} MB, "
                f"floor {small / 1024:.0f} MB without it, ratio {large / small:.2f}; "
                f"{(large - small) * 1024 / SIZE:.2f} of the document"
            )


def peak_with(path: Path, kind: str) -> int:
    """Run a trial with a document and return this process's peak memory in kB."""
    with workshop_on(LocalBackend()) as workshop:
        task = workshop.task(with_input(kind))
        os.link(path, task.path / path.name)
        run = workshop.run(workshop.script(cell("FINAL(len(doc))")), task)
        assert run.output
    # ``getrusage`` would also count the process that started this one.
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def document(size: int) -> bytes:
    return b"0123456789" * (size // 10)


if __name__ == "__main__":
    main()
