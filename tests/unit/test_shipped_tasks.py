"""The shipped tasks: solvable as stated, graded by verifiers that no answer can crash or fool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.checks.rewards import Example
from pytest_aecbench.tasks.supplied import HELPER, supplied_files
from pytest_aecbench.verify import read_answer
from tests.costs import at_night
from tests.site_diary import DIARY, Diary

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2] / "tasks"
TASKS = sorted(path.parent for path in ROOT.glob("*/*/task.toml"))
SANDBOX_PATH = re.compile(r"(?<![\w./-])/(workspace|tests|logs|solution)\b")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


def task_id(task: Path) -> str:
    return task.relative_to(ROOT).as_posix()


def config(task: Path) -> dict[str, Any]:
    return tomllib.loads((task / "task.toml").read_text(encoding="utf-8"))


def instruction(task: Path) -> str:
    return (task / "instruction.md").read_text(encoding="utf-8")


def output_path(task: Path) -> str:
    """Return the last sandbox path that the instruction names, as the harness does."""
    paths: list[str] = re.findall(r"/workspace/[\w./-]*\w", instruction(task))
    return paths[-1]


def copied_inputs(task: Path) -> list[str]:
    dockerfile = (task / "environment/Dockerfile").read_text(encoding="utf-8")
    return [
        name
        for line in re.findall(r"^COPY (.+) /workspace/$", dockerfile, re.MULTILINE)
        for name in line.split()
    ]


# By day some tasks will do where the code decides that grades all of them.
some_by_day = pytest.mark.parametrize(
    "task",
    [task if number % 5 == 0 else at_night(task) for number, task in enumerate(TASKS)],
    ids=task_id,
    indirect=True,
    scope="module",
)

# Grades each output in a fork of one interpreter, which knows nothing but the standard library.
GRADE_EACH = """
import csv, dataclasses, json, math, os, pathlib, re, runpy, sys, typing

verifier, outputs, output, logs, grades = sys.argv[1:]
sys.path[0] = os.path.dirname(verifier)
sys.dont_write_bytecode, sys.pycache_prefix = False, grades  # what the first compiles is for all
for name in sorted(os.listdir(outputs)):
    os.rename(os.path.join(outputs, name), output)
    os.mkdir(os.path.join(grades, name))
    child = os.fork()
    if not child:
        os.dup2(os.open(os.path.join(grades, name, "stderr"), os.O_CREAT | os.O_WRONLY), 2)
        break
    _, status = os.waitpid(child, 0)
    with open(os.path.join(grades, name, "status"), "w") as file:
        file.write(str(status))
    if os.path.exists(logs):
        os.rename(logs, os.path.join(grades, name, "logs"))
    (os.rmdir if os.path.isdir(output) and not os.path.islink(output) else os.remove)(output)
else:
    sys.exit()
