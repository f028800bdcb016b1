"""The rules of checks, apart from running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.checks import CHECKS, Finding, Problem
from pytest_aecbench.checks.image import image
from pytest_aecbench.checks.rehearsal import Rehearsal
from pytest_aecbench.documents.dotted import load_class
from pytest_aecbench.errors import BuildError, LaunchError, SettingsError
from pytest_aecbench.ledger.checks import EXPLOITS, GROUPS, STANDARD, parse_checks
from pytest_aecbench.tasks.revealed import Expected, found
from pytest_aecbench.tasks.task import Task
from tests.checking import write_task


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("standard", STANDARD),
        ("exploits", EXPLOITS),
        ("all", STANDARD + EXPLOITS),
        ("leaks,solution,leaks", ("leaks", "solution")),
        ("exploits, empty", ("empty", *EXPLOITS)),
        ("exploit:preload", ("exploit:preload",)),
    ],
)
def test_checks_are_chosen_by_name_or_group(text: str, expected: tuple[str, ...]) -> None:
    assert parse_checks(text, "--aec-check") == expected


def test_every_check_that_can_be_chosen_has_its_function() -> None:
    assert sorted(CHECKS) == sorted(GROUPS["all"])
    functions = {name: load_class(name, "--aec-check", CHECKS) for name in CHECKS}
    assert {name for name, made in functions.items() if made.__name__ == name} == set(STANDARD)


def test_a_path_taken_for_a_check_says_where_paths_go() -> None:
    with pytest.raises(SettingsError) as raised:
        parse_checks("tasks", "--aec-check")
    message = str(raised.value)
    assert message.startswith("--aec-check: 'tasks' is not a check; use some of standard, exploits")
    assert message.endswith("paths go before --aec-check")
    with pytest.raises(SettingsError, match=r"'soluton' is not a check; did you mean 'solution'\?"):
        parse_checks("soluton", "--aec-check")
    with pytest.raises(SettingsError, match="does not name a check"):
        parse_checks(" , ", "--aec-check")


def test_a_finding_tells_each_problem_and_each_hint_once() -> None:
    finding = Finding((Problem("a is bad", "do x"), Problem("b is bad", "do x")))
    assert str(finding) == "a is bad\nb is bad\nhint: do x"


DROP = Expected("drop_v", 9.804164)


@pytest.mark.parametrize(
    ("text", "leak"),
    [
        ("The drop is 9.804 V.", "9.804"),
        ("The drop is 9.80416.", "9.80416"),
        ("about 9.804e0 V", "9.804e0"),
        ("The drop is 9.8 V.", None),  # too few digits to be more than chance
        ("The drop is 9.803 V.", None),
        ("Cable 19.804, v9.804, 9.8041.2", None),  # parts of other words and numbers
        ('For example {"drop_v": 9.80}', "9.80"),
        ('For example {"drop_v": 10}', None),  # a placeholder
        ('For example {"drop_v": 0.0}', None),
    ],
)
def test_a_number_leaks_by_its_digits_or_behind_its_name(text: str, leak: str | None) -> None:
    assert [token for _, token in found(text, [DROP])] == ([leak] if leak else [])


def test_small_whole_numbers_leak_only_behind_their_names() -> None:
    bars = Expected("bars", 5.0)
    assert list(found("Take 5 bars of 20 mm, 5 m long.", [bars])) == []
    assert [token for _, token in found("Write {'bars': 5}.", [bars])] == ["5"]


def test_texts_leak_only_behind_their_names() -> None:
    section = Expected("section", "310UB40.4")
    assert list(found("Choose among 250UB31.4 and 310UB40.4.", [section])) == []
    assert [token for _, token in found('{"section": "310UB40.4"}', [section])] == ["310UB40.4"]


def test_a_table_full_of_numbers_takes_more_digits() -> None:
    table = "\n".join(f"{number},{number / 7:.3f}" for number in range(300))
    assert list(found(f"{table}\n9.804", [DROP])) == []
    assert [token for _, token in found(f"{table}\n9.80416", [DROP])] == ["9.80416"]


def test_what_no_number_holds_is_no_leak_and_no_crash() -> None:
    assert list(found("1e999 1e-999 -1.0e99999 1234e400", [DROP, Expected("x", 0.0)])) == []


def problems_of(directory: Path, build: Exception | None = None) -> list[str]:
    """Run the check of the image with a backend that builds, or fails so."""

    def fixture(name: str) -> object:
        if name == "aec_task":
            return Task.load(directory)
        assert name == "aec_image"
        if build is not None:
            raise build
        return "image"

    return [problem.what for problem in image(Rehearsal(directory, fixture))]


@pytest.mark.parametrize(
    ("dockerfile", "problem"),
    [
        ("FROM python:3.11-slim\n", None),
        ("FROM python@sha256:0123\n", None),
        ("FROM registry.example:5000/python:3.11\n", None),
        ("FROM --platform=linux/amd64 python:3.11 AS base\nFROM base\n", None),
        ("FROM scratch\n", None),
        ("ARG TAG=3.11\nFROM python:${TAG}\n", None),
        ("FROM python:3.11 AS a\nCOPY --from=a /tests /x\n", None),
        ("FROM python\n", "FROM python: the base image may change"),
        ("FROM python:latest\n", "FROM python:latest: the base image may change"),
        ("from registry.example:5000/python\n", "FROM registry.example:5000/python: the base"),
        ("ARG TAG\nFROM python:$TAG\n", "FROM python:: the base image may change"),
        ("FROM a:1\nCOPY tests /t/\n", "COPY tests: copies secret files into the image"),
        ('FROM a:1\nCOPY ["solution/solve.sh", "/s/"]\n', "COPY solution/solve.sh: copies secret"),
        ("FROM a:1\nADD a \\\n  ../tests/verify.py /x/\n", "ADD ../tests/verify.py: copies secret"),
    ],
)
def test_an_image_is_pinned_and_holds_no_tests(
    tmp_path: Path, dockerfile: str, problem: str | None
) -> None:
    write_task(tmp_path, {"environment/Dockerfile": dockerfile})
    problems = problems_of(tmp_path)
    assert len(problems) == (0 if problem is None else 1)
    assert problem is None or problems[0].startswith(problem)


def test_a_ready_image_is_pinned_too(tmp_path: Path) -> None:
    ready = '[environment]\ndocker_image = "ubuntu"\n'
    write_task(tmp_path, {"task.toml": ready, "environment/Dockerfile": None})
    assert problems_of(tmp_path) == ["environment.docker_image: 'ubuntu' may change"]


def test_a_task_without_an_image_is_told_so(tmp_path: Path) -> None:
    write_task(tmp_path, {"environment/Dockerfile": None})
    (problem,) = problems_of(tmp_path)
    assert problem == "no environment/Dockerfile and no environment.docker_image"


def test_a_failed_build_is_a_finding_and_a_dead_engine_is_not(tmp_path: Path) -> None:
    write_task(tmp_path)
    assert problems_of(tmp_path, BuildError("step 2 failed")) == [
        "the image cannot be built: step 2 failed"
    ]
    with pytest.raises(LaunchError):
        problems_of(tmp_path, LaunchError("no engine"))
