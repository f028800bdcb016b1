"""A local sandbox in its own Linux namespaces, made with only util-linux and bash.

Its first process sets up the mounts, then waits on a pipe whose other end this process holds.
When the pipe closes, even because this process died, the whole sandbox is killed and removed.

The first process keeps the host's root and its capabilities; the sandbox's root is mounted over the
host's. Commands are started by ``launcher``, and have neither when they become visible inside.
"""

from __future__ import annotations

import functools
import itertools
import os
import shlex
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pytest_aecbench.backends import BackendExecutionRequest
from pytest_aecbench.backends.local.entry import CAPABILITIES, KILL_ALL
from pytest_aecbench.backends.local.init import FirstProcess, mounting_script, setup_script
from pytest_aecbench.backends.local.kill import MARKER, kill_group, kill_namespace, kill_tree
from pytest_aecbench.backends.local.layout import Layout
from pytest_aecbench.backends.local.mounts import Mounts
from pytest_aecbench.backends.local.view import View
from pytest_aecbench.backends.shared.paths import WORKSPACE, absolute
from pytest_aecbench.backends.shared.placing import place
from pytest_aecbench.backends.shared.processes import run
from pytest_aecbench.backends.shared.shell import bash_arguments, find_tool, resolve_user, tool_env
from pytest_aecbench.errors import (
    BackendError,
    BackendLost,
    LaunchError,
    SandboxGone,
    TransferError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_aecbench.backends import BackendExecutionResult, Mount
    from pytest_aecbench.backends.local.launcher import Launcher, SandboxProcess

__all__ = ["Kind", "NamespaceSandbox", "probe"]

_TOOLS = ("bash", "cp", "env", "mkdir", "mount", "nsenter", "setpriv", "unshare")
# In the order in which a command enters them.
_NAMESPACES = {
    "user": "--user",
    "ipc": "--ipc",
    "mnt": "--mount",
    "net": "--net",
    "pid": "--pid",
}
# For all processes to be killed; on a busy machine, each turn takes long to begin.
_TURNS_SEC = (1.0, 1.0, 2.0, 4.0, 8.0)
_UPLOAD_SEC = 600.0
_DYING_SEC = 0.25
_PROBE_SEC = 10.0
_KILLED = 137


class Kind(NamedTuple):
    """The way in which sandboxes are made on this host."""

    overlay: bool
    user_namespace: bool


class NamespaceSandbox:
    """One running sandbox."""

    rewrite = None  # paths are the same inside and outside of commands

    def __init__(
        self,
        layout: Layout,
        kind: Kind,
        view: View,
        launcher: Launcher,
        *,
        network: bool = True,
        mounts: Sequence[Mount] = (),
    ) -> None:
        self.layout = layout
        self._kind = kind
        self._launcher = launcher
        self._commands = itertools.count(1)
        places = Mounts(layout, view, overlay=kind.overlay, given=mounts)
        fstab, setup = layout.home / "fstab", layout.home / "setup"
        fstab.write_text("".join(f"{line}\n" for line in places.fstab))
        setup.write_text(setup_script(places, fstab, network=network))
        self._mounting = mounting_script(places, fstab, network=network)
        shared = {*([] if kind.user_namespace else ["user"]), *(["net"] if network else [])}
        spaces = [space for space in _NAMESPACES if space not in shared]
        argv = [_tool("unshare"), *(_NAMESPACES[space] for space in spaces), "--fork"]
        argv += ["--kill-child", *(["--map-root-user"] if kind.user_namespace else [])]
        self._unshare = [*argv, _tool("bash")]
        launcher.start()
        self._first = FirstProcess([*self._unshare, str(setup)], layout.home / "setup.log")
        self._namespaces: list[int] = []
        try:
            # Kept open, because a process's number may be used again.
            for space in spaces:
                path = f"/proc/{self._first.pid}/ns/{space}"
                self._namespaces.append(os.open(path, os.O_RDONLY))
        except OSError as error:
            self.close()
            raise LaunchError(f"local: the sandbox died at once; {error.strerror}") from None

    def default_home(self, user: str | None) -> str:
        """Return a home directory that commands can write to."""
        root_at_home = self._kind.overlay and self._ids(user) == (0, 0)
        return "/root" if root_at_home else "/tmp"  # noqa: S108  (the sandbox's own)

    def check_alive(self, patience_sec: float = 0) -> None:
        """Raise SandboxGone if its first process has ended."""
        if not self._first.is_alive(patience_sec):
            raise SandboxGone("local: the sandbox has died; its first process is gone")

    def check_directories(self) -> None:
        """Raise BackendLost if a directory was removed on the host, which no command in it can."""
        for path in self.layout.held.removed():
            raise BackendLost(
                f"{path}: was removed on the host while the trial ran; "
                "leave the files of running trials alone"
            )

    def execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run the command with exactly the request's environment."""
        with bash_arguments(request.command) as (arguments, stdin):
            return self._run(
                arguments,
                env=request.env,
                cwd=request.cwd or str(self.layout.workdir),
                ids=self._ids(request.user),
                timeout_sec=request.timeout_sec,
                stdin=stdin,
                on_output=request.on_output,
            )

    def _run(
        self,
        arguments: list[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        ids: tuple[int, int] = (0, 0),
        timeout_sec: float | None = None,
        stdin: IO[bytes] | None = None,
        on_output: Callable[[bytes], object] | None = None,
    ) -> BackendExecutionResult:
        self.check_alive()
        marker = f"{self.layout.home.name}.{next(self._commands)}"
        try:
            result = run(
                [_tool("bash"), *arguments],
                env={MARKER: marker, **env},
                kill=partial(kill_tree, marker=marker, init=self._first.pid),
                stdin=stdin,
                timeout_sec=timeout_sec,
                on_output=on_output,
                start=self._starting(cwd, ids),
            )
        except BackendError:
            self.check_alive(_DYING_SEC)
            raise
        if result.returncode:
            self.check_alive(_DYING_SEC if result.returncode == _KILLED else 0)
        return result

    def reentry(self, request: BackendExecutionRequest) -> list[str]:
        """Return the start of a command line that runs in a new sandbox like this one."""
        cwd = request.cwd or str(self.layout.workdir)
        words = _enter_root(cwd, request.env, self._ids(request.user))
        log = shlex.quote(str(self.layout.home / "rerun.log"))
        lines = [
            f"exec 3>&2 2>{log}",  # optional mounts may fail
            f"trap 'tail -n 1 {log} >&3' EXIT",
            self._mounting,
            "trap - EXIT; exec 2>&3 3>&-",
            f'{shlex.join(words)} "$@"',
        ]
        return [*self._unshare, "-c", "\n".join(lines), "rerun"]

    def _starting(self, cwd: str, ids: tuple[int, int] = (0, 0)) -> Callable[..., SandboxProcess]:
        def start(argv: list[str], **given: Any) -> SandboxProcess:
            given |= {"cwd": cwd, "ids": ids}
            return self._launcher.launch(argv, namespaces=self._namespaces, **given)

        return start

    def _ids(self, user: str | None) -> tuple[int, int]:
        ids = resolve_user(user) if user else (0, 0)
        if ids != (0, 0):
            if self._kind.user_namespace:
                raise BackendError(
                    f"user: {user!r} is not available without root; use 'root' or none"
                )
            self.layout.workspace.chmod(0o777)  # there is no image that gave it to the user
        return ids

    def kill_all(self) -> None:
        """Kill every process in the sandbox except its first, and wait for their end."""
        self.check_alive()
        for turn_sec in _TURNS_SEC:
            if (done := self._kill_from_inside(turn_sec)).returncode == 0:
                break
            kill_namespace(self._first.pid)  # it is stopped again and again, or killed in its turn
        self.check_alive()
        if done.returncode != 0:
            ended = "timeout" if done.timed_out else f"exit code {done.returncode}"
            raise BackendError(f"local: processes cannot be killed; {done.stderr.strip() or ended}")

    def _kill_from_inside(self, timeout_sec: float) -> BackendExecutionResult:
        start = self._starting("/")
        return run(KILL_ALL, env={}, kill=kill_group, timeout_sec=timeout_sec, start=start)

    def place(self, path: str, source: Path) -> None:
        """Replace ``path`` by a copy of ``source``."""
        located = self.layout.locate(path)
        if located:
            place(*located, source)
        else:
            self._unpack(absolute(path), source)

    def _unpack(self, target: PurePosixPath, source: Path) -> None:
        """Unpack ``source`` with the sandbox's own tools, outside its own directories."""
        script = 'rm -rf -- "$0" && mkdir -p -- "$1" && tar -xf - --no-same-owner -C "$1"'
        with tempfile.TemporaryFile() as archive:
            try:
                with tarfile.open(fileobj=archive, mode="w") as writer:
                    writer.add(source, arcname=target.name)
            except OSError as error:
                raise TransferError(f"{source}: cannot be read; {error.strerror}") from None
            archive.seek(0)
            done = self._run(
                ["-c", script, str(target), str(target.parent)],
                env=tool_env(),
                cwd="/",
                timeout_sec=_UPLOAD_SEC,
                stdin=archive,
            )
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or ["it took too long"]
            raise TransferError(f"{source}: cannot be placed at {target}; {reason[0]}")

    def close(self) -> None:
        """End all processes in the sandbox."""
        self._first.stop()
        while self._namespaces:
            os.close(self._namespaces.pop())


def _enter_root(cwd: str, env: Mapping[str, str], ids: tuple[int, int]) -> list[str]:
    """Return the command that drops capabilities at the host's root and enters the sandbox's."""
    kept = ",".join(f"+{name}" for name in CAPABILITIES)
    return [
        *(_tool("setpriv"), "--ambient-caps=-all", "--inh-caps=-all"),
        f"--bounding-set=-all,{kept}",
        # "/.." at the host's root is the file system mounted over it.
        *(_tool("nsenter"), "--root=/..", "--wd=/..", *_as_user(ids)),
        *("env", "-i", "-C", cwd, "--"),
        *(f"{name}={value}" for name, value in env.items()),
    ]


def _as_user(ids: tuple[int, int]) -> list[str]:
    uid, gid = ids
    return [] if ids == (0, 0) else [f"--setgid={gid}", f"--setuid={uid}"]


@functools.cache
def _tool(name: str) -> str:
    return find_tool(name) or name


def probe(launcher: Launcher) -> Kind | str:
    """Return how sandboxes can be made here, or why they cannot, after starting one."""
    if not _probed:
        _probed.append(_probe(launcher))
    return _probed[0]


_probed: list[Kind | str] = []  # it does not change, and takes a while to find out


def _probe(launcher: Launcher) -> Kind | str:
    missing = [name for name in _TOOLS if not find_tool(name)]
    if sys.platform != "linux" or missing:
        return f"{', '.join(missing)} not installed" if missing else "this is not Linux"
    rootless = Kind(overlay=False, user_namespace=True)
    as_root = [Kind(overlay=True, user_namespace=False), Kind(overlay=False, user_namespace=False)]
    for kind in [*(as_root if os.geteuid() == 0 else []), rootless]:
        with tempfile.TemporaryDirectory() as workspace:
            layout = Layout.make(Path(workspace), WORKSPACE)
            try:
                sandbox = NamespaceSandbox(layout, kind, View(), launcher)
                result = sandbox.execute(BackendExecutionRequest("true", timeout_sec=_PROBE_SEC))
                sandbox.close()
                if result.returncode == 0:
                    return kind
                reason = result.stderr.strip()
            except BackendError as error:
                reason = str(error).partition("; ")[2]
            finally:
                layout.remove()
    return reason
