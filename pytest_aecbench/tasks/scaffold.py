"""A new task: complete, working, and waiting for its problem to be written."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_aecbench import verify
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.supplied import HELPER, HELPER_SOURCE

__all__ = ["PLACEHOLDERS", "Answer", "NewTask", "is_current", "parse_answer", "vendor"]

DIFFICULTIES = ("easy", "medium", "hard")

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FORM = "NAME=VALUE[:UNIT], as in voltage_drop_v=9.8:V, bars=4, safe=true or class=C2|C1|C3"
_TOLERANCE = 0.01
_NO_UNIT = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One field of the output: its right value, a wrong one, and how each file speaks of it."""

    name: str
    right: float | bool | str
    wrong: float | bool | str
    kind: str
    unit: str
    tolerance: str
    field: str  # as Python, for the verifier


def parse_answer(text: str, where: str) -> Answer:
    """Read a field as the user writes it; the value says what kind of field it is."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value or not _NAME.fullmatch(name) or name == "reward":
        raise SettingsError(f"{where}: {text!r} is not a field; use {_FORM}")
    if value in ("true", "false"):
        right = value == "true"
        return Answer(name, right, not right, "true/false", _NO_UNIT, "exact", f"Flag({right})")
    number, _, unit = (part.strip() for part in value.partition(":"))
    if _NUMBER.fullmatch(number):
        return _numeric(name, number, unit, where)
    options = [option.strip() for option in value.split("|")]
    try:
        verify.Choice(options[0], options)
        is_choice = len(options) > 1 and all(o and o.isprintable() for o in options)
    except ValueError:  # two of them are alike
        is_choice = False
    if not is_choice:
        form = f"write the right text and then the others, as in {name}=C2|C1|C3"
        raise SettingsError(f"{where}: {value!r} is not a number, flag or choice; {form}")
    listed = sorted(options)
    kind = "one of " + ", ".join(f"`{option}`" for option in listed)
    field = f"Choice({_literal(options[0])}, {_literal(listed)})"
    return Answer(name, options[0], options[1], kind, _NO_UNIT, "exact", field)


def _literal(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _numeric(name: str, text: str, unit: str, where: str) -> Answer:
    is_whole = text.lstrip("+-").isdigit() and len(text) < 14  # more digits are not a count
    right = int(text) if is_whole else float(text)
    tolerance, allowed = "exact", ""
    if not is_whole:
        share = f"rel={_TOLERANCE}" if right else f"abs={_TOLERANCE}"
        tolerance = f"±{100 * _TOLERANCE:g} %" if right else f"±{_TOLERANCE}"
        allowed = f", {share}"
    in_unit = f", unit={_literal(unit)}" if unit else ""
    try:
        verify.Number(right, unit=unit or None)
    except ValueError:
        what = f"{unit!r} is not a known unit" if unit else f"{text!r} is too large"
        raise SettingsError(
            f"{where}: {name}: {what}; use one such as V, kW, mm2, m3/h, or leave it out"
        ) from None
    wrong = right + 1 if is_whole or not right else right / 2
    kind = "whole number" if is_whole else "number"
    field = f"Number({right!r}{allowed}{in_unit})"
    return Answer(name, right, wrong, kind, unit or _NO_UNIT, tolerance, field)


@dataclass(frozen=True, slots=True)
class NewTask:
    """The description of a new task."""

    task_id: str
    title: str
    difficulty: str
    tags: tuple[str, ...]
    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        parts = self.task_id.split("/")
        if len(parts) < 2 or not all(map(_PART.fullmatch, parts)):
            raise SettingsError(
                f"DOMAIN/NAME: {self.task_id!r} is not valid; use letters, digits, - and _, "
                "as in electrical/voltage-drop"
            )
        if not self.title.strip() or not self.title.isprintable():
            raise SettingsError(f"--title: {self.title!r} is not valid; use one line of text")
        if self.difficulty not in DIFFICULTIES:
            raise SettingsError(
                f"--difficulty: {self.difficulty!r} is not valid; use {', '.join(DIFFICULTIES)}"
            )
        names = [answer.name for answer in self.answers]
        if len(set(names)) < len(names):
            raise SettingsError("--output-field: a name occurs twice; name each field once")

    def write(self, tasks_dir: Path) -> Path:
        """Make the task's directory, all of it or nothing; one that exists is left alone."""
        target = tasks_dir / self.task_id
        for parent in target.relative_to(tasks_dir).parents:
            if (tasks_dir / parent / "task.toml").exists():
                raise SettingsError(
                    f"DOMAIN/NAME: {tasks_dir / parent} is a task itself; use another name"
                )
        if target.exists() or target.is_symlink():
            raise SettingsError(f"DOMAIN/NAME: {target} exists; use another name or remove it")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as scratch:
                made = Path(scratch, "task")
                for name, text in self.files().items():
                    (made / name).parent.mkdir(parents=True, exist_ok=True)
                    (made / name).write_text(text, encoding="utf-8")
                    (made / name).chmod(0o755 if name.endswith(".sh") else 0o644)
                made.rename(target)
        except OSError as error:
            reason = f"{target} cannot be made; {error.strerror}"
            raise SettingsError(f"--tasks-dir: {reason}") from None
        return target

    def files(self) -> dict[str, str]:
        """Return what each file holds."""
        right = {answer.name: answer.right for answer in self.answers}
        first = self.answers[0]
        wrong = {**right, first.name: first.wrong}
        classes = sorted({answer.field.partition("(")[0] for answer in self.answers})
        return {
            "task.toml": _TASK_TOML.format(
                difficulty=self.difficulty,
                tags=_literal(list(self.tags)),
            ),
            "instruction.md": _INSTRUCTION.format(
                title=self.title,
                rows="\n".join(
                    f"| `{a.name}` | {a.kind} | {a.unit} | {a.tolerance} |" for a in self.answers
                ),
            ),
            "environment/Dockerfile": _DOCKERFILE,
            "tests/test.sh": _TEST_SH,
            "tests/verify.py": _VERIFY.format(
                classes=", ".join(classes),
                fields="\n".join(f'        "{a.name}": {a.field},' for a in self.answers),
            ),
            "tests/fixtures/golden_pass.md": _golden("The answer of the solution.", right),
            "tests/fixtures/golden_fail.md": _golden(f"`{first.name}` is wrong.", wrong),
            "solution/solve.sh": _SOLVE.format(answer=_line(right)),
        }


