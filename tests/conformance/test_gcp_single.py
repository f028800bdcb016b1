"""The gcp backend with single commands: each is a job of one task, and files outlive it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_aecbench import run_patch_test
from pytest_aecbench.backends import BackendExecutionRequest, TrialHandle
from pytest_aecbench.backends.gcp import GCPBatchBackend, scripts, single
from pytest_aecbench.cooperbench import get_backend
from pytest_aecbench.cooperbench.gcp import GCPBatchBackend as GCPBatchSandboxes
from pytest_aecbench.errors import BackendError, BackendLost, SandboxGone
from pytest_aecbench.testing import BackendConformance, RunningSandbox
from pytest_aecbench.testing.sandbox import Launch, write
from tests.conformance.disks import small_disk
from tests.standins.batch import BatchServer, Mishap
from tests.standins.batch_boxes import PREEMPTED
from tests.standins.buckets import Buckets
from tests.standins.executor import Executor
from tests.standins.registry import FullRegistry, RegistryServer
from tests.stopping import wait_until

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def batch_capacity() -> int:
    return 32


@pytest.fixture(scope="module")
def registry() -> Iterator[FullRegistry]:
    server = FullRegistry()
    yield server
    server.close()


@pytest.fixture
def backend(google: BatchServer, registry: FullRegistry) -> Iterator[GCPBatchBackend]:
    backend = GCPBatchBackend(options_for(google, registry), run_id="conformance")
    yield backend
    backend.close()


def options_for(google: BatchServer, registry: RegistryServer) -> dict[str, object]:
    return {
        "endpoint": google.url,
        "repository": registry.reference("project-1/aecbench"),
        "hide_bucket": False,
        "poll_sec": 0.05,
        "single": True,
    }


def make_impatient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a machine that is stopped from within only as long as a test may take."""
    if "stops_all" in request.node.name:
        monkeypatch.setattr(scripts, "GUARD_SEC", 3)
        monkeypatch.setattr(single, "START_SEC", 3)


