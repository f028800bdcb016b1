"""The tests of sandboxes: how they start, that they are apart, and how they end."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_aecbench.backends import ComputeBackend, TrialHandle
from pytest_aecbench.errors import SandboxGone
from pytest_aecbench.testing.processes import start_strays
from pytest_aecbench.testing.sandbox import Launch, RunningSandbox

__all__ = ["SandboxConformance"]


class SandboxConformance:
    """A sandbox starts with what was given, is alone, and can be removed."""

    def test_the_directories_of_a_trial_are_there(self, sandbox: RunningSandbox) -> None:
        sandbox.output("for d in /workspace /tests /logs/agent /logs/verifier; do touch $d/x; done")

    def test_the_workspace_starts_with_what_was_given(self, launch: Launch) -> None:
        sandbox = launch({"given": "from the host", "sub/deep/file": "below"})
        assert sandbox.output("cat given sub/deep/file") == "from the hostbelow"

    def test_two_sandboxes_do_not_see_each_others_files(self, launch: Launch) -> None:
        one, other = launch(), launch()
        one.output("touch /tests/mine /logs/mine /workspace/mine")
        listing = "ls -A /tests /logs /workspace"
        assert one.output(listing).count("mine") == 3
        assert other.output(listing).count("mine") == 0

    def test_eight_sandboxes_run_at_once(
        self, backend: ComputeBackend, image_ref: str, tmp_path: Path
    ) -> None:
        together = threading.Barrier(8, timeout=120)

        def trial(number: int) -> str:
            workspace_dir = tmp_path / f"trial-{number}" / "workspace"
            workspace_dir.mkdir(parents=True)
            handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)
            sandbox = RunningSandbox(backend, handle, workspace_dir)
            try:
                together.wait()
                sandbox.output(f"echo {number} | tee /tests/mine /logs/mine mine")
                together.wait()
                return sandbox.output("cat /tests/mine /logs/mine mine", exclusive=True)
            finally:
                sandbox.teardown()

        with ThreadPoolExecutor(8) as threads:
            shown = list(threads.map(trial, range(8)))
        assert shown == [f"{number}\n" * 3 for number in range(8)]

    def test_many_threads(self, backend: ComputeBackend, task_dir: Path, tmp_path: Path) -> None:
        """Run twenty trials at once through one instance, if it says that it is thread-safe."""
        count = 20 if getattr(backend, "thread_safe", False) else 1
        together = threading.Barrier(count, timeout=300)

        def trial(number: int) -> tuple[str, str]:
            workspace_dir = tmp_path / f"trial-{number}" / "workspace"
            workspace_dir.mkdir(parents=True)
            (workspace_dir / "given").write_text(str(number))
            image_ref = backend.build_environment(task_dir=task_dir)
            handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)
            sandbox = RunningSandbox(backend, handle, workspace_dir)
            try:
                together.wait()
                shown = sandbox.output("cat given; echo made >> given", timeout_sec=300)
                collected = sandbox.collect().workspace / "given"
                return shown, collected.read_text()
            finally:
                sandbox.teardown()

        with ThreadPoolExecutor(count) as threads:
            found = list(threads.map(trial, range(count)))
        assert found == [(str(number), f"{number}made\n") for number in range(count)]

    def test_teardown_can_be_repeated(self, backend: ComputeBackend, launch: Launch) -> None:
        sandbox = launch()
        name = sandbox.handle.backend_name
        sandbox.output(start_strays())
        sandbox.teardown()
        sandbox.teardown()
        backend.teardown(handle=TrialHandle(name, "never-was"))
        assert sandbox.workspace_dir.exists()

    def test_a_removed_sandbox_is_gone(self, launch: Launch) -> None:
        sandbox = launch()
        sandbox.teardown()
        with pytest.raises(SandboxGone):
            sandbox.run("true")
        with pytest.raises(SandboxGone):
            sandbox.run("true", exclusive=True)
        with pytest.raises(SandboxGone):
            sandbox.collect()

    def test_errors_are_one_line(self, launch: Launch) -> None:
        sandbox = launch()
        sandbox.teardown()
        for options in ({}, {"user": "nobody"}, {"env": {"A": "b"}}):
            with pytest.raises(SandboxGone, match=r"\A[^\n]+\Z"):
                sandbox.run("true", **options)
