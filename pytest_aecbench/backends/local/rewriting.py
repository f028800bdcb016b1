"""A local sandbox without namespaces: its paths are rewritten in commands and files.

For hosts without mount namespaces. It separates well-meant commands, but is not a security barrier.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.backends import BackendExecutionResult
from pytest_aecbench.backends.local.kill import MARKER, kill_group, kill_marked, kill_tree
from pytest_aecbench.backends.shared.placing import place
from pytest_aecbench.backends.shared.processes import run
from pytest_aecbench.backends.shared.shell import bash_arguments, find_tool, resolve_user, tool_env
from pytest_aecbench.errors import BackendError, LaunchError, TransferError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

    from pytest_aecbench.backends import BackendExecutionRequest
    from pytest_aecbench.backends.local.layout import Layout

__all__ = ["Rewriter", "RewritingSandbox"]

_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_STRING_PREFIX = re.compile(r"(?<![\w$])(?:[bfru]|[bf]r|r[bf])$", re.IGNORECASE)
_SHORT_OPTION = re.compile(r"(?:^|[\s\"'=(,])-\w$")
_PREFIX_PATTERN = re.compile(r"\$\{\w+##?$")
# Runs beside a sandbox. When the process that holds the other end of its pipe has died, it kills
# the processes with the marker and removes the home in that process's place.
_WATCH = """
trap '' HUP INT TERM
read -r
for round in {1..50}; do
  found=$(grep -lsaz "^$1" /proc/[0-9]*/environ)
  [[ $found ]] || break
  for environ in $found; do
    pid=${environ#/proc/}
    kill -9 "${pid%/environ}" 2>/dev/null
  done
done
chmod -R u+rwX "$2"
rm -rf "$2"
"""


class Rewriter:
    """Replaces the sandbox's paths in a text by the host's."""

    def __init__(self, places: Mapping[PurePosixPath, Path]) -> None:
        self._places = {str(path): str(place) for path, place in places.items()}
        longest_first = sorted(self._places, key=len, reverse=True)
        paths = "|".join(re.escape(path) for path in longest_first)
        self._path = re.compile(rf"(?:{paths})(?![\w-]|\.\w)")

    def __call__(self, text: str) -> str:
        """Return ``text`` with every whole path or path prefix rewritten."""

        def replaced(match: re.Match[str]) -> str:
            before = text[max(0, match.start() - 80) : match.start()]
            return self._places[match[0]] if _begins_path(before) else match[0]

        return self._path.sub(replaced, text)


def _begins_path(before: str) -> bool:
    """Return whether a path after ``before`` starts there, and is not the end of another."""
    last, outer = before[-1:], before[:-1]
    if last and last in "\"'":
        closing = re.search(r"[\w})]$", outer) and not _STRING_PREFIX.search(outer)
        return not closing  # "$DIR"/tests ends another path, f"/tests" does not
    if last.isalnum() or last == "_":
        return bool(_SHORT_OPTION.search(before))  # -I/workspace/include
    if last == "#":
        return bool(_PREFIX_PATTERN.search(before))  # ${file#/workspace/}
    if last == "/":
        return before.endswith("file://")
    return last not in tuple("~.$})]*?%\\")


class RewritingSandbox:
    """One temporary root and the processes that were started for it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._commands = itertools.count(1)
        self._groups: set[int] = set()
        if not _SHELL_SAFE.fullmatch(str(layout.home)):
            raise LaunchError(
                f"TMPDIR: {str(layout.home.parent)!r} would need quotes in a command; "
                "use a path of letters, digits and -_./"
            )
        (layout.home / "tmp").mkdir()
        places = {path: self._shell_safe_path(place) for path, place in layout.directories.items()}
        self.rewrite = Rewriter(places)
        self._watcher = self._watch() if sys.platform == "linux" else None

    def _shell_safe_path(self, place: Path) -> Path:
        """Return a path for ``place`` that needs no quotes in a command."""
        if _SHELL_SAFE.fullmatch(str(place)):
            return place
        link = self.layout.home / "workspace"
        with suppress(FileExistsError):
            link.symlink_to(place)
        return link

    def _watch(self) -> subprocess.Popen[bytes]:
        marker = f"{MARKER}={self.layout.home.name}[.]"
        bash = find_tool("bash") or "bash"
        return subprocess.Popen(
            [bash, "-c", _WATCH, "watch", marker, str(self.layout.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=tool_env(),
            start_new_session=True,
        )

    def default_home(self, user: str | None) -> str:
        """Return the home directory of commands."""
        return str(self.layout.home / "tmp")

    def execute(self, request: BackendExecutionRequest) -> BackendExecutionResult:
        """Run the command with exactly the request's environment, both rewritten."""
        if request.user and resolve_user(request.user)[0] != os.geteuid():
            raise BackendError(
                f"user: {request.user!r} is not available in mode 'rewriting'; use none"
            )
        marker = f"{self.layout.home.name}.{next(self._commands)}"
        directory = self._host_path(request.cwd or str(self.layout.workdir))
        if not directory.is_dir():
            reason = f"cannot change directory to {request.cwd!r}\n"
            return BackendExecutionResult(125, stderr=reason)
        with bash_arguments(self.rewrite(request.command)) as (arguments, stdin):
            return run(
                [find_tool("bash") or "bash", *arguments],
                env={**self._rewritten(request.env), MARKER: marker},
                cwd=directory,
                stdin=stdin,
                timeout_sec=request.timeout_sec,
                kill=partial(kill_tree, marker=marker),
                on_start=self._groups.add,
                on_output=request.on_output,
            )

    def _rewritten(self, env: Mapping[str, str]) -> dict[str, str]:
        rewritten = {name: self.rewrite(value) for name, value in env.items()}
        return {"TMPDIR": str(self.layout.home / "tmp"), **rewritten}

    def reentry(self, request: BackendExecutionRequest) -> list[str]:
        """Return the start of a command line that runs as if in this sandbox."""
        directory = self._host_path(request.cwd or str(self.layout.workdir))
        variables = [f"{name}={value}" for name, value in self._rewritten(request.env).items()]
        bash = find_tool("bash") or "bash"
        step = 'cd "$0" && exec "$@"'
        return [bash, "-c", step, str(directory), "env", "-i", *variables]

    def _host_path(self, path: str) -> Path:
        located = self.layout.locate(path)
        return Path(path) if located is None else located[0].joinpath(*located[1])

    def kill_all(self) -> None:
        """Kill every process that was started here."""
        kill_marked(self.layout.home.name)
        if sys.platform != "linux":  # only groups can be found there, and they may be long gone
            while self._groups:
                kill_group(self._groups.pop())

    def check_alive(self) -> None:
        """Do nothing, because no process keeps this sandbox alive."""

    def check_directories(self) -> None:
        """Do nothing, because any command can remove the directories of this sandbox."""

    def place(self, path: str, source: Path) -> None:
        """Replace ``path`` by a rewritten copy of ``source``."""
        located = self.layout.locate(path)
        if located is None:
            roots = ", ".join(sorted(map(str, self.layout.directories)))
            raise TransferError(f"{path}: is outside this sandbox; use a path below {roots}")
        place(*located, source, rewrite=self.rewrite)

    def close(self) -> None:
        """Kill every process that was started here."""
        self.kill_all()
        if self._watcher is not None and self._watcher.stdin is not None:
            self._watcher.kill()
            self._watcher.stdin.close()
            self._watcher.wait()
