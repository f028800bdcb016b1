"""The program that starts commands in local sandboxes, for one process of the harness.

It needs nothing but the standard library. A command must not be visible in a sandbox before it is
as harmless as the agent's own processes, because an agent could stop it there and reach through
``/proc`` what it still has of the host. So a process enters the namespaces, where it gets the
sandbox's root, and drops its privileges while it is outside of the pid namespace; then it forks the
command into that. Both are undumpable until the command's own program replaces them.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

__all__ = ["CAPABILITIES", "KILL_ALL"]

# Docker's default capabilities of root, except those that are harmless only with a network and
# files of one's own: making devices, reading all packets, and giving capabilities to files.
CAPABILITIES = {
    "audit_write": 29,
    "chown": 0,
    "dac_override": 1,
    "fowner": 3,
    "fsetid": 4,
    "kill": 5,
    "net_bind_service": 10,
    "setgid": 6,
    "setpcap": 8,
    "setuid": 7,
    "sys_chroot": 18,
}
KILL_ALL = ()  # the command that kills all processes of a sandbox except its first

_PR_SET_DUMPABLE, _PR_CAPBSET_READ, _PR_CAPBSET_DROP = 4, 23, 24
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION = 0x20080522
# The system calls that reach the kernel's keyrings, which no namespace keeps apart, as numbers of
# each architecture in its audit code.
_KEY_CALLS = {
    0xC000003E: (248, 249, 250, 0x400000F8, 0x400000F9, 0x400000FA),  # x86-64, also its x32
    0x40000003: (286, 287, 288),  # x86 with 32 bits
    0xC00000B7: (217, 218, 219),  # ARM with 64 bits
    0x40000028: (309, 310, 311),  # ARM with 32 bits
}
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in the description of a call
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_DIRECTORY, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127  # the exit codes of env
_MOST_DESCRIPTORS = 16
_PAUSE_SEC = 0.0005


def main() -> None:
    """Serve requests from the socket that is standard input, until its other end is closed."""
    _prctl(_PR_SET_DUMPABLE, 0)
    sys.meta_path.clear()  # from here on, a module that is loaded might be the agent's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the processes that serve
    requests = socket.socket(fileno=0)
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, 1, _MOST_DESCRIPTORS)
        if not message:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        try:
            server = os.fork()
        except OSError as error:
            server = -1
            os.write(descriptors[0], f"0\nfailed {error.strerror}".encode())
        if server == 0:
            _serve(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(answer: int, written: int, *descriptors: int) -> NoReturn:
    """Run one command; write this process's number to ``answer``, then how the command ended."""
    ended = "failed"
    try:
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores some
            signal.signal(number, signal.SIG_DFL)
        os.write(answer, f"{os.getpid()}\n".encode())
        with os.fdopen(written, "rb") as file:
            request = json.load(file)
        ended = _run(request, descriptors[:3], descriptors[3:])
    except OSError as error:
        ended = f"failed {error.strerror}"
    finally:
        os.write(answer, ended.encode())
        os._exit(0)


def _run(request: dict[str, Any], streams: Sequence[int], namespaces: Sequence[int]) -> str:
    for namespace in namespaces:
        _check(_libc.setns(namespace, 0))  # that of mounts sets the root too
    _drop_privileges(*request["ids"])
    told, tell = os.pipe()
    command = os.fork()
    if command == 0:
        _become(request, streams, tell)
    for descriptor in (tell, *streams):
        os.close(descriptor)
    with os.fdopen(told, "rb") as failure:
        reason = failure.read()
    code = _wait(command, resume=not request["argv"])
    return f"failed {os.strerror(int(reason))}" if reason else f"exited {code}"


def _drop_privileges(uid: int, gid: int) -> None:
    """Keep only what the agent's own processes have."""
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(_filter))
    number = 0
    while _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0:
        if number not in CAPABILITIES.values():
            _prctl(_PR_CAPBSET_DROP, number)
        number += 1
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    with suppress(PermissionError):  # it cannot be done in a user namespace without root
        os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    kept = sum(1 << number for number in CAPABILITIES.values())
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, effective_permitted_inheritable))
    held = effective_permitted_inheritable[1] & kept
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)(held, held, 0)))


def _become(request: dict[str, Any], streams: Sequence[int], tell: int) -> NoReturn:
    """Replace this process by the command."""
    code = _NOT_EXECUTABLE
    try:
        if not request["argv"]:
            _kill_all()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        code = _NO_DIRECTORY
        os.chdir(request["cwd"])
        code = _NOT_EXECUTABLE
        os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606
    except FileNotFoundError as error:
        code = _NO_DIRECTORY if code == _NO_DIRECTORY else _NOT_FOUND
        _complain(error)
    except OSError as error:
        if error.errno == errno.E2BIG:
            os.write(tell, str(error.errno).encode())
        _complain(error)
    finally:
        os._exit(code)


def _complain(error: OSError) -> None:
    os.write(2, f"{error.filename}: {error.strerror}\n".encode(errors="surrogateescape"))


def _kill_all() -> NoReturn:
    """Kill every process of this namespace except its first, and wait for their end."""
    with suppress(ProcessLookupError):
        while True:
            os.kill(-1, signal.SIGKILL)
            time.sleep(_PAUSE_SEC)
    os._exit(0)


def _wait(pid: int, *, resume: bool) -> int:
    """Wait for the end of a process; ``resume`` it whenever an agent stops it."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED if resume else 0)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        os.kill(pid, signal.SIGCONT)


def _prctl(option: int, argument: int, pointer: int = 0) -> None:
    _check(_libc.prctl(option, argument, ctypes.c_void_p(pointer), 0, 0))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("skip_if_true", ctypes.c_uint8),
        ("skip_if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("program", ctypes.POINTER(_Instruction)))


def _key_filter() -> _Filter:
    """Return the filter that refuses system calls about keys."""
    program = []
    for architecture, numbers in _KEY_CALLS.items():
        program += [
            _Instruction(_LOAD, 0, 0, _ARCHITECTURE),
            _Instruction(_JUMP_IF_EQUAL, 0, 2 * len(numbers) + 2, architecture),
            _Instruction(_LOAD, 0, 0, _NUMBER),
        ]
        for number in numbers:
            program.append(_Instruction(_JUMP_IF_EQUAL, 0, 1, number))
            program.append(_Instruction(_RETURN, 0, 0, _REFUSE))
        program.append(_Instruction(_RETURN, 0, 0, _ALLOW))
    program.append(_Instruction(_RETURN, 0, 0, _ALLOW))
    return _Filter(len(program), (_Instruction * len(program))(*program))


_libc = ctypes.CDLL(None, use_errno=True)
_filter = _key_filter()

if __name__ == "__main__":
    main()
