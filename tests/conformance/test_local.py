"""The local backend keeps its contract, in each way that it can make sandboxes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import resource
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from pytest_aecbench.backends import BackendExecutionRequest, Limits, TrialHandle
from pytest_aecbench.backends.local import LocalBackend, init
from pytest_aecbench.backends.local.layout import HeldDirectories, Layout
from pytest_aecbench.backends.shared.paths import WORKSPACE
from pytest_aecbench.errors import (
    BackendError,
    BuildError,
    LaunchError,
    SandboxGone,
    SettingsError,
    TransferError,
)
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import Owner
from tests.conformance.boxes import (
    NOBODY,
    AnyBackend,
    Box,
    Workshop,
    in_namespaces,
    make_backend,
)
from tests.conformance.driving import DrivenBackend, eight_at_once
from tests.stopping import wait_until

with_overlay = pytest.mark.parametrize("mode", ["root"], indirect=True)
without_overlay = pytest.mark.parametrize("mode", ["no-overlay", "rootless"], indirect=True)
in_rewriting = pytest.mark.parametrize("mode", ["rewriting"], indirect=True)

# A stray holds its lock for as long as any process that inherited descriptor 9 is alive.
HOLD = "exec 9>/workspace/{0}.lock; flock 9; touch /workspace/{0}.held; sleep 1000; sleep 1000"
STRAYS = {
    "background": "({hold}) &",
    "session": "setsid bash -c '{hold}' &",
    "deaf": "bash -c 'trap \"\" HUP INT TERM; {hold}' &",
    "twice-forked": "(setsid bash -c '{hold}' >/dev/null 2>&1 &)",
    "without-environment": "(env -i setsid /bin/bash -c '{hold}' &)",
}

DEEP_TREE = "python3 -c \"import os; [(os.mkdir('deep'), os.chdir('deep')) for _ in range(1500)]\""


@pytest.fixture
def driven(mode: str, directory: Path) -> Iterator[Workshop]:
    """A workshop whose backend is in a process of its own, with a secret in its environment."""
    backend = make_backend(mode, env={"SECRET_TOKEN": "sk-0123456789"})
    assert isinstance(backend, DrivenBackend)
    yield Workshop(mode, backend, directory)
    backend.close()


def strays_for(mode: str) -> list[str]:
    """Without a pid namespace, a daemon that sheds its environment cannot be told from others."""
    return [name for name in STRAYS if mode != "rewriting" or name != "without-environment"]


def start(names: Sequence[str]) -> str:
    """Return a command that starts strays and goes on once each holds its lock."""
    commands = [STRAYS[name].format(hold=HOLD.format(name)) for name in names]
    held = [f"until [ -e /workspace/{name}.held ]; do :; done" for name in names]
    return "\n".join([*commands, *held, "echo started"])


def alive(box: Box, names: Sequence[str]) -> list[str]:
    """Return which strays still hold their locks."""
    found = []
    for name in names:
        with (box.workspace_dir / f"{name}.lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(name)
    return found


def processes_of(box: Box) -> set[int]:
    """Return the processes on this machine that have the sandbox's name in line or environment."""
    name = box.handle.handle_id.encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            shown = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if name in shown:
            found.add(int(path.name))
    return found


def first_process_of(box: Box) -> int:
    """Return the number on the host of the process that is number 1 in the sandbox."""
    (found,) = (
        pid
        for pid in processes_of(box)
        if (Path(f"/proc/{pid}/status").read_text().partition("NSpid:")[2].split("\n")[0].split())[
            -1
        ]
        == "1"
    )
    return found


# What a sandbox is


def test_a_sandbox_has_its_own_directories(box: Box) -> None:
    command = "for d in /workspace /tests /logs/agent /logs/verifier /solution; do touch $d/x; done"
    assert box.run(command).returncode == 0
    assert (box.workspace_dir / "x").exists()
    assert (box.collect().logs / "verifier/x").exists()


def test_two_sandboxes_do_not_see_each_others_files(workshop: Workshop) -> None:
    one, other = workshop.launch(), workshop.launch()
    one.output("touch /tests/mine /logs/mine /solution/mine /workspace/mine")
    listing = "ls -A /tests /logs /solution /workspace"
    assert one.output(listing).count("mine") == 4
    assert other.output(listing).count("mine") == 0


def test_the_workspace_directory_is_the_workspace(workshop: Workshop) -> None:
    workshop.make_workspace()
    workshop.write("workspace-0/given", "from the host")
    box = workshop.launch()
    assert box.output("cat given; echo made > made") == "from the host"
    assert (box.workspace_dir / "made").read_text() == "made\n"
    assert box.collect().workspace == box.workspace_dir


@pytest.mark.parametrize("workdir", ["/app", "/usr/src/app", "/home/agent/project", "/tmp/app"])
def test_the_working_directory_and_the_workspace_are_one(workshop: Workshop, workdir: str) -> None:
    box = workshop.launch(workshop.task(f"FROM x\nWORKDIR {workdir}\n"))
    box.output("echo one > here")
    assert box.output(f"cat {workdir}/here /workspace/here") == "one\none\n"
    box.output("echo two > /workspace/there")
    assert box.output("cat there; ls /usr/bin/env") == "two\n/usr/bin/env\n"
    assert (box.workspace_dir / "there").exists()