def is_current(task_dir: Path) -> bool:
    """Return whether the task has a copy of today's verify.py."""
    copy = task_dir / HELPER
    return copy.is_file() and copy.read_bytes() == HELPER_SOURCE.read_bytes()


def vendor(task_dir: Path) -> None:
    """Put a copy of today's verify.py into the task."""
    target = task_dir / HELPER
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(HELPER_SOURCE, target)


def _line(answer: dict[str, float | bool | str]) -> str:
    return json.dumps(answer, ensure_ascii=False)


def _golden(explanation: str, answer: dict[str, float | bool | str]) -> str:
    return f"{explanation}\n\n```json\n{_line(answer)}\n```\n"


_TASK_TOML = """\
version = "1.0"

[metadata]
difficulty = "{difficulty}"
lifecycle = "proposed"
tags = {tags}

[agent]
timeout_sec = 600

[verifier]
timeout_sec = 60
environment_mode = "separate"

[environment]
build_timeout_sec = 600
cpus = 1
memory_mb = 1024
allow_internet = false
"""
_PROBLEM = (
    "State the problem here: what is given, which method or standard to use, and what is to be "
    "found."
)
_INSTRUCTION = f"""\
# {{title}}

{_PROBLEM}

## Output

Write one JSON object, on one line, to `/workspace/output.jsonl`:

| field | type | unit | tolerance |
|---|---|---|---|
{{rows}}

Tolerances in percent are relative to the exact result. Every field counts the same.
"""
_DOCKERFILE = """\
FROM python:3.11-slim

WORKDIR /workspace
"""
_TEST_SH = """\
#!/usr/bin/env bash
# -E and -s keep the agent's Python settings out, -B keeps this directory as it was uploaded.
set -u
exec python3 -EsB /tests/verify.py
"""
_VERIFY = '''\
"""What is right, and how near an answer must be."""

from aec_verify import {classes}, verify

verify(
    {{
{fields}
    }},
    output="/workspace/output.jsonl",
)
'''
_SOLUTION = "# Write a solution here that works out the result, in another way than the verifier."
_SOLVE = f"""\
#!/usr/bin/env bash
{_SOLUTION}
cat > /workspace/output.jsonl <<'ANSWER'
{{answer}}
ANSWER
"""
# file of a new task -> what its author has to replace, and by what
PLACEHOLDERS = {
    "instruction.md": (_PROBLEM.partition(":")[0], "state the problem"),
    "solution/solve.sh": (_SOLUTION, "solve the problem there, and remove the comment"),
}
