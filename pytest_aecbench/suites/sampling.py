"""Instances that are sound: draws are rejected, with a reason, until one passes every test."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.draws import SPLITS, Draw, Key, draw, params_digest
from pytest_aecbench.suites.engine import EngineError, RejectedError, deadline
from pytest_aecbench.suites.examples import agrees
from pytest_aecbench.suites.grading import allowed, checked_answer, fields_of, reward_of
from pytest_aecbench.suites.prompt import Cell, render
from pytest_aecbench.suites.recovery import recovered
from pytest_aecbench.tasks.revealed import Expected, found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_aecbench.suites.engine import Answer
    from pytest_aecbench.suites.template import Level, Params, Template

__all__ = [
    "GUARD",
    "MAX_ATTEMPTS",
    "READING",
    "Instance",
    "candidate",
    "environment_files",
    "mistaken",
    "sample",
    "solved",
    "varied",
]

MAX_ATTEMPTS = 1000
# An input that is read to four digits must still give a right answer.
READING = 5e-4
# The distance from every threshold.
GUARD = 0.03
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Instance:
    """One task to be: its place, its kind, its parameters, its texts."""

    template: Template = field(repr=False)
    key: Key
    cell: Cell
    draw: Draw
    truth: Answer
    prompt: str = field(repr=False)
    files: Mapping[str, str] = field(repr=False)

    @property
    def params(self) -> Params:
        """The parameters."""
        return self.draw.params

    @property
    def name(self) -> str:
        """The path below the suite: equal parameters have equal names."""
        digest = params_digest(self.template.id, self.params)
        return f"{self.template.id}/{self.cell.difficulty}-{digest[:8]}"


def sample(
    template: Template,
    key: Key,
    cell: Cell,
    taken: set[str] | None = None,
    *,
    rejected: Counter[str] | None = None,
    seconds: float = _SECONDS,
) -> Instance:
    """Return the first sound instance of a key; its parameters are not among those ``taken``.

    Raises:
        SettingsError: no attempt gave one, or the engine failed; the message counts the reasons.

    """
    taken = set() if taken is None else taken
    reasons: Counter[str] = Counter()
    where = f"{template.id}: {cell.difficulty}, {cell.visibility}"
    with deadline(seconds, f"{where}: drawing an instance"):
        for attempt in range(MAX_ATTEMPTS):
            try:
                instance = candidate(template, key.at(attempt), cell, taken)
            except RejectedError as reason:
                reasons[str(reason)] += 1
                continue
            except EngineError as error:
                right = "correct it, or raise Reject for a draw that makes no sense"
                raise SettingsError(f"{where}: {error}; {right}") from None
            if rejected is not None:
                rejected.update(reasons)
            return instance
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common(5))
    right = "widen the ranges or relax the constraints"
    raise SettingsError(f"{where}: no instance in {MAX_ATTEMPTS} attempts ({counts}); {right}")


def candidate(template: Template, key: Key, cell: Cell, taken: set[str]) -> Instance:
    """Return the instance of one attempt, or raise RejectedError with what is wrong with it."""
    level = template.levels[cell.difficulty]
    drawn = draw(template, level, key)
    params = drawn.params
    digest = params_digest(template.id, params)
    # Every set of parameters belongs to one split, so that no suite's splits share any.
    if key.split and int(digest[-8:], 16) % len(SPLITS) != SPLITS.index(key.split):
        raise RejectedError("belongs to another split")
    truth = solved(template, level, params)
    _check_thresholds(template, level, params, truth)
    _check_condition(template, level, params, truth)
    if digest[:8] in taken:
        raise RejectedError("duplicate parameters")
    _check_mistakes(template, params, truth)
    files = environment_files(template, level, cell, params)
    prompt = render(template, cell, drawn, tuple(files))
    _check_secret(truth, (prompt, *files.values()))
    _check_recoverable(template, cell, params, prompt, files)
    taken.add(digest[:8])
    return Instance(template, key, cell, drawn, truth, prompt, files)


def solved(template: Template, level: Level, params: Params) -> Answer:
    """Return the answer that ``compute`` and ``solve`` agree on.

    Raises:
        RejectedError: the parameters break a constraint, or the answer is near a threshold.
        EngineError: the engine failed.

    """
    for rule, why in template.constraints:
        if rule.names <= params.keys() and not rule.of(params):
            raise RejectedError(why)
    truth = checked_answer(template, template.engine.call("compute", params), level.outputs)
    _check_solution(template, params, truth)
    _check_guards(template, params)
    return truth


def _check_solution(template: Template, params: Params, truth: Answer) -> None:
    """Raise EngineError unless ``solve`` finds every asked value too."""
    if not template.engine.has("solve"):
        return
    found = template.engine.call("solve", params)
    if not agrees({name: found.get(name) for name in truth}, truth):
        shown = {name: (found.get(name), value) for name, value in truth.items()}
        raise EngineError(f"solve and compute do not agree: {shown}")


def _check_guards(template: Template, params: Params) -> None:
    if not template.engine.has("guards"):
        return
    for name, distance in template.engine.call("guards", params).items():
        if not isinstance(distance, (int, float)):
            raise EngineError(f"guards returns {distance!r} for {name!r}, must return a number")
        if not abs(distance) >= GUARD:
            raise RejectedError(f"too near {name}")


def varied(
    template: Template, params: Params, share: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters with one number changed by ``share``, up and down, each in turn."""
    for name, value in params.items():
        if isinstance(value, float) and value and not template.params[name].exact:
            for sign in (1, -1):
                yield name, {**params, name: value * (1 + sign * share)}


