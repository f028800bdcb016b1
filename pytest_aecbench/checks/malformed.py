"""The check ``malformed``: the verifier gives a reward for any output, however odd."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from pytest_aecbench.checks import Problem
from pytest_aecbench.errors import VerifierError
from pytest_aecbench.trials import stages
from pytest_aecbench.trials.reward import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["malformed"]

_HUGE_BYTES = 50 << 20
_DEPTH = 100_000
_HINT = (
    "expect anything in the output: check that it is a plain file, its size, its types; "
    "let the verifier write a 0 for an output that it cannot read"
)


def malformed(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Replace the output by one odd thing after another, and verify each."""
    rehearsal.execute()
    trial, sandbox = rehearsal.trial, rehearsal.sandbox
    agent_user = sandbox.user
    stages.collect(trial, sandbox)
    output = shlex.quote(str(rehearsal.task.output_path))
    for flaw, command in _flaws(_answer(rehearsal)).items():
        sandbox.execute(
            f'rm -rf {output}; mkdir -p "$(dirname {output})"; out={output}; {command}',
            user=agent_user,
        )
        try:
            reward = rehearsal.verify()
        except VerifierError as error:
            reason = str(error).splitlines()
            yield Problem(f"{flaw}: no reward, {reason[0]}; {reason[-1].strip()}", _HINT, key=flaw)
            continue
        if reward.value >= trial.threshold:
            yield Problem(f"{flaw}: passes, {describe(reward, trial.threshold)}", _HINT, key=flaw)


def _answer(rehearsal: Rehearsal) -> dict[str, object]:
    """Return the solution's answer, if it is one JSON object."""
    below = rehearsal.task.output_below_workdir()
    path = rehearsal.trial.workspace_dir / below if below else None
    try:
        answer = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _flaws(answer: dict[str, object]) -> dict[str, str]:
    """Return a shell command for each odd output, which it writes to ``$out``."""

    def every(value: str) -> str:
        names = answer or {"value": None}
        return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name in names) + "}"

    def text(content: str) -> str:
        return f'printf %s {shlex.quote(content)} > "$out"'

    repeat = "head -c {} /dev/zero | tr '\\0' '{}'"
    return {
        "empty": ': > "$out"',
        "binary": 'head -c 65536 /dev/urandom > "$out"',
        "huge": '{ printf \'{"x": "\'; '
        + repeat.format(_HUGE_BYTES, "x")
        + '; printf \'"}\'; } > "$out"',
        "nested": f'{{ {repeat.format(_DEPTH, "[")}; {repeat.format(_DEPTH, "]")}; }} > "$out"',
        "nan": text(every("NaN")),
        "texts": text(every('"1"')),
        "lists": text(every("[1, null, {}]")),
        "no object": text("[1, 2]"),
        "directory": 'mkdir "$out" && : > "$out/file"',
        "dangling link": 'ln -s /nowhere "$out"',
        "link": 'ln -s /etc/passwd "$out"',
    }
