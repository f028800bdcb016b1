"""The files that a ``command`` agent brings into its sandbox (``--aec-agent-files``, ``files``)."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import stat
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.agents import context_of
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import open_regular, shown_path
from pytest_aecbench.host.homes import remove_tree
from pytest_aecbench.tasks.digest import directory_digest, entries_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.agents.spec import AgentSpec
    from pytest_aecbench.backends.sandbox import Sandbox

__all__ = [
    "DIRECTORY",
    "file_uploads",
    "files_of",
    "find_files",
    "linking",
    "pinned_files",
    "stage_files",
]

# Every backend has this directory, and the verifier's own sandbox gets nothing of it.
DIRECTORY = "/logs/agent/files"

# They are copied into the sandbox of each trial.
_MOST_FILES = 5_000
_MOST_BYTES = 100 * 1024**2
_REMOVAL_SEC = 60.0

_EXAMPLE = re.compile(r"\.(?:example|sample|template|dist)$")
_SECRET = re.compile(
    r"\.env(?:\..*)?|\.netrc|\.pgpass|\.pypirc|\.git-credentials|\.(?:aws|azure|gnupg|kube|ssh)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|credentials(?:\.json)?|.*\.(?:pem|p12|pfx|key)",
    re.IGNORECASE,
)


def find_files(
    names: Iterable[str], root: Path, where: str, apart: Sequence[Path]
) -> tuple[Path, ...]:
    """Return the files and directories of these names from ``root``, checked.

    A directory that contains one of ``apart``, such as the tasks, is refused.
    """
    found: dict[str, Path] = {}
    for name in names:
        path = (root / Path(name).expanduser()).resolve()
        if not name.strip() or not path.exists():
            raise SettingsError(f"{where}: {name!r} does not exist; name a file or a directory")
        inside = next((other for other in apart if other.resolve().is_relative_to(path)), None)
        if inside is not None:
            raise SettingsError(
                f"{where}: {name!r} contains {shown_path(inside)}, which agents must not see; "
                "name only the agent's own files"
            )
        if path.name in found:
            raise SettingsError(
                f"{where}: two paths end with {path.name!r}, which is their name in the sandbox; "
                "rename one, or put both into a directory and name that"
            )
        _check(name, path, where)
        found[path.name] = path
    return tuple(found.values())


def _check(name: str, path: Path, where: str) -> None:
    """Raise SettingsError for what cannot or should not go into a sandbox."""
    total = 0
    for number, (inner, entry) in enumerate(_below(path)):
        shown = f"{name}/{inner}".rstrip("/") if inner else name
        base = Path(shown).name
        if _SECRET.fullmatch(base) and not _EXAMPLE.search(base):
            raise SettingsError(
                f"{where}: {shown!r} looks like a file of secrets, which do not go into sandboxes; "
                "move it elsewhere, and name the variables in the agent's parameters.env"
            )
        status = entry.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise SettingsError(f"{where}: {shown!r} is a link; put a copy of the file there")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise SettingsError(f"{where}: {shown!r} is not a file; remove it")
        total += status.st_size
        if number > _MOST_FILES or total > _MOST_BYTES:
            raise SettingsError(
                f"{where}: {name!r} has more than {_MOST_FILES} files or {_MOST_BYTES >> 20} MiB, "
                "which every trial would copy; name only the files that the agent needs, or "
                "install them in its image"
            )


def _below(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the path itself and everything below it, without what tools leave behind."""
    yield "", path
    if path.is_dir():
        for name, entry in entries_below(path):
            yield name, Path(entry.path)


def files_of(agent: AgentSpec) -> Iterator[Path]:
    """Yield each file that the agent brings."""
    for path in agent.files:
        yield from (inner for _, inner in _below(path) if inner.is_file())


def pinned_files(agent: AgentSpec, paths: Sequence[Path]) -> AgentSpec:
    """Return the agent with these files; another content is another agent."""
    if not paths:
        return agent
    digests = {path.name: _digest(path) for path in sorted(paths, key=lambda one: one.name)}
    return replace(agent, parameters={**agent.parameters, "files": {**digests}}, files=tuple(paths))


def _digest(path: Path) -> str:
    if path.is_dir():
        return directory_digest(path)
    try:
        with open_regular(path) as file:
            return f"sha256:{hashlib.sha256(file.read()).hexdigest()}"
    except OSError as error:
        raise SettingsError(f"{shown_path(path)}: {error.strerror}; make it readable") from None


def stage_files(agent: AgentSpec, directory: Path) -> None:
    """Copy the agent's files to ``directory``, readable by all; they must not have changed."""
    directory.mkdir()
    for path in agent.files:
        for inner, source in _below(path):
            target = directory / path.name / inner
            if source.is_dir():
                target.mkdir(mode=0o755)
                continue
            shutil.copyfile(source, target)
            executable = source.stat().st_mode & stat.S_IXUSR
            target.chmod(0o755 if executable else 0o644)
    pinned = agent.parameters["files"]
    for name, digest in _items(pinned):
        if _digest(directory / name) != digest:
            raise SettingsError(
                f"{agent.name}: {name!r} has changed since the run began; start the run again"
            )


def _items(pinned: object) -> Iterable[tuple[str, object]]:
    assert isinstance(pinned, dict)
    given: Mapping[str, object] = pinned
    return given.items()


def linking(names: Sequence[str]) -> str:
    """Return a shell command that links the files into the working directory.

    A file of the task's stays, and the agent's log says so.
    """
    taken = r'echo "$f: the task has a file of this name; use \$AGENT_FILES/$f" >&2'
    link = 'ln -s "$AGENT_FILES/$f" "$f"'
    each = f'if [ -e "$f" ] || [ -L "$f" ]; then {taken}; else {link}; fi'
    return f"for f in {shlex.join(names)}; do {each}; done; unset f"


@contextmanager
def file_uploads(sandbox: Sandbox, names: Sequence[str]) -> Iterator[dict[str, Path]]:
    """Yield the uploads that put the agent's files into the sandbox; remove the files afterwards.

    So neither the verifier nor the trial's results find them.
    """
    files = context_of(sandbox).files
    assert files is not None
    yield {DIRECTORY: files}
    remove_tree(files)
    files.mkdir()
    ours = '[ "$(readlink "$f")" = "$AGENT_FILES/$f" ]'
    sandbox.execute(
        f'for f in {shlex.join(names)}; do if {ours}; then rm -f "$f"; fi; done',
        env={"AGENT_FILES": DIRECTORY},
        timeout_sec=_REMOVAL_SEC,
        uploads={DIRECTORY: files},
    )