sys.argv[:] = [verifier]
runpy.run_path(verifier, run_name="__main__")
"""


@dataclass(frozen=True)
class Graded:
    reward: dict[str, float]
    fields: dict[str, dict[str, Any]]
    problem: str | None

    @classmethod
    def of(cls, logs: Path) -> Graded:
        """Read what a verifier left."""
        logs = logs / "verifier"
        assert sorted(path.name for path in logs.iterdir()) == ["details.json", "reward.json"]
        details = json.loads((logs / "details.json").read_text(encoding="utf-8"))
        reward = json.loads((logs / "reward.json").read_text(encoding="utf-8"))
        return cls(reward, details["fields"], details["problem"])


@dataclass(frozen=True)
class Sandbox:
    """A throwaway root with a task's files, their absolute paths pointed into it."""

    root: Path
    output: Path

    @classmethod
    def of(cls, task: Path, root: Path) -> Sandbox:
        sources = {
            root / "workspace" / name: task / "environment" / name for name in copied_inputs(task)
        }
        for part, target in (
            ("tests", "tests"),
            ("solution", "solution"),
            ("tools", "workspace/tools"),
        ):
            for source in (task / part).rglob("*"):
                if source.is_file():
                    sources[root / target / source.relative_to(task / part)] = source
        sources |= {root / name: source for name, source in supplied_files(task).items()}
        for staged, source in sources.items():
            staged.parent.mkdir(parents=True, exist_ok=True)
            text = SANDBOX_PATH.sub(rf"{root}/\1", source.read_text(encoding="utf-8"))
            staged.write_text(text, encoding="utf-8")
        (root / "workspace").mkdir(exist_ok=True)
        return cls(root, root / output_path(task).lstrip("/"))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.root / "workspace",
            env={"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
        )

    def solve(self) -> None:
        script = self.root / "solution/solve.sh"
        interpreter = "bash" if script.exists() else "python3"
        result = self.run(
            interpreter, str(script if script.exists() else script.with_suffix(".py"))
        )
        assert result.returncode == 0, result.stderr

    def clear_output(self) -> None:
        if self.output.is_dir() and not self.output.is_symlink():
            self.output.rmdir()
        else:
            self.output.unlink(missing_ok=True)

    def verify(self, content: str | bytes | None = None) -> Graded:
        """Grade what the workspace holds, or ``content`` as the output file."""
        if content is not None:
            self.clear_output()
            self.output.write_bytes(content if isinstance(content, bytes) else content.encode())
        shutil.rmtree(self.root / "logs", ignore_errors=True)
        result = self.run("bash", str(self.root / "tests/test.sh"))
        assert (result.returncode, result.stderr) == (0, "")
        return Graded.of(self.root / "logs")

    def verify_each(
        self, outputs: Mapping[str, str | bytes | Callable[[Path], object]]
    ) -> dict[str, Graded]:
        """Grade each of these as the output file, or what they make of it, in one process."""
        place, grades = self.root / "outputs", self.root / "grades"
        place.mkdir()
        grades.mkdir()
        for name, content in outputs.items():
            if callable(content):
                content(place / name)
            else:
                content = content if isinstance(content, bytes) else content.encode()
                (place / name).write_bytes(content)
        shutil.rmtree(self.root / "logs", ignore_errors=True)
        self.clear_output()
        verifier, logs = self.root / "tests/verify.py", self.root / "logs"
        paths = (verifier, place, self.output, logs, grades)
        done = self.run("python3", "-EsB", "-c", GRADE_EACH, *map(str, paths))
        assert (done.returncode, done.stderr) == (0, "")
        graded = {}
        for name in outputs:
            ended = [(grades / name / what).read_text() for what in ("status", "stderr")]
            assert (name, *ended) == (name, "0", "")
            graded[name] = Graded.of(grades / name / "logs")
        shutil.rmtree(place)
        shutil.rmtree(grades)
        return graded


@dataclass(frozen=True)
class Solved:
    sandbox: Sandbox
    answer: dict[str, Any]
    graded: Graded


