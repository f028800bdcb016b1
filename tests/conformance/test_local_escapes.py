"""No way leads from a sandbox of the local backend to the host by accident."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.local.entry import CAPABILITIES
from pytest_aecbench.host.homes import remove_tree
from tests.conformance.boxes import Box, Workshop, in_namespaces, make_backend
from tests.conformance.driving import DrivenBackend

LaunchWith = Callable[..., Box]

# Stops every new process again and again, and looks through it for a file of the host.
STOP_AND_LOOK = """
import os, signal, sys

secret, seen = sys.argv[1:]
open(seen, "w").close()
while True:
    for pid in {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}:
        try:
            os.kill(pid, signal.SIGSTOP)
            try:
                with open(f"/proc/{pid}/root{secret}") as found, open(seen, "a") as told:
                    told.write(found.read())
            finally:
                os.kill(pid, signal.SIGCONT)
        except OSError:
            pass
"""
KILL_OTHERS = """
import ctypes, threading

kill = ctypes.CDLL(None).kill

def kill_others():
    while True:
        kill(-1, 9)

for _ in range(2):
    threading.Thread(target=kill_others).start()
"""
CONNECT = """
import socket, sys

for name in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(name.replace("@", chr(0)))
        print("reached", name)
    except OSError:
        pass
"""
# Links the user's keyring into the session's, which makes its keys readable.
READ_KEY = """
import ctypes

KEYCTL, LINK, SEARCH, READ, USER, SESSION = 250, 8, 10, 11, -4, -3
syscall = ctypes.CDLL(None).syscall
syscall(KEYCTL, LINK, USER, SESSION)
key = syscall(KEYCTL, SEARCH, SESSION, b"user", b"aec-secret", 0)
text = ctypes.create_string_buffer(99)
if key > 0 and syscall(KEYCTL, READ, key, text, 99) > 0:
    print(text.value.decode())
"""
ATTACH = """
import ctypes

PTRACE_ATTACH = 16
print(ctypes.CDLL(None).ptrace(PTRACE_ATTACH, 1, None, None))
"""


def python(script: str, *arguments: object) -> str:
    return shlex.join(["python3", "-c", script, *map(str, arguments)])


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory outside of the temporary ones, which are hidden in any case."""
    if not os.access("/opt", os.W_OK):
        pytest.skip("this user cannot write to /opt")
    path = Path(tempfile.mkdtemp(prefix="aec-local-", dir="/opt"))
    path.chmod(0o755)
    yield path
    remove_tree(path)


@pytest.fixture
def launch_with(mode: str, directory: Path) -> Iterator[LaunchWith]:
    """Start a sandbox of a backend with the given arguments."""
    with ExitStack() as after:

        def launch(*arguments: object, limits: Limits | None = None, **options: object) -> Box:
            backend = make_backend(mode, *arguments, **options)  # type: ignore[arg-type]
            if isinstance(backend, DrivenBackend):
                after.callback(backend.close)
            box = Workshop(mode, backend, directory).launch(limits=limits)
            after.callback(box.teardown)
            return box

        yield launch