def _check_thresholds(template: Template, level: Level, params: Params, truth: Answer) -> None:
    """Reject a draw whose flags or choices change when an input changes a little."""
    kinds = ("flag", "choice")
    exact = [name for name in level.outputs if template.outputs[name].type in kinds]
    if not exact:
        return
    for name, changed in varied(template, params, GUARD):
        try:
            answer = template.engine.call("compute", changed)
        except RejectedError:
            continue
        for one in exact:
            if answer.get(one) != truth[one]:
                raise RejectedError(f"{one} changes with {name}")


def _check_condition(template: Template, level: Level, params: Params, truth: Answer) -> None:
    """Reject a draw in which an input read to four digits gives a wrong answer."""
    for name, changed in varied(template, params, READING):
        try:
            computed = template.engine.call("compute", changed)
            answer = checked_answer(template, computed, level.outputs)
        except RejectedError:
            raise RejectedError(f"{name} is at the edge of the method") from None
        for one in level.outputs:
            expected, found, output = truth[one], answer[one], template.outputs[one]
            if isinstance(expected, (bool, str)) or output.type != "number":
                if found != expected:
                    raise RejectedError(f"{one} changes with {name}")
            elif abs(float(found) - expected) > allowed(output, expected):
                raise RejectedError(f"{one} is too sensitive to {name}")


def mistaken(template: Template, params: Params, truth: Answer) -> dict[str, Answer]:
    """Return the wrong answers that named mistakes give, as far as they concern what is asked."""
    if not template.engine.has("mistakes"):
        return {}
    found = template.engine.call("mistakes", params)
    for name, wrong in found.items():
        if not isinstance(name, str) or not isinstance(wrong, dict):
            raise EngineError(f"mistakes returns {wrong!r} for {name!r}, must return dicts by name")
        if odd := [value for value in wrong.values() if not isinstance(value, (int, float, str))]:
            raise EngineError(f"mistakes returns {odd[0]!r} in {name!r}, must return numbers")
    return {
        name: {**truth, **{key: value for key, value in wrong.items() if key in truth}}
        for name, wrong in found.items()
        if not truth.keys().isdisjoint(wrong)
    }


def _check_mistakes(template: Template, params: Params, truth: Answer) -> None:
    fields = fields_of(template, truth)
    for name, wrong in mistaken(template, params, truth).items():
        if reward_of(fields, wrong) >= 1:
            raise RejectedError(f"the mistake {name!r} would pass")


def environment_files(
    template: Template, level: Level, cell: Cell, params: Params
) -> dict[str, str]:
    """Return the files that an instance's agent gets, by name."""
    derives = [template.params[name].derive for name in level.hides(cell.visibility)]
    wanted = [*level.files]
    wanted += [one.file or one.document or "" for one in derives if one and not one.archetype]
    names = list(dict.fromkeys(wanted))
    if not names:
        return {}
    written = template.engine.call("files", params) if template.engine.has("files") else {}
    missing = [name for name in names if name not in written and name not in template.data]
    if missing:
        raise EngineError(f"files() does not write {missing[0]!r}, and data/ does not have it")
    files = {name: written[name] if name in written else template.data[name] for name in names}
    for name, text in files.items():
        if not isinstance(text, str):
            kind = type(text).__name__
            raise EngineError(f"files returns {kind} as {name!r}, must return a text")
    return files


def _check_secret(truth: Answer, texts: tuple[str, ...]) -> None:
    numbers = [
        Expected(name, value if isinstance(value, str) else float(value))
        for name, value in truth.items()
        if not isinstance(value, bool)
    ]
    for text in texts:
        for one, _ in found(text, numbers):
            raise RejectedError(f"{one.name} equals a number that is given")


def _check_recoverable(
    template: Template, cell: Cell, params: Params, prompt: str, files: Mapping[str, str]
) -> None:
    """Raise SettingsError unless the texts alone give back the parameters."""
    where = f"{template.id}: {cell.difficulty}, {cell.visibility}"
    try:
        told = recovered(template, cell.difficulty, cell.visibility, prompt, files)
    except (KeyError, ValueError) as error:
        raise SettingsError(f"{where}: {error}; show it, or correct its derive") from None
    for name, value in params.items():
        if told[name] != value:
            what = f"{name} is {value!r}, but the texts say {told[name]!r}"
            raise SettingsError(f"{where}: {what}; correct its derive")
