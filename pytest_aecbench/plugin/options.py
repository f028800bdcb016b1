"""The command line: options and ini keys, and an early refusal of wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_aecbench.plugin.state import is_configured, is_worker, settings_of
from pytest_aecbench.settings.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_aecbench.settings.table import Setting


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--aec-…`` and ``aec_…``, from the table of settings."""
    group = parser.getgroup("aecbench", "benchmark trials of AI agents (pytest-aecbench)")
    for row in TABLE:
        if row.option is not None:
            group.addoption(row.option, help=_help(row), **_form(row))
        if row.ini is not None:
            about = f"as for {row.option}" if row.option else f"{row.help} (default: {row.default})"
            default = {"linelist": [], "bool": False, "string": ""}.get(row.ini)
            parser.addini(row.ini_key, about, type=row.ini, default=default)  # type: ignore[arg-type]


def _help(row: Setting) -> str:
    about = row.help.replace("`", "").replace("%", "%%")
    return f"{about}. ini: {row.ini_key}" if row.ini else about


def _form(row: Setting) -> dict[str, Any]:
    if row.metavar is None:
        return {"action": "store_true"}
    if row.repeats:
        return {"action": "append", "metavar": row.metavar}
    if row.bare is not None:
        return {"nargs": "?", "const": row.bare, "metavar": row.metavar}
    return {"metavar": row.metavar}


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Name the option that is probably meant by one that neither we nor a conftest.py have."""
    yield
    if not any(arg.startswith("--aec-") for arg in args):
        return
    _, unknown = parser.parse_known_and_unknown_args(args)
    for arg in unknown:
        name = arg.partition("=")[0]
        if name.startswith("--aec-"):
            from pytest_aecbench.text import nearest

            near = nearest(name, (row.option for row in TABLE if row.option))
            right = f"did you mean {near}?" if near else "see pytest --help"
            raise pytest.UsageError(f"{name}: there is no such option; {right}")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse bad options before anything is collected; stay out of the way otherwise."""
    if is_configured(config) and not is_worker(config):
        from pytest_aecbench.plugin import lookup

        lookup.check_names(config)


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Print the settings instead of running anything, where that is asked for."""
    if not config.getoption("--aec-show-config") or is_worker(config):
        return None
    from pytest_aecbench.settings.show import table

    print(table(settings_of(config)))
    return 0