class TestGCP(BackendConformance):
    keeps_processes = False
    # One of each kind; the night tries the others.
    by_day = (
        "test_an_image_is_named_by_its_content",
        "test_streams_and_exit_code_are_kept_apart",
        "test_the_workspace_starts_with_what_was_given",
        "test_an_uploaded_directory_replaces_what_was_there",
        "test_a_deadline_ends_everything_the_command_started",
        "test_what_a_command_leaves_running_lives_on",
        "test_only_what_is_safe_to_read_is_collected",
        "test_a_removed_sandbox_is_gone",
    )

    @pytest.fixture
    def backend(self, backend: GCPBatchBackend) -> GCPBatchBackend:
        return backend

    @pytest.fixture(autouse=True)
    def _impatience(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        make_impatient(request, monkeypatch)

    @pytest.fixture
    def launch_on_small_disk(
        self,
        request: pytest.FixtureRequest,
        buckets: Buckets,  # whose objects are not on that disk
        executor: Executor,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Launch]:
        with small_disk(tmp_path):
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            monkeypatch.setattr(executor, "home", tmp_path / "executor")
            yield request.getfixturevalue("launch")


@pytest.mark.needs("docker")
class TestGCPInContainers(BackendConformance):
    """The same in containers of images that were built and pushed, with the bucket hidden."""

    in_containers = True
    keeps_processes = False
    # Nothing limits their disk, which is the engine's.
    test_a_disk_that_an_agent_fills_is_not_an_error_of_the_backend = None  # type: ignore[assignment]
    by_day = (
        "test_commands_can_run_as_another_user",
        "test_uploads_keep_modes_and_bytes",
    )

    @pytest.fixture
    def backend(self, google: BatchServer) -> Iterator[GCPBatchBackend]:
        registry = RegistryServer()
        options = options_for(google, registry) | {"hide_bucket": True}
        backend = GCPBatchBackend(options, run_id="conformance")
        yield backend
        backend.close()
        registry.close()

    @pytest.fixture(autouse=True)
    def _impatience(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        make_impatient(request, monkeypatch)


# CooperBench's interface


@pytest.fixture
def project(google: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose file leads to the stand-in; nothing may be left of what it starts."""
    directory = tmp_path / "project"
    options = f'endpoint = "{google.url}"\nhide_bucket = false\npoll_sec = 0.05\n'
    write(directory / "aec-bench.toml", f"[compute.gcp]\n{options}")
    monkeypatch.chdir(directory)
    yield directory
    assert google.jobs == {}
    assert [name for bucket in google.machines.buckets.all() for name in bucket] == []


def test_a_sandbox_of_cooperbench_runs_its_commands(project: Path, google: BatchServer) -> None:
    backend = get_backend("gcp")
    sandbox = backend.create_sandbox(
        image="cooperbench/llama_index_task:task1", timeout=600, workdir="/srv/project"
    )
    try:
        result = sandbox.exec("bash", "-c", "python3 --version; echo err >&2; pwd > where; exit 3")
        assert result.returncode == 3
        assert result.stdout_read().startswith("Python 3.")
        assert result.stderr_read() == "err\n"
        assert sandbox.exec("cat", "/srv/project/where").stdout_read() == "/srv/project\n"
    finally:
        sandbox.terminate()
    with pytest.raises(SandboxGone):
        sandbox.exec("true")
    calls = google.called(google.CREATE)
    assert len(calls) == 2
    (runnable,) = calls[0].body["taskGroups"][0]["taskSpec"]["runnables"]
    assert runnable["container"]["imageUri"] == "cooperbench/llama_index_task:task1"


@pytest.mark.parametrize("by", ["arguments", "variables"])
def test_project_region_and_machine_are_those_that_are_named(
    project: Path, google: BatchServer, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    named = {"project_id": "your-project", "region": "europe-west4", "machine_type": "n1-highcpu-4"}
    if by == "variables":
        variables = ("GOOGLE_CLOUD_PROJECT", "GCP_REGION", "GCP_MACHINE_TYPE")
        for name, value in zip(variables, named.values(), strict=True):
            monkeypatch.setenv(name, value)
        named = {}
    sandbox = GCPBatchSandboxes(**named).create_sandbox(image="python:3.11-slim")
    try:
        assert sandbox.exec("true").returncode == 0
    finally:
        sandbox.terminate()
    (call,) = google.called(google.CREATE)
    assert "/projects/your-project/locations/europe-west4/" in call.path
    (instance,) = call.body["allocationPolicy"]["instances"]
    assert instance["policy"]["machineType"] == "n1-highcpu-4"


def test_a_patch_is_tested(project: Path, google: BatchServer) -> None:
    write(project / "repository/calc.py", "def add(a, b):\n    return a - b\n")
    lines = ["import unittest, calc", "class T(unittest.TestCase):", "    def test(self):"]
    lines += ["        self.assertEqual(calc.add(2, 3), 5)"]
    feature = project / "dataset/calc_task/task1/feature1"
    added = "".join(f"+{line}\n" for line in lines)
    write(
        feature / "tests.patch",
        f"--- /dev/null\n+++ b/test_calc.py\n@@ -0,0 +1,{len(lines)} @@\n{added}",
    )
    fix = "--- a/calc.py\n+++ b/calc.py\n@@ -2 +2 @@\n-    return a - b\n+    return a + b\n"
    results = [
        run_patch_test(
            "calc_task",
            1,
            1,
            agent_patch=patch,
            backend="gcp",
            repository="repository",
            command="python3 -m unittest",
        )
        for patch in (fix, "")
    ]
    assert [(one.passed, one.tests_passed, one.tests_failed) for one in results] == [
        (True, 1, 0),
        (False, 0, 1),
    ], results
    assert len(google.called(google.CREATE)) == 3 + 2  # files go along with commands


# What goes wrong


@pytest.fixture
def sandbox(backend: GCPBatchBackend, tmp_path: Path) -> Iterator[RunningSandbox]:
    task_dir = tmp_path / "task"
    write(task_dir / "environment/Dockerfile", "FROM python:3.11-slim\nWORKDIR /workspace\n")
    (tmp_path / "trial/workspace").mkdir(parents=True)
    workspace_dir = tmp_path / "trial/workspace"
    image_ref = backend.build_environment(task_dir=task_dir)
    handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)
    made = RunningSandbox(backend, handle, workspace_dir)
    yield made
    made.teardown()


def test_files_of_all_carried_directories_reach_the_next_command(
    sandbox: RunningSandbox,
) -> None:
    places = ("/workspace", "/logs/agent", "/tests", "/solution", "/tmp", "$HOME")
    sandbox.output(f"for d in {' '.join(places)}; do mkdir -p $d; echo $d > $d/kept; done")
    sandbox.output(
        "chmod 600 kept; chown 7:8 kept; ln -s kept link; ln kept hard; rm /solution/kept"
    )
    shown = sandbox.output(
        "cat link /logs/agent/kept /tests/kept /tmp/kept $HOME/kept; stat -c '%a %u %g %h' kept;"
        "ls -A /solution; echo end"
    )
    assert shown.splitlines()[:4] == ["/workspace", "/logs/agent", "/tests", "/tmp"]
    assert shown.splitlines()[5:] == ["600 7 8 2", "end"]


def test_a_machine_that_is_lost_costs_one_command_and_no_files(
    sandbox: RunningSandbox, google: BatchServer
) -> None:
    sandbox.output("echo 1 > kept")
    google.mishaps.append(Mishap(PREEMPTED))
    with pytest.raises(BackendLost, match=r"exit code 50001.*its log is in (\S+gcp\.log)"):
        sandbox.run("echo 2 > kept; sleep 60")
    assert "the command starts" in (sandbox.workspace_dir.parent / "gcp.log").read_text()
    assert sandbox.output("cat kept") == "1\n"
    assert (sandbox.collect().workspace / "kept").read_text() == "1\n"


def test_a_sandbox_that_is_removed_in_mid_command_leaves_nothing(
    sandbox: RunningSandbox, google: BatchServer, buckets: Buckets
) -> None:
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(sandbox.run, "sleep 4321")
        wait_until(lambda: google.called(google.GET))
        sandbox.teardown()
        with pytest.raises(SandboxGone):
            future.result(60)
    assert google.jobs == {}
    assert [name for names in buckets.all() for name in names] == []


def test_a_backend_for_whole_trials_says_how_to_get_single_commands() -> None:
    backend = GCPBatchBackend({"project": "project-1"})
    with pytest.raises(BackendError, match=r"no single commands; .* compute\.gcp\.single = true"):
        backend.execute_trial(
            handle=TrialHandle("gcp", "x"), request=BackendExecutionRequest("true")
        )