@pytest.fixture(scope="module", params=TASKS, ids=task_id)
def task(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture(scope="module")
def solved(task: Path, tmp_path_factory: pytest.TempPathFactory) -> Solved:
    sandbox = Sandbox.of(task, tmp_path_factory.mktemp(task.name))
    sandbox.solve()
    answer: dict[str, Any] = read_answer(str(sandbox.output), str(sandbox.output.parent))
    return Solved(sandbox, answer, sandbox.verify())


def test_tasks_spread_over_domains_and_difficulties() -> None:
    difficulties = Counter(config(task)["metadata"]["difficulty"] for task in TASKS)
    assert len(TASKS) >= 27
    assert len({task.parent.name for task in TASKS}) >= 6
    assert set(difficulties) == {"easy", "medium", "hard"}
    assert min(difficulties.values()) >= 3
    assert ROOT / "electrical/voltage-drop" in TASKS


def test_tasks_show_every_feature_a_task_may_have() -> None:
    configs = [config(task) for task in TASKS]
    assert sum(each["metadata"]["visibility"] == "holdout" for each in configs) == 1
    assert any(each["verifier"].get("environment_mode") == "separate" for each in configs)
    assert any(not each["environment"]["allow_internet"] for each in configs)
    assert any(list((task / "tools").glob("*.py")) for task in TASKS)
    assert any(len(copied_inputs(task)) > 1 for task in TASKS)
    assert any((task / "solution/solve.py").is_file() for task in TASKS)
    assert any((task / "solution/solve.sh").is_file() for task in TASKS)


def test_nothing_but_tasks_lies_below_the_tasks_root() -> None:
    stray = [path for path in [*ROOT.iterdir(), *ROOT.glob("*/*")] if not path.is_dir()]
    assert stray == []
    assert sorted(ROOT.glob("*/*")) == TASKS


def test_task_is_complete_and_carries_its_metadata(task: Path) -> None:
    settings = config(task)
    assert settings["version"] == "1.0"
    assert settings["metadata"]["visibility"] in ("public", "holdout")
    assert task.parent.name in settings["metadata"]["tags"]
    assert settings["agent"]["timeout_sec"] > settings["verifier"]["timeout_sec"] > 0
    for name in ("golden_pass.md", "golden_fail.md"):
        assert (task / "tests/fixtures" / name).is_file()


def test_environment_is_the_slim_image_with_every_input_copied_in(task: Path) -> None:
    lines = (task / "environment/Dockerfile").read_text(encoding="utf-8").split("\n")
    assert lines[:3] == ["FROM python:3.11-slim", "", "WORKDIR /workspace"]
    inputs = {path.name for path in (task / "environment").iterdir()} - {"Dockerfile"}
    assert set(copied_inputs(task)) == inputs


def test_every_task_is_graded_by_the_same_code(task: Path) -> None:
    assert list(supplied_files(task)) == [HELPER]
    test_sh = ROOT / "electrical/voltage-drop/tests/test.sh"
    assert (task / "tests/test.sh").read_bytes() == test_sh.read_bytes()


def test_verifier_grades_against_its_own_copy_of_the_inputs(task: Path) -> None:
    verifier = (task / "tests/verify.py").read_text(encoding="utf-8")
    assert [name for name in copied_inputs(task) if f"/workspace/{name}" in verifier] == []
    for kept in (task / "tests").glob("inputs/*"):
        assert kept.read_bytes() == (task / "environment" / kept.name).read_bytes(), kept.name


def test_no_placeholder_is_left_in_what_people_read(task: Path) -> None:
    for path in [*task.rglob("*.md"), *task.rglob("*.toml"), task / "environment/Dockerfile"]:
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"\{\{|\}\}|\$\{|\bTODO\b|\bFIXME\b|\bXXX\b|<[A-Z_]+>", text) == []


KINDS = {
    bool: "true/false",
    int: "whole number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}


def kind_and_tolerance(field: dict[str, Any], kind: str, tolerance: str) -> tuple[str, str]:
    """Return what a field takes; one that may be a text must not say whether it is."""
    expected = field["expected"]
    if kind == "number or text" and isinstance(expected, str):
        return kind, tolerance
    if kind == "number or text" and isinstance(expected, (int, float)):
        return kind, field["tolerance"]
    return KINDS[type(expected)], field["tolerance"]


def numbers(value: object) -> Iterator[float]:
    """Yield the numbers in a part of an answer."""
    if isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_instruction_promises_exactly_what_the_verifier_checks(task: Path, solved: Solved) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (.+?) \| .+ \| (.+?) \| (.+?) \|$", instruction(task), re.MULTILINE
    )
    promised = {name: (kind, tolerance, float(share)) for name, kind, tolerance, share in rows}
    checked = {
        name: (*kind_and_tolerance(field, *promised[name][:2]), field["weight"])
        for name, field in solved.graded.fields.items()
    }
    assert promised == checked
    assert sum(share for _, _, share in promised.values()) == pytest.approx(1)
    assert output_path(task) in (task / "tests/verify.py").read_text(encoding="utf-8")


def test_the_answer_is_nowhere_the_agent_can_read_it(task: Path, solved: Solved) -> None:
    visible = [task / "instruction.md", *(task / "environment").iterdir(), *task.glob("tools/*")]
    tokens = {token for path in visible for token in NUMBER.findall(path.read_text("utf-8"))}
    precise = [token for token in tokens if len(re.sub(r"\D", "", token).lstrip("0")) >= 4]
    expected = list(numbers([field["expected"] for field in solved.graded.fields.values()]))
    leaks = [
        (token, value)
        for token in precise
        for value in expected
        if abs(float(token) - value) <= 0.5 * 10.0 ** -len(token.partition(".")[2])
    ]
    assert leaks == []


def test_solution_earns_everything(solved: Solved) -> None:
    assert solved.graded.problem is None
    assert solved.graded.reward == {"reward": 1.0, **dict.fromkeys(solved.answer, 1)}


