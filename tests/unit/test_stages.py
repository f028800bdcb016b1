"""The stages of a trial, with a backend that is a directory."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.agents import AgentLimits, AgentResult
from pytest_aecbench.agents.installation import Installation
from pytest_aecbench.agents.spec import AgentSpec
from pytest_aecbench.agents.stored import MARKER
from pytest_aecbench.agents.trajectory import Entry
from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    Limits,
    TrialHandle,
)
from pytest_aecbench.backends.sandbox import Echo, Sandbox
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    LaunchError,
    LedgerError,
    ProviderError,
    SandboxBroken,
    SandboxGone,
    TransferError,
)
from pytest_aecbench.settings.resolve import resolve
from pytest_aecbench.tasks.task import Task
from pytest_aecbench.trials.full_disk import check_space
from pytest_aecbench.trials.stages import (
    attempt,
    attributed,
    build_with_agent,
    collect,
    evidence_kept,
    launch,
    replace_tree,
    stage_inputs,
    transferring,
)
from pytest_aecbench.trials.trial import Trial
from tests.tasks import write_least, write_tree
from tests.unit.test_record import a_record

HANDLE = TrialHandle("here", "1")


@dataclass
class Here:
    """The five methods of a backend, on a directory of the host."""

    home: Path
    returncode: int = 0
    skipped: tuple[str, ...] = ()
    launched: list[Path] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    removed: int = 0

    def build_environment(self, *, task_dir: Path) -> str:
        return (task_dir / "environment" / "Dockerfile").read_text()

    def launch_trial(self, *, image_ref: str, workspace_dir: Path) -> TrialHandle:
        self.launched.append(workspace_dir)
        return HANDLE

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        self.commands.append(request.command)
        return BackendExecutionResult(self.returncode)

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        return CollectedArtifacts(self.home / "workspace", self.home / "logs", self.skipped)

    def teardown(self, *, handle: TrialHandle) -> None:
        self.removed += 1


@dataclass
class Limited(Here):
    """One that takes limits, too."""

    limits: Limits | None = None

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        self.limits = limits
        return super().launch_trial(image_ref=image_ref, workspace_dir=workspace_dir)


@dataclass
class Doing:
    """An agent that calls a function."""

    what: Callable[[Sandbox], object]
    installation: Installation | None = None

    def run(self, task: Task, sandbox: Sandbox, limits: AgentLimits) -> AgentResult:
        self.what(sandbox)
        return AgentResult(stdout="done")


def a_trial(
    root: Path, toml: str = "", settings: dict[str, Any] | None = None, **more: Any
) -> Trial:
    given = {name: (value, "a test") for name, value in (settings or {}).items()}
    task = Task.load(write_least(root / "tasks" / "civil" / "a", toml))
    return Trial(task, more.pop("agent", AgentSpec("it", "it")), 1, resolve(root, given), **more)


def a_sandbox(root: Path, **more: Any) -> tuple[Here, Sandbox]:
    """Return a sandbox with a file of work and one of logs."""
    write_tree(root / "home", {"workspace/work": "x", "logs/log": "y"})
    backend = Here(root / "home", **more)
    return backend, Sandbox(backend, HANDLE)


def raising(error: BaseException) -> Callable[[Sandbox], object]:
    def what(_: Sandbox) -> None:
        raise error

    return what


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow over 1 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


OWN = "[environment]\ncpus = 3\nmemory_mb = 512\nstorage_mb = 100\nallow_internet = false\n"


def test_a_sandbox_has_the_limits_of_the_run_else_those_of_the_task(tmp_path: Path) -> None:
    backend = Limited(tmp_path)
    trial = a_trial(tmp_path, OWN)
    launch(trial, backend, "image", tmp_path / "w")
    assert backend.limits == Limits(3, 512, 100, False, trial.lifetime_sec)
    assert backend.launched == [tmp_path / "w"]
    launch(a_trial(tmp_path, OWN, {"cpus": 1.5, "memory_mb": 256}), backend, "image", tmp_path)
    assert backend.limits == Limits(1.5, 256, 100, False, trial.lifetime_sec)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("asked", [True, False, None])
def test_a_sandbox_has_the_network_that_was_asked_for_else_the_task_s(
    tmp_path: Path, own: bool, asked: bool | None
) -> None:
    backend = Limited(tmp_path)
    trial = a_trial(tmp_path, f"[environment]\nallow_internet = {str(own).lower()}\n")
    launch(trial, backend, "image", tmp_path, network=asked)
    assert backend.limits is not None
    assert backend.limits.network is (own if asked is None else asked)


def test_a_backend_that_takes_no_limits_is_given_none(tmp_path: Path) -> None:
    backend = Here(tmp_path)
    assert launch(a_trial(tmp_path), backend, "image", tmp_path).handle == HANDLE
    assert (backend.commands, backend.removed) == ([], 0)


def test_a_sandbox_that_does_not_become_healthy_is_removed(tmp_path: Path) -> None:
    toml = '[environment.healthcheck]\ncommand = "ok"\nretries = 1\n'
    healthy, sick = Here(tmp_path), Here(tmp_path, returncode=1)
    launch(a_trial(tmp_path, toml), healthy, "image", tmp_path)
    assert (healthy.commands, healthy.removed) == (["ok"], 0)
    with pytest.raises(LaunchError, match="healthcheck: 'ok' did not succeed in 1 try"):
        launch(a_trial(tmp_path, toml), sick, "image", tmp_path)
    assert sick.removed == 1


def test_a_workspace_starts_with_the_task_s_tools(tmp_path: Path) -> None:
    trial = a_trial(tmp_path)
    stage_inputs(trial)
    assert list(trial.workspace_dir.iterdir()) == []
    write_tree(trial.task.path, {"tools/beam.py": "print(1)"})
    trial = a_trial(tmp_path)
    stage_inputs(trial)
    assert [path.name for path in trial.workspace_dir.iterdir()] == ["tools"]
    assert (trial.workspace_dir / "tools" / "beam.py").read_text() == "print(1)"


def test_the_workspace_for_stored_work_is_marked(tmp_path: Path) -> None:
    trial = a_trial(tmp_path, evaluates=a_record())
    stage_inputs(trial)
    assert [path.name for path in trial.workspace_dir.iterdir()] == [MARKER]


def test_a_trial_without_space_for_its_files_does_not_begin(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(LedgerError, match="jobs: cannot be written, File too large; "):
        stage_inputs(a_trial(tmp_path))


def test_an_agent_is_installed_in_the_image_unless_the_backend_has_programs(
    tmp_path: Path,
) -> None:
    trial = a_trial(tmp_path, '[environment]\ndocker_image = "base"\n')
    backend, home = Here(tmp_path), tmp_path / "home"
    home.mkdir()
    plain, installed = Doing(print), Doing(print, Installation("echo hello"))
    assert build_with_agent(trial, backend, "image", plain, home) == "image"
    dockerfile = build_with_agent(trial, backend, "image", installed, home)
    assert dockerfile.startswith("FROM base\n")
    assert "RUN echo " in dockerfile
    assert list(trial.timing) == ["build"]

    class WithUser(Here):
        def user_of(self, image: str) -> str:
            return f"user-of-{image}"

    class WithPrograms(Here):
        def find_program(self, name: str) -> None:
            return None

    dockerfile = build_with_agent(trial, WithUser(tmp_path), "image", installed, home)
    assert "USER user-of-image" in dockerfile
    assert build_with_agent(trial, WithPrograms(tmp_path), "image", installed, home) == "image"


def test_an_attempt_ends_as_the_agent_does_and_is_timed(tmp_path: Path) -> None:
    trial = a_trial(tmp_path)
    assert attempt(trial, a_sandbox(tmp_path)[1], Doing(bool)).stdout == "done"
    assert list(trial.timing) == ["agent"]
    stored = a_trial(tmp_path, evaluates=a_record())
    attempt(stored, a_sandbox(tmp_path)[1], Doing(bool))
    assert list(stored.timing) == ["launch"]


@pytest.mark.parametrize(
    ("harness", "follow", "shown"),
    [("it", None, True), ("it", print, True), ("tool_loop", None, True), ("direct", print, False)],
)
def test_commands_of_a_followed_model_agent_are_not_shown_twice(
    tmp_path: Path, harness: str, follow: Callable[[Entry], object] | None, shown: bool
) -> None:
    agent = AgentSpec("it", harness, "m" if harness != "it" else None)
    trial, (_, sandbox) = a_trial(tmp_path, agent=agent), a_sandbox(tmp_path)
    echo = sandbox.echo = Echo(trial.scrubber, print)
    seen: list[Echo | None] = []
    attempt(trial, sandbox, Doing(lambda sandbox: seen.append(sandbox.echo)), follow)
    assert seen == [echo if shown else None]
    assert sandbox.echo is echo


def test_an_agent_that_breaks_its_sandbox_has_failed(tmp_path: Path) -> None:
    trial, (_, sandbox) = a_trial(tmp_path), a_sandbox(tmp_path)
    result = attempt(trial, sandbox, Doing(raising(SandboxBroken("no shell"))))
    assert (result.status, result.end) == ("failed", "sandbox_broken")
    assert result.error == "agent broke its sandbox: no shell"


@pytest.mark.parametrize("calls", [0, 2])
def test_money_that_was_spent_before_an_error_is_kept(tmp_path: Path, calls: int) -> None:
    trial, (_, sandbox) = a_trial(tmp_path), a_sandbox(tmp_path)

    def spend_and_fail(sandbox: Sandbox) -> None:
        assert sandbox.context is not None
        sandbox.context.meter.calls = calls
        sandbox.context.meter.cost_usd = 0.25
        raise ProviderError("down")

    with pytest.raises(ProviderError, match="down"):
        attempt(trial, sandbox, Doing(spend_and_fail))
    spent = trial.agent_result and (trial.agent_result.status, trial.agent_result.cost_usd)
    assert spent == (("failed", 0.25) if calls else None)
    assert (trial.workspace_dir / "work").read_text() == "x"


def test_a_trajectory_is_written_for_viewers_if_it_has_entries(tmp_path: Path) -> None:
    def work(sandbox: Sandbox) -> None:
        assert sandbox.context is not None
        sandbox.context.trajectory.add("assistant", "thinking", turn=1)

    silent, talking = a_trial(tmp_path), a_trial(tmp_path)
    attempt(silent, a_sandbox(tmp_path)[1], Doing(bool))
    assert not silent.agent_dir.exists()
    attempt(talking, a_sandbox(tmp_path)[1], Doing(work))
    assert "thinking" in (talking.agent_dir / "trajectory.json").read_text()
    assert talking.warnings == []


def test_a_trajectory_that_cannot_be_written_for_viewers_is_a_warning(tmp_path: Path) -> None:
    def work(sandbox: Sandbox) -> None:
        assert sandbox.context is not None
        sandbox.context.trajectory.add("assistant", "thinking", turn=1)
        (trial.agent_dir / "trajectory.json").mkdir()

    trial = a_trial(tmp_path)
    assert attempt(trial, a_sandbox(tmp_path)[1], Doing(work)).stdout == "done"
    (warning,) = trial.warnings
    assert "trajectory.json: cannot be written, " in warning


@pytest.mark.parametrize(
    ("error", "trial", "raised", "in_doubt"),
    [
        (BackendLost("x"), {}, True, False),
        (LaunchError("x"), {}, True, False),
        (SandboxGone("x"), {}, True, True),
        (SandboxGone("x"), {"is_second_chance": True}, False, False),
        (SandboxGone("x"), {"is_rehearsal": True}, True, False),
        (SandboxGone("x"), {"evaluates": a_record()}, True, False),
        (SandboxBroken("x"), {}, False, False),
        (SandboxBroken("x"), {"is_second_chance": True}, False, False),
        (SandboxBroken("x"), {"is_rehearsal": True}, True, False),
        (BackendLost("x"), {"is_second_chance": True}, True, False),
    ],
)
def test_an_agent_is_blamed_for_its_sandbox_unless_the_backend_may_be_to_blame(
    tmp_path: Path, error: BackendError, trial: dict[str, Any], raised: bool, in_doubt: bool
) -> None:
    one = a_trial(tmp_path, **trial)
    with pytest.raises(type(error)) if raised else nullcontext(), attributed(one):
        raise error
    assert one.is_in_doubt is in_doubt
    assert one.broken == (None if raised else "agent broke its sandbox: x")


def test_the_first_way_in_which_a_sandbox_was_broken_is_told(tmp_path: Path) -> None:
    trial = a_trial(tmp_path, broken="agent filled its disk")
    with attributed(trial):
        raise SandboxBroken("x")
    assert trial.broken == "agent filled its disk"


@pytest.mark.parametrize(
    ("skipped", "whole"),
    [((), True), (("logs/pipe",), True), (("logs/pipe", "workspace/device"), False)],
)
def test_what_could_not_be_collected_is_said_and_work_that_is_not_whole_too(
    tmp_path: Path, skipped: tuple[str, ...], whole: bool
) -> None:
    trial, (_, sandbox) = a_trial(tmp_path), a_sandbox(tmp_path, skipped=skipped)
    stage_inputs(trial)
    (trial.workspace_dir / "before").touch()
    collect(trial, sandbox)
    assert [path.name for path in trial.workspace_dir.iterdir()] == ["work"]
    assert [path.name for path in trial.logs_dir.iterdir()] == ["log"]
    assert trial.warnings == [f"not collected: {name}" for name in skipped]
    assert trial.collected is whole


def test_work_that_found_no_space_is_an_error(tmp_path: Path) -> None:
    trial, (_, sandbox) = a_trial(tmp_path), a_sandbox(tmp_path)
    stage_inputs(trial)
    with full_disk(), pytest.raises(LedgerError, match="cannot be written, File too large"):
        collect(trial, sandbox)


def test_space_is_checked_where_the_directory_is_yet_to_be_made(tmp_path: Path) -> None:
    directory = tmp_path / "jobs" / "deep"
    check_space(directory)
    check_space(directory)
    with full_disk(), pytest.raises(LedgerError) as raised:
        check_space(directory)
    assert str(raised.value) == (
        f"{directory}: cannot be written, File too large; the trials' files need a directory "
        "that can be written and has space left"
    )
    assert list(directory.iterdir()) == []


def test_a_tree_is_replaced_by_a_copy_whose_links_are_links(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "new", {"a/b": "new"})
    (source / "link").symlink_to("a/b")
    target = write_tree(tmp_path / "old", {"a/c": "old"})
    replace_tree(source, target)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == [
        "a",
        "a/b",
        "link",
    ]
    assert (target / "link").is_symlink()
    replace_tree(source, tmp_path / "none")
    assert (tmp_path / "none" / "a" / "b").read_text() == "new"
    replace_tree(source, source)
    assert (source / "a" / "b").read_text() == "new"


def test_trouble_with_files_of_the_host_is_an_error_of_the_infrastructure(tmp_path: Path) -> None:
    with pytest.raises(TransferError) as raised, transferring(tmp_path / "x"):
        (tmp_path / "missing").read_text()
    assert str(raised.value) == f"{tmp_path / 'x'}: No such file or directory"
    with pytest.raises(TransferError, match=r"x: odd$"), transferring(tmp_path / "x"):
        raise OSError("odd")
    with full_disk(), pytest.raises(LedgerError), transferring(tmp_path / "x"):
        (tmp_path / "large").write_bytes(bytes(2000))


def test_what_there_is_is_collected_before_an_error_leads_to_teardown(tmp_path: Path) -> None:
    trial, (backend, sandbox) = a_trial(tmp_path, phase="agent"), a_sandbox(tmp_path)
    with pytest.raises(SandboxGone), evidence_kept(trial, sandbox):
        raise SandboxGone("x")
    assert (trial.workspace_dir / "work").read_text() == "x"
    assert (trial.phase, list(trial.timing)) == ("agent", ["collect"])
    backend.home = tmp_path / "gone"
    with pytest.raises(SandboxGone), evidence_kept(trial, sandbox):
        raise SandboxGone("x")
