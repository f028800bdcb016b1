"""``tests/aec_verify.py``: the file that this package supplies to tasks without a copy of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pytest_aecbench.errors import TaskError

__all__ = ["HELPER", "HELPER_SOURCE", "supplied_files"]

HELPER = "tests/aec_verify.py"
HELPER_SOURCE = Path(__file__).parents[1] / "verify.py"

_MODULE = b"aec_verify"
# Not Python's own parser: what it accepts depends on its version, and digests must not. A line of
# a docstring can look like an import, which supplies a file that is not used.
_IMPORT = re.compile(
    rb"""
    ^ (?:\xef\xbb\xbf)? (?: [^#'"\n]* [:;] )? [ \t]*    # where a statement starts
    (?: from [ \t]+ aec_verify [ \t]+ import \b
      | import [ \t]+ (?: [\w. \t]+ , )* [ \t]* aec_verify \b
    )
    """,
    re.MULTILINE | re.VERBOSE,
)


def supplied_files(task_dir: Path) -> dict[str, Path]:
    """Return the files that the task needs and does not have, by their paths below the task.

    That is ``tests/aec_verify.py`` if a Python file in ``tests/`` imports it and no module in
    ``tests/`` has that name.
    """
    is_imported = False
    try:
        for parent, directories, files in os.walk(task_dir / "tests"):
            is_package = Path(parent).name == "aec_verify" and "__init__.py" in files
            if is_package or "aec_verify.py" in files:
                return {}
            directories[:] = [name for name in directories if not name.startswith(".")]
            is_imported = is_imported or any(
                _imports_helper(Path(parent, name)) for name in files if name.endswith(".py")
            )
    except OSError as error:
        raise TaskError(f"{error.filename}: {error.strerror}; make it readable") from None
    return {HELPER: HELPER_SOURCE} if is_imported else {}


def _imports_helper(file: Path) -> bool:
    if not file.is_file():  # a link to nowhere, or a pipe
        return False
    content = file.read_bytes()
    return _MODULE in content and _IMPORT.search(content) is not None
