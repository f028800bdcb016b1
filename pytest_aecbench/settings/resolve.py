"""Resolve settings: every value that was given, else its default, checked once."""

from __future__ import annotations

import os
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.spec import pinned_script
from pytest_aecbench.backends import Mount
from pytest_aecbench.backends.shared.paths import ROOTS
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.ledger.store import Ledger, check_experiment_id
from pytest_aecbench.settings.model import Settings, backend_options
from pytest_aecbench.settings.table import LATEST, TABLE, Setting
from pytest_aecbench.settings.values import CHECKS, choice
from pytest_aecbench.tasks.selection import Selection
from pytest_aecbench.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_aecbench.agents.spec import AgentSpec

__all__ = ["find_experiment", "resolve", "thaw"]

# The values of settings that were not given, where they are not None.
_ABSENT: dict[str, object] = {"checks": (), "prices": {}}
_SELECTION = ("include_patterns", "exclude_patterns", "domains", "difficulties", "lifecycle")


def resolve(
    root: Path,
    given: Mapping[str, tuple[object, str]],
    *,
    experiment_id: str | None = None,
    run_id: str | None = None,
    secret_names: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Settings:
    """Settle every setting: what was given, as (value, where it was given), else its default.

    Raises:
        SettingsError: a value is wrong; the message starts with where it was given.

    """
    settled: dict[str, Any] = {
        row.name: _settle(row, root, given) for row in TABLE if row.check is not None
    }
    settled["agents"] = _pinned_agents(root, settled, given)
    ledger_root: Path = settled["ledger_root"]
    experiment_id = experiment_id or _experiment_id(ledger_root, given)
    _check_company(given)
    return Settings(
        root=root,
        selection=Selection(**{name: settled.pop(name) for name in _SELECTION}),
        dataset=_dataset(settled["datasets_root"], given),
        backend_options=backend_options(settled["backend"], given),
        resume=_is_continued(given),
        evaluate=_evaluated(ledger_root, given),
        baseline=_baseline(ledger_root, given, experiment_id),
        experiment_id=experiment_id,
        run_id=run_id or os.urandom(8).hex(),
        given=given,
        secret_names=tuple(secret_names),
        notes=tuple(notes),
        **{**settled, "verify": "evaluate" in given or settled["verify"]},
    )


def thaw(frozen: Mapping[str, Any], root: Path) -> Settings:
    """Return the settings that another process froze; ``root`` is where it froze none."""
    more = dict(frozen)
    given = {name: tuple(pair) for name, pair in more.pop("given", {}).items()}
    return resolve(Path(more.pop("root", root)), given, **more)


def _settle(row: Setting, root: Path, given: Mapping[str, tuple[object, str]]) -> object:
    value, where = given.get(row.name, (row.default, row.name))
    if value is None:
        return _ABSENT.get(row.name)
    if row.check == "path":
        return root / str(value)
    if row.check == "choice":
        return choice(value, where, row.choices)
    if row.check == "existing":
        assert isinstance(value, (list, tuple))
        return tuple(_existing(root, str(path), where) for path in value)
    if row.check == "mounts":
        assert isinstance(value, (list, tuple))
        return tuple(_mount(root, str(text), where) for text in value)
    assert row.check is not None
    return CHECKS[row.check](value, where)


def _pinned_agents(
    root: Path, settled: Mapping[str, Any], given: Mapping[str, tuple[object, str]]
) -> tuple[AgentSpec, ...]:
    """Return the agents with the digests of their scripts and files."""
    agents = tuple(pinned_script(agent, root) for agent in settled["agents"])
    option, place = given.get("agent_files", ((), ""))
    if "evaluate" in given:  # whose agents do not run
        return agents
    if option and place.startswith("--") and not any(one.may_bring_files for one in agents):
        right = "add --aec-agent='command:SHELL'"
        raise SettingsError(f"{place}: files are for 'command' agents, and none is run; {right}")
    return tuple(
        _with_files(agent, root, settled, f"{given['agents'][1]}.{index}.files", place)
        if agent.may_bring_files and (agent.files or option)
        else agent
        for index, agent in enumerate(agents)
    )


def _with_files(
    agent: AgentSpec, root: Path, settled: Mapping[str, Any], where: str, option: str
) -> AgentSpec:
    """Return a command with the files that the option names, else its own entry."""
    from pytest_aecbench.agents.files import find_files, pinned_files

    apart = [settled[name] for name in ("tasks_root", "ledger_root", "jobs_root")]
    names = settled["agent_files"] or tuple(map(str, agent.files))
    found = find_files(names, root, option or where, apart)
    return pinned_files(agent, found)


def _existing(root: Path, path: str, where: str) -> Path:
    """Return a path from the project's root that exists."""
    found = root / Path(path).expanduser()
    if not path or not found.exists():
        raise SettingsError(f"{where}: {path!r} does not exist; name a file or a directory")
    return found


def _mount(root: Path, text: str, where: str) -> Mount:
    """Return a mount whose source exists and whose target belongs to no trial."""
    source, *rest = text.split(":")
    mode = rest.pop() if len(rest) == 2 else "ro"
    if len(rest) != 1 or mode not in ("ro", "rw"):
        raise SettingsError(f"{where}: {text!r} is not valid; write HOST:SANDBOX[:ro|:rw]")
    target = PurePosixPath(rest[0])
    if not target.is_absolute() or ".." in target.parts or len(target.parts) < 2:
        raise SettingsError(f"{where}: {rest[0]!r} is not valid; name a path such as /mnt/data")
    if any(target.is_relative_to(own) or own.is_relative_to(target) for own in ROOTS):
        raise SettingsError(f"{where}: {rest[0]!r} is the trial's own; mount it elsewhere")
    return Mount(_existing(root, source, where).resolve(), str(target), mode == "rw")


def _check_company(given: Mapping[str, tuple[object, str]]) -> None:
    """Refuse settings that mean nothing without another one."""
    needs = {
        "fail_on_regression": (
            {"baseline"},
            "there is nothing to compare with; add --aec-baseline=ID",
        ),
        "allow_drift": ({"dataset"}, "is about a dataset; add --aec-dataset=NAME@VERSION"),
        "join": (
            {"resume", "experiment_id"},
            "is about an experiment; add --aec-resume=ID or --aec-experiment-id=ID",
        ),
    }
    for name, (others, right) in needs.items():
        value, where = given.get(name, (False, ""))
        if value and others.isdisjoint(given):
            raise SettingsError(f"{where}: {right}")


def _is_continued(given: Mapping[str, tuple[object, str]]) -> bool:
    """Return whether the run may add to an experiment that has records."""
    adds = "rerun" in given or "join" in given
    return "resume" in given or (adds and "experiment_id" in given)


def _dataset(datasets_root: Path, given: Mapping[str, tuple[object, str]]) -> str | None:
    """Return the dataset's name and version, if one is asked for."""
    if "dataset" not in given:
        return None
    from pytest_aecbench.datasets.store import Datasets

    wanted, where = given["dataset"]
    return str(Datasets(datasets_root).find(str(wanted), where))


def _experiment_id(ledger_root: Path, given: Mapping[str, tuple[object, str]]) -> str:
    """Return the experiment that records go to: the one to continue, a given one, or a new one."""
    named, where = given.get("experiment_id", (None, "experiment_id"))
    if "resume" in given:
        wanted, option = given["resume"]
        if where == "--aec-experiment-id":
            right = "leave --aec-experiment-id out"
            raise SettingsError(f"{option}: names the experiment to continue; {right}")
        if wanted == LATEST and named is not None:  # an experiment.yaml says which one it is
            wanted = named
        return find_experiment(ledger_root, str(wanted), option)
    if named is not None:
        return check_experiment_id(str(named), where)
    # Unique without looking at the disk, so that every process can be told it up front.
    prefix = "eval" if "evaluate" in given else "exp"
    return f"{prefix}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def _evaluated(ledger_root: Path, given: Mapping[str, tuple[object, str]]) -> str | None:
    """Return the experiment to evaluate, whose own records are not to be added to."""
    if "evaluate" not in given:
        return None
    wanted, where = given["evaluate"]
    for name in ("resume", "rerun", "join", "repetitions", "verify", "agent_files"):
        option = given.get(name, ("", ""))[1]
        if option.startswith("--"):  # an ini key is for runs of agents
            raise SettingsError(
                f"{where}: runs no agents, so {option} has no meaning; leave it out"
            )
    evaluated = find_experiment(ledger_root, str(wanted), where)
    if given.get("experiment_id", (None,))[0] == evaluated:
        raise SettingsError(
            f"{where}: {evaluated!r} keeps its records as they are; "
            "leave --aec-experiment-id out or give another"
        )
    return evaluated


def _baseline(
    ledger_root: Path, given: Mapping[str, tuple[object, str]], experiment_id: str
) -> str | None:
    """Return the experiment to compare with, if one is asked for."""
    if "baseline" not in given:
        return None
    wanted, where = given["baseline"]
    if wanted == experiment_id:
        raise SettingsError(f"{where}: {wanted!r} is this run itself; name an earlier experiment")
    return find_experiment(ledger_root, str(wanted), where)


def find_experiment(ledger_root: Path, wanted: str, where: str) -> str:
    """Return the experiment of that name, or the latest, if the ledger has one."""
    known = Ledger(ledger_root).experiments()
    if wanted == LATEST and known:
        return max(known, key=lambda name: (ledger_root / name).stat().st_mtime)
    if wanted not in known:
        what = "no experiment" if wanted == LATEST else f"experiment {wanted!r} not found"
        near = nearest(wanted, known)
        right = f"did you mean {near!r}?" if near else f"use one of {', '.join(known[-5:])}"
        right = right if known else "run trials first"
        raise SettingsError(f"{where}: {what} in {shown_path(ledger_root)}; {right}")
    return wanted
