"""``--aec-html`` writes the experiment at the end of a run, and nothing is imported without it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest

from tests.plugin.conftest import with_workers_too
from tests.project import HALF, Project
from tests.tables import tables


def unpacked(page: str, name: str) -> Any:
    (text,) = re.findall(rf'id="{name}">([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(text)))


@with_workers_too
def test_the_page_has_the_verdict_and_what_each_trial_did(anyhow: Project) -> None:
    anyhow.task()
    result = anyhow.run(
        "--aec-agent=oracle",
        f"--aec-agent=half={HALF}",
        "--aec-html=out/r.html",
        "--aec-gate=mean>=0.5",
    )
    result.stdout.fnmatch_lines(["out/r.html: 2 attempts, all details, 0.1 MB"])
    page = (anyhow.path / "out/r.html").read_text()
    assert "The gate failed." in page
    assert "mean[agent=half] = 0.35" in page
    assert [row[0] for row in tables(page).found["leaderboard"]] == ["agent", "oracle", "half"]
    details = unpacked(page, "b-0")
    assert sorted(one["excerpt"] for one in details) == [
        '{"current_a": 2.0, "power_w": 24.0}\n',
        '{"power_w": 24}\n',
    ]
    (key,) = {one["instruction"] for one in details}
    assert unpacked(page, f"i-{key}").startswith("Write current_a and power_w")


@pytest.mark.needs("namespaces")
def test_a_run_with_mounts_counts_its_own_trials(project: Project) -> None:
    project.task()
    project.run("--aec-agent=oracle", "--aec-mount=tasks:/mnt/tasks:ro", "--aec-html=r.html")
    page = (project.path / "r.html").read_text()
    assert [row[0] for row in tables(page).found["leaderboard"]] == ["agent", "oracle"]


def test_a_page_that_cannot_be_written_is_one_line(project: Project) -> None:
    project.task()
    result = project.run("--aec-html=tasks")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["aec: tasks: cannot be written, *"])
    assert "Traceback" not in result.stdout.str()


def test_nothing_for_pages_is_imported_without_the_option(project: Project) -> None:
    project.task()
    project.pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            names = (
                "jinja2", "http.server", "pytest_aecbench.ledger.index",
                "pytest_aecbench.reports.html", "pytest_aecbench.view.server",
            )
            print("found:", [name for name in names if name in sys.modules])
        """
    )
    result = project.pytester.runpytest_subprocess("-p", "no:hypothesispytest", "tasks", "-s")
    result.stdout.fnmatch_lines(["*found: []"])
