"""Shell commands: their arguments, environment, user and the host's tools."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from pytest_aecbench.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_aecbench.backends import BackendExecutionRequest

__all__ = [
    "CLEAR",
    "MARK_OF",
    "STATUS",
    "SWEEP",
    "bash_arguments",
    "check_request",
    "find_tool",
    "resolve_user",
    "tool_env",
]

# Linux allows at most 128 KiB in one argument or variable, including its end.
_LONGEST = 128 * 1024 - 1
_FROM_STDIN = 'IFS= read -rd "" REPLY; exec </dev/null; eval "$REPLY"'


@contextmanager
def bash_arguments(command: str) -> Iterator[tuple[list[str], IO[bytes] | None]]:
    """Yield the arguments with which bash runs ``command``, and stdin for a long command."""
    encoded = os.fsencode(command)
    if len(encoded) <= _LONGEST:
        yield ["-c", "--", command], None
        return
    with tempfile.TemporaryFile() as script:
        script.write(encoded)
        script.seek(0)
        yield ["-c", _FROM_STDIN], script


def check_request(request: BackendExecutionRequest, env: Mapping[str, str]) -> None:
    """Raise BackendError if no shell can run the command there with the environment ``env``."""
    if "\0" in request.command:
        raise BackendError("command: contains a NUL character; remove it")
    if request.cwd is not None and not request.cwd.startswith("/"):
        raise BackendError(f"cwd: {request.cwd!r} is not absolute; start it with '/'")
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise BackendError(f"env: {name!r} is not valid; names have no '=', values no NUL")
        size = len(os.fsencode(f"{name}={value}"))
        if size > _LONGEST:
            raise BackendError(f"env: {name!r} takes {size} bytes; the most is {_LONGEST}")


def resolve_user(user: str) -> tuple[int, int]:
    """Return the user and group numbers of ``name``, ``number`` or either with ``:number``."""
    name, _, group = user.partition(":")
    if name.isdecimal():
        ids = int(name), int(name)
    else:
        try:
            ids = pwd.getpwnam(name)[2:4]
        except KeyError:
            raise BackendError(f"user: {name!r} is not known on this host") from None
    if group and not group.isdecimal():
        raise BackendError(f"user: {user!r} is not valid; write a group as a number")
    return ids[0], int(group) if group else ids[1]


def tool_env() -> dict[str, str]:
    """Return the environment of the host's own tools; none of it is for the sandbox."""
    path = [*os.get_exec_path(), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    return {"LC_ALL": "C", "PATH": os.pathsep.join(path)}


def find_tool(name: str) -> str | None:
    """Return the path of one of the host's tools."""
    return shutil.which(name, path=tool_env()["PATH"])


# Makes the parents of a path, removing links that an agent may have made there, and its old entry.
CLEAR = r"""
clear() {
  local way= rest=${1#/}
  while [[ $rest = */* ]]; do
    way+=/${rest%%/*} rest=${rest#*/}
    if [[ -L $way && $way =~ ^(/workspace/|/(logs|solution|tests)(/|$)) ]] ||
       [[ -e $way && ! -d $way ]]; then
      rm -rf -- "$way" || return
    fi
    [[ -d $way ]] || mkdir -- "$way" || return
  done
  # A mount point can be emptied, but not removed.
  rm -rf -- "$1" || [[ -d $1 && ! -L $1 && -z $(ls -A -- "$1") ]]
}
"""

# Reads the fields of a process: its parent, and its start time in ticks since boot.
STATUS = r"""
status() {
  local stat=
  fields=()
  { IFS= read -rd '' stat; } 2>/dev/null <"/proc/$1/stat"
  [[ $stat ]] || return
  fields=(${stat##*) })
  [[ ${fields[0]} != Z ]]
}
"""

# Finds the request that a process belongs to: by the variable AECBENCH_REQUEST in its environment,
# or in that of the nearest ancestor that has one. Sets "mark", and also "hidden" if an environment
# cannot be read, "empty" if the process has none, as while it starts a program.
MARK_OF = (
    STATUS
    + r"""
mark_of() {
  local pid=$1 entry opened any
  mark= hidden= empty=
  while ((pid > 1)); do
    opened= any=
    {
      opened=1
      while IFS= read -rd '' entry; do
        any=1
        [[ $entry != AECBENCH_REQUEST=* ]] || { mark=${entry#*=}; return; }
      done
    } 2>/dev/null <"/proc/$pid/environ"
    [[ $opened ]] || hidden=1
    [[ ! $opened || $any || $pid != "$1" ]] || empty=1
    status "$pid"
    pid=${fields[1]:-0}
  done
}
"""
)

SWEEP = (
    STATUS
    + r"""
# Kills all processes that started no earlier than $1, except this one and its ancestors, and those
# that the function $2 spares, if it is given. One with much memory, or on a busy machine, takes
# seconds to die.
sweep() {
  local kept=" 1 $$ " pid=$$ round left found entry until=$((SECONDS + 20))
  while status "$pid" && pid=${fields[1]} && ((pid > 1)); do kept+="$pid "; done
  for ((round = 0; SECONDS < until; round++)); do
    left= found=()
    for entry in /proc/[0-9]*; do
      pid=${entry#/proc/}
      [[ $kept = *" $pid "* ]] || ! status "$pid" || ((fields[19] < $1)) && continue
      if [[ $2 ]]; then "$2" "$pid" || found+=("$pid"); continue; fi
      kill -KILL "$pid" 2>/dev/null
      left=1
    done
    for pid in "${found[@]}"; do
      [[ $kept != *" $pid "* ]] || continue
      kill -KILL "$pid" 2>/dev/null
      left=1
    done
    [[ $left ]] || return 0
    ((round < 3)) || sleep 0.01
  done
  return 1
}
"""
)
