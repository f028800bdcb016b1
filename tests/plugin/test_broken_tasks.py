"""A broken task for each check: it fails that check, with a word on why, and no other.

By day each broken task gets its own check only, because all checks of all tasks take minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.ledger.checks import STANDARD
from tests.checking import SOUND, VERIFY, Checked, checked_once, run_checks, write_task

pytestmark = pytest.mark.slow

SOLVE = SOUND["solution/solve.sh"]
REWARD = 'pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps(reward))\n'
GOLDEN_PASS = SOUND["tests/fixtures/golden_pass.md"]
GOLDEN_FAIL = SOUND["tests/fixtures/golden_fail.md"]
SLOW = ("solution", "empty", "golden_pass", "golden_fail", "timely")

# check: (files that break it, what the check says, what would help)
BROKEN: dict[str, tuple[dict[str, str | None], str, str]] = {
    "structure": (
        {"task.toml": "[agent]\ntimeout_secs = 60\n"},
        "agent.timeout_secs: unknown key",
        "did you mean 'timeout_sec'?",
    ),
    "instruction": (
        {"instruction.md": SOUND["instruction.md"] + "The load is {{ load }}.\n"},
        "instruction.md: '{{ load }}' is left over from a template",
        "render the template",
    ),
    "image": (
        {"environment/Dockerfile": "FROM python\nWORKDIR /workspace\n"},
        "FROM python: the base image may change",
        "name a tag that does not move",
    ),
    "secrecy": (
        {
            "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\nCOPY how.sh .\n",
            "environment/how.sh": SOLVE,
        },
        (
            "environment/how.sh is a copy of solution/solve.sh\n"
            "/workspace/how.sh in the sandbox is solution/solve.sh"
        ),
        "keep it only in tests/ or solution/",
    ),
    "leaks": (
        {"instruction.md": SOUND["instruction.md"] + "A colleague found 1.8462 A.\n"},
        "instruction.md: 1.8462 is the expected current_a",
        "metadata.check_allow",
    ),
    "solution": (
        {"solution/solve.sh": SOLVE.replace("12 * I", "6 * I")},
        "the solution: reward 0.5, needed 1 (current_a 1, power_w 0)",
        "make solution and verifier agree",
    ),
    "empty": (
        {"tests/verify.py": VERIFY.replace('"reward": sum', '"reward": 0.1 * (not got) + sum')},
        "an empty workspace: reward 0.1, needed 0",
        "let the verifier give 0",
    ),
    "golden_pass": (
        {"tests/fixtures/golden_pass.md": GOLDEN_FAIL + "\n"},
        "golden_pass.md: reward 0.5, needed 1",
        "correct the example",
    ),
    "golden_fail": (
        {
            "tests/fixtures/golden_fail.md": GOLDEN_PASS + "\n",
            "tests/fixtures/golden_fail_halved.md": f"reward: 0.25\n\n{GOLDEN_FAIL}",
            "tests/fixtures/golden_fail_unclear.md": f"reward: 0,5\n\n{GOLDEN_FAIL}",
        },
        (
            "golden_fail.md passes: reward 1, needed 1 (current_a 1, power_w 1)\n"
            "golden_fail_halved.md: reward 0.5, it states 0.25\n"
            "golden_fail_unclear.md: reward 0.5, it states 0,5"
        ),
        "let the verifier find the mistake",
    ),
    "deterministic": (
        {"tests/verify.py": VERIFY.replace(REWARD, f'reward["luck"] = hash("luck")\n{REWARD}')},
        "three runs on the same work: rewards 1, 1, 1; luck differ",
        "fix seeds and sort",
    ),
    "offline": (
        {
            "tests/verify.py": VERIFY.replace(
                REWARD,
                'if ":" not in pathlib.Path("/proc/net/dev").read_text().replace(" lo:", ""):\n'
                f'    reward["reward"] = 0\n{REWARD}',
            )
        },
        "without a network the verifier gives 0, with one 1",
        "install what the verifier needs in the image",
    ),
    "timely": (
        {
            "task.toml": "[verifier]\ntimeout_sec = 8\n",
            "tests/test.sh": "sleep 4.2; python3 /tests/verify.py\n",
        },
        "the verifier took ",
        "raise verifier.timeout_sec",
    ),
    "writes": (
        {"tests/test.sh": "python3 /tests/verify.py; echo done > /workspace/graded.txt\n"},
        "the verifier wrote /workspace\nthe verifier wrote /workspace/graded.txt",
        "write only to /logs/verifier",
    ),
    "malformed": (
        {"tests/verify.py": VERIFY.replace("(ValueError, RecursionError)", "RecursionError")},
        "empty: no reward, bash /tests/test.sh (exit code 1): no reward.json or reward.txt",
        "expect anything in the output",
    ),
}


def has_network() -> bool:
    """Tell whether this machine has a network that could be turned off."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    return any(":" in line and not line.strip().startswith("lo:") for line in lines)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """A sound task and, of each broken one, the check that it fails."""

    def check(root: Path) -> Checked:
        write_all(root / "tasks")
        own = [f"tasks/{check}/task.toml::check[{check}]" for check in BROKEN]
        return run_checks(root, "-n2", "tasks/sound", *own, "--aec-check")

    return checked_once(tmp_path_factory, "broken", check)


@pytest.fixture(scope="module")
def checked_fully(tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """All checks of all broken tasks; of the slow one only what that takes."""

    def check(root: Path) -> Checked:
        write_all(root / "tasks")
        run_checks(root, "-n2", "tasks", "--ignore=tasks/timely", "--aec-check")
        return run_checks(root, "-n2", "tasks/timely", f"--aec-check={','.join(SLOW)}")

    return checked_once(tmp_path_factory, "broken-fully", check)


def write_all(tasks: Path) -> None:
    write_task(tasks / "sound")
    for check, (changes, _, _) in BROKEN.items():
        write_task(tasks / check, changes)


def test_there_is_a_broken_task_for_every_check() -> None:
    assert set(BROKEN) == set(STANDARD)


def test_no_check_finds_anything_in_a_sound_task(checked: Checked) -> None:
    assert checked.outcomes("sound") == dict.fromkeys(STANDARD, "passed"), checked.output


for_each_check = pytest.mark.parametrize(
    "check", [check for check in BROKEN if check != "offline" or has_network()]
)


@pytest.mark.needs("namespaces")
@for_each_check
def test_a_broken_task_fails_its_own_check(checked: Checked, check: str) -> None:
    _, message, hint = BROKEN[check]
    assert checked.failed(check) == [check], checked.output
    record = checked.record(check, check)
    assert message in record["message"]
    assert hint in record["hint"]


@pytest.mark.nightly
@pytest.mark.needs("namespaces")
@for_each_check
def test_a_broken_task_fails_no_other_check(checked_fully: Checked, check: str) -> None:
    assert checked_fully.failed(check) == [check], checked_fully.output