def test_empty_workspace_earns_nothing(task: Path, tmp_path: Path) -> None:
    graded = Sandbox.of(task, tmp_path).verify()
    assert set(graded.reward.values()) == {0}
    assert "does not exist" in str(graded.problem)


def fixtures(task: Path, pattern: str) -> list[Path]:
    return sorted((task / "tests/fixtures").glob(pattern))


def test_golden_examples_earn_what_they_say(task: Path, solved: Solved) -> None:
    outputs: dict[str, str] = {}
    examples: dict[str, Example] = {}
    for path in fixtures(task, "golden_*.md"):
        text = path.read_text(encoding="utf-8")
        explanation, block, rest = re.split(r"```(?:json)?\n", text)
        assert explanation.strip()
        assert not rest.strip()
        outputs |= {path.stem: block, f"{path.stem} in a fence": text}
        examples[path.stem] = Example.read(path, Path("output.json"))  # a report states none
    graded = solved.sandbox.verify_each(outputs)
    assert {each.problem for each in graded.values()} == {None}
    assert {"golden_pass", "golden_fail"} <= examples.keys()
    for name, example in examples.items():
        earned = graded[name].reward["reward"]
        assert graded[f"{name} in a fence"] == graded[name]
        assert earned == 1.0 if name == "golden_pass" else earned < 1.0, name
        assert example.agrees(earned), (name, earned)
        assert example.stated or not name.startswith("golden_fail_"), name


A_LITTLE = 0.2


def test_guesses_earn_little(task: Path, solved: Solved) -> None:
    guesses = {
        path.stem: Example.read(path, Path(output_path(task))).answer
        for path in fixtures(task, "golden_fail_guess_*.md")
    }
    assert guesses or not fixtures(task, "golden_fail_*.md")
    texts = sorted({value for value in solved.answer.values() if isinstance(value, str)})
    guesses |= {f"always {text}": every(solved.answer, json.dumps(text)) for text in texts}
    for guess, graded in solved.sandbox.verify_each(guesses).items():
        assert graded.reward["reward"] <= A_LITTLE, guess


def test_the_last_of_several_answers_counts(solved: Solved) -> None:
    wrong, right = every(solved.answer, "null"), json.dumps(solved.answer)
    outputs = {"right last": f"{wrong}\n{right}\n", "wrong last": f"{right}\n{wrong}\n"}
    graded = solved.sandbox.verify_each(outputs)
    assert graded["right last"].reward["reward"] == 1.0
    assert graded["wrong last"].reward["reward"] == 0


def test_tolerances_hold_to_their_edge_and_no_further(solved: Solved) -> None:
    wrong: dict[type, object] = {str: "another", list: ["another"], dict: {"another": 1}}

    def shifted(factor: float) -> str:
        answer = dict(solved.answer)
        for name, field in solved.graded.fields.items():
            tolerance, expected = field["tolerance"], field["expected"]
            if not isinstance(expected, (int, float)):
                answer[name] = answer[name] if factor < 1 else wrong[type(expected)]
            elif tolerance.endswith("%"):
                answer[name] = expected * (1 + factor * float(tolerance[1:-2]) / 100)
            elif tolerance != "exact":
                answer[name] = expected - factor * float(tolerance[1:])
            elif factor > 1:
                answer[name] = not expected if isinstance(expected, bool) else expected + 1
        return json.dumps(answer)

    graded = solved.sandbox.verify_each({"within": shifted(0.99), "beyond": shifted(1.01)})
    assert graded["within"].reward["reward"] == 1.0
    assert set(graded["beyond"].reward.values()) == {0}


def test_a_verdict_without_its_figures_earns_nothing(solved: Solved) -> None:
    verdicts = {name: value for name, value in solved.answer.items() if isinstance(value, bool)}
    assert solved.sandbox.verify(json.dumps(verdicts)).reward["reward"] == 0


def test_extra_fields_and_layout_do_not_matter(solved: Solved) -> None:
    answer = {"note": "\ud800 ±", "nested": [[{}]] * 3, **solved.answer}
    assert solved.sandbox.verify(json.dumps(answer, indent=2)).reward["reward"] == 1.0