def test_a_working_directory_below_the_workspace_is_a_plain_directory(workshop: Workshop) -> None:
    box = workshop.launch(workshop.task("FROM x\nWORKDIR /workspace/repo\n"))
    box.output("touch here")
    assert (box.workspace_dir / "repo/here").exists()


@pytest.mark.parametrize("workdir", ["/", "/usr", "/etc/app", "/root"])
def test_a_system_directory_does_not_become_the_workspace(workshop: Workshop, workdir: str) -> None:
    box = workshop.launch(workshop.task(f"FROM x\nWORKDIR {workdir}\n"))
    box.output("touch here; ls /usr/bin/env")
    assert (box.workspace_dir / "here").exists()
    notes = workshop.backend.notes(box.image_ref)
    assert notes == (f"WORKDIR {workdir}: /workspace is used instead",)


def test_what_the_dockerfile_copies_is_staged(workshop: Workshop) -> None:
    dockerfile = """FROM python:3.12
        RUN pip install numpy
        COPY data /workspace/data
        COPY --chmod=755 run /workspace/
        COPY run /opt/run
        COPY --from=builder /x /workspace/x
        COPY given /workspace/given
    """
    run = "#!/bin/bash\ncat /workspace/data/sub/b\n"
    files = {"data__a": "A", "data__sub__b": "B", "run": run, "given": "the image's"}
    workshop.make_workspace()
    workshop.write("workspace-0/given", "the workspace's own")
    box = workshop.launch(workshop.task(dockerfile, **files))
    assert box.output("./run") == "B"
    assert box.output("cat data/a given") == "Athe workspace's own"
    assert workshop.backend.notes(box.image_ref) == (
        "environment/Dockerfile:2: RUN pip install numpy: not executed",
        "environment/Dockerfile:6: COPY --from=builder /x /workspace/x: left out (--from)",
        (
            "environment/Dockerfile:5: COPY run /opt/run: left out"
            " (not below /logs, /solution, /tests, /workspace)"
        ),
    )


def test_a_malformed_dockerfile_is_one_line(workshop: Workshop) -> None:
    with pytest.raises(BuildError) as caught:
        workshop.launch(workshop.task("FROM x\nCOPIE a b\n"))
    assert str(caught.value).startswith("environment/Dockerfile:2: unknown instruction 'COPIE'; ")
    assert "\n" not in str(caught.value)


def test_an_image_is_named_by_its_content(workshop: Workshop) -> None:
    def reference(content: str) -> object:
        task_dir = workshop.task("FROM x\nCOPY . .\n", data=content)
        return workshop.backend.build_environment(task_dir=task_dir)

    first = reference("1")
    assert str(first).startswith("local:sha256-")
    assert reference("2") != first
    assert reference("1") == first


def test_only_what_was_built_can_be_launched(workshop: Workshop) -> None:
    with pytest.raises(LaunchError, match=r"^local: image 'x' does not exist; use the reference "):
        workshop.backend.launch_trial(image_ref="x", workspace_dir=workshop.make_workspace())
    image_ref = workshop.backend.build_environment(task_dir=workshop.task())
    with pytest.raises(LaunchError, match=r"^local: workspace_dir '.*/none' is not a directory$"):
        workshop.backend.launch_trial(
            image_ref=image_ref, workspace_dir=workshop.directory / "none"
        )


@with_overlay
def test_a_sandbox_that_cannot_be_set_up_is_one_line(mode: str, directory: Path) -> None:
    block = 'mount -t tmpfs block /srv && touch /srv/file && exec "$@"'
    temporary = directory / "tmp"
    temporary.mkdir()
    backend = make_backend(
        mode,
        prefix=("unshare", "--mount", "bash", "-c", block, "block"),
        env={"TMPDIR": str(temporary)},
    )
    workshop = Workshop(mode, backend, directory)
    with pytest.raises(LaunchError) as caught:
        workshop.launch(workshop.task("FROM x\nWORKDIR /srv/file/below\n"))
    assert str(caught.value).startswith("local: no sandbox could be started; ")
    assert str(caught.value).endswith(f"cannot mount {directory}/workspace-0")
    assert "\n" not in str(caught.value)
    assert list(temporary.glob("aecbench-*/homes/*")) == []
    assert isinstance(backend, DrivenBackend)
    backend.close()


# What a command gets


def test_streams_and_exit_code_are_kept_apart(box: Box) -> None:
    result = box.run("echo out; echo err >&2; exit 7")
    assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", 7)
    assert not result.timed_out
    assert not result.truncated
    assert 0 < result.duration_sec < 10


def test_output_that_is_not_text_is_replaced(box: Box) -> None:
    assert box.output(r"printf 'a\xff\x00\xc3\xa9'") == "a\ufffd\0é"


def test_a_command_ended_by_a_signal_reads_as_in_a_shell(box: Box) -> None:
    assert box.run("kill -KILL $$").returncode == 137


def test_stdin_is_empty(box: Box) -> None:
    assert box.output("cat; readlink /proc/self/fd/0") == "/dev/null\n"


def test_no_descriptor_of_the_host_gets_in(box: Box) -> None:
    assert box.run("for n in {3..99}; do [ -e /proc/$$/fd/$n ] && echo $n; done").stdout == ""


