"""The page for authors, followed step by step."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_aecbench import verify
from tests.project import Project

PAGE = (Path(__file__).parents[2] / "docs/authoring.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^```bash\n(.*?)\n```", PAGE, re.M | re.S)]


def make(project: Project, command: list[str]) -> None:
    code = "from pytest_aecbench.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *command[1:]], cwd=project.path, check=True)


def test_the_page_leads_to_a_task_that_works(project: Project) -> None:
    new, prove, replay = COMMANDS
    assert new[:3] == ["aec-bench", "task", "new"]
    make(project, new)
    project.run(*prove[1:]).assert_outcomes(passed=1, failed=1)
    project.run(*replay[1:]).assert_outcomes(passed=1, failed=1)
    rewards = {
        record["agent"]["name"]: record["evaluation"]["reward"] for record in project.records()
    }
    assert rewards == {"oracle": 1, "nop": 0, "pass": 1, "fail": 0.5}


def test_the_pages_verifier_grades_the_new_task(project: Project) -> None:
    make(project, COMMANDS[0])
    match = re.search(r"<!-- example: feeder -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert match
    (project.path / "tasks/electrical/feeder/tests/verify.py").write_text(match[1])
    project.run("--aec-agent=oracle").assert_outcomes(passed=1)


@pytest.mark.parametrize("session", re.findall(r"^```pycon\n(.*?)^```", PAGE, re.M | re.S))
def test_the_sessions_show_what_python_shows(session: str) -> None:
    names = {name: getattr(verify, name) for name in verify.__all__}
    test = doctest.DocTestParser().get_doctest(session, names, "authoring.md", None, 0)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_every_unit_is_listed() -> None:
    tables = re.findall(r"^\| with(?:out| SI prefixes) \| `(.+)` \|$", PAGE, re.M)
    assert [table.split() for table in tables] == [
        [unit for unit in verify._PREFIXED if unit != "L"],
        list(verify._WHOLE),
    ]


def test_every_field_is_listed() -> None:
    kinds = [
        name
        for name in verify.__all__
        if isinstance(getattr(verify, name), type)
        and issubclass(getattr(verify, name), verify.Field)
    ]
    assert len(kinds) == 7
    assert [kind for kind in kinds if not re.search(rf"`{kind}[(`]", PAGE)] == []
