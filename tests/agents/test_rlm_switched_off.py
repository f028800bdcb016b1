"""Tests of ``rlm`` notice when a part is switched off that keeps a run in bounds or on its task."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import copy_project, is_failing, source_of

pytestmark = pytest.mark.nightly

LIMIT_SEC = 300
BUDGET = "tests/agents/test_rlm.py -k checked_before_each_call_of_a_cell"
COMPACTION = "tests/agents/test_rlm_models.py -k replaced_by_a_summary"


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    """A copy of the project, in which these tests pass."""
    with tempfile.TemporaryDirectory(prefix="aec-switched-off-") as home:
        Path(home).chmod(0o755)
        place = Path(home, "project")
        copy_project(place)
        for tests in (BUDGET, COMPACTION):
            assert not is_failing(place, shlex.split(tests), LIMIT_SEC)
        yield place


@pytest.mark.parametrize(
    ("module", "before", "after", "tests"),
    [
        (
            "agents/spending",
            "        self.check()\n        if counts:\n",
            "        if not counts:\n            self.check()\n        else:\n",
            BUDGET,
        ),
        (
            "agents/rlm/compaction",
            "(Text(asked), Text(resume))",
            "(Text(resume),)",
            COMPACTION,
        ),
        ("agents/rlm/compaction", "The task:\\n\\n{asked}\\n\\n", "", COMPACTION),
    ],
    ids=["the budgets before calls of cells", "the task afterwards", "the task for the summary"],
)
def test_a_part_that_is_switched_off_is_noticed(
    project: Path, module: str, before: str, after: str, tests: str
) -> None:
    path = source_of(project, module)
    original = path.read_text()
    assert original.count(before) == 1
    path.write_text(original.replace(before, after))
    try:
        assert is_failing(project, shlex.split(tests), LIMIT_SEC)
    finally:
        path.write_text(original)