def test_the_environment_is_clean(driven: Workshop) -> None:
    dockerfile = "FROM x\nENV LEVEL=image KEPT=image PATH=/opt/x:$PATH\n"
    box = driven.launch(driven.task(dockerfile))
    lines = box.output("env", env={"LEVEL": "request"}).splitlines()
    env = {name: value for name, _, value in (line.partition("=") for line in lines)}
    own = {"AECBENCH_COMMAND", "HOME", "KEPT", "LANG", "LEVEL", "PATH", "TMPDIR"}
    assert env.keys() <= own | {"PWD", "SHLVL", "_"}
    assert (env["LANG"], env["LEVEL"], env["KEPT"]) == ("C.UTF-8", "request", "image")
    assert isinstance(driven.backend, DrivenBackend)
    assert env["PATH"].split(":")[:2] == ["/opt/x", driven.backend.interpreter_directory()]
    box.output("touch $HOME/x")
    box.teardown()


@in_namespaces
def test_no_environment_of_the_host_can_be_read(driven: Workshop) -> None:
    box = driven.launch()
    shown = box.run("cat /proc/*/environ").stdout
    assert "LANG=C.UTF-8" in shown
    assert "sk-0123456789" not in shown
    box.teardown()


def test_the_working_directory_can_be_chosen(box: Box) -> None:
    box.output("mkdir -p a/b; touch a/b/here")
    assert box.output("ls", cwd="/workspace/a/b") == "here\n"
    missing = box.run("ls", cwd="/workspace/missing")
    assert missing.returncode == 125
    assert "/workspace/missing" in missing.stderr
    with pytest.raises(BackendError, match=r"^cwd: 'a/b' is not absolute; start it with '/'$"):
        box.run("ls", cwd="a/b")


def test_long_commands_work(box: Box) -> None:
    assert box.output(f"cat; echo {'x' * 300_000} | wc -c") == "300001\n"


def test_a_command_may_start_with_a_dash(box: Box) -> None:
    assert box.run("-c echo").returncode == 127


def test_what_no_process_can_be_given_is_one_line(box: Box) -> None:
    with pytest.raises(BackendError, match=r"^env: 'BIG' takes 200004 bytes; the most is \d+$"):
        box.run("true", env={"BIG": "x" * 200_000})
    with pytest.raises(BackendError, match=r"^command: cannot be started; Argument list too long$"):
        box.run("true", env={f"V{number}": "x" * 100_000 for number in range(40)})
    with pytest.raises(BackendError, match=r"^command: contains a NUL character; remove it$"):
        box.run("echo \0")
    with pytest.raises(BackendError, match=r"^env: 'A=B' is not valid; names have no '='"):
        box.run("true", env={"A=B": "x"})


@with_overlay
def test_root_may_run_commands_as_another_user(box: Box) -> None:
    shown = box.output("id -u; id -g; id -G; echo $HOME; touch /workspace/x", user="nobody")
    assert shown == f"{NOBODY}\n{NOBODY}\n{NOBODY}\n/tmp\n"
    assert (box.workspace_dir / "x").stat().st_uid == NOBODY
    assert box.output("id -u; id -g", user="1234:99") == "1234\n99\n"
    assert box.output("grep CapEff /proc/self/status", user="1234").split()[1] == "0" * 16


@pytest.mark.parametrize("mode", ["rootless", "rewriting"], indirect=True)
def test_others_may_not_run_commands_as_another_user(box: Box) -> None:
    with pytest.raises(BackendError, match=r"^user: 'daemon' is not available [^\n]*; use [^\n]+$"):
        box.run("true", user="daemon")


@in_namespaces
def test_everyone_is_root_in_the_sandbox(box: Box) -> None:
    assert box.output("id -u") == "0\n"
    assert box.output("id -u", user="root") == "0\n"


def test_an_unknown_user_is_one_line(box: Box) -> None:
    with pytest.raises(BackendError, match=r"^user: 'no-such-user' is not known on this host$"):
        box.run("true", user="no-such-user")


# Deadlines, processes, output


def test_a_deadline_ends_everything_the_command_started(mode: str, box: Box) -> None:
    names = strays_for(mode)
    result = box.run(f"{start(names)}; echo now; sleep 1000", timeout_sec=2)
    assert result.timed_out
    assert result.returncode is None
    assert result.stdout == "started\nnow\n"
    assert 2 <= result.duration_sec < 3
    assert alive(box, names) == []


def test_a_deadline_spares_what_earlier_commands_started(box: Box) -> None:
    box.output(start(["session", "twice-forked"]))
    assert box.run("sleep 1000", timeout_sec=0.3).timed_out
    assert alive(box, ["session", "twice-forked"]) == ["session", "twice-forked"]


def test_a_command_that_exits_is_not_held_up_by_what_it_leaves(mode: str, box: Box) -> None:
    names = strays_for(mode)
    started = time.monotonic()
    assert box.output(start(names)) == "started\n"
    assert time.monotonic() - started < 5
    assert alive(box, names) == names


def test_what_is_left_running_can_go_on_printing(box: Box) -> None:
    box.output("(for i in {1..30000}; do echo 0123456789; done; touch done) &")
    box.output("until [ -e done ]; do :; done", timeout_sec=20)


def test_an_exclusive_request_is_alone(mode: str, box: Box) -> None:
    names = strays_for(mode)
    box.output(start(names))
    assert box.output("echo alone", exclusive=True) == "alone\n"
    assert alive(box, names) == []


