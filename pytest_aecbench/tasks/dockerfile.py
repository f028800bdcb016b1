"""The reader of Dockerfiles: their instructions, and the state after the last stage."""

from __future__ import annotations

import copy
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import join, normpath
from typing import TYPE_CHECKING

from pytest_aecbench.errors import BuildError
from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.tasks.schema import EnvironmentConfig

__all__ = [
    "WORKSPACE",
    "BuildContext",
    "Copy",
    "Dockerfile",
    "expand",
    "flags_and_words",
    "read_dockerfile",
    "read_instructions",
    "split_words",
    "working_directory",
]

WORKSPACE = PurePosixPath("/workspace")
_HEREDOC = re.compile(r"(?<!<)<<-?([\"']?)([A-Za-z_]\w*)\1")
_REMOTE = re.compile(r"(https?|git|ssh)://|git@")
_ARCHIVE = re.compile(r"\.(tar(\.(bz2|gz|xz|zst))?|tbz2|tgz|txz)$", re.IGNORECASE)
_READ = {"ADD", "ARG", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
_IGNORED = {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "ONBUILD"}
_IGNORED |= {"SHELL", "STOPSIGNAL", "VOLUME"}
_COPY_FLAGS = {"checksum", "chmod", "chown", "exclude", "from", "keep-git-dir", "link", "parents"}
_COPY_FLAGS |= {"unpack"}


@dataclass(frozen=True, slots=True)
class Copy:
    """One file or directory that ``instruction`` puts into the image."""

    source: Path
    target: PurePosixPath
    mode: int | None
    instruction: str


@dataclass(slots=True)
class Dockerfile:
    """The state after the last stage; ``notes`` lists the instructions that are left out."""

    workdir: PurePosixPath | None = None
    user: str = ""
    env: dict[str, str] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_dockerfile(path: Path, base_env: Mapping[str, str] | None = None) -> Dockerfile:
    """Return the Dockerfile at ``path``; ``base_env`` is the environment of its base image.

    Raise BuildError if it is malformed or copies a file that does not exist.
    """
    name = _name(path)
    reader = _Reader(BuildContext(path.parent), base_env or {})
    for line, keyword, rest in read_instructions(path):
        try:
            reader.follow(keyword, rest, f"{name}:{line}: {shortened(f'{keyword} {rest}', 60)}")
        except ValueError as error:
            raise BuildError(f"{name}:{line}: {error}") from None
    if reader.stage is None:
        raise BuildError(f"{name}: has no FROM; a build starts from an image")
    return reader.stage.result


def working_directory(config: EnvironmentConfig, dockerfile: Dockerfile | None) -> PurePosixPath:
    """Return a sandbox's working directory: the task's, else its Dockerfile's, else the default."""
    found = PurePosixPath(config.workdir or (dockerfile and dockerfile.workdir) or WORKSPACE)
    return found if len(found.parts) > 1 else WORKSPACE


def read_instructions(path: Path) -> list[tuple[int, str, str]]:
    """Return each instruction's line number, keyword in capitals and the rest, unchanged."""
    try:
        return list(_instructions(path.read_text("utf-8-sig").splitlines()))
    except OSError as error:
        raise BuildError(f"{_name(path)}: cannot be read; {error.strerror}") from None
    except UnicodeDecodeError:
        raise BuildError(f"{_name(path)}: is not text; write it in UTF-8") from None


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _instructions(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    number = 0
    while number < len(lines):
        first, text, continued = number + 1, "", True
        while continued and number < len(lines):
            line = lines[number].rstrip()
            number += 1
            if line.lstrip().startswith("#"):
                continued = text != ""
            else:
                # An empty line inside a continued instruction does not end it.
                continued = line.endswith("\\") or (text != "" and line == "")
                text += line.removesuffix("\\")
        if words := text.split(None, 1):
            keyword, rest = words[0].upper(), words[1].strip() if len(words) > 1 else ""
            yield first, keyword, rest
            if keyword in ("ADD", "COPY", "RUN"):
                number = _after_heredocs(rest, lines, number)


def _after_heredocs(rest: str, lines: list[str], number: int) -> int:
    for _, end in _HEREDOC.findall(rest):
        ends = [n for n in range(number, len(lines)) if lines[n].strip() == end]
        number = ends[0] + 1 if ends else number
    return number


@dataclass(slots=True)
class _Stage:
    result: Dockerfile = field(default_factory=Dockerfile)
    args: dict[str, str] = field(default_factory=dict)
    directories: set[PurePosixPath] = field(default_factory=lambda: {PurePosixPath("/")})

    def absolute(self, path: str) -> PurePosixPath:
        base = self.result.workdir or PurePosixPath("/")
        return PurePosixPath("/" + normpath(join(base, path)).lstrip("/"))


class _Reader:
    """Follows instructions one by one; raises ValueError for a bad one."""

    def __init__(self, context: BuildContext, base_env: Mapping[str, str]) -> None:
        self._context = context
        self._base_env = base_env
        self._global_args: dict[str, str] = {}
        self._stages: dict[str, _Stage] = {}
        self.stage: _Stage | None = None

    def follow(self, keyword: str, rest: str, instruction: str) -> None:
        if keyword not in _READ | _IGNORED:
            valid = ", ".join(sorted(_READ | _IGNORED))
            raise ValueError(f"unknown instruction {keyword!r}; use one of {valid}")
        if not rest:
            raise ValueError(f"{keyword} has no arguments")
        stage = self.stage
        if keyword == "FROM":
            self._start_stage(split_words(rest, self._global_args))
        elif keyword == "ARG":
            self._declare(rest)
        elif stage is None:
            raise ValueError(f"{keyword} comes before FROM; a build starts from an image")
        elif keyword == "ENV":
            stage.result.env.update(_assignments(rest, self._variables(stage)))
        elif keyword == "WORKDIR":
            stage.result.workdir = stage.absolute(expand(rest, self._variables(stage)))
            stage.directories |= {stage.result.workdir, *stage.result.workdir.parents}
        elif keyword in ("ADD", "COPY"):
            self._copy(stage, keyword, rest, instruction)
        elif keyword == "RUN":
            stage.result.notes.append(f"{instruction}: not executed")
        elif keyword == "USER":
            stage.result.user = expand(rest, self._variables(stage))
            stage.result.notes.append(f"{instruction}: has no effect")

    def _variables(self, stage: _Stage) -> dict[str, str]:
        return {**self._base_env, **stage.args, **stage.result.env}

    def _start_stage(self, words: list[str]) -> None:
        image, *alias = [word for word in words if not word.startswith("--")] or [""]
        if not image or (alias and (len(alias) != 2 or alias[0].upper() != "AS")):
            raise ValueError("FROM is malformed; write FROM <image> [AS <name>]")
        self.stage = copy.deepcopy(self._stages.get(image.lower(), _Stage()))
        if alias:
            self._stages[alias[1].lower()] = self.stage

    def _declare(self, rest: str) -> None:
        """Record ARGs: before the first FROM for all stages, else for this one."""
        stage = self.stage
        known = self._global_args if stage is None else self._variables(stage)
        args = self._global_args if stage is None else stage.args
        for word in split_words(rest, known):
            name, given, default = word.partition("=")
            if given or name in self._global_args:
                args[name] = default if given else self._global_args[name]

    def _copy(self, stage: _Stage, keyword: str, rest: str, instruction: str) -> None:
        flags, words = flags_and_words(rest, self._variables(stage))
        for unknown in flags.keys() - _COPY_FLAGS:
            valid = ", ".join(f"--{flag}" for flag in sorted(_COPY_FLAGS))
            raise ValueError(f"unknown flag '--{unknown}'; use one of {valid}")
        if len(words) < 2:
            raise ValueError(f"{keyword} needs a source and a destination")
        *sources, destination = words
        reasons = [f"--{flag}" for flag in ("exclude", "from", "parents") if flag in flags]
        reasons += [source for source in sources if _REMOTE.match(source) or _HEREDOC.match(source)]
        found = [] if reasons else [path for source in sources for path in self._find(source)]
        if keyword == "ADD":
            reasons += [f"unpacking {path.name}" for path in found if _ARCHIVE.search(path.name)]
        if reasons:
            stage.result.notes.append(f"{instruction}: left out ({', '.join(reasons)})")
            return
        target = stage.absolute(destination)
        into = destination.endswith(("/", "/.")) or destination in (".", "..")
        into = into or target in stage.directories
        if len(found) > 1 and not into:
            raise ValueError(f"several sources need a directory; end {destination!r} with '/'")
        mode = int(flags["chmod"], 8) if re.fullmatch("[0-7]+", flags.get("chmod", "")) else None
        for path in found:
            inside = list(self._context.below(path)) if path.is_dir() else []
            base = target if path.is_dir() or into else target.parent
            stage.directories |= {base, *base.parents}
            places = {inner: target / inner.relative_to(path) for inner in inside}
            if not path.is_dir():
                places[path] = target / path.name if into else target
            stage.result.copies += [
                Copy(source, place, mode, instruction) for source, place in places.items()
            ]

    def _find(self, source: str) -> list[Path]:
        try:
            return self._context.find(source)
        except ValueError as error:
            raise ValueError(f"{source!r} {error}") from None


def flags_and_words(rest: str, variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return an instruction's flags, without their dashes, and its words, in either notation."""
    flags = {}
    while match := re.match(r"--([\w-]+)(?:=(\S*))?\s+", rest):
        flags[match[1]] = expand(match[2] or "", variables)
        rest = rest[match.end() :]
    if rest.startswith("["):
        try:
            return flags, [expand(str(word), variables) for word in json.loads(rest)]
        except json.JSONDecodeError:
            pass  # a plain name that starts with a bracket, as in Docker
    return flags, split_words(rest, variables)


def _assignments(rest: str, variables: Mapping[str, str]) -> dict[str, str]:
    if "=" not in rest.split()[0]:
        name, _, value = rest.partition(" ")
        return {name: expand(value.strip(), variables)}
    pairs = [word.partition("=") for word in split_words(rest, variables)]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise ValueError(f"{name!r} has no value; write ENV NAME=value")
    return {name: value for name, _, value in pairs}


_VARIABLE = r"\$(?:(?P<bare>\w+)|\{(?P<name>\w+)(?::?(?P<sign>[-+])(?P<word>[^}]*))?\})"
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | \\(?P<escaped>.)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:\\.|[^"\\])*)"
    | (?P<open>['"])
    | (?P<plain>(?:\$\{[^}]*\}|[^\s\\'"])+|\\)""",
    re.VERBOSE | re.DOTALL,
)


def split_words(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words of ``text``, unquoted and with ``variables`` replaced.

    Raise ValueError for a quote that is not closed.
    """
    return [word for word in _lex(text, variables) if word is not None]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Return ``text`` as one word, including its spaces."""
    return "".join(word for word in _lex(text, variables, splitting=False) if word is not None)


def _lex(text: str, variables: Mapping[str, str], *, splitting: bool = True) -> list[str | None]:
    words: list[str | None] = [None]
    for token in _TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[token.lastgroup or 0]
        if kind == "open":
            raise ValueError(f"a quote is not closed in {text!r}")
        if kind == "space" and splitting:
            words.append(None)
            continue
        if kind == "double":
            piece = _substitute(piece, variables, escapes=r'\\(?P<escaped>["\\$])|')
        elif kind == "plain":
            piece = _substitute(piece, variables)
        words[-1] = (words[-1] or "") + piece
    return words


def _substitute(text: str, variables: Mapping[str, str], escapes: str = "") -> str:
    def value(match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups.get("escaped"):
            return str(groups["escaped"])
        found = variables.get(groups["bare"] or groups["name"], "")
        if groups["sign"] == "+":
            return _substitute(groups["word"], variables) if found else ""
        return found or _substitute(groups["word"] or "", variables)

    return re.sub(escapes + _VARIABLE, value, text)


class BuildContext:
    """One build context."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rules = list(_rules(root / ".dockerignore"))

    def find(self, source: str) -> list[Path]:
        """Return the files and directories that ``source``, perhaps a glob, matches, sorted.

        Raise ValueError if it leaves the context or matches nothing.
        """
        relative = normpath(source.lstrip("/") or ".")
        if relative.split("/")[0] == "..":
            raise ValueError("leaves the build context")
        if re.search(r"[*?\[]", relative):
            found = sorted(self.root.glob(relative))
        else:
            found = [path for path in [self.root / relative] if os.path.lexists(path)]
        found = [path for path in found if self._holds(path)]
        if not found:
            raise ValueError("matches nothing in the build context")
        home = self.root.resolve()
        if not all(path.resolve().is_relative_to(home) for path in found):
            raise ValueError("leaves the build context")
        return found

    def below(self, directory: Path) -> Iterator[Path]:
        """Yield everything below ``directory``, each directory before its entries."""
        for path in sorted(directory.iterdir()):
            if self._holds(path):
                yield path
                if path.is_dir() and not path.is_symlink():
                    yield from self.below(path)

    def _holds(self, path: Path) -> bool:
        """Return whether ``path`` is in the context, or a later rule includes a file below it."""
        if not self.ignores(path):
            return True
        return path.is_dir() and not path.is_symlink() and any(True for _ in self.below(path))

    def ignores(self, path: Path) -> bool:
        """Return whether .dockerignore excludes ``path``; its last matching rule decides."""
        name = path.relative_to(self.root).as_posix()
        verdicts = [ignored for pattern, ignored in self._rules if pattern.fullmatch(name)]
        return name != "." and verdicts[-1:] == [True]


def _rules(path: Path) -> Iterator[tuple[re.Pattern[str], bool]]:
    """Yield each rule as a pattern for paths, and whether it excludes them."""
    for line in path.read_text("utf-8", "replace").splitlines() if path.is_file() else ():
        rule = line.strip()
        if rule and not rule.startswith("#"):
            glob = normpath(rule.removeprefix("!").strip().strip("/") or ".")
            yield _compile(glob), not rule.startswith("!")


_GLOB = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _compile(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", glob)
    regex = "".join(
        _GLOB.get(part, part if part.startswith("[") else re.escape(part)) for part in parts
    )
    return re.compile(f"{regex}(?:/.*)?")  # everything below a match is matched too