def every(answer: dict[str, Any], value: str) -> str:
    """Return an object with the answer's keys and the same JSON text for each value."""
    return "{" + ", ".join(f'"{name}": {value}' for name in answer) + "}"


@some_by_day
def test_unreadable_outputs_earn_nothing_and_never_crash(solved: Solved) -> None:
    text = json.dumps(solved.answer)
    unreadable: dict[str, str | bytes] = {
        "empty": b"",
        "blank": b" \n\t\n",
        "binary": bytes(range(256)) * 64,
        "not UTF-8": text.encode("utf-16"),
        "deep lists": "[" * 100_000,
        "deep objects": '{"a":' * 100_000,
        "cut short": text[:-1],
        "one key twice": text[:-1] + ", " + text[1:],
        "in a list": f"[{text}]",
        "null": "null",
        "oversized": text + " " * 2_000_000,
    }
    for flaw, graded in solved.sandbox.verify_each(unreadable).items():
        assert set(graded.reward.values()) == {0}, flaw
        assert graded.problem, flaw


@some_by_day
def test_values_of_the_wrong_kind_earn_nothing_and_never_crash(solved: Solved) -> None:
    answer = solved.answer
    wrong = {
        "NaN": every(answer, "NaN"),
        "infinite": every(answer, "-Infinity"),
        "endless integers": every(answer, "9" * 10_000),
        "overflowing": every(answer, "1e999"),
        "huge integers": every(answer, "1" + "0" * 400),
        "texts": json.dumps(
            {
                name: [value] if isinstance(value, str) else str(value).lower()
                for name, value in answer.items()
            }
        ),
        "odd texts": every(answer, r'"\ud800\u0000"'),
        "true": every(answer, "true"),
        "false": every(answer, "false"),
        "nulls": every(answer, "null"),
        "nested": every(answer, "[" * 400 + "]" * 400),
    }
    for flaw, graded in solved.sandbox.verify_each(wrong).items():
        assert set(graded.reward.values()) == {0}, flaw
        assert all(field["error"] for field in graded.fields.values()), flaw


@some_by_day
def test_output_that_is_no_plain_file_earns_nothing(solved: Solved) -> None:
    right = solved.sandbox.root / "right.json"
    right.write_text(json.dumps(solved.answer))
    makers: dict[str, Callable[[Path], object]] = {
        "a directory": Path.mkdir,
        "a link to a file of the host": lambda path: path.symlink_to("/etc/passwd"),
        "a link to the answer": lambda path: path.symlink_to(right),
        "a link to nothing": lambda path: path.symlink_to("nowhere"),
        "a pipe": os.mkfifo,
    }
    for kind, graded in solved.sandbox.verify_each(makers).items():
        assert set(graded.reward.values()) == {0}, kind
        assert "not a regular file" in str(graded.problem), kind


@some_by_day
def test_modules_in_the_workspace_cannot_stand_in_for_the_verifiers(solved: Solved) -> None:
    workspace = solved.sandbox.root / "workspace"
    names = [workspace / f"{name}.py" for name in ("aec_verify", "json", "math", "pathlib")]
    for name in names:
        name.write_text("raise SystemExit('imported from the workspace')\n")
    graded = solved.sandbox.verify(json.dumps(solved.answer))
    for name in names:
        name.unlink()
    assert graded.reward["reward"] == 1.0


@some_by_day
def test_verifier_writes_only_logs(task: Path, tmp_path: Path) -> None:
    sandbox = Sandbox.of(task, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    sandbox.verify()
    after = {
        path: path.stat().st_mtime_ns
        for path in tmp_path.rglob("*")
        if (tmp_path / "logs") not in (path, *path.parents)
    }
    assert after == before


@some_by_day
def test_a_broken_verifier_leaves_no_reward(task: Path, tmp_path: Path) -> None:
    sandbox = Sandbox.of(task, tmp_path)
    sandbox.solve()
    inputs = tmp_path / "tests/inputs"
    shutil.rmtree(inputs) if inputs.exists() else (tmp_path / "tests/aec_verify.py").unlink()
    result = sandbox.run("bash", str(tmp_path / "tests/test.sh"))
    assert result.returncode != 0
    assert not (tmp_path / "logs").exists()


def test_the_site_diary_is_what_its_program_writes() -> None:
    assert DIARY.read_text(encoding="utf-8") == Diary().text