def test_teardown_ends_everything(mode: str, box: Box) -> None:
    names = strays_for(mode)
    box.output(start(names))
    box.teardown()
    assert alive(box, names) == []


@with_overlay
def test_a_sandbox_that_does_not_end_by_itself_has_ended_after_its_teardown(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "_STOP_SEC", 0.01)
    for _ in range(10):
        box = workshop.launch()
        box.output("for _ in {1..20}; do sleep 1000 </dev/null >/dev/null 2>&1 & done; echo")
        os.kill(first_process_of(box), signal.SIGSTOP)
        box.teardown()
        assert processes_of(box) == set()


def test_long_output_is_cut_in_the_middle(box: Box) -> None:
    result = box.run("echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert result.truncated
    assert result.stdout.startswith("first\nxxx")
    assert result.stdout.endswith("xxx\nlast\n")
    assert f"\n[{5_000_012 - 1024 * 1024} bytes left out]\n" in result.stdout
    assert not box.run("echo short").truncated


@in_namespaces
def test_a_sandbox_sees_only_its_own_processes(box: Box) -> None:
    names = box.output("cd /proc; echo [0-9]*").split()
    assert "1" in names
    assert len(names) <= 3 < len(list(Path("/proc").glob("[0-9]*")))


@in_namespaces
def test_no_signal_from_inside_ends_the_first_process(box: Box) -> None:
    box.run("for s in {1..64}; do kill -$s 1; done")
    assert box.output("echo alive") == "alive\n"


@in_namespaces
def test_orphans_are_reaped(box: Box) -> None:
    box.output("for i in {1..20}; do (setsid true &); done")
    box.output("while grep -sq '^State:.Z' /proc/[0-9]*/status; do :; done", timeout_sec=10)


@in_namespaces
def test_a_sandbox_whose_first_process_died_is_gone(box: Box) -> None:
    box.output("echo kept > x; echo kept > /logs/x")
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(box.run, "touch running; sleep 1000")
        while not (box.workspace_dir / "running").exists():
            pass
        os.kill(first_process_of(box), signal.SIGKILL)
        with pytest.raises(SandboxGone, match=r"^local: the sandbox has died; "):
            running.result()
    with pytest.raises(SandboxGone):
        box.run("true")
    with pytest.raises(SandboxGone):
        box.run("true", exclusive=True)
    artifacts = box.collect()
    assert (artifacts.workspace / "x").exists()
    assert (artifacts.logs / "x").exists()
    box.teardown()
    assert not artifacts.logs.exists()


def test_killing_the_process_that_holds_a_sandbox_leaves_nothing_of_it(driven: Workshop) -> None:
    assert isinstance(driven.backend, DrivenBackend)
    box = driven.launch()
    box.output("mkdir -p /tests/a/b; touch /tests/a/b/c /tmp/x; chmod 000 /tests/a/b")
    home = box.home()
    assert home.exists()
    box.output(start(["background", "session", "twice-forked"]))
    running = processes_of(box)
    assert len(running) >= 6
    descriptors = [os.pidfd_open(pid) for pid in running]
    driven.backend.process.kill()
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 10)[0]
        os.close(descriptor)
    assert processes_of(box) == set()
    assert not home.exists()
    assert box.workspace_dir.exists()


# Uploads


def test_an_uploaded_directory_replaces_what_was_there(workshop: Workshop, box: Box) -> None:
    workshop.write("up/test.sh", "cat /tests/data/a\n", 0o755)
    workshop.write("up/data/a", "A")
    box.output(
        "mkdir -p /tests/old/deep; touch /tests/old/deep/x /tests/test.sh /tests/read-only;"
        "ln -s /etc /tests/data; chmod 444 /tests/read-only; chmod 555 /tests/old/deep /tests"
    )
    uploads = {"/tests": workshop.directory / "up"}
    assert box.output("bash /tests/test.sh; ls -A /tests", uploads=uploads) == "Adata\ntest.sh\n"


def test_an_uploaded_file_replaces_what_was_there(workshop: Workshop, box: Box) -> None:
    source = workshop.write("source", "new")
    targets = {
        "/workspace/plain": "echo old > plain",
        "/workspace/read-only": "touch read-only; chmod 000 read-only",
        "/workspace/full": "mkdir -p full/sub; touch full/sub/x; chmod 555 full full/sub",
        "/workspace/link": "ln -s plain link",
        "/workspace/new/and/deep": "true",
        "/workspace/locked/x": "mkdir locked; touch locked/x; chmod 000 locked",
        "/logs/agent/x": "rm -rf /logs/agent",
    }
    box.output("; ".join(targets.values()))
    shown = box.output(f"cat {' '.join(targets)}", uploads=dict.fromkeys(targets, source))
    assert shown == "new" * len(targets)
    assert not (box.workspace_dir / "link").is_symlink()


def test_an_upload_clears_even_a_very_deep_tree(workshop: Workshop, box: Box) -> None:
    workshop.write("up/x", "new")
    box.output(DEEP_TREE, cwd="/tests")
    uploads = {"/tests": workshop.directory / "up"}
    assert box.output("ls /tests", uploads=uploads) == "x\n"


