"""``aec-bench doctor``: the providers and backends that can be used now, and what others lack."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import AsJson, print_json, print_table, project_settings
from pytest_aecbench.errors import AecBenchError, SettingsError
from pytest_aecbench.text import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pytest_aecbench.settings.model import Settings

__all__ = ["doctor"]

_WHERE = "doctor"
_GB = 1024**3
_LEAST_FREE = _GB
_MAX_DETAIL = 300
# distribution -> the extra that installs it, and its use
_EXTRAS = {
    "genai-prices": ("prices", "prices of models"),
    "mcp": ("mcp", "tools of MCP servers"),
}


class _UnusableError(Exception):
    """Something cannot be used; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the result; ``answered`` is false for a check that ran out of time."""

    kind: str
    name: str
    ok: bool
    detail: str
    answered: bool = True


@dataclass(frozen=True, slots=True)
class _Check:
    """Something to find out: ``ask`` returns a detail, or raises an error with the reason."""

    kind: str
    name: str
    ask: Callable[[], str]

    def run(self, timeout_sec: float) -> Finding:
        """Return what was found, in bounded time."""
        from pytest_aecbench.backends.remote.calls import Lost, bounded

        try:
            detail = bounded(self.ask, timeout_sec, self.name)
        except Lost as error:
            reason = f"{self._reason(str(error))}; check the network, or raise --timeout"
            return Finding(self.kind, self.name, False, reason, answered=False)
        except (_UnusableError, AecBenchError) as error:
            return Finding(self.kind, self.name, False, self._reason(str(error)))
        except Exception as error:  # noqa: BLE001  (a vendor's SDK may raise anything)
            reason = f"{type(error).__name__}: {one_line(error)}"
            return Finding(self.kind, self.name, False, reason)
        return Finding(self.kind, self.name, True, detail)

    def _reason(self, message: str) -> str:
        for known in (_WHERE, self.name):
            message = message.removeprefix(f"{known}: ")
        return message


def doctor(
    context: typer.Context,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, show_default="10", help="The time for each check."
        ),
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Check which providers and backends can be used now, and what each other one lacks.

    It asks engines and vendors whether they answer, with the keys of the environment, of .env or
    of aec-bench.toml. Of keys it prints only the names.

    Example: aec-bench doctor
    """
    from_file = context.find_root().obj.added
    settings, problem = _settings()
    checks = [*_machine_checks(), *_project_checks(settings, problem)]
    checks += _provider_checks(from_file)
    checks += _backend_checks(settings)
    # It turns a warning of a library of its own off for good, which it cannot beside other threads.
    with suppress(ImportError):
        import_module("requests")
    with ThreadPoolExecutor(len(checks)) as pool:
        findings = list(pool.map(lambda check: check.run(timeout), checks))
    _print([_scrubbed(finding, settings) for finding in findings], as_json=as_json)
    if not all(finding.answered for finding in findings):
        # An SDK that is interrupted in a call by the end of Python prints tracebacks.
        sys.stdout.flush()
        os._exit(0)


def _print(findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(finding) for finding in findings])
        return
    rows = (
        [found.kind, found.name, "ok" if found.ok else "not", shortened(found.detail, _MAX_DETAIL)]
        for found in findings
    )
    print_table(["kind", "name", "state", "detail"], rows)


def _settings() -> tuple[Settings | None, AecBenchError | None]:
    try:
        settings = project_settings()
    except AecBenchError as error:
        return None, error
    sys.path.insert(0, str(settings.root))  # where a project has its own backends
    return settings, None


def _scrubbed(finding: Finding, settings: Settings | None) -> Finding:
    """Return the finding without secrets, which a vendor's message may repeat."""
    from pytest_aecbench.host.secrets import Scrubber, names_credential, secrets_from

    secrets = settings.secrets() if settings else secrets_from(os.environ)
    if settings is not None:
        options = (name.split(":") for name in settings.given if name.count(":") == 2)
        for _, table, option in options:
            if names_credential(option):
                secrets[option] = str(settings.options_of(table).get(option, ""))
    return replace(finding, detail=Scrubber(secrets).text(finding.detail))


def _machine_checks() -> Iterator[_Check]:
    yield _Check("version", "Python", platform.python_version)
    for name in ("pytest-aecbench", "pytest", "pytest-xdist"):
        yield _Check("version", name, partial(version, name))
    for name, (extra, use) in _EXTRAS.items():
        yield _Check("extra", extra, partial(_extra_detail, name, extra, use))


