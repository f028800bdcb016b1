"""`BackendConformance`: the contract of a backend as tests; subclass it and give it a backend.

::

    class TestMyBackend(BackendConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    ComputeBackend,
    Limits,
    TrialHandle,
)
from pytest_aecbench.errors import BackendError, BuildError, LaunchError, SandboxGone, TransferError

__all__ = ["BackendConformance", "RunningSandbox"]

# Each leaves a process behind that writes its number to $1.
_STRAYS = {
    "background": "(echo $BASHPID > $1; exec sleep 1000) &",
    "session": "setsid bash -c 'echo $$ > $1; exec sleep 1000' bash $1 &",
    "deaf": """bash -c 'trap "" HUP INT TERM; echo $$ > $1; while :; do sleep 1; done' bash $1 &""",
    "twice-forked": "(setsid bash -c 'echo $$ > $1; exec sleep 1000' bash $1 >/dev/null 2>&1 &)",
}
_GONE = (
    "for i in {1..200}; do kill -0 $(cat %s.pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
)


@dataclass(frozen=True)
class RunningSandbox:
    """One sandbox of a backend, with shorthands for tests."""

    backend: ComputeBackend
    handle: TrialHandle
    workspace_dir: Path

    def run(
        self,
        command: str,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_sec: float | None = 60,
        user: str | None = None,
        uploads: Mapping[str, Path] | None = None,
        exclusive: bool = False,
    ) -> BackendExecutionResult:
        """Run a command."""
        request = BackendExecutionRequest(
            command, env or {}, cwd, timeout_sec, user, uploads or {}, exclusive
        )
        return self.backend.execute_trial(handle=self.handle, request=request)

    def output(self, command: str, **options: Any) -> str:
        """Run a command that has to succeed; return its output."""
        result = self.run(command, **options)
        assert result.returncode == 0, result
        return result.stdout

    def collect(self) -> CollectedArtifacts:
        """Copy all files to the host."""
        return self.backend.collect_outputs(handle=self.handle)

    def teardown(self) -> None:
        """Remove the sandbox."""
        self.backend.teardown(handle=self.handle)


Launch = Callable[..., RunningSandbox]


def _start_strays() -> str:
    starts = [f"set -- {name}.pid; {command}" for name, command in _STRAYS.items()]
    waits = [f"until [ -s {name}.pid ]; do :; done" for name in _STRAYS]
    return "\n".join([*starts, *waits, "echo started"])


def _write(path: Path, content: str | bytes = "", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


class BackendConformance:
    """Tests that every backend passes; the flags say what a backend is not able to do.

    Override the fixture ``backend``, and ``task_dir`` if the image needs something else: it must
    have bash and the usual small tools, and its working directory must be ``/workspace``.
    """

    enforces_network = True
    runs_as_other_users = True

    @pytest.fixture
    def backend(self) -> ComputeBackend:
        """The backend under test."""
        raise NotImplementedError("override the fixture 'backend'")

    @pytest.fixture
    def task_dir(self, tmp_path: Path) -> Path:
        """The task whose environment the sandboxes use."""
        directory = tmp_path / "conformance"
        dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"
        _write(directory / "environment/Dockerfile", dockerfile)
        return directory

    @pytest.fixture
    def image_ref(self, backend: ComputeBackend, task_dir: Path) -> str:
        """The built environment."""
        return backend.build_environment(task_dir=task_dir)

    @pytest.fixture
    def launch(self, backend: ComputeBackend, image_ref: str, tmp_path: Path) -> Iterator[Launch]:
        """Start a sandbox on each call, with ``files`` in its workspace; all are removed."""
        sandboxes: list[RunningSandbox] = []

        def launch(files: Mapping[str, str] | None = None, **extra: Any) -> RunningSandbox:
            workspace_dir = tmp_path / f"trial-{len(sandboxes)}" / "workspace"
            workspace_dir.mkdir(parents=True)
            for name, content in (files or {}).items():
                _write(workspace_dir / name, content)
            handle = backend.launch_trial(image_ref=image_ref, workspace_dir=workspace_dir, **extra)
            sandboxes.append(RunningSandbox(backend, handle, workspace_dir))
            return sandboxes[-1]

        yield launch
        for sandbox in sandboxes:
            sandbox.teardown()

    @pytest.fixture
    def sandbox(self, launch: Launch) -> RunningSandbox:
        """A running sandbox."""
        return launch()

    # Images

    def test_an_image_is_named_by_its_content(
        self, backend: ComputeBackend, image_ref: str, task_dir: Path, tmp_path: Path
    ) -> None:
        assert backend.build_environment(task_dir=task_dir) == image_ref
        dockerfile = (task_dir / "environment/Dockerfile").read_text()
        _write(tmp_path / "environment/Dockerfile", f"{dockerfile}ENV OTHER=1\n")
        assert backend.build_environment(task_dir=tmp_path) != image_ref

    def test_a_malformed_dockerfile_is_a_build_error(
        self, backend: ComputeBackend, tmp_path: Path
    ) -> None:
        _write(tmp_path / "environment/Dockerfile", "FROM scratch\nCOPIE a b\n")
        with pytest.raises(BuildError, match="Dockerfile"):
            backend.build_environment(task_dir=tmp_path)

    def test_an_unknown_image_is_a_launch_error(
        self, backend: ComputeBackend, tmp_path: Path
    ) -> None:
        with pytest.raises(LaunchError, match="no-such-image"):
            backend.launch_trial(image_ref="no-such-image", workspace_dir=tmp_path)

    def test_a_missing_workspace_is_a_launch_error(
        self, backend: ComputeBackend, image_ref: str, tmp_path: Path
    ) -> None:
        with pytest.raises(LaunchError, match="none"):
            backend.launch_trial(image_ref=image_ref, workspace_dir=tmp_path / "none")

    # Sandboxes

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

    # Commands

    def test_streams_and_exit_code_are_kept_apart(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo out; echo err >&2; exit 7")
        assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 7)
        assert not result.timed_out
        assert not result.truncated
        assert 0 < result.duration_sec < 30

    def test_output_need_not_end_with_a_newline(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("printf out; printf err >&2")
        assert (result.stdout, result.stderr) == ("out", "err")
        assert sandbox.output("printf '\\n\\n'") == "\n\n"

    def test_a_missing_command_is_127(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("no-such-command-at-all")
        assert result.returncode == 127
        assert "no-such-command-at-all" in result.stderr

    def test_a_command_ended_by_a_signal_reads_as_in_a_shell(self, sandbox: RunningSandbox) -> None:
        assert sandbox.run("kill -TERM $$").returncode == 143

    def test_stdin_is_empty(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output("cat; echo end") == "end\n"

    def test_output_that_is_not_text_is_replaced(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output(r"printf 'a\xff\x00\xc3\xa9'") == "a\ufffd\0é"

    def test_variables_are_passed_as_they_are(self, sandbox: RunningSandbox) -> None:
        env = {"PLAIN": "1", "ODD": "a \"b\" 'c' $d \\ \n é", "EMPTY": ""}
        shown = sandbox.output('printf "%s|" "$PLAIN" "$ODD" "${EMPTY-unset}"', env=env)
        assert shown == f"1|{env['ODD']}||"
        assert sandbox.output("echo ${PLAIN-unset}") == "unset\n"

    def test_large_variables_are_passed(self, sandbox: RunningSandbox) -> None:
        env = {f"BIG{number}": "x" * 100_000 for number in range(5)}
        assert sandbox.output("echo ${#BIG0} ${#BIG4}", env=env) == "100000 100000\n"

    def test_what_no_process_can_be_given_is_a_backend_error(self, sandbox: RunningSandbox) -> None:
        with pytest.raises(BackendError, match="NUL"):
            sandbox.run("echo \0")
        with pytest.raises(BackendError, match="A=B"):
            sandbox.run("true", env={"A=B": "x"})
        assert sandbox.output("echo fine") == "fine\n"

    def test_long_commands_work(self, sandbox: RunningSandbox) -> None:
        assert sandbox.output(f"cat; echo {'x' * 300_000} | wc -c").strip() == "300001"

    def test_commands_are_bash_of_any_shape(self, sandbox: RunningSandbox) -> None:
        command = "a=(1 2)\ncat <<'END'\n$a \"é\" 'x'\nEND\necho ${a[1]} # end"
        assert sandbox.output(command) == "$a \"é\" 'x'\n2\n"
        assert sandbox.run("-c echo").returncode == 127
        assert sandbox.run("").returncode == 0

    def test_commands_start_in_the_workspace(self, launch: Launch) -> None:
        sandbox = launch({"here": ""})
        sandbox.output("cd /; true")
        assert sandbox.output("ls; touch new; ls /workspace") == "here\nhere\nnew\n"

    def test_the_working_directory_can_be_chosen(self, sandbox: RunningSandbox) -> None:
        sandbox.output("mkdir -p 'a b/c'; touch 'a b/c/here'")
        assert sandbox.output("ls", cwd="/workspace/a b/c") == "here\n"

    def test_a_missing_working_directory_is_a_failed_command(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo ran", cwd="/workspace/missing")
        assert result.returncode == 125
        assert result.stdout == ""
        assert "/workspace/missing" in result.stderr

    def test_commands_can_run_as_another_user(self, sandbox: RunningSandbox) -> None:
        if not self.runs_as_other_users:
            with pytest.raises(BackendError, match=r"^user: 'daemon'"):
                sandbox.run("true", user="daemon")
            return
        assert sandbox.output("id -un", user="nobody") == "nobody\n"
        assert sandbox.output("id -u; id -g", user="1234:99") == "1234\n99\n"
        sandbox.output("touch /logs/agent/x /logs/verifier/x", user="nobody")

    def test_an_unknown_user_is_a_backend_error(self, sandbox: RunningSandbox) -> None:
        with pytest.raises(BackendError, match="no-such-user"):
            sandbox.run("true", user="no-such-user")

    def test_long_output_is_cut_in_the_middle(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
        assert result.truncated
        assert len(result.stdout) < 5_000_000
        assert result.stdout.startswith("first\nxxx")
        assert result.stdout.endswith("xxx\nlast\n")

    def test_output_of_ordinary_length_is_whole(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("for i in {1..20000}; do echo line $i; done")
        assert result.stdout == "".join(f"line {number}\n" for number in range(1, 20_001))
        assert not result.truncated

    # Deadlines and processes

    def test_a_deadline_bounds_time_and_keeps_what_was_printed(
        self, sandbox: RunningSandbox
    ) -> None:
        started = time.monotonic()
        result = sandbox.run("echo out; echo err >&2; sleep 1000", timeout_sec=1.5)
        assert time.monotonic() - started < 15
        assert result.timed_out
        assert result.returncode is None
        assert (result.stdout, result.stderr) == ("out\n", "err\n")
        assert result.duration_sec >= 1.5

    def test_a_deadline_ends_everything_the_command_started(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run(f"{_start_strays()}; sleep 1000", timeout_sec=3)
        assert result.timed_out
        assert result.stdout == "started\n"
        for name in _STRAYS:
            sandbox.output(_GONE % name)

    def test_a_deadline_spares_what_earlier_commands_started(self, sandbox: RunningSandbox) -> None:
        sandbox.output(_start_strays())
        assert sandbox.run("sleep 1000", timeout_sec=0.5).timed_out
        sandbox.output("kill -0 $(cat session.pid) && kill -0 $(cat twice-forked.pid)")

    def test_a_command_that_prints_for_ever_is_ended(self, sandbox: RunningSandbox) -> None:
        result = sandbox.run("trap '' TERM; while :; do echo y; done", timeout_sec=1)
        assert result.timed_out
        assert result.stdout.startswith("y\ny\n")

    def test_what_a_command_leaves_running_lives_on(self, sandbox: RunningSandbox) -> None:
        started = time.monotonic()
        assert sandbox.output(_start_strays()) == "started\n"
        assert time.monotonic() - started < 15
        for name in _STRAYS:
            sandbox.output(f"kill -0 $(cat {name}.pid)")

    def test_what_is_left_running_can_go_on_printing(self, sandbox: RunningSandbox) -> None:
        sandbox.output("(for i in {1..30000}; do echo 0123456789; done; touch done) &")
        sandbox.output("until [ -e done ]; do :; done", timeout_sec=30)

    def test_an_exclusive_request_is_alone(self, sandbox: RunningSandbox) -> None:
        sandbox.output(_start_strays())
        assert sandbox.output("echo alone", exclusive=True) == "alone\n"
        for name in _STRAYS:
            sandbox.output(_GONE % name)

    def test_an_exclusive_request_ends_processes_that_multiply(
        self, sandbox: RunningSandbox
    ) -> None:
        multiply = "grow() { for i in {1..2}; do (sleep 0.2; grow) & done; wait; }; grow"
        storm = f"(ulimit -u 300; {multiply}) >/dev/null 2>&1 &\necho $! > storm.pid"
        sandbox.output(storm)
        assert sandbox.output("echo alone", exclusive=True) == "alone\n"
        sandbox.output(_GONE % "storm")

    # Files in

    def test_an_uploaded_directory_replaces_what_was_there(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        _write(tmp_path / "up/test.sh", "cat /tests/data/a\n", 0o755)
        _write(tmp_path / "up/data/a", "A")
        sandbox.output(
            "mkdir -p /tests/old/deep; touch /tests/old/deep/x /tests/test.sh /tests/.hidden;"
            "ln -s /etc /tests/data; chmod 555 /tests/old/deep"
        )
        uploads = {"/tests": tmp_path / "up"}
        shown = sandbox.output("bash /tests/test.sh; ls -A /tests", uploads=uploads, exclusive=True)
        assert shown == "Adata\ntest.sh\n"

    def test_an_uploaded_empty_directory_empties_its_target(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        (tmp_path / "empty").mkdir()
        sandbox.output("echo 1 > /logs/verifier/reward.txt")
        uploads = {"/logs/verifier": tmp_path / "empty"}
        assert sandbox.output("ls -A /logs/verifier", uploads=uploads) == ""

    def test_a_file_is_uploaded_into_a_directory_that_is_uploaded_before_it(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        _write(tmp_path / "up/own", "own ")
        _write(tmp_path / "up/both", "from the directory")
        (tmp_path / "up").chmod(0o555)
        added = _write(tmp_path / "added", "added ")
        sandbox.output("mkdir -p /tests/both; ln -s /etc/passwd /tests/new; touch /tests/old")
        uploads = {"/tests": tmp_path / "up", "/tests/both": added, "/tests/new": added}
        shown = sandbox.output("cat /tests/*; ls /tests", uploads=uploads, exclusive=True)
        (tmp_path / "up").chmod(0o755)
        assert shown == "added added own both\nnew\nown\n"

    def test_an_uploaded_file_replaces_what_was_there(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        source = _write(tmp_path / "source", "new")
        targets = {
            "/workspace/plain": "echo old > plain",
            "/workspace/read-only": "touch read-only; chmod 000 read-only",
            "/workspace/full": "mkdir -p full/sub; touch full/sub/x",
            "/workspace/link": "ln -s plain link",
            "/workspace/new/and/deep": "true",
            "/logs/agent/x": "rm -rf /logs/agent",
        }
        sandbox.output("; ".join(targets.values()))
        shown = sandbox.output(f"cat {' '.join(targets)}", uploads=dict.fromkeys(targets, source))
        assert shown == "new" * len(targets)
        assert sandbox.run("[ -L link ]").returncode == 1

    def test_an_upload_does_not_follow_planted_links(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        source = _write(tmp_path / "up/x", "new").parent
        sandbox.output(
            "mkdir outside; ln -s /workspace/outside /workspace/d;"
            "rm -rf /logs/verifier; ln -s /workspace/outside /logs/verifier"
        )
        uploads = {"/workspace/d/sub": source, "/logs/verifier": source}
        shown = sandbox.output("cat d/sub/x /logs/verifier/x; ls -A outside", uploads=uploads)
        assert shown == "newnew"

    def test_uploads_keep_modes_and_bytes(self, sandbox: RunningSandbox, tmp_path: Path) -> None:
        data = bytes(range(256)) * 5_000
        _write(tmp_path / "up/run.sh", "#!/bin/bash\necho ran\n", 0o755)
        _write(tmp_path / "up/binary", data)
        uploads = {"/solution": tmp_path / "up"}
        shown = sandbox.output("/solution/run.sh; sha256sum /solution/binary", uploads=uploads)
        assert shown.split()[:2] == ["ran", hashlib.sha256(data).hexdigest()]

    def test_an_upload_of_what_is_not_there_is_a_transfer_error(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        for target in ("/tests", "/workspace/x"):
            with pytest.raises(TransferError, match="none"):
                sandbox.run("true", uploads={target: tmp_path / "none"})
        with pytest.raises(BackendError, match=r"^sandbox path: 'x' is not absolute"):
            sandbox.run("true", uploads={"x": tmp_path})

    # Files out

    def test_the_workspace_and_the_logs_are_collected(self, launch: Launch) -> None:
        sandbox = launch({"given": "g", "removed": "r"})
        sandbox.output("rm removed; mkdir -p sub; echo made > sub/made; echo 1 > /logs/verifier/r")
        artifacts = sandbox.collect()
        assert artifacts.skipped == ()
        names = {path.relative_to(artifacts.workspace).as_posix() for path in _below(artifacts)}
        assert names == {"given", "sub", "sub/made"}
        assert (artifacts.workspace / "sub/made").read_text() == "made\n"
        assert (artifacts.logs / "verifier/r").read_text() == "1\n"

    def test_what_comes_back_is_what_was_sent_byte_for_byte(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        data = os.urandom(3_000_000)
        source = _write(tmp_path / "source", data)
        sandbox.output("true", uploads={"/workspace/data": source})
        assert (sandbox.collect().workspace / "data").read_bytes() == data

    def test_odd_names_go_in_and_come_out(self, sandbox: RunningSandbox, tmp_path: Path) -> None:
        names = ["a b", "é", "new\nline", "-dash", "'quote\"", "x" * 200]
        for name in names:
            _write(tmp_path / "up" / name, name)
        sandbox.output("true", uploads={"/workspace/odd": tmp_path / "up"})
        found = sandbox.collect().workspace / "odd"
        assert {path.name: path.read_text() for path in found.iterdir()} == {
            name: name for name in names
        }

    def test_only_what_is_safe_to_read_is_collected(self, sandbox: RunningSandbox) -> None:
        sandbox.output(
            "mkdir -p sub/deep; echo x > sub/file; ln -s file sub/inside; ln sub/file hard;"
            "mkfifo sub/fifo; ln -s /etc/passwd absolute; ln -s ../../outside sub/outside;"
            "mkfifo /logs/agent/fifo"
        )
        artifacts = sandbox.collect()
        assert sorted(artifacts.skipped) == [
            "logs/agent/fifo (FIFO)",
            "workspace/absolute (absolute link)",
            "workspace/sub/fifo (FIFO)",
            "workspace/sub/outside (link that leads outside)",
        ]
        kept = {path.relative_to(artifacts.workspace).as_posix() for path in _below(artifacts)}
        assert kept == {"hard", "sub", "sub/deep", "sub/file", "sub/inside"}
        assert (artifacts.workspace / "hard").read_text() == "x\n"

    def test_what_was_locked_is_collected(self, sandbox: RunningSandbox) -> None:
        sandbox.output(
            "mkdir -p locked/inner; echo x > locked/inner/x; chmod 000 locked/inner/x locked/inner"
        )
        assert (sandbox.collect().workspace / "locked/inner/x").read_text() == "x\n"

    def test_a_removed_workspace_is_collected_as_an_empty_one(self, launch: Launch) -> None:
        sandbox = launch({"given": "x"})
        sandbox.output("cd /; rm -rf /workspace/* /workspace /logs/agent; true")
        assert list(sandbox.collect().workspace.iterdir()) == []
        shown = sandbox.output("touch /workspace/x; ls; touch /logs/verifier/r", exclusive=True)
        assert shown == "x\n"

    def test_what_can_be_collected_can_be_collected_again(self, sandbox: RunningSandbox) -> None:
        sandbox.output("echo 1 > x")
        assert (sandbox.collect().workspace / "x").read_text() == "1\n"
        sandbox.output("echo 2 > x")
        assert (sandbox.collect().workspace / "x").read_text() == "2\n"

    # Limits

    def test_without_network_there_is_only_the_loopback(
        self, backend: ComputeBackend, launch: Launch
    ) -> None:
        if not self.enforces_network:
            assert "network" in getattr(backend, "describe", str)(), "not even said"
            return
        sandbox = launch(limits=Limits(network=False))
        away = sandbox.run("timeout 10 bash -c 'exec 3<>/dev/tcp/192.0.2.1/9'")
        assert "unreachable" in away.stderr
        here = sandbox.run("exec 3<>/dev/tcp/127.0.0.1/9")
        assert "refused" in here.stderr

    # The end

    def test_teardown_can_be_repeated(self, backend: ComputeBackend, launch: Launch) -> None:
        sandbox = launch()
        name = sandbox.handle.backend_name
        sandbox.output(_start_strays())
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


def _below(artifacts: CollectedArtifacts) -> list[Path]:
    return list(artifacts.workspace.rglob("*"))
