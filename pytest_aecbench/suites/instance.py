"""The files of a generated task: an ordinary task directory, the same bytes on every machine."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from pytest_aecbench import __version__
from pytest_aecbench.suites.grading import field_source
from pytest_aecbench.suites.prompt import OUTPUT
from pytest_aecbench.suites.sampling import mistaken

if TYPE_CHECKING:
    from pytest_aecbench.suites.engine import Answer
    from pytest_aecbench.suites.sampling import Instance

__all__ = ["PROGRAMS", "rounded", "task_files"]

PROGRAMS = ("tests/test.sh",)
_DIGITS = 6


def task_files(instance: Instance, suite: str = "", *, holdout: bool = False) -> dict[str, str]:
    """Return the text of every file, by its path below the task."""
    template = instance.template
    files = {f"environment/{name}": text for name, text in instance.files.items()}
    if instance.cell.tool_mode == "with-tool":
        files |= {f"tools/{name}": text for name, text in template.tools.items()}
    mistake, wrong = _wrong_answer(instance)
    return files | {
        "task.toml": _task_toml(instance, suite, holdout),
        "instruction.md": instance.prompt,
        "environment/Dockerfile": _dockerfile(tuple(instance.files)),
        "tests/test.sh": _TEST_SH,
        "tests/verify.py": _verifier(instance),
        "tests/engine.py": template.engine.source,
        "tests/instance.json": json.dumps({"params": instance.params}, indent=2) + "\n",
        "tests/fixtures/golden_pass.md": _golden(
            "The exact answer, rounded to six significant digits.", instance.truth
        ),
        "tests/fixtures/golden_fail.md": _golden(f"A mistake: {mistake}.", wrong),
        "solution/solve.py": _solution(instance),
    }


def _wrong_answer(instance: Instance) -> tuple[str, Answer]:
    """Return the first named mistake, or else numbers of twice the right size."""
    truth = instance.truth
    wrong = mistaken(instance.template, instance.params, truth)
    if wrong:
        name, answer = next(iter(wrong.items()))
        return name.replace("_", " "), answer
    return "every number is twice as large", {
        name: value if isinstance(value, (bool, str)) else 2 * value + (not value)
        for name, value in truth.items()
    }


def rounded(value: bool | float | str) -> bool | float | str:
    """Return a number to six significant digits, which are the same on every machine."""
    if isinstance(value, (bool, int, str)) or not math.isfinite(value):
        return value
    return float(f"{value:.{_DIGITS}g}")


def _golden(explanation: str, answer: Answer) -> str:
    line = json.dumps({name: rounded(value) for name, value in answer.items()}, ensure_ascii=False)
    return f"{explanation}\n\n```json\n{line}\n```\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _task_toml(instance: Instance, suite: str, holdout: bool) -> str:
    template, cell, key = instance.template, instance.cell, instance.key
    meta = template.table.meta
    tags = [
        *meta.tags,
        meta.name,
        cell.visibility,
        cell.tool_mode,
        *([key.split] * bool(key.split)),
    ]
    generation = {
        "template": template.id,
        "version": template.version,
        "template_digest": template.digest,
        "generator": __version__,
        "suite": suite,
        "seed": key.seed,
        "split": key.split,
        "index": key.index,
        "attempt": key.attempt,
        "difficulty": cell.difficulty,
        "visibility": cell.visibility,
        "tool_mode": cell.tool_mode,
        "archetype": instance.draw.archetype,
    }
    lines = (
        f"{name} = {_quoted(value) if isinstance(value, str) else value}"
        for name, value in generation.items()
    )
    return _TASK_TOML.format(
        domain=meta.discipline,
        difficulty=cell.difficulty,
        visibility="holdout" if holdout else "public",
        category=meta.category,
        tags=json.dumps(list(dict.fromkeys(tags)), ensure_ascii=False),
        generation="\n".join(lines),
    )


def _dockerfile(files: tuple[str, ...]) -> str:
    copy = f"COPY {' '.join(sorted(files))} /workspace/\n" if files else ""
    return f"FROM python:3.11-slim\n\nWORKDIR /workspace\n{copy}"


def _verifier(instance: Instance) -> str:
    template = instance.template
    outputs = {name: template.outputs[name] for name in instance.truth}
    fields = {name: field_source(name, output) for name, output in outputs.items()}
    classes = sorted({source.partition("(")[0] for source in fields.values()})
    return _VERIFY.format(
        title=template.title.replace('"', "'").replace("\\", ""),
        classes=", ".join(classes),
        fields="\n".join(f"        {name!r}: {source}," for name, source in fields.items()),
        output=OUTPUT,
    )


def _solution(instance: Instance) -> str:
    source = instance.template.engine.solution
    asked = list(instance.truth)
    return _SOLVE.format(source=source, params=instance.params, asked=asked, output=OUTPUT)


_TASK_TOML = """\
version = "1.0"

[metadata]
domain = "{domain}"
difficulty = "{difficulty}"
visibility = "{visibility}"
category = "{category}"
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

[generation]
{generation}
"""
_TEST_SH = """\
#!/usr/bin/env bash
# -E and -s keep the agent's Python settings out, -B keeps this directory as it was uploaded.
set -u
exec python3 -EsB /tests/verify.py
"""
_VERIFY = '''\
"""Expected answer: {title}, computed from the parameters in instance.json."""

import json
from pathlib import Path

from aec_verify import {classes}, verify
from engine import compute

instance = json.loads(Path(__file__).with_name("instance.json").read_text(encoding="utf-8"))
expected = compute(**instance["params"])

verify(
    {{
{fields}
    }},
    output="{output}",
)
'''
_SOLVE = """\
{source}

PARAMS = {params!r}
ASKED = {asked!r}

if __name__ == "__main__":
    import json

    answer = solve(**PARAMS)
    with open("{output}", "w", encoding="utf-8") as output:
        output.write(json.dumps({{name: answer[name] for name in ASKED}}) + "\\n")
"""