def test_uploads_keep_modes_and_bytes(workshop: Workshop, box: Box) -> None:
    data = bytes(range(256)) + b" /tests/x "
    workshop.write("up/run.sh", "#!/bin/bash\necho ran\n", 0o755)
    workshop.write("up/binary", data)
    uploads = {"/solution": workshop.directory / "up"}
    shown = box.output("/solution/run.sh; sha256sum /solution/binary", uploads=uploads)
    assert shown.split()[:2] == ["ran", hashlib.sha256(data).hexdigest()]


@pytest.mark.parametrize("link", ["absolute", "relative"])
def test_an_upload_never_follows_a_planted_link(workshop: Workshop, box: Box, link: str) -> None:
    outside = workshop.directory / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    target = str(outside) if link == "absolute" else "../outside"
    box.output(f"ln -s {target} /workspace/d; mkdir e; ln -s {target}/file e/file")
    source = workshop.write("source", "new")
    box.output(
        "cat d/x d/y/z e/file",
        uploads={"/workspace/d/x": source, "/workspace/d/y/z": source, "/workspace/e/file": source},
    )
    assert list(outside.iterdir()) == []
    assert (box.workspace_dir / "d/y/z").read_text() == "new"


def test_an_upload_never_follows_a_link_planted_meanwhile(workshop: Workshop, box: Box) -> None:
    outside = workshop.directory / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    source = workshop.write("up/a/b", "new").parents[1]
    swap = "rm -rf d; mkdir d; rm -rf d; ln -s ../outside d; rm -rf d/sub; ln -s ../outside d/sub"
    box.output(f"(while :; do {swap}; done) >/dev/null 2>&1 &")
    for _ in range(100):
        with suppress(TransferError):  # they may well get in each other's way
            box.run("true", uploads={"/workspace/d/sub": source, "/workspace/d/x": source / "a/b"})
    box.output("true", exclusive=True)
    assert not {path.name for path in outside.rglob("*")} & {"a", "b", "x"}


@in_rewriting
def test_an_upload_replaces_a_link_in_place_of_a_directory(workshop: Workshop, box: Box) -> None:
    outside = workshop.directory / "outside"
    outside.mkdir()
    workshop.write("up/x", "new")
    box.output(f"rm -rf /tests; ln -s {outside} /tests")
    assert box.output("cat /tests/x", uploads={"/tests": workshop.directory / "up"}) == "new"
    assert list(outside.iterdir()) == []


@in_namespaces
def test_an_upload_may_go_anywhere_that_can_be_written(workshop: Workshop, box: Box) -> None:
    workshop.write("up/run.sh", "#!/bin/bash\necho ran\n", 0o755)
    tools, file = f"/tmp/tools-{os.getpid()}", f"/tmp/file-{os.getpid()}"
    box.output(f"mkdir -p {tools}/old; ln -s /etc/passwd {file}")
    uploads = {tools: workshop.directory / "up", file: workshop.directory / "up/run.sh"}
    shown = box.output(f"{tools}/run.sh; bash {file}; ls {tools}", uploads=uploads)
    assert shown == "ran\nran\nrun.sh\n"
    assert not Path(tools).exists()


@with_overlay
def test_root_may_upload_to_what_belongs_to_the_host(workshop: Workshop, box: Box) -> None:
    source = workshop.write("source", "new")
    assert box.output("cat /opt/aec/x", uploads={"/opt/aec/x": source}) == "new"
    assert not Path("/opt/aec").exists()


@pytest.mark.parametrize("mode", ["no-overlay", "rootless", "rewriting"], indirect=True)
def test_an_upload_to_what_belongs_to_the_host_is_one_line(workshop: Workshop, box: Box) -> None:
    source = workshop.write("source", "new")
    with pytest.raises(TransferError, match=r"^[^\n]*/opt/aec/x[^\n]*; [^\n]+$"):
        box.run("true", uploads={"/opt/aec/x": source})


def test_an_upload_of_what_is_not_there_is_one_line(workshop: Workshop, box: Box) -> None:
    for target in ("/tests", "/workspace/x"):
        with pytest.raises(
            TransferError, match=r"^[^\n]*/none: [^\n]+; No such file or directory$"
        ):
            box.run("true", uploads={target: workshop.directory / "none"})
    with pytest.raises(
        BackendError, match=r"^sandbox path: 'x' is not absolute; start it with '/'$"
    ):
        box.run("true", uploads={"x": workshop.write("source")})


# Collecting and removing


def test_only_what_is_safe_to_read_is_collected(box: Box) -> None:
    box.output(
        "mkdir -p sub/deep; echo x > sub/file; ln -s file sub/inside; ln -s sub/deep within;"
        "mkfifo sub/fifo; ln -s /etc/passwd absolute; ln -s ../../outside sub/outside;"
        "ln -s sub/../../x through; ln -s through twice; mkfifo /logs/agent/fifo;"
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'"
    )
    artifacts = box.collect()
    assert artifacts.skipped == (
        "workspace/absolute (absolute link)",
        "workspace/socket (socket)",
        "workspace/sub/fifo (FIFO)",
        "workspace/sub/outside (link that leads outside)",
        "workspace/through (link that leads outside)",
        "logs/agent/fifo (FIFO)",
    )
    kept = {
        path.relative_to(artifacts.workspace).as_posix() for path in artifacts.workspace.rglob("*")
    }
    assert kept == {"sub", "sub/deep", "sub/file", "sub/inside", "twice", "within"}


