"""A patch is tested in a sandbox, and passes only by tests that ran."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench import run_patch_test
from pytest_aecbench.cooperbench.patches import _counts
from pytest_aecbench.errors import SettingsError

ADD = "def add(a, b):\n    return a - b\n"
FIXED = ADD.replace("-", "+")
TESTS = """import unittest
from calc import add

class AddTest(unittest.TestCase):
    def test_adds(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
"""


def patch(name: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}" if before else "/dev/null",
        f"b/{name}",
    )
    return "".join(lines)


FIX = patch("calc.py", ADD, FIXED)
UNITTEST = "python3 -m unittest -v"
ALONE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
IMAGE = f"aecbench-tests/patching:{os.getpid()}"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A feature of CooperBench's layout, and the repository that it is for."""
    feature = tmp_path / "dataset/calc_task/task1/feature2"
    feature.mkdir(parents=True)
    (feature / "tests.patch").write_text(patch("test_calc.py", "", TESTS))
    (feature / "feature.patch").write_text(FIX)
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/calc.py").write_text(ADD)
    return tmp_path / "dataset"


@pytest.fixture(scope="module")
def patching_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image that has a program to apply patches with."""
    context = tmp_path_factory.mktemp("image")
    shutil.copy2(str(shutil.which("patch")), context / "patch")
    (context / "Dockerfile").write_text("FROM python:3.11-slim\nCOPY patch /usr/local/bin/patch\n")
    subprocess.run(["docker", "build", "-q", "-t", IMAGE, str(context)], check=True)
    yield IMAGE
    subprocess.run(["docker", "image", "rm", "-f", IMAGE], check=True)


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.needs("docker"))])
def where(
    request: pytest.FixtureRequest, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Where to test the patch: the arguments that name a sandbox with the repository in it."""
    (dataset.parent / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(dataset.parent / "tmp"))
    image = request.getfixturevalue("patching_image") if request.param == "docker" else "scratch"
    return {
        "backend": request.param,
        "image": image,
        "repository": str(dataset.parent / "repository"),
        "dataset": str(dataset),
        "command": UNITTEST,
    }


def test_a_good_patch_passes_and_a_bad_one_does_not(where: dict[str, str], dataset: Path) -> None:
    good = run_patch_test("calc_task", 1, 2, agent_patch=FIX, **where)  # type: ignore[arg-type]
    assert (good.passed, good.tests_passed, good.tests_failed, good.error) == (True, 2, 0, None)
    none = run_patch_test("calc_task", 1, 2, agent_patch="", **where)  # type: ignore[arg-type]
    assert (none.passed, none.tests_passed, none.tests_failed, none.error) == (False, 1, 1, None)
    assert "FAIL: test_adds" in none.output
    assert (dataset.parent / "repository/calc.py").read_text() == ADD
    assert list((dataset.parent / "tmp").glob("aecbench-[cp]*")) == []


def test_a_patch_that_does_not_apply_is_said(where: dict[str, str]) -> None:
    wrong = patch("calc.py", ADD.replace("a", "c"), FIXED)
    result = run_patch_test("calc_task", 1, 2, agent_patch=wrong, **where)  # type: ignore[arg-type]
    assert (result.passed, result.tests_passed) == (False, 0)
    assert result.error == "agent_patch does not apply"
    assert "calc.py" in result.output


def test_no_tests_are_no_pass(where: dict[str, str]) -> None:
    where |= {"command": "true"}
    result = run_patch_test("calc_task", 1, 2, agent_patch=FIX, **where)  # type: ignore[arg-type]
    assert (result.passed, result.error) == (False, "no tests ran (exit code 0)")


def on_this_machine(dataset: Path, **more: object) -> dict[str, object]:
    return {
        "backend": "local",
        "repository": dataset.parent / "repository",
        "dataset": dataset,
        "command": UNITTEST,
        **more,
    }


def test_the_patch_may_be_a_file_and_defaults_to_the_features_own(dataset: Path) -> None:
    path = dataset / "calc_task/task1/feature2/feature.patch"
    for agent_patch in (path, str(path), None):
        options = on_this_machine(dataset, agent_patch=agent_patch)
        result = run_patch_test("calc_task", 1, 2, **options)  # type: ignore[arg-type]
        assert result.passed, result


def test_the_timeout_bounds_the_tests(dataset: Path) -> None:
    options = on_this_machine(dataset, timeout=3, command="sleep 1000")
    result = run_patch_test("calc_task", 1, 2, **options)  # type: ignore[arg-type]
    assert (result.passed, result.error) == (False, "timed out after 3 s")


def test_pytest_counts_too(dataset: Path) -> None:
    options = on_this_machine(dataset, command=f"env {ALONE} python3 -m pytest -q")
    result = run_patch_test("calc_task", 1, 2, **options)  # type: ignore[arg-type]
    assert (result.passed, result.tests_passed) == (True, 2), result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agent_patch": "no/such.patch"}, r"^agent_patch: 'no/such.patch' is not a text file; "),
        ({"repo_name": "other"}, r"^agent_patch: '.*other/task1/feature2/feature.patch' is no"),
        (
            {"repository": "nowhere"},
            r"^repository: 'nowhere' is not a directory; pass the path of a ",
        ),
        ({"backend": "podman"}, r"^get_backend: 'podman' is not known; use one of "),
    ],
)
def test_what_cannot_be_tested_is_one_line(
    dataset: Path, options: dict[str, object], message: str
) -> None:
    asked = {"repo_name": "calc_task", "task_id": 1, "feature_id": 2, **on_this_machine(dataset)}
    with pytest.raises(SettingsError, match=message):
        run_patch_test(**{**asked, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("==== 3 passed, 1 skipped in 0.12s ====", (3, 0)),
        ("1 failed, 2 passed, 1 error in 3.20s", (2, 2)),
        ("2 errors in 0.10s", (0, 2)),
        ("no tests ran in 0.01s", (0, 0)),
        ("4 passed in 1.00s\n2 failed, 1 xfailed in 2.00s", (0, 2)),
        ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)", (2, 2)),
        ("Ran 2 tests in 0.001s\n\nOK (expected failures=1)", (2, 0)),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", (0, 0)),
        (
            "test result: ok. 4 passed; 0 failed;\ntest result: FAILED. 1 passed; 2 failed;",
            (5, 2),
        ),
        ("--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n--- FAIL: TestB (0.00s)", (1, 2)),
        ("3 passed", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_tests_are_counted_as_their_runner_prints_them(
    output: str, counts: tuple[int, int]
) -> None:
    assert _counts(output) == counts
