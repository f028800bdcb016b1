"""What every vendor's backend survives: the same faults, ordered of each vendor's stand-in."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.remote import RemoteBackend, box, calls
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    BuildError,
    LaunchError,
    SandboxBroken,
    SandboxGone,
    SettingsError,
)
from pytest_aecbench.testing import BackendConformance, RunningSandbox, hostility
from pytest_aecbench.testing.sandbox import Launch
from tests.conformance.disks import on_small_disk
from tests.costs import at_night
from tests.elsewhere import on_another_machine
from tests.project import Project
from tests.standins.executor import Executor
from tests.standins.server import Fault
from tests.stopping import wait_until, worker_of

__all__ = [
    "ONE_OF_EACH",
    "WHOLE_RUNS",
    "InContainers",
    "StandIn",
    "VendorConformance",
    "VendorFaults",
]


class StandIn(Protocol):
    """What the tests need of a vendor's stand-in; capitals are patterns of calls."""

    CREATE: str
    DOWNLOAD: str
    EXEC: str
    KILL: str
    LIST: str
    UPLOAD: str
    faults: list[Fault]
    skew: timedelta
    sandboxes: dict[str, Any]
    commands: list[str]

    def environment(self) -> dict[str, str]: ...
    def called(self, pattern: str) -> list[Any]: ...
    def forget_images(self) -> None: ...
    def preempt(self, sandbox_id: str) -> None: ...


