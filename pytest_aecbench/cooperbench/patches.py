"""``run_patch_test``: CooperBench's test of a patch against one feature's tests, in a sandbox."""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.cooperbench import TIMED_OUT, get_backend
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from pytest_aecbench.cooperbench import ExecResult, Sandbox

__all__ = ["PatchTestResult", "run_patch_test"]

# Without the ceiling, git would patch a repository in a parent directory.
_APPLY = """
if command -v git > /dev/null; then
  GIT_CEILING_DIRECTORIES=$(dirname "$PWD") git -c safe.directory='*' apply "$1"
elif command -v patch > /dev/null; then
  patch -p1 --batch --silent --input="$1"
else
  echo "the image has neither git nor patch" >&2; exit 127
fi
"""
_PYTEST = re.compile(r"^.*\d+ (?:passed|failed|error).* in [\d.]+s.*$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|error)")
_UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s\s+(.*)$", re.MULTILINE)
_NAMED_COUNT = re.compile(r"([a-z ]+)=(\d+)")
_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;", re.MULTILINE)
_GO = re.compile(r"^\s*--- (PASS|FAIL): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PatchTestResult:
    """The numbers of passed and failed tests; ``error`` says why none were counted."""

    passed: bool
    tests_passed: int
    tests_failed: int
    output: str
    error: str | None = None


def run_patch_test(
    repo_name: str,
    task_id: int,
    feature_id: int,
    agent_patch: str | Path | None = None,
    timeout: int = 600,
    backend: str = "docker",
    *,
    tests_patch: str | Path | None = None,
    command: str = "python3 -m pytest",
    image: str | None = None,
    repository: str | Path | None = None,
    workdir: str = "/workspace",
    dataset: str | Path = "dataset",
) -> PatchTestResult:
    """Apply the agent's patch and the feature's tests, run them, and count.

    Each patch is given as a path or as text. The default of ``agent_patch`` is the dataset's own
    ``<repo>/task<n>/feature<n>/feature.patch``, that of ``tests_patch`` its ``tests.patch``; an
    empty text applies nothing. The default ``image`` is ``cooperbench/<repo>:task<n>``, with the
    repository in ``workdir``; a ``repository`` of the host replaces it.

    Raises:
        SettingsError: an argument is wrong.
        BackendError: the sandbox broke.

    """
    feature = Path(dataset, repo_name, f"task{task_id}", f"feature{feature_id}")
    patches = {
        "agent_patch": _text(agent_patch, feature / "feature.patch", "agent_patch"),
        "tests_patch": _text(tests_patch, feature / "tests.patch", "tests_patch"),
    }
    if repository is not None and not Path(repository).is_dir():
        raise SettingsError(
            f"repository: {str(repository)!r} is not a directory; pass the path of a directory"
        )
    image = image or f"cooperbench/{repo_name}:task{task_id}"
    sandbox = get_backend(backend).create_sandbox(image, timeout, workdir)
    try:
        uploads = {} if repository is None else {workdir: Path(repository)}
        for name, text in patches.items():
            applied = _apply(sandbox, name, text, uploads)
            if applied is not None and applied.returncode != 0:
                reason = _timeout(applied, timeout) or f"{name} does not apply"
                return PatchTestResult(False, 0, 0, _output(applied), reason)
        tests = shlex.join(shlex.split(command))
        return _judge(sandbox.perform("run_patch_test", tests, uploads), timeout)
    finally:
        sandbox.terminate()


def _text(patch: str | Path | None, default: Path, where: str) -> str:
    """Return the text of a patch that is given as a path or as text."""
    if patch == "" or (isinstance(patch, str) and "\n" in patch):
        return str(patch)
    path = Path(default if patch is None else patch)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(
            f"{where}: {str(path)!r} is not a text file; pass the path or the text of a patch"
        ) from None


def _apply(sandbox: Sandbox, name: str, text: str, uploads: dict[str, Path]) -> ExecResult | None:
    """Apply a patch after placing the files that are still to be placed."""
    if not text.strip():
        return None
    with tempfile.TemporaryDirectory(prefix="aecbench-patch-") as home:
        source, target = Path(home, name), f"/tests/{name}"
        source.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
        command = shlex.join(["bash", "-c", _APPLY, "bash", target])
        applied = sandbox.perform("run_patch_test", command, {**uploads, target: source})
    uploads.clear()
    return applied


def _judge(ended: ExecResult, timeout: int) -> PatchTestResult:
    output = _output(ended)
    passed, failed = _counts(output)
    error = _timeout(ended, timeout)
    if error is None and passed + failed == 0:
        error = f"no tests ran (exit code {ended.returncode})"
    fine = error is None and ended.returncode == 0 and failed == 0 and passed > 0
    return PatchTestResult(fine, passed, failed, output, error)


def _output(ended: ExecResult) -> str:
    return ended.stdout_read() + ended.stderr_read()


def _timeout(ended: ExecResult, timeout: int) -> str | None:
    return f"timed out after {timeout} s" if ended.returncode == TIMED_OUT else None


def _counts(output: str) -> tuple[int, int]:
    """Return the numbers of passed and failed tests that pytest, unittest, cargo or go print."""
    if summaries := _PYTEST.findall(output):
        found = {word: int(number) for number, word in _COUNT.findall(summaries[-1])}
        return found.get("passed", 0), found.get("failed", 0) + found.get("error", 0)
    if ran := _UNITTEST.search(output):
        found = {word.strip(): int(number) for word, number in _NAMED_COUNT.findall(ran[2])}
        failed = sum(found.get(word, 0) for word in ("failures", "errors", "unexpected successes"))
        return max(0, int(ran[1]) - failed - found.get("skipped", 0)), failed
    if crates := _CARGO.findall(output):
        return sum(int(passed) for passed, _ in crates), sum(int(failed) for _, failed in crates)
    outcomes = _GO.findall(output)
    return outcomes.count("PASS"), outcomes.count("FAIL")