def test_what_was_locked_is_collected(box: Box) -> None:
    box.output(
        "mkdir -p locked/inner read-only; echo x > locked/inner/x; echo y > read-only/y;"
        "chmod 000 locked/inner/x locked/inner locked; chmod 555 read-only; chmod 000 /workspace"
    )
    workspace = box.collect().workspace
    assert (workspace / "locked/inner/x").stat().st_mode & 0o400
    assert (workspace / "locked/inner/x").read_text() == "x\n"
    assert (workspace / "read-only/y").read_text() == "y\n"
    assert (workspace / "locked").stat().st_mode & 0o700 == 0o700


def test_an_emptied_workspace_is_collected(box: Box) -> None:
    box.output("touch x .y; cd /; rm -rf /workspace /logs/*; true")
    artifacts = box.collect()
    assert list(artifacts.workspace.iterdir()) == []
    assert list(artifacts.logs.iterdir()) == []


def test_a_very_deep_tree_is_left_out(box: Box) -> None:
    box.output(DEEP_TREE)
    (skipped,) = box.collect().skipped
    assert skipped.endswith("/deep (nested too deeply)")


def test_teardown_removes_all_but_the_workspace_and_can_be_repeated(box: Box) -> None:
    box.output("mkdir -p /tests/a/b; touch /tests/a/b/c; chmod 000 /tests/a/b; chmod 555 /tests/a")
    home = box.collect().logs.parent
    assert home.exists()
    box.teardown()
    box.teardown()
    assert not home.exists()
    assert box.workspace_dir.exists()
    with pytest.raises(SandboxGone, match=r"^local: sandbox '.*' was removed$"):
        box.run("true")
    with pytest.raises(SandboxGone):
        box.collect()
    box.backend.teardown(handle=TrialHandle("local", "never-was"))


def test_eight_sandboxes_run_at_once(workshop: Workshop) -> None:
    task_dir = workshop.task()
    workspaces = []
    for number in range(8):
        workspaces.append(workshop.make_workspace(f"w{number}"))
    if isinstance(workshop.backend, DrivenBackend):
        shown = workshop.backend.eight_at_once(task_dir, workspaces)
    else:
        shown = eight_at_once(workshop.backend, task_dir, workspaces)
    assert shown == [f"w{number}\n" * 3 for number in range(8)]


# What a sandbox may not do


@in_namespaces
def test_hidden_paths_and_the_task_cannot_be_read(mode: str, directory: Path) -> None:
    hidden = (Path("/usr/share"), Path("/etc/hostname"), Path("/no/such/path"))
    backend = make_backend(mode, hidden)
    workshop = Workshop(mode, backend, directory)
    box = workshop.launch(task_dir=Path("/usr/include"))
    assert list(Path("/usr/share").iterdir())
    assert list(Path("/usr/include").iterdir())
    assert box.run("ls -A /usr/share /usr/include; cat /etc/hostname").stdout == (
        "/usr/include:\n\n/usr/share:\n"
    )
    assert box.run("touch /usr/share/x || echo > /etc/hostname").returncode != 0
    box.teardown()
    if isinstance(backend, DrivenBackend):
        backend.close()


@in_namespaces
def test_no_capability_is_left_to_change_the_mounts(workshop: Workshop, box: Box) -> None:
    workshop.write("up/x", "here")
    for attack in ("umount /tests", "umount -l /tests", "mount -t tmpfs x /tests", "umount /proc"):
        assert box.run(attack).returncode != 0
    assert box.output("cat /tests/x", uploads={"/tests": workshop.directory / "up"}) == "here"


@in_namespaces
def test_a_user_namespace_inside_does_not_uncover_anything(mode: str, directory: Path) -> None:
    backend = make_backend(mode, (Path("/usr/share"),))
    box = Workshop(mode, backend, directory).launch()
    uncover = "umount -l /usr/share; umount -l /; ls /usr/share > seen"
    assert box.output(f"unshare -Urm bash -c '{uncover}'; echo tried") == "tried\n"
    seen = box.workspace_dir / "seen"
    assert not seen.exists() or seen.read_text() == ""
    assert box.run("ls /proc/1/root/ /proc/1/cwd/").stdout == ""
    box.teardown()
    if isinstance(backend, DrivenBackend):
        backend.close()


@in_namespaces
def test_nothing_of_the_host_is_reached_by_climbing_out(box: Box) -> None:
    climb = (
        "import os; os.mkdir('/tmp/a'); print('begun', flush=True); os.chroot('/tmp/a')\n"
        "for _ in range(99): os.chdir('..')\n"
        "os.chroot('.'); print(os.listdir('/tests'))"
    )
    (box.home() / "tests/marker").touch()
    shown = box.run(f'python3 -c "{climb}"')
    assert shown.stdout in ("begun\n", "begun\n['marker']\n")
    assert not box.run(f"ls {box.home()}").stdout


@with_overlay
def test_replaced_tools_never_run_with_more_than_the_sandbox_has(box: Box) -> None:
    before = box.output("grep CapEff /proc/self/status")
    fake = "#!/bin/dash\ngrep CapEff /proc/self/status >> /workspace/seen\nexec /usr/bin/true\n"
    box.output(f"printf '{fake}' > /tmp/fake; chmod 755 /tmp/fake")
    tools = "setpriv nsenter unshare mount env bash"
    box.output(f"for t in {tools}; do cp --remove-destination /tmp/fake $(command -v $t); done")
    box.run("true")
    seen = (box.workspace_dir / "seen").read_text()
    assert set(seen.splitlines()) == {before.strip()}


