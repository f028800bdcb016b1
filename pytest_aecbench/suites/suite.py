"""A suite: the plan of its instances, the tasks on disk, and the record of how they were made."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench import __version__
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.suites.allocation import (
    Axes,
    Slot,
    allocate,
    counts_of,
    offer_of,
    shortages,
    split_up,
)
from pytest_aecbench.suites.draws import FORMAT
from pytest_aecbench.suites.generation import key_of
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.sampling import sample
from pytest_aecbench.suites.trees import differences, digest_of, place, staging, write_files
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from pytest_aecbench.suites.config import SuiteConfig
    from pytest_aecbench.suites.prompt import Cell
    from pytest_aecbench.suites.sampling import Instance
    from pytest_aecbench.suites.template import Template

__all__ = [
    "GENERATION_FILE",
    "Generated",
    "Plan",
    "check_suite",
    "plan_suite",
    "write_suite",
]

GENERATION_FILE = "generation.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """The instances of a suite before they are drawn."""

    config: SuiteConfig
    templates: Mapping[str, Template] = field(repr=False)
    slots: tuple[Slot, ...] = field(repr=False)
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Generated:
    """The record of a suite: its tasks by name, the draws that were rejected, what was written."""

    plan: Plan = field(repr=False)
    tasks: dict[str, dict[str, Any]] = field(repr=False)
    rejected: Counter[str]
    is_new: bool = True

    def record(self) -> str:
        """Return the text of ``generation.json``; it has no times, so that it never differs."""
        used = sorted({slot.template for slot in self.plan.slots})
        templates = self.plan.templates
        data = {
            "format": FORMAT,
            "generator": __version__,
            "suite": self.plan.config.model_dump(mode="json"),
            "templates": {
                name: {"version": templates[name].version, "digest": templates[name].digest}
                for name in used
            },
            "tasks": dict(sorted(self.tasks.items())),
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    def digests(self) -> dict[str, str]:
        """Return the digest of each task."""
        return {name: task["digest"] for name, task in self.tasks.items()}


def plan_suite(config: SuiteConfig, templates: list[Template]) -> Plan:
    """Return the plan of a suite over these templates.

    Raises:
        SettingsError: nothing is left, or a mix cannot be kept and ``instances.exact`` is set.

    """
    axes = Axes(
        _plain(config.coverage.difficulties),
        _plain(config.visibility.mix),
        _plain(config.tool_mode.mix),
    )
    offers = [offer_of(template, axes) for template in templates]
    unusable = [offer.template for offer in offers if not offer.cells]
    offers = [offer for offer in offers if offer.cells]
    if not offers:
        raise SettingsError(
            f"coverage.difficulties, visibility.mix: none of {counted(len(templates), 'template')} "
            "offers them; ask for others"
        )
    minimum = config.coverage.min_tasks_per_discipline
    per_task, total_max = config.instances.per_task, config.instances.total_max
    counts = counts_of(offers, per_task, total_max, minimum)
    plan = allocate(offers, counts, axes)
    lines = [
        *shortages(offers, plan, axes),
        *_short_disciplines(plan, {offer.discipline for offer in offers}, minimum, per_task),
        *_split_problems(config, len(plan)),
    ]
    if lines and config.instances.exact:
        raise SettingsError(f"instances.exact: {'; '.join(lines)}; change the mix or the templates")
    warnings = [*config.warnings(), *lines]
    warnings += [f"{name}: offers nothing that the mixes ask for; left out" for name in unusable]
    warnings += _fixed_tool_modes(plan, axes)
    slots = split_up(plan, _plain(config.split))
    used = {slot.template for slot in slots}
    by_id = {template.id: template for template in templates if template.id in used}
    return Plan(config, by_id, tuple(slots), tuple(warnings))


def _plain(shares: Mapping[Any, float]) -> dict[str, float]:
    return {str(name): float(share) for name, share in shares.items()}


def _fixed_tool_modes(plan: list[tuple[str, Cell]], axes: Axes) -> Iterator[str]:
    """Yield a line for instances whose template has a tool mode that the mix does not ask for."""
    modes = Counter(cell.tool_mode for _, cell in plan)
    for mode, count in modes.items():
        if axes.tool_modes and not axes.tool_modes.get(mode):
            what = f"{counted(count, 'task')} had to be {mode}, because templates leave no choice"
            yield f"tool_mode.mix: {what}; it applies to templates with tool_mode = 'both'"


def _short_disciplines(
    plan: list[tuple[str, Cell]], disciplines: set[str], minimum: int, per_task: int
) -> Iterator[str]:
    counted = Counter(template.partition("/")[0] for template, _ in plan)
    templates = Counter(name.partition("/")[0] for name in {template for template, _ in plan})
    for name in sorted(disciplines):
        wanted = min(minimum, per_task * max(templates[name], 1))
        if counted[name] < wanted:
            yield f"discipline {name}: {wanted} wanted, {counted[name]} possible"


def _split_problems(config: SuiteConfig, total: int) -> Iterator[str]:
    counts = sum(config.split.values())
    if config.split and counts > 1.01 and counts != total:
        yield f"split: {counts:g} wanted, {total} planned; they count in proportion"


Progress = Callable[[], None]


def _drawn(plan: Plan, rejected: Counter[str]) -> Iterator[tuple[Slot, Instance, dict[str, str]]]:
    taken: dict[str, set[str]] = {name: set() for name in plan.templates}
    config = plan.config
    for slot in plan.slots:
        template = plan.templates[slot.template]
        key = key_of(template, config.seed, slot.split, slot.index)
        instance = sample(template, key, slot.cell, taken[slot.template], rejected=rejected)
        files = task_files(instance, config.name, holdout=config.is_held_out(slot.split))
        yield slot, instance, files


def write_suite(
    plan: Plan, target: Path, *, write: bool = True, progress: Progress = lambda: None
) -> Generated:
    """Draw the suite and write it to ``target``, all of it or nothing.

    A directory that has exactly this suite stays as it is.

    Raises:
        SettingsError: ``target`` has something else.

    """
    is_there = _has_content(target)
    if not write or is_there:
        generated = _generated(plan, None, progress)
        return _unchanged(generated, target) if write else replace(generated, is_new=not is_there)
    with staging(target.parent) as scratch:
        generated = _generated(plan, scratch / "suite", progress)
        (scratch / "suite" / GENERATION_FILE).write_text(generated.record(), encoding="utf-8")
        is_new = place(scratch / "suite", target)
    # Another process may have written the suite in the meantime.
    return generated if is_new else _unchanged(generated, target)


def _has_content(target: Path) -> bool:
    try:
        return any(target.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        where = shown_path(target)
        raise SettingsError(
            f"{where}: cannot be read, {error.strerror}; use another output.dir"
        ) from None


def _unchanged(generated: Generated, target: Path) -> Generated:
    """Return the suite as one that was there already, or raise SettingsError."""
    if problems := _differences(generated, target):
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise SettingsError(
            f"{shown_path(target)}: exists and differs ({problems[0]}{more}); "
            "remove it, or use another output.dir"
        )
    return replace(generated, is_new=False)


def _generated(plan: Plan, root: Path | None, progress: Progress) -> Generated:
    rejected: Counter[str] = Counter()
    tasks = {}
    for slot, instance, files in _drawn(plan, rejected):
        if root is not None:
            write_files(root / instance.name, files)
        tasks[instance.name] = {
            "key": str(instance.key),
            "attempt": instance.key.attempt,
            "digest": digest_of(files),
            "difficulty": slot.cell.difficulty,
            "visibility": slot.cell.visibility,
            "tool_mode": slot.cell.tool_mode,
            "split": slot.split,
        }
        progress()
    return Generated(plan, tasks, rejected)


def check_suite(plan: Plan, target: Path, progress: Progress = lambda: None) -> list[str]:
    """Return a line for each way in which ``target`` is not this suite."""
    return _differences(_generated(plan, None, progress), target)


def _differences(generated: Generated, target: Path) -> list[str]:
    found = differences(target, generated.digests(), GENERATION_FILE)
    record = target / GENERATION_FILE
    is_same = record.is_file() and record.read_text(encoding="utf-8") == generated.record()
    return found + ([] if is_same else [f"{GENERATION_FILE}: changed"])
