"""Answers of solvers that do no engineering; a sound template pays nothing for them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.suites.engine import Answer
    from pytest_aecbench.suites.sampling import Instance

__all__ = ["guesses"]


def guesses(instances: Sequence[Instance]) -> Iterator[tuple[str, list[Answer]]]:
    """Yield the answers of solvers that do no engineering."""
    answers = [instance.truth for instance in instances]
    yield "zeros", [_filled(truth, 0) for truth in answers]
    yield "ones", [_filled(truth, 1) for truth in answers]
    yield "inputs", [_echoed(instance) for instance in instances]
    yield "another instance's answer", [*answers[1:], answers[0]]
    median = {name: _middle([truth[name] for truth in answers]) for name in answers[0]}
    yield "the median", [median] * len(answers)


def _filled(truth: Answer, number: int) -> Answer:
    return {n: bool(number) if isinstance(v, bool) else number for n, v in truth.items()}


def _echoed(instance: Instance) -> Answer:
    numbers = [v for v in instance.params.values() if isinstance(v, (int, float))] or [0]
    return {
        name: True if isinstance(value, bool) else numbers[index % len(numbers)]
        for index, (name, value) in enumerate(instance.truth.items())
    }


def _middle(values: Sequence[bool | float | str]) -> bool | float | str:
    if isinstance(values[0], float):
        return statistics.median(value for value in values if isinstance(value, (int, float)))
    return Counter(values).most_common(1)[0][0]