@with_overlay
def test_changes_to_the_hosts_files_vanish(workshop: Workshop, box: Box) -> None:
    box.output("echo x > /opt/planted; echo x >> /etc/hostname; rm /etc/passwd; echo > /dev/shm/x")
    assert box.output("cat /opt/planted") == "x\n"
    assert not Path("/opt/planted").exists()
    assert Path("/etc/passwd").exists()
    assert not Path("/dev/shm/x").exists()
    assert workshop.launch().run("ls /opt/planted").returncode != 0


@without_overlay
def test_the_hosts_files_are_read_only(box: Box) -> None:
    for path in ("/opt/planted", "/usr/planted", "/var/planted"):
        assert "Read-only file system" in box.run(f"touch {path}").stderr


@in_namespaces
def test_temporary_directories_are_the_sandboxs_own(box: Box) -> None:
    box.output("for d in /tmp /var/tmp /dev/shm; do echo x > $d/aec-planted; done")
    for path in ("/tmp/aec-planted", "/var/tmp/aec-planted", "/dev/shm/aec-planted"):
        assert not Path(path).exists()


@in_namespaces
def test_the_machines_settings_cannot_be_changed(box: Box) -> None:
    for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run"):
        if Path(path).exists():
            refused = box.run(f"echo 0 > {path}").stderr
            assert re.search("Read-only|denied|not permitted|No such file", refused), refused


@in_namespaces
def test_devices_and_terminals_work(box: Box) -> None:
    assert box.output("head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c") == "3\n3\n"
    pty = "import os, pty; pty.spawn(['bash', '-c', 'tty'])"
    assert "/dev/pts/" in box.output(f'python3 -c "{pty}"')


CONNECT = (
    "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)' &&"
    " echo reached"
)
OWN_LOOPBACK = (
    'python3 -c \'import socket; server = socket.create_server(("127.0.0.1", 0));'
    " socket.create_connection(server.getsockname(), 5); print(len(socket.if_nameindex()))'"
)


@pytest.mark.parametrize("network", [True, False])
def test_network_is_there_only_if_allowed(workshop: Workshop, network: bool) -> None:
    enforced = workshop.mode != "rewriting"
    assert enforced is ("network" not in workshop.backend.describe())
    box = workshop.launch(limits=Limits(network=network))
    with socket.create_server(("127.0.0.1", 0)) as server:
        result = box.run(CONNECT.format(port=server.getsockname()[1]))
    assert (result.stdout == "reached\n") is (network or not enforced)
    shown = box.output(OWN_LOOPBACK)
    if enforced and not network:
        assert shown == "1\n"


@with_overlay
def test_loopback_works_without_the_ip_tool(mode: str, directory: Path) -> None:
    hide = 'ip=$(command -v ip) && mount --bind /dev/null $(realpath $ip); exec "$@"'
    backend = make_backend(mode, prefix=("unshare", "--mount", "bash", "-c", hide, "hide"))
    box = Workshop(mode, backend, directory).launch(limits=Limits(network=False))
    assert box.output(OWN_LOOPBACK) == "1\n"
    box.teardown()
    assert isinstance(backend, DrivenBackend)
    backend.close()


@pytest.mark.parametrize("mode", ["root", "no-overlay"], indirect=True)
def test_further_file_systems_of_the_host_are_there(mode: str, directory: Path) -> None:
    add = 'mount -t tmpfs further /srv && echo there > /srv/x && exec "$@"'
    backend = make_backend(mode, prefix=("unshare", "--mount", "bash", "-c", add, "add"))
    assert isinstance(backend, DrivenBackend)
    workshop = Workshop(mode, backend, directory)
    box, other = workshop.launch(), workshop.launch()
    assert box.output("cat /srv/x") == "there\n"
    written = box.run("echo changed > /srv/x").returncode == 0
    assert written is (mode == "root")
    assert other.output("cat /srv/x") == "there\n"
    for made in (box, other):
        made.teardown()
    backend.close()


# Choosing a mode


def test_the_mode_is_told(mode: str, backend: AnyBackend) -> None:
    told = backend.chosen_mode() if isinstance(backend, DrivenBackend) else backend.mode
    assert told == ("rewriting" if mode == "rewriting" else "namespaces")
    assert backend.describe().startswith(f"local ({told}; ")
    for limit in ("cpus", "memory", "storage"):
        assert limit in backend.describe()


@pytest.mark.parametrize("asked", ["auto", "namespaces"])
def test_where_there_are_no_namespaces_paths_are_rewritten(asked: str, directory: Path) -> None:
    refuse = 'echo 0 > /proc/sys/user/max_mnt_namespaces; exec "$@"'
    prefix = ("unshare", "--user", "--map-root-user", "bash", "-c", refuse, "refuse")
    backend = DrivenBackend(asked, prefix=prefix)
    if asked == "auto":
        backend.preflight()
        assert backend.chosen_mode() == "rewriting"
        box = Workshop("rewriting", backend, directory).launch()
        assert box.output("echo fine > /workspace/x; cat /workspace/x") == "fine\n"
        box.teardown()
    else:
        with pytest.raises(SettingsError) as caught:
            backend.preflight()
        message = str(caught.value)
        assert message.startswith("local: mode 'namespaces' is not available here (unshare: ")
        assert message.endswith("; use 'auto' or 'rewriting'")
        assert "\n" not in message
    backend.close()


