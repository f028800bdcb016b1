"""Start the first process of a namespace sandbox, which mounts its files and keeps it alive."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from pytest_aecbench.backends.local.kill import kill_children
from pytest_aecbench.backends.shared.processes import is_readable
from pytest_aecbench.backends.shared.shell import find_tool, tool_env
from pytest_aecbench.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_aecbench.backends.local.mounts import Mounts

__all__ = ["FirstProcess", "mounting_script", "setup_script"]

_START_SEC = 20.0
_STOP_SEC = 2.0
_DIE_SEC = 20.0  # memory may take seconds to give back
_LOOPBACK_UP = (
    "import fcntl, socket, struct; "
    "fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x49))"
)


def setup_script(mounts: Mounts, fstab: Path, *, network: bool) -> str:
    """Return the script of the first process."""
    lines = [
        "trap '' HUP INT QUIT TERM",
        "read -r pid _ </proc/self/stat",  # from the host's /proc, so it is the host's number
        mounting_script(mounts, fstab, network=network),
        "echo $pid",
        "exec >/dev/null 2>&1",
        "read -r && exit",  # asked to end; a read with a time limit would leave zombies
        "kill -9 -1",  # the process that held the pipe is dead, so clean up in its place
        "umount -n -c -l /..",  # the sandbox's root, because some of its mounts are in the home
        f"umount -n -l {_quote(mounts.scratch)}",
        f"rm -rf {_quote(mounts.home)}",
    ]
    return "\n".join(lines)


def mounting_script(mounts: Mounts, fstab: Path, *, network: bool) -> str:
    """Return the script that mounts the sandbox's root over the host's, in its own namespaces.

    It starts few programs, because each one costs time.
    """
    root = mounts.root
    lines = ['fail() { echo "$1" >&2; exit 1; }']
    if mounts.made:
        lines.append(f"mount -n -t tmpfs -o mode=755 tmpfs {_quote(mounts.scratch)}")
        lines.append(f"mkdir {_quote(*mounts.made)}")
    # Some mounts are optional; the checks are for the others.
    lines.append(f"mount -n -i -a -T {_quote(fstab)}")
    for directory, paths in mounts.copied.items():
        lines.append(f"cp -dR --preserve=mode {_quote(*paths, directory)}")
    checks = {f"{_quote(here)} -ef {_quote(there)}": str(there) for here, there in mounts.same}
    checks |= {
        f"! {_quote(here)} -ef {_quote(there)}": f"over {there}" for here, there in mounts.apart
    }
    checks |= {
        f"-x {_quote(root)}$BASH": "the host's files",
        f"-c {_quote(root / 'dev/null')}": "/dev",
        "$inside == 1": "/proc",
    }
    lines.append(f"read -r inside _ <{_quote(root / 'proc/self/stat')}")
    for check, what in checks.items():
        lines.append(f"[[ {check} ]] || fail {_quote(f'cannot mount {what}')}")
    lines.append(f"mount -n --move {_quote(root)} / && cd / || exit")
    if not network:
        up = ["ip", "link", "set", "lo", "up"]
        lines.append(_quote(*(up if find_tool("ip") else (sys.executable, "-c", _LOOPBACK_UP))))
    return "\n".join(lines)


def _quote(*words: object) -> str:
    return shlex.join(str(word) for word in words)


class FirstProcess:
    """The first process of a sandbox; ``pid`` is its number on the host."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        held, lifeline = os.pipe()
        self._lifeline: int | None = lifeline
        ready, told = os.pipe()
        with ExitStack() as ours, log.open("wb") as errors:
            ours.callback(os.close, held)
            ours.callback(os.close, told)
            self._waiter = subprocess.Popen(
                argv,
                stdin=held,
                stdout=told,
                stderr=errors,
                env=tool_env(),
                start_new_session=True,  # do not pass on a Ctrl-C at the terminal
            )
        try:
            with os.fdopen(ready, "rb", buffering=0) as answer:
                line = answer.readline() if is_readable(answer, _START_SEC) else b""
            self.pid = int(line)
        except BaseException as error:
            self.stop()
            if isinstance(error, ValueError):
                reason = " / ".join(log.read_text(errors="replace").split("\n")[-4:]).strip(" /")
                raise LaunchError(
                    f"local: no sandbox could be started; {reason or 'it gave no answer'}"
                ) from None
            raise

    def is_alive(self, patience_sec: float = 0) -> bool:
        """Return whether it runs, waiting up to ``patience_sec`` for its end."""
        with suppress(subprocess.TimeoutExpired):
            self._waiter.wait(patience_sec)
        return self._waiter.poll() is None

    def stop(self) -> None:
        """End it, and with it all processes in its namespaces."""
        if self._lifeline is not None:
            with suppress(BrokenPipeError):
                os.write(self._lifeline, b"\n")
            os.close(self._lifeline)
            self._lifeline = None
        try:
            self._waiter.wait(_STOP_SEC)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        """Kill it; ``unshare`` waits for it, and it for the end of all others in there."""
        kill_children(self._waiter.pid)
        try:
            self._waiter.wait(_DIE_SEC)
        except subprocess.TimeoutExpired:
            self._waiter.kill()
            self._waiter.wait()