def _extra_detail(name: str, extra: str, use: str) -> str:
    try:
        return f"{name} {version(name)}, for {use}"
    except PackageNotFoundError:
        raise _UnusableError(
            f"{name} is not installed, for {use}; pip install 'pytest-aecbench[{extra}]'"
        ) from None


def _project_checks(settings: Settings | None, problem: AecBenchError | None) -> Iterator[_Check]:
    yield _Check("project", "settings", partial(_project_detail, settings, problem))
    yield _Check("project", "temporary", partial(_room, Path(tempfile.gettempdir())))
    if settings is not None:
        yield _Check("project", "tasks", partial(_tasks_detail, settings))
        for name, path in (
            ("ledger", settings.ledger_root),
            ("jobs", settings.jobs_root),
            ("datasets", settings.datasets_root),
        ):
            yield _Check("project", name, partial(_room, path))


def _project_detail(settings: Settings | None, problem: AecBenchError | None) -> str:
    from pytest_aecbench.settings.layers import PROJECT_FILE, find_root

    if settings is None:
        raise _UnusableError(str(problem))
    has_file = find_root(settings.root) is not None
    return (
        f"{settings.root}{'' if has_file else f', without {PROJECT_FILE}; aec-bench init adds one'}"
    )


def _tasks_detail(settings: Settings) -> str:
    if not settings.tasks_root.is_dir():
        raise _UnusableError(
            f"{settings.tasks_root} is not a directory; aec-bench task new makes a task"
        )
    return str(settings.tasks_root)


def _room(path: Path) -> str:
    """Return the space that is free for a directory, which need not exist yet."""
    nearest = next(one for one in (path, *path.parents) if os.path.lexists(one))
    if not nearest.is_dir():
        raise _UnusableError(f"{nearest} is not a directory; move it, or set another path")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise _UnusableError(f"{nearest} cannot be written; set another path, or its permissions")
    free = shutil.disk_usage(nearest).free
    if free < _LEAST_FREE:
        raise _UnusableError(f"{path}: {free / _GB:.1f} GB are free; make room for 1 GB")
    return f"{path}, {free / _GB:.1f} GB free"


def _provider_checks(from_file: Collection[str]) -> Iterator[_Check]:
    from pytest_aecbench.providers.routing import PROVIDERS

    for name in sorted(PROVIDERS):
        yield _Check("provider", name, partial(_provider_detail, name, from_file))


def _provider_detail(name: str, from_file: Collection[str]) -> str:
    """Return the variables that the provider would use, and where they come from."""
    from pytest_aecbench.providers.routing import PROVIDERS, is_installed, missing

    row = PROVIDERS[name]
    lacks = []
    if not is_installed(name):
        lacks.append(f"{row.sdk} is not installed; pip install 'pytest-aecbench[{row.extra}]'")
    if absent := missing(name):
        verb, them = ("are", "them") if len(absent) > 1 else ("is", "it")
        keys = " and ".join(absent)
        lacks.append(f"{keys} {verb} not set; set {them} in the environment or in .env")
    if lacks:
        raise _UnusableError("; ".join(lacks))
    if row.sdk is None:
        return "needs no key"
    _check_model(name)
    used = [variable for variable in (*row.variables, *row.optional) if os.environ.get(variable)]
    sources = (f"{one} from {'.env' if one in from_file else 'the environment'}" for one in used)
    return ", ".join(sources) or "credentials of the SDK's own"


def _check_model(provider: str) -> None:
    """Raise _UnusableError for the reason why no model of the provider can be called."""
    from pytest_aecbench.providers.routing import Route, check_route

    try:
        check_route(Route(provider, "MODEL"), _WHERE)
    except SettingsError as error:
        # The message names the model first, and there is none here.
        whole, _, reason = str(error).partition(", but ")
        raise _UnusableError(reason or whole) from None


def _backend_checks(settings: Settings | None) -> Iterator[_Check]:
    from pytest_aecbench.backends import BACKENDS

    own = {settings.backend} if settings else set()
    for name in sorted(own | set(BACKENDS)):
        yield _Check("backend", name, partial(_backend_detail, name, settings))


def _backend_detail(name: str, settings: Settings | None) -> str:
    from pytest_aecbench.backends import make_backend

    made = make_backend(name, _WHERE, settings.on(name) if settings else None)
    if preflight := getattr(made, "preflight", None):
        preflight()
    describe = getattr(made, "describe", None)
    return str(describe()) if describe else name
