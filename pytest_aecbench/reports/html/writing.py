"""Write a page: whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import output_file, shown_path
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.reports.html.page import Page

__all__ = ["write_page"]


def write_page(path: Path, page: Page) -> str:
    """Write the page and return a line that says what is in it.

    Raises:
        SettingsError: the file cannot be written.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"{shown_path(path)}: cannot be written, {error.strerror}") from None
    with output_file(path) as file:
        file.write(page.text)
    size = f"{len(page.text) / 1e6:.1f} MB"
    details = "no details"
    if page.detailed:
        details = f"details of {page.detailed}" if page.detailed < page.trials else "all details"
    return f"{shown_path(path)}: {counted(page.trials, 'attempt')}, {details}, {size}"
