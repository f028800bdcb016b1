"""A line now and then says where a long run stands."""

from __future__ import annotations

import re

from tests.project import Project


def test_a_line_says_where_the_run_stands(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b", solve="sleep 1.5")
    anyhow.task("civil/c", test_sh="exit 1")
    text = anyhow.run("--aec-progress=0.2", "-p", "no:randomly").stdout.str()
    lines = re.findall(r"^aec: \d of 3 trials done.*$", text, re.MULTILINE)
    assert lines
    assert any(re.search(r"\d running, longest [abc] for \d s", line) for line in lines)
    assert any("mean reward 1.00" in line and "min left" in line for line in lines)


def test_captured_output_stays_apart_from_the_lines(project: Project) -> None:
    project.task(solve="sleep 1")
    project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def aec_execution(aec_execution):
            print("printed by a fixture")
            return aec_execution
        """
    )
    result = project.run("--aec-progress=0.1", "-rA")
    section = result.stdout.str().partition("Captured stdout setup")[2]
    assert "printed by a fixture" in section
    assert "trials done" not in section.partition("= aec: ")[0]


def test_nothing_is_said_when_not_wanted(project: Project) -> None:
    project.task(solve="sleep 0.5")
    assert "trials done" not in project.run("--aec-progress=0").stdout.str()
