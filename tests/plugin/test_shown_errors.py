"""Errors in fixtures are shown as what they say, without the plugin's own source."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import Project

BROKEN_BUILD = """
import pytest
from pytest_aecbench.errors import BuildError


@pytest.fixture(scope="module")
def aec_image():
    raise BuildError("environment/Dockerfile: the build failed; unknown instruction: RUNN")
"""
SAID = "BuildError: environment/Dockerfile: the build failed; unknown instruction: RUNN"


def errors_shown(result: pytest.RunResult) -> list[str]:
    """Return the lines below the header of the only error."""
    lines = result.stdout.lines
    (begin,) = [n for n, line in enumerate(lines) if " ERROR at setup of " in line]
    end = next(
        n for n, line in enumerate(lines) if n > begin and line.startswith(("=====", "- generated"))
    )
    return lines[begin + 1 : end]


@with_workers_too
def test_an_error_of_ours_is_its_message_alone(anyhow: Project) -> None:
    anyhow.task()
    (anyhow.path / "conftest.py").write_text(BROKEN_BUILD)
    result = anyhow.run("--junitxml=out.xml")
    result.assert_outcomes(errors=1)
    shown = [line for line in errors_shown(result) if not line.startswith("[gw")]
    assert shown == [SAID]
    (error,) = ET.parse(anyhow.path / "out.xml").iter("error")
    assert (error.get("message"), error.text) == (
        f'failed on setup with "{SAID}"',
        SAID,
    )


def test_another_error_shows_the_users_source_and_not_ours(project: Project) -> None:
    project.task()
    (project.path / "conftest.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def aec_sandbox(aec_sandbox):\n"
        "    return aec_sandbox['nothing']\n"
    )
    result = project.run()
    result.assert_outcomes(errors=1)
    shown = errors_shown(result)
    assert "conftest.py:4: TypeError" in shown
    assert not [line for line in shown if "pytest_aecbench/" in line]
    assert "def setup" not in "\n".join(shown)
    assert "_pytest/fixtures.py" in project.run("--full-trace").stdout.str()


def test_a_dockerfile_that_cannot_be_built_is_said_once_by_its_own_check(project: Project) -> None:
    project.task(files={"environment/Dockerfile": "FROM x:1\nRUNN true\n"})
    (project.path / "conftest.py").write_text(BROKEN_BUILD)
    result = project.run("--aec-check=image,solution,empty", "-rs")
    result.assert_outcomes(failed=1, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED *the image cannot be built; check?image? says why"])
    assert result.stdout.str().count("unknown instruction: RUNN\n") == 1
    alone = project.run("--aec-check=solution")
    alone.assert_outcomes(errors=1)
    assert errors_shown(alone) == [SAID]