def test_an_unknown_mode_is_one_line() -> None:
    with pytest.raises(SettingsError) as caught:
        LocalBackend("chroot")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "local: mode 'chroot' is not valid; use one of 'auto', 'namespaces', 'rewriting'"
    )


@in_rewriting
def test_a_workspace_with_a_space_in_its_name_works(workshop: Workshop) -> None:
    workspace = workshop.directory / "my workspace"
    workspace.mkdir()
    image_ref = workshop.backend.build_environment(task_dir=workshop.task())
    handle = workshop.backend.launch_trial(image_ref=image_ref, workspace_dir=workspace)
    box = Box(workshop.backend, handle, workspace, image_ref)
    workshop.boxes.append(box)
    box.output("echo x > /workspace/y; cat /workspace/y")
    assert (workspace / "y").exists()


def open_files() -> set[str]:
    """Return the descriptors of this process."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def launchers() -> set[int]:
    """Return the processes with which this one starts commands in sandboxes."""
    tasks = Path("/proc/self/task").iterdir()
    children = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    return {pid for pid in children if b"entry.py" in Path(f"/proc/{pid}/cmdline").read_bytes()}


@pytest.mark.needs("namespaces")
def test_commands_that_lose_their_launcher_at_the_same_time_all_run(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    others, backend = launchers(), LocalBackend("namespaces")
    image = backend.build_environment(task_dir=tmp_path)
    handle = backend.launch_trial(image_ref=image, workspace_dir=tmp_path / "workspace")
    (launcher,) = launchers() - others
    with ExitStack() as held:
        held.callback(backend.close)
        held.callback(backend.teardown, handle=handle)
        threads = held.enter_context(ThreadPoolExecutor(8))
        with ExitStack() as stopped:
            os.kill(launcher, signal.SIGSTOP)
            stopped.callback(os.kill, launcher, signal.SIGKILL)
            before = len(open_files())
            request = BackendExecutionRequest("echo sound", timeout_sec=60)
            execute = partial(backend.execute_trial, handle=handle, request=request)
            running = [threads.submit(execute) for _ in range(8)]
            # Each has its streams, its request and its answer open when it waits for the launcher.
            wait_until(lambda: len(open_files()) >= before + 7 * len(running))
        assert [one.result().stdout for one in running] == ["sound\n"] * len(running)


@pytest.mark.needs("namespaces")
def test_a_process_with_thousands_of_open_files_can_have_sandboxes(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    backend = LocalBackend("namespaces")
    (tmp_path / "workspace").mkdir()
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            held.callback(os.close, os.dup(0))
        held.callback(backend.close)
        image = backend.build_environment(task_dir=tmp_path)
        handle = backend.launch_trial(image_ref=image, workspace_dir=tmp_path / "workspace")
        held.callback(backend.teardown, handle=handle)
        request = BackendExecutionRequest("echo here", timeout_sec=60)
        assert backend.execute_trial(handle=handle, request=request).stdout == "here\n"


@pytest.mark.needs("namespaces")
def test_a_process_that_may_open_no_more_files_is_told_why_it_has_no_sandbox(
    tmp_path: Path,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    backend = LocalBackend("namespaces")
    (tmp_path / "workspace").mkdir()
    with ExitStack() as held:
        held.callback(backend.close)
        backend.preflight()
        image = backend.build_environment(task_dir=tmp_path)
        limit = max(int(one.name) for one in Path("/proc/self/fd").iterdir()) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with suppress(OSError):  # fills what is left below the limit
            while True:
                held.callback(os.close, os.dup(0))
        with pytest.raises(LaunchError, match=f"; ulimit -n is {limit}, which is too low; allow"):
            backend.launch_trial(image_ref=image, workspace_dir=tmp_path / "workspace")


def homes() -> set[Path]:
    """Return the directories of sandboxes that this process has made and not removed."""
    return {*shared_directory("homes").glob(f"local-{Owner.current().short}-*")}


@pytest.mark.needs("namespaces")
def test_sandboxes_that_lack_open_files_leave_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    backend = LocalBackend("namespaces")
    (tmp_path / "workspace").mkdir()
    image = backend.build_environment(task_dir=tmp_path)

    def launch_and_remove() -> None:
        handle = backend.launch_trial(image_ref=image, workspace_dir=tmp_path / "workspace")
        backend.teardown(handle=handle)

    with ExitStack() as held:
        held.callback(backend.close)
        launch_and_remove()  # opens what is kept until the end
        before = open_files(), homes()
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before[0])) + 30, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        filled: list[int] = []
        with suppress(OSError):
            while True:
                filled.append(os.dup(0))
        refused = 0
        for _ in range(20):  # each time with one more
            try:
                launch_and_remove()
            except LaunchError:
                refused += 1
            os.close(filled.pop())
        for descriptor in filled:
            os.close(descriptor)
        assert 0 < refused < 20
        assert (open_files(), homes()) == before


def test_directories_that_cannot_be_held_leave_nothing(tmp_path: Path) -> None:
    before = open_files(), homes()
    with pytest.raises(FileNotFoundError):
        HeldDirectories(tmp_path, tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        Layout.make(tmp_path / "none", WORKSPACE)
    assert (open_files(), homes()) == before