def write(path: Path, text: str = "secret\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(directory: Path, *arguments: object) -> None:
    names = [f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")]
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **dict.fromkeys(names, "a@b")}
    subprocess.run(["git", "-C", directory, *map(str, arguments)], check=True, env=env)


# Processes


@in_namespaces
def test_a_command_that_is_stopped_on_its_way_in_does_not_show_the_host(
    workshop: Workshop, box: Box
) -> None:
    secret = workshop.write("secret", "of the host")
    attack = python(STOP_AND_LOOK, secret, "seen")
    box.output(f"setsid {attack} </dev/null >/dev/null 2>&1 & until [ -e seen ]; do :; done")
    for _ in range(40):
        box.run("true", timeout_sec=1)
        assert (box.workspace_dir / "seen").read_text() == ""


@in_namespaces
def test_agents_that_stop_all_processes_do_not_outlive_an_exclusive_request(box: Box) -> None:
    attack = python(STOP_AND_LOOK, "/none", "seen")
    box.output(f"setsid {attack} </dev/null >/dev/null 2>&1 & until [ -e seen ]; do :; done")
    left = box.output("cat /proc/[0-9]*/comm", exclusive=True, timeout_sec=20)
    assert "python" not in left


@in_namespaces
def test_agents_that_kill_all_processes_do_not_outlive_an_exclusive_request(box: Box) -> None:
    attack = python(KILL_OTHERS)
    ended = box.run(f"setsid {attack} </dev/null >/dev/null 2>&1 & sleep 1000", timeout_sec=20)
    assert ended.returncode == 128 + signal.SIGKILL
    left = box.output("cat /proc/[0-9]*/comm", exclusive=True, timeout_sec=20)
    assert "python" not in left


@in_namespaces
def test_the_first_process_cannot_be_looked_into(box: Box) -> None:
    for name in ("cwd/", "environ", "exe", "fd/0", "fd/255", "map_files/", "mem", "root/"):
        looked = box.run(f"ls /proc/1/{name} && head -c 1 /proc/1/{name}")
        assert looked.stdout in ("", f"/proc/1/{name}\n"), name
        assert looked.returncode != 0, name
    assert box.output(python(ATTACH)) == "-1\n"


@in_namespaces
def test_commands_have_no_more_capabilities_and_groups_than_they_need(box: Box) -> None:
    status = box.output("grep -E '^(Cap|Groups)' /proc/self/status").splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    kept = f"{sum(1 << number for number in CAPABILITIES.values()):016x}"
    assert fields["CapBnd"] == fields["CapPrm"] == fields["CapEff"] == kept
    assert fields["CapInh"] == fields["CapAmb"] == "0" * 16
    assert fields["Groups"] in ("", "65534")  # without root, they can only be made nameless


@in_namespaces
def test_commands_go_on_after_their_launcher_was_killed(launch_with: LaunchWith) -> None:
    box = launch_with(env={"DRIVEN": "yes"})
    assert isinstance(box.backend, DrivenBackend)
    children = Path(f"/proc/{box.backend.process.pid}/task/{box.backend.process.pid}/children")
    (launcher,) = (
        pid
        for pid in children.read_text().split()
        if b"entry.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    subprocess.run(["kill", "-9", launcher], check=True)
    assert box.output("echo sound") == "sound\n"


# Files


@in_namespaces
@pytest.mark.parametrize("project", ["main", "tree"])
def test_no_version_of_the_project_can_be_read(
    launch_with: LaunchWith, place: Path, project: str
) -> None:
    write(place / "main/tasks/solution.md")
    write(place / "main/.env")
    git(place / "main", "init", "-q")
    git(place / "main", "add", "tasks")
    git(place / "main", "commit", "-qm", "x")
    git(place / "main", "worktree", "add", "-q", place / "tree")
    git(place / "main", "worktree", "add", "-q", place / "other")
    box = launch_with((place / project / "tasks",))
    assert box.output(f"find {place} -type f") == ""
    for name in ("main", "tree", "other"):
        shown = box.run(f"git -c safe.directory='*' -C {place}/{name} show HEAD:tasks/solution.md")
        assert (shown.stdout, shown.returncode != 0) == ("", True)


@in_namespaces
def test_the_store_that_a_clone_borrows_from_cannot_be_read(
    launch_with: LaunchWith, place: Path
) -> None:
    write(place / "store/solution.md")
    git(place / "store", "init", "-q")
    git(place / "store", "add", ".")
    git(place / "store", "commit", "-qm", "x")
    git(place, "clone", "-q", "--shared", "--bare", place / "store", place / "bare.git")
    git(place, "clone", "-q", "--shared", place / "bare.git", place / "clone")
    box = launch_with((place / "clone",))
    assert box.output(f"ls -A {place}/clone {place}/bare.git/objects") == (
        f"{place}/bare.git/objects:\n\n{place}/clone:\n"
    )


@in_namespaces
def test_the_longest_path_decides_what_is_shown(launch_with: LaunchWith, place: Path) -> None:
    for name in (".env", "data/table.csv", "data/tasks/solution.md", "data/tasks/x/given", "src/a"):
        write(place / name, f"{name}\n")
    (place / "link").symlink_to("src")
    hidden = (place, place / "data/tasks")
    shown = (place / "data", place / "data/tasks/x/given", place / "link")
    box = launch_with(hidden, shown=shown)
    assert box.output(f"cd {place}; find -L . -type f | sort") == (
        "./data/table.csv\n./data/tasks/x/given\n./link/a\n./src/a\n"
    )
    assert box.output(f"cat {place}/data/tasks/x/given") == "data/tasks/x/given\n"
    assert box.run(f"echo x > {place}/data/table.csv").returncode != 0
    assert (place / "data/table.csv").read_text() == "data/table.csv\n"


@in_namespaces
def test_homes_are_empty_and_can_be_written_to(launch_with: LaunchWith, place: Path) -> None:
    write(place / "home/.ssh/id_ed25519")
    box = launch_with(env={"HOME": str(place / "home")})
    assert box.output(f"find {place}/home /home -type f") == ""
    box.output(f"for d in {place}/home /home /root $HOME; do touch $d/x; done")
    assert not (place / "home/x").exists()


@in_namespaces
@pytest.mark.parametrize("where", ["project/.venv", "project", "home/.venvs/x"])
def test_this_python_works_wherever_it_is(
    launch_with: LaunchWith, mode: str, place: Path, where: str
) -> None:
    prefix, secret = place / where, write(place / "project/.env")
    base = Path(sys.base_prefix)
    if mode == "rootless" and os.geteuid() == 0:
        base = Path("/usr")  # others cannot reach a Python in the home of root
    versions = place / "home/.pythons"
    versions.mkdir(parents=True)
    (versions / "latest").symlink_to(base)
    interpreter = f"python3.{sys.version_info[1]}"
    write(prefix / "pyvenv.cfg", f"home = {versions}/latest/bin\n")
    (prefix / "bin").mkdir()
    (prefix / "bin/python3").symlink_to(versions / "latest/bin" / interpreter)
    write(prefix / f"lib/{interpreter}/site-packages/there.py", "")
    box = launch_with(
        (place / "project",),
        python=str(prefix / "bin/python3"),
        env={"HOME": str(place / "home"), "PYTHONPATH": sysconfig.get_path("purelib")},
    )
    tell = "import json, sys, there; print(sys.prefix)"
    assert box.output(python(tell)) == f"{prefix}\n"
    assert not box.run(f"cat {secret}").stdout


@pytest.mark.parametrize("mode", ["root", "no-overlay"], indirect=True)
def test_disks_are_hidden(launch_with: LaunchWith) -> None:
    add = 'mount -t tmpfs disk /mnt && echo there > /mnt/x && exec "$@"'
    box = launch_with(prefix=("unshare", "--mount", "bash", "-c", add, "add"))
    assert box.output("ls -A /mnt") == ""


@in_namespaces
def test_devices_and_control_groups_of_the_host_are_not_there(box: Box) -> None:
    assert box.output("echo /dev/*") == (
        "/dev/fd /dev/full /dev/null /dev/ptmx /dev/pts /dev/random /dev/shm /dev/stderr"
        " /dev/stdin /dev/stdout /dev/tty /dev/urandom /dev/zero\n"
    )
    assert box.output("ls -A /dev/pts /sys/fs/cgroup") == "/dev/pts:\nptmx\n\n/sys/fs/cgroup:\n"


@pytest.mark.parametrize("mode", ["root"], indirect=True)
def test_devices_elsewhere_cannot_be_opened(launch_with: LaunchWith, place: Path) -> None:
    os.mknod(place / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    box = launch_with()
    assert "Permission denied" in box.run(f"head -c 1 {place}/zero").stderr


@pytest.mark.parametrize("mode", ["no-overlay", "rootless"], indirect=True)
def test_nothing_of_the_host_can_be_written_without_an_overlay(box: Box) -> None:
    own = "dev|home|logs|proc|root|run|solution|sys|tests|tmp|var/tmp|workspace"
    found = box.run(f"find / -mindepth 1 -maxdepth 3 -writable ! -type l | grep -vE '^/({own})'")
    assert found.stdout == ""


@in_namespaces
def test_another_sandbox_cannot_be_reached(workshop: Workshop, box: Box) -> None:
    other = workshop.launch()
    other.output("echo secret | tee /tests/x /logs/x /workspace/x /tmp/x")
    other.output("setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    found = box.run(
        f"cat {other.home()}/*/x {other.workspace_dir}/x /tmp/x; cat /proc/*/cmdline | grep sleep"
    )
    assert found.stdout == ""


def test_programs_of_an_agent_do_not_run_with_the_rights_of_their_owner(box: Box) -> None:
    box.output("cp /bin/true own; chmod 4755 own; cp /bin/true group; chmod 2755 group")
    workspace = box.collect().workspace
    for name in ("own", "group"):
        assert (workspace / name).stat().st_mode & 0o7777 == 0o755


# What is not a file


@in_namespaces
def test_sockets_of_the_host_cannot_be_reached(workshop: Workshop, box: Box) -> None:
    with ExitStack() as after:
        names = [str(workshop.directory / "socket")]
        names += [f"/run/aec-{os.getpid()}"] if os.access("/run", os.W_OK) else []
        for name in names:
            server = after.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(name)
            after.callback(Path(name).unlink)
            Path(name).chmod(0o777)
            server.listen()
        assert box.output(python(CONNECT, *names)) == ""


@in_namespaces
@pytest.mark.parametrize("network", [True, False])
def test_abstract_sockets_can_be_reached_only_with_the_network(
    workshop: Workshop, network: bool
) -> None:
    name = f"@aec-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name.replace("@", "\0"))
        server.listen()
        box = workshop.launch(limits=Limits(network=network))
        assert box.output(python(CONNECT, name)) == (f"reached {name}\n" if network else "")


@in_namespaces
def test_packets_of_the_host_cannot_be_read(box: Box) -> None:
    listen = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)"
    assert "PermissionError" in box.run(python(listen)).stderr


@in_namespaces
def test_shared_memory_of_the_host_cannot_be_reached(box: Box) -> None:
    made = subprocess.run(["ipcmk", "-M", "64"], capture_output=True, text=True, check=True)
    number = made.stdout.split()[-1]
    try:
        assert box.output(f"ipcs -m -i {number} 2>&1 | grep -c bytes= || true") == "0\n"
    finally:
        subprocess.run(["ipcrm", "-m", number], check=True)


@in_namespaces
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test has numbers of x86-64")
def test_keys_of_the_host_cannot_be_read(box: Box) -> None:
    add_key, keyctl, revoke, user_keyring = 248, 250, 3, -4
    syscall = ctypes.CDLL(None).syscall
    key = syscall(add_key, b"user", b"aec-secret", b"of the host", 11, user_keyring)
    assert key > 0
    try:
        assert box.output(python(READ_KEY)) == ""
    finally:
        syscall(keyctl, revoke, key)