class VendorConformance(BackendConformance):
    """For the ``backend`` of a module; behind its stand-in are processes."""

    in_containers = False

    @pytest.fixture
    def backend(self, backend: Any) -> Any:
        return backend

    @pytest.fixture(autouse=True)
    def _impatience(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wait for a sandbox that its agent has broken only as long as a test may take."""
        if "broken_programs" in request.node.name or "stops_all" in request.node.name:
            monkeypatch.setattr(calls, "PATIENCE_SEC", 2)
            monkeypatch.setattr(box, "_MARGIN_SEC", 2)
            monkeypatch.setattr(box, "_TRANSFER_SEC", 4)
            monkeypatch.setattr(box, "_SUSPECT_SEC", 2)

    @pytest.fixture
    def launch_on_small_disk(
        self,
        request: pytest.FixtureRequest,
        server: StandIn,  # whose own files are not on that disk
        executor: Executor,
        tmp_path_factory: pytest.TempPathFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Launch]:
        """Start sandboxes on a disk of their own, which is not that of this process."""
        with on_small_disk(executor, tmp_path_factory.mktemp("disk")):
            monkeypatch.setattr(box, "_REQUESTS", "/tests")  # their /tmp is in memory
            server.forget_images()  # which are on another disk
            yield request.getfixturevalue("launch")
            server.forget_images()

    def test_a_full_disk_is_the_agents_unless_others_share_it(
        self, backend: RemoteBackend, launch_on_small_disk: Launch
    ) -> None:
        sandbox = launch_on_small_disk()
        assert sandbox.run(hostility.FILLER).returncode == 0  # its result is still known
        with pytest.raises(BackendError, match="the sandbox's disk is full") as caught:
            sandbox.run(":")
        assert isinstance(caught.value, SandboxBroken) is backend.vendor.has_own_disk
        assert not isinstance(caught.value, BackendLost)

    @pytest.mark.slow
    def test_a_process_that_stops_all_others_is_ended(self, launch: Launch) -> None:
        """Only a command inside can end processes there, and it would be stopped as well."""
        sandbox = launch()
        sandbox.output("echo x > kept")
        hostility.withstand(sandbox, hostility.STOPPER, 3)
        assert launch().output("echo sound") == "sound\n"


@pytest.mark.needs("docker")
class InContainers(VendorConformance):
    """Behind the stand-in are containers of images that were built from what was uploaded.

    What images change is tried whenever tests are; the rest, which the same code does as behind
    processes, is left to the night.
    """

    in_containers = True
    # Nothing limits their disk, which is the engine's.
    test_a_disk_that_an_agent_fills_is_not_an_error_of_the_backend = None  # type: ignore[assignment]
    test_a_full_disk_is_the_agents_unless_others_share_it = None  # type: ignore[assignment]
    by_day = (
        "test_an_image_is_named_by_its_content",
        "test_a_malformed_dockerfile_is_a_build_error",
        "test_commands_start_in_the_workspace",
        "test_commands_can_run_as_another_user",
        "test_uploads_keep_modes_and_bytes",
        "test_odd_names_go_in_and_come_out",
    )


# One of each kind, where the classes of another vendor run the same code of ours by day.
ONE_OF_EACH = (
    "test_an_image_is_named_by_its_content",
    "test_a_malformed_dockerfile_is_a_build_error",
    "test_streams_and_exit_code_are_kept_apart",
    "test_variables_are_passed_as_they_are",
    "test_the_workspace_starts_with_what_was_given",
    "test_an_uploaded_directory_replaces_what_was_there",
    "test_uploads_keep_modes_and_bytes",
    "test_a_deadline_ends_everything_the_command_started",
    "test_a_deadline_bounds_time_and_keeps_what_was_printed",
    "test_what_a_command_leaves_running_lives_on",
    "test_an_exclusive_request_is_alone",
    "test_only_what_is_safe_to_read_is_collected",
    "test_a_full_disk_is_the_agents_unless_others_share_it",
    "test_two_sandboxes_do_not_see_each_others_files",
    "test_eight_sandboxes_run_at_once",
    "test_a_removed_sandbox_is_gone",
)

# Each of these starts pytest with an SDK, some of them twice.
WHOLE_RUNS = (
    "test_a_killed_worker_leaves_a_record_and_no_sandbox",
    "test_ctrl_c_leaves_no_sandbox",
    "test_kill_9_leaves_what_the_next_run_ends",
    "test_reap_has_the_keys_of_the_project",
    "test_the_same_trials_have_the_same_rewards",
)


class VendorFaults:
    """Override ``server``, ``backend``, ``name`` and ``key_options``.

    The latter are options of the backend's table, with the variables that say the same.
    ``left_to_night`` may be `WHOLE_RUNS`, because by day one vendor will do for what our own code
    does alike with all of them. ``sdk_repeats`` says that the SDK repeats calls by itself, under a
    key that makes that safe.
    """

    name = ""
    key_options: ClassVar[dict[str, str]] = {}
    left_to_night: tuple[str, ...] = ()
    sdk_repeats = False

    def requests(self, server: StandIn) -> list[str]:
        """Return the commands that ran a request, not those that moved files."""
        return [command for command in server.commands if "/run " in command]

    @pytest.fixture
    def project(self, pytester: pytest.Pytester) -> Project:
        return Project(pytester, ())

    @pytest.fixture
    def task_dir(self, tmp_path: Path) -> Path:
        directory = tmp_path / "task"
        (directory / "environment").mkdir(parents=True)
        dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"
        (directory / "environment/Dockerfile").write_text(dockerfile)
        return directory

    @pytest.fixture
    def image_ref(self, backend: RemoteBackend, task_dir: Path) -> str:
        return backend.build_environment(task_dir=task_dir)

    def launch(
        self, backend: RemoteBackend, image_ref: str, tmp_path: Path, **limits: Any
    ) -> RunningSandbox:
        workspace_dir = tmp_path / "trial/workspace"
        workspace_dir.mkdir(parents=True, exist_ok=True)
        handle = backend.launch_trial(
            image_ref=image_ref, workspace_dir=workspace_dir, limits=Limits(**limits)
        )
        return RunningSandbox(backend, handle, workspace_dir)

    @pytest.fixture
    def sandbox(
        self, backend: RemoteBackend, image_ref: str, tmp_path: Path
    ) -> Iterator[RunningSandbox]:
        sandbox = self.launch(backend, image_ref, tmp_path)
        yield sandbox
        sandbox.teardown()

    def test_gpus_are_refused_unless_their_type_is_known(
        self, backend: RemoteBackend, image_ref: str, tmp_path: Path
    ) -> None:
        reason = backend.refuse_gpus()
        assert reason is not None
        with pytest.raises(LaunchError, match=re.escape(reason)):
            self.launch(backend, image_ref, tmp_path, gpus=1)

    # Images

    def test_an_image_is_built_once_and_found_again(
        self, backend: RemoteBackend, server: StandIn, task_dir: Path, image_ref: str
    ) -> None:
        before = len(server.called("POST|PUT"))
        assert backend.build_environment(task_dir=task_dir) == image_ref
        assert len(server.called("POST|PUT")) == before

    def test_an_image_removed_in_mid_run_is_built_again(
        self, backend: RemoteBackend, server: StandIn, image_ref: str, tmp_path: Path
    ) -> None:
        server.forget_images()
        sandbox = self.launch(backend, image_ref, tmp_path)
        assert sandbox.output("echo sound") == "sound\n"
        sandbox.teardown()

    def test_a_failed_build_shows_what_the_builder_said(
        self, backend: RemoteBackend, task_dir: Path
    ) -> None:
        dockerfile = task_dir / "environment/Dockerfile"
        dockerfile.write_text("FROM python:3.11-slim\nCOPY missing.txt /x\n")
        with pytest.raises(BuildError, match=r"missing\.txt") as raised:
            backend.build_environment(task_dir=task_dir)
        assert "Dockerfile" in str(raised.value).splitlines()[0]

    def test_files_that_the_dockerfile_copies_are_in_the_image(
        self, backend: RemoteBackend, task_dir: Path, tmp_path: Path
    ) -> None:
        (task_dir / "environment/data").mkdir()
        (task_dir / "environment/data/a.txt").write_text("from the context")
        dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\nCOPY data ./data\n"
        (task_dir / "environment/Dockerfile").write_text(dockerfile)
        image_ref = backend.build_environment(task_dir=task_dir)
        sandbox = self.launch(backend, image_ref, tmp_path)
        try:
            assert sandbox.output("cat data/a.txt") == "from the context"
        finally:
            sandbox.teardown()

    # Calls that go wrong

    @pytest.mark.usefixtures("own_machine")
    def test_a_storm_of_refusals_is_waited_out(
        self,
        backend: RemoteBackend,
        server: StandIn,
        image_ref: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(calls, "FIRST_WAIT_SEC", 0.05)
        server.faults += [Fault(server.CREATE, 3, status=429), Fault(server.CREATE, 2, status=503)]
        sandbox = self.launch(backend, image_ref, tmp_path)
        for pattern in (server.UPLOAD, server.EXEC, server.KILL):
            server.faults += [Fault(pattern, 1, status=429), Fault(pattern, 1, status=503)]
        assert sandbox.output("echo fine") == "fine\n"
        sandbox.teardown()
        assert len(server.called(server.CREATE)) >= 6
        assert server.sandboxes == {}
        fewer = backend.concurrency() // 2
        assert backend.notes(image_ref) == (
            f"{self.name} is busy; {fewer} sandboxes at once for some minutes",
        )

    def test_a_vendor_that_stays_busy_is_an_error_that_says_so(
        self,
        backend: RemoteBackend,
        server: StandIn,
        image_ref: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(calls, "PATIENCE_SEC", 2)
        server.faults.append(Fault(server.CREATE, 1000, status=503, message="no capacity"))
        with pytest.raises(LaunchError, match=f"^{self.name}: "):
            self.launch(backend, image_ref, tmp_path)

    @pytest.mark.parametrize("seconds", [5, at_night(30)])
    def test_an_outage_is_waited_out(
        self, sandbox: RunningSandbox, server: StandIn, seconds: int
    ) -> None:
        sandbox.output("true")
        sent = len(self.requests(server))
        began = time.monotonic()
        server.faults.append(Fault("", 10**6, status=503, until=began + seconds))
        assert sandbox.output("echo once >> times; cat times") == "once\n"
        assert time.monotonic() > began + seconds
        assert len(self.requests(server)) == sent + 1

    def test_a_connection_dropped_in_the_output_costs_nothing(
        self, sandbox: RunningSandbox, server: StandIn
    ) -> None:
        sandbox.output("true")
        sent = len(self.requests(server))
        server.faults.append(Fault(server.EXEC, drop=True))
        assert sandbox.output("echo once >> times; cat times") == "once\n"
        assert len(self.requests(server)) == sent + 1

    def test_a_download_that_breaks_off_is_repeated(
        self, sandbox: RunningSandbox, server: StandIn
    ) -> None:
        server.faults.append(Fault(server.DOWNLOAD, drop=True))
        assert sandbox.output("printf '%500000s' x") == "x".rjust(500_000)

    def test_a_sandbox_gone_between_two_calls_is_gone(
        self, sandbox: RunningSandbox, server: StandIn
    ) -> None:
        sandbox.output("true")
        server.preempt(sandbox.handle.handle_id)
        with pytest.raises(SandboxGone):
            sandbox.run("true")
        with pytest.raises(SandboxGone):
            sandbox.collect()

    def test_a_sandbox_that_vanishes_under_a_command_is_gone(
        self, sandbox: RunningSandbox, server: StandIn
    ) -> None:
        sandbox.output("true")

        def preempt() -> None:
            wait_until(lambda: len(self.requests(server)) == 2)
            time.sleep(0.5)
            server.preempt(sandbox.handle.handle_id)

        thread = threading.Thread(target=preempt)
        thread.start()
        with pytest.raises(SandboxGone):
            sandbox.run("sleep 1000")
        thread.join()

    def test_a_lifetime_that_ends_takes_the_sandbox(
        self, backend: RemoteBackend, image_ref: str, server: StandIn, tmp_path: Path
    ) -> None:
        sandbox = self.launch(backend, image_ref, tmp_path, lifetime_sec=3)
        with pytest.raises(SandboxGone):
            sandbox.run("sleep 1000", timeout_sec=500)
        assert server.sandboxes == {}
        sandbox.teardown()

    def test_a_start_that_hangs_leaves_nothing(
        self,
        backend: RemoteBackend,
        server: StandIn,
        image_ref: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("pytest_aecbench.backends.remote.backend._CREATE_SEC", 3)
        server.faults.append(Fault(server.CREATE, hang=True, done=True))
        with pytest.raises(LaunchError, match="no answer within 3 s"):
            self.launch(backend, image_ref, tmp_path)
        assert len(server.called(server.CREATE)) == 1
        assert server.sandboxes == {}

    def test_200_megabytes_of_output_are_capped(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo first; head -c 200000000 /dev/zero; echo; echo last")
        assert result.truncated
        assert result.stdout.startswith("first\n")
        assert result.stdout.endswith("\nlast\n")
        assert len(result.stdout) < 3_000_000

    @pytest.mark.parametrize(
        ("status", "kind"),
        [(401, SettingsError), (400, LaunchError), (500, LaunchError), (502, LaunchError)],
    )
    def test_a_refusal_is_told_by_its_kind(
        self,
        backend: RemoteBackend,
        server: StandIn,
        image_ref: str,
        tmp_path: Path,
        status: int,
        kind: type[Exception],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(calls, "PATIENCE_SEC", 0)
        server.faults.append(Fault(server.CREATE, 1000, status=status, message="no such luck"))
        with pytest.raises(kind) as raised:
            self.launch(backend, image_ref, tmp_path)
        assert "\n" not in str(raised.value)
        assert len(server.called(server.CREATE)) == 1 or self.sdk_repeats
        assert not isinstance(raised.value, SettingsError) or status == 401

    def test_a_clock_that_is_off_by_an_hour_changes_nothing(
        self, backend: RemoteBackend, server: StandIn, image_ref: str, tmp_path: Path
    ) -> None:
        for hours in (-1, 1):
            server.skew = timedelta(hours=hours)
            sandbox = self.launch(backend, image_ref, tmp_path, lifetime_sec=1800)
            assert backend.reap() == []
            assert sandbox.output("echo fine") == "fine\n"
            sandbox.teardown()

    # What is sent

    def test_no_secret_is_in_what_the_vendor_is_told_to_run(
        self, sandbox: RunningSandbox, server: StandIn
    ) -> None:
        shown = sandbox.output('echo "${#TOKEN}"', env={"TOKEN": "s3cret-value"})
        assert shown == "12\n"
        assert server.commands
        assert not [command for command in server.commands if "s3cret" in command]

    def test_only_what_dead_runs_left_is_swept(
        self, backend: RemoteBackend, sandbox: RunningSandbox, server: StandIn, image_ref: str
    ) -> None:
        program = """if True:
            import os, pathlib, sys, tempfile
            from pytest_aecbench.backends import make_backend
            backend = make_backend(sys.argv[1], "test")
            place = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[3]))
            print(backend.launch_trial(image_ref=sys.argv[2], workspace_dir=place).handle_id)
            sys.stdout.flush()
            os._exit(0)
        """
        left = subprocess.check_output(
            [sys.executable, "-c", program, self.name, image_ref, str(sandbox.workspace_dir)],
            text=True,
        ).strip()
        assert set(server.sandboxes) == {sandbox.handle.handle_id, left}
        assert backend.reap(dry_run=True) == [left]
        assert backend.reap() == [left]
        assert set(server.sandboxes) == {sandbox.handle.handle_id}

    @pytest.mark.needs("machines")
    def test_a_live_sandbox_is_left_alone_from_elsewhere(
        self, sandbox: RunningSandbox, server: StandIn, tmp_path: Path
    ) -> None:
        program = """if True:
            import json, sys
            from pytest_aecbench.backends import make_backend
            backend = make_backend(sys.argv[1], "test")
            print(json.dumps([backend.reap(), backend.left_alone]))
        """
        command = on_another_machine(tmp_path, sys.executable, "-c", program, self.name)
        shown = subprocess.check_output(command, text=True)
        assert json.loads(shown) == [[], [sandbox.handle.handle_id]]
        assert set(server.sandboxes) == {sandbox.handle.handle_id}
        assert sandbox.output("echo alive") == "alive\n"

    # Whole runs

    def test_the_same_trials_have_the_same_rewards(self, project: Project, server: StandIn) -> None:
        self.write_task(project, "civil/a")
        half = """sleep 3; echo '{"power_w": 24.0}' > output.jsonl"""
        self.write_task(project, "civil/b", instruction="Half of it.", solve=half)
        done = self.run_pytest(project, "-n2", "--junitxml=out.xml")
        assert "1 failed, 1 passed" in done.stdout, done.stdout
        rewards = {record["task"]["task_id"]: record["evaluation"]["reward"]
                   for record in project.records()}  # fmt: skip
        assert rewards == {"civil/a": 1.0, "civil/b": 0.35}
        environments = {record["environment"]["backend"] for record in project.records()}
        assert environments == {self.name}
        assert server.sandboxes == {}

    def test_a_wrong_key_is_one_line_and_nothing_is_launched(
        self, project: Project, server: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        variable = next(name for name in server.environment() if name.endswith(("KEY", "SECRET")))
        self.write_task(project)
        monkeypatch.setenv(variable, "wrong")
        refused = self.run_pytest(project)
        assert refused.returncode == pytest.ExitCode.USAGE_ERROR, refused.stdout
        assert variable in refused.stderr
        assert "Traceback" not in refused.stdout + refused.stderr
        monkeypatch.delenv(variable)
        missing = self.run_pytest(project)
        assert missing.returncode == pytest.ExitCode.USAGE_ERROR, missing.stdout
        assert f"{variable} is not set" in missing.stderr
        assert server.called(server.CREATE) == []

    def test_ctrl_c_leaves_no_sandbox(self, project: Project, server: StandIn) -> None:
        process = self.start_endless(project, server)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == pytest.ExitCode.INTERRUPTED, output
        assert project.record()["evaluation"]["validity"] == "interrupted"
        assert server.sandboxes == {}

    def test_kill_9_leaves_what_the_next_run_ends(self, project: Project, server: StandIn) -> None:
        process = self.start_endless(project, server)
        process.kill()
        process.communicate(timeout=60)
        assert len(server.sandboxes) == 1
        self.write_task(project)
        assert "1 passed" in self.run_pytest(project).stdout
        assert server.sandboxes == {}

    def test_a_killed_worker_leaves_a_record_and_no_sandbox(
        self, project: Project, server: StandIn
    ) -> None:
        process = self.start_endless(project, server, "-n1")
        os.kill(worker_of(project), signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == pytest.ExitCode.TESTS_FAILED, output
        assert "1 error" in output
        assert project.record()["evaluation"]["validity"] == "crashed"
        assert server.sandboxes == {}

    def test_reap_has_the_keys_of_the_project(
        self, project: Project, server: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process = self.start_endless(project, server)
        process.kill()
        process.communicate(timeout=60)
        (left,) = server.sandboxes
        lines = []
        for option, variable in self.key_options.items():
            monkeypatch.delenv(variable)
            monkeypatch.setenv(f"PROJECTS_{variable}", server.environment()[variable])
            lines.append(f'{option} = "${{PROJECTS_{variable}}}"\n')
        (project.path / "aec-bench.toml").write_text(f"[compute.{self.name}]\n{''.join(lines)}")
        argv = [sys.executable, "-m", "pytest_aecbench", "reap", "--backend", self.name, "--json"]
        for dry_run in (["--dry-run"], []):
            shown = subprocess.check_output([*argv, *dry_run], cwd=project.path, text=True)
            assert json.loads(shown)["removed"] == {self.name: [left]}
        assert server.sandboxes == {}

    def write_task(self, project: Project, task_id: str = "civil/a", **changes: Any) -> None:
        dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"
        project.task(task_id, files={"environment/Dockerfile": dockerfile}, **changes)

    def run_pytest(self, project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", "tasks", f"--aec-backend={self.name}", *arguments]
        return subprocess.run(
            argv, cwd=project.path, capture_output=True, text=True, timeout=180, check=False
        )

    def start_endless(
        self, project: Project, server: StandIn, *arguments: str
    ) -> subprocess.Popen[str]:
        self.write_task(project, solve="sleep 10000")
        argv = [sys.executable, "-m", "pytest", "tasks", f"--aec-backend={self.name}"]
        process = subprocess.Popen(
            [*argv, *arguments],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        wait_until(lambda: self.requests(server))
        return process
