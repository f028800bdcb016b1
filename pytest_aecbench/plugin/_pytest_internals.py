"""Names of pytest that it does not promise to keep: each is used here, once, with its reason."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import TextIO

    from _pytest._code.code import ExceptionInfo, TerminalRepr
    from _pytest.fixtures import SubRequest

__all__ = [
    "begin_line",
    "copied_item",
    "forget_attempt",
    "in_mid_line",
    "junit_plugins",
    "mark",
    "named_below",
    "parametrised",
    "replace_output",
    "run_attempt",
    "shown_as",
]

_FunctionT = TypeVar("_FunctionT", bound=pytest.Function)

# Makes marks without looking each new name up among all that are registered.
_MARK = pytest.MarkGenerator(_ispytest=True)


def named_below(session: pytest.Session, directory: Path) -> set[str]:
    """Return the entries of a directory that the command line names, or has something below."""
    named = (path for path in session._initialpaths_with_parents if directory in path.parents)
    return {path.relative_to(directory).parts[0] for path in named}


def parametrised(module: pytest.Module) -> list[pytest.Function]:
    """Return the module's functions with their parameters and fixtures, as pytest makes them."""
    # Not Module's own collect, which looks for set-up functions of xunit.
    nodes = super(pytest.Module, module).collect()
    return [node for node in nodes if isinstance(node, pytest.Function)]


def copied_item(
    kind: type[_FunctionT], parent: pytest.Module, template: pytest.Function
) -> _FunctionT:
    """Make an item like ``template`` below another node.

    The fixture closure is the same for thousands of trials, so it is worked out once and shared.
    """
    item: _FunctionT = kind.from_parent(
        parent,
        name=template.name,
        callspec=template.callspec,
        fixtureinfo=template._fixtureinfo,
        keywords={template.callspec.id: True},
        originalname=template.originalname,
    )
    return item


def run_attempt(item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
    """Run a test once and return its reports; this is how plugins run a test again."""
    return runtestprotocol(item, nextitem=nextitem, log=False)


def forget_attempt(item: pytest.Function) -> None:
    """Let the item be set up again: what failed for a whole task or session would fail again."""
    from pytest_aecbench.plugin._pytest_setup import OwnDefinitions

    item._initrequest()
    found = item._fixtureinfo.name2fixturedefs
    for definitions in found.values():
        for definition in definitions:
            if definition.cached_result is not None and definition.cached_result[2]:
                with suppress(Exception):  # the attempt has an error already
                    definition.finish(cast("SubRequest", item._request))
    if isinstance(found, OwnDefinitions):
        found.clear()


def mark(name: str) -> pytest.MarkDecorator:
    """Return the mark of that name, which the caller has registered."""
    found: pytest.MarkDecorator = getattr(_MARK, name)
    return found


def shown_as(excinfo: ExceptionInfo[BaseException], message: str) -> TerminalRepr:
    """Return what is shown instead of a traceback: ``message``, here, at the end and in JUnit."""
    shown = excinfo.getrepr(style="value", chain=False)
    shown.reprtraceback.reprentries[-1].lines = message.rstrip().split("\n")
    if shown.reprcrash is not None:
        shown.reprcrash.message = message
    return shown


def junit_plugins(config: pytest.Config) -> Iterable[object]:
    """Return the plugins that write JUnit, to which a testcase of our own is given by hand."""
    plugins = config.pluginmanager.get_plugins()
    return [one for one in plugins if type(one).__module__ == "_pytest.junitxml"]


def in_mid_line(reporter: pytest.TerminalReporter) -> bool:
    """Return whether the reporter has begun a line, which a line of ours would continue."""
    return bool(reporter._tw.width_of_current_line)


def begin_line(reporter: pytest.TerminalReporter) -> None:
    """Let the reporter begin a new line, because we wrote one past it."""
    reporter._tw._current_line = ""
    reporter.currentfspath = None


def replace_output(reporter: pytest.TerminalReporter, replace: Callable[[TextIO], TextIO]) -> None:
    """Let the reporter write to another file, made from its own."""
    reporter._tw._file = replace(reporter._tw._file)
