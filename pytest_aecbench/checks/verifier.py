"""Checks of the verifier: ``deterministic``, ``offline``, ``timely``, ``writes``, ``isolation``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pytest_aecbench.agents.oracle import OracleAgent
from pytest_aecbench.checks import NotApplicableError, Problem
from pytest_aecbench.checks.probes import shares_host_files, writes_to_host
from pytest_aecbench.errors import VerifierError
from pytest_aecbench.trials import stages
from pytest_aecbench.trials.reward import format_number
from pytest_aecbench.trials.verification import verify_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.backends.sandbox import Sandbox
    from pytest_aecbench.checks.rehearsal import Rehearsal
    from pytest_aecbench.trials.reward import Reward
    from pytest_aecbench.trials.trial import Trial

__all__ = ["deterministic", "isolation", "offline", "timely", "writes"]

# Variables that differ between machines and must not matter.
_SURROUNDINGS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "tr_TR.UTF-8", "TZ": "America/New_York"},
)
_SHARE_OF_DEADLINE = 0.5
_ONLY_LOOPBACK = (
    "test -r /proc/net/dev || exit 2; "
    "while read -r name _; do [[ $name != *:* || $name == lo:* ]] || exit 1; done </proc/net/dev"
)
# Directories to which programs write, besides those that every sandbox has of its own.
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  (a place to look, not one to write to)
_SYSTEM = ("/home", "/opt", "/root", "/srv", "/usr/local")
_MARK = "/logs/agent/.before-verifying"
_SHOWN_PATHS = 10


def deterministic(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Verify the same work three times, in different surroundings."""
    rehearsal.execute()
    rewards = []
    for surroundings in _SURROUNDINGS:
        rehearsal.sandbox.env.update(surroundings)
        rewards.append(rehearsal.verify())
    if len({_identity(reward) for reward in rewards}) > 1:
        earned = ", ".join(format_number(reward.value) for reward in rewards)
        differing = sorted({name for name, _ in set.symmetric_difference(*_details(rewards))})
        yield Problem(
            f"three runs on the same work: rewards {earned}"
            + (f"; {', '.join(differing)} differ" if differing else ""),
            "avoid randomness, the clock, the order of sets and the locale: fix seeds and sort",
        )


def _identity(reward: Reward) -> tuple[float, tuple[tuple[str, float], ...]]:
    return reward.value, tuple(sorted(reward.details.items()))


def _details(rewards: list[Reward]) -> tuple[set[tuple[str, float]], set[tuple[str, float]]]:
    """Return the details of any run, and those that are the same in each."""
    each = [set(reward.details.items()) for reward in rewards]
    return set.union(*each), set.intersection(*each)


def offline(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Solve and verify without a network; if that earns less, find out which of them needs it."""
    with rehearsal.another(network=False) as (trial, sandbox):
        if sandbox.execute(_ONLY_LOOPBACK).returncode != 0:
            raise NotApplicableError("this backend does not turn the network off")
        stages.attempt(trial, sandbox, OracleAgent(trial.agent))
        alone = _earned(trial, sandbox)
    if alone == 1:
        return
    rehearsal.execute()
    expected = _earned(rehearsal.trial, rehearsal.sandbox)
    if alone == expected:
        return  # the network makes no difference
    workspace = rehearsal.trial.workspace_dir
    with rehearsal.another(network=False, workspace=workspace) as (trial, sandbox):
        if (alone := _earned(trial, sandbox)) != expected:
            yield Problem(
                f"without a network the verifier gives {_shown(alone)}, with one "
                f"{_shown(expected)}",
                "install what the verifier needs in the image, and keep its data in tests/",
            )


def _earned(trial: Trial, sandbox: Sandbox) -> float | None:
    try:
        return verify_here(trial, sandbox).value
    except VerifierError:
        return None


def _shown(earned: float | None) -> str:
    return "no reward" if earned is None else format_number(earned)


def timely(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Time the verifier, which has to leave room for slower machines."""
    rehearsal.earn()
    trial = rehearsal.trial
    assert trial.verification is not None
    spent, limit = trial.verification.duration_sec, trial.verifier_timeout_sec
    if spent > _SHARE_OF_DEADLINE * limit:
        yield Problem(
            f"the verifier took {spent:.1f} s of {limit:g} s",
            "raise verifier.timeout_sec to twice that time, or make the verifier faster",
        )


def writes(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield the files that the verifier left behind, except its logs."""
    rehearsal.execute()
    sandbox = rehearsal.sandbox
    sandbox.user = None
    private = _private(sandbox)  # before the mark, because finding out leaves traces
    if sandbox.execute(f"type find && touch {_MARK}").returncode != 0:
        raise NotApplicableError("the image has no find to search with")
    verify_here(rehearsal.trial, sandbox)
    sandbox.user = None
    workspaces = dict.fromkeys(("/workspace", str(rehearsal.task.workdir)))
    left = [
        *_find(sandbox, f"{shlex.join(workspaces)} -xdev -cnewer {_MARK}"),
        *_find(sandbox, f"{shlex.join(private)} -xdev -mindepth 1 -cnewer {_MARK}"),
    ]
    # Everything in its own directory is new, so only names show what was added there.
    tests = rehearsal.task.tests_dir
    uploaded = {f"/tests/{path.relative_to(tests)}" for path in tests.rglob("*")}
    uploaded.update(rehearsal.task.verifier_uploads())
    inside = (f"/tests{name}" for name in _find(sandbox, ". -mindepth 1", cwd="/tests"))
    left += [path for path in inside if path not in uploaded]
    for path in left[:_SHOWN_PATHS]:
        yield Problem(
            f"the verifier wrote {path}",
            "write only to /logs/verifier, and remove temporary files",
            key=path,
        )


def isolation(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield a problem if the verifier runs where the agent may have changed every program."""
    if rehearsal.task.verifier_mode == "shared":
        yield Problem(
            "the verifier runs in the agent's own sandbox, where an agent that replaces the shell, "
            "Python or its modules can write its own reward",
            'set verifier.environment_mode = "separate"; --aec-check=exploits shows which ways pay',
        )


def _private(sandbox: Sandbox) -> list[str]:
    """Return the system's directories to which only this sandbox writes."""
    if not shares_host_files(sandbox):
        return [*_TEMPORARY, *_SYSTEM]
    return [] if writes_to_host(sandbox) else [*_TEMPORARY]


def _find(sandbox: Sandbox, arguments: str, cwd: str | None = None) -> list[str]:
    """Return the paths found, except Python's caches of compiled modules."""
    if arguments.startswith("-"):
        return []
    no_caches = "-not -name __pycache__ -not -path '*/__pycache__/*'"
    found = sandbox.execute(f"find {arguments} {no_caches} 2>/dev/null", cwd=cwd)
    return [line.removeprefix(".") for line in found.stdout.splitlines()]
