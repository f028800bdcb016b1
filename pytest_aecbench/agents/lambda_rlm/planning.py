"""The plan: how a source is split and reduced, and a bound of calls, in integers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.lambda_rlm.config import LambdaConfig, PlannerTable

__all__ = ["Plan", "SectionPlan", "SourcePlan", "plan_source", "reduce_calls"]

# Where a text is cut may differ from its even share by this part of it.
_SLACK = 8
# No model has so many characters in a token on average, so no call can use fewer tokens.
CHARS_PER_TOKEN = 8


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The way to read a source: ``leaves`` chunks of at most ``tau`` characters.

    Their facts are reduced, ``k`` lists at once, ``d`` times, until one list is left.
    """

    chars: int
    k: int
    d: int
    tau: int
    leaves: int

    @property
    def reduces(self) -> int:
        """The calls that reduce what the leaves found."""
        return reduce_calls(self.leaves, self.k)

    @property
    def calls(self) -> int:
        """The calls that read the source once."""
        return self.leaves + self.reduces


def plan_source(chars: int, window: int, most: int) -> SourcePlan:
    """Return the plan for a source: as few levels as ``most`` allows, then as narrow as they allow.

    ``window`` is the most that is read at once, ``most`` the most that is reduced at once.
    """
    if chars == 0:
        return SourcePlan(0, 1, 0, 0, 0)
    need = -(-chars // window)
    d = 0
    while most**d < need:
        d += 1
    k = _root(need, d) if d else 1
    share = -(-chars // k**d)
    tau = min(window, share + share // _SLACK)
    return SourcePlan(chars, k, d, tau, -(-chars // share))


def _root(need: int, d: int) -> int:
    """Return the least k with k**d >= need."""
    low, high = 1, need
    while low < high:
        middle = (low + high) // 2
        if middle**d >= need:
            high = middle
        else:
            low = middle + 1
    return low


def reduce_calls(leaves: int, k: int) -> int:
    """Return how many calls reduce so many results, ``k`` at once, to one; one alone needs none."""
    calls = 0
    while leaves > 1:
        groups, rest = divmod(leaves, k)
        calls += groups + (rest > 1)
        leaves = groups + (rest > 0)
    return calls


@dataclass(frozen=True, slots=True)
class SectionPlan:
    """The calls of a section."""

    sources: Mapping[str, SourcePlan]
    is_reviewed: bool
    is_written: bool = True

    @property
    def calls(self) -> int:
        """The calls if nothing has to be done again."""
        return self._reading + self.is_reviewed + self.is_written

    @property
    def _reading(self) -> int:
        return sum(source.calls for source in self.sources.values())

    def most_calls(self, retries: int, supplements: int) -> int:
        """Return the calls if all is done again as often as it may be, and all answers repaired."""
        if not self.is_reviewed:
            return 2 * self._reading + self.is_written
        reviews = 1 + retries * len(self.sources) + supplements
        answers = (1 + retries) * self._reading + reviews + supplements
        return 2 * answers + self.is_written


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a report, before the first of them is made."""

    sections: Mapping[str, SectionPlan]
    retries: int
    supplements: int
    advice: int
    planner: PlannerTable
    prompt_chars: int  # of what every call is told

    @classmethod
    def of(
        cls, sections: Mapping[str, SectionPlan], config: LambdaConfig, prompt_chars: int
    ) -> Plan:
        """Return the plan of sections under a task's configuration."""
        retries, supplements = config.review.rounds
        reviewed = sum(section.is_reviewed for section in sections.values())
        advisor = config.advisor
        advice = min(advisor.max_uses, reviewed) if advisor and advisor.enabled else 0
        return cls(sections, retries, supplements, advice, config.planner, prompt_chars)

    @property
    def calls(self) -> int:
        """The calls if nothing has to be done again."""
        return sum(section.calls for section in self.sections.values())

    @property
    def most_calls(self) -> int:
        """The bound: no run makes more calls."""
        rounds = (self.retries, self.supplements)
        return self.advice + sum(one.most_calls(*rounds) for one in self.sections.values())

    @property
    def least_tokens(self) -> int:
        """The tokens that the planned calls use even if models answer nothing."""
        chars = sum(s.chars for one in self.sections.values() for s in one.sources.values())
        return (self.calls * self.prompt_chars + chars) // CHARS_PER_TOKEN

    @property
    def depth(self) -> int:
        """The most times that something found in a source is reduced."""
        found = [s.d for one in self.sections.values() for s in one.sources.values()]
        return max(found, default=0)

    @property
    def estimated_fact_accuracy(self) -> float:
        """The chance that one fact survives: one reading, and each time that it is reduced."""
        return self.planner.leaf_accuracy * self.planner.compose_accuracy**self.depth

    @property
    def is_feasible(self) -> bool:
        """True if the estimate reaches the target."""
        return self.estimated_fact_accuracy >= self.planner.accuracy_target

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings that belong on the record."""
        if self.is_feasible:
            return ()
        reached = f"{self.estimated_fact_accuracy:.3f} is below {self.planner.accuracy_target:g}"
        right = "split the sources, or raise planner.context_window_chars"
        return (f"lambda-rlm: planner.accuracy_target: the estimate {reached}; {right}",)

    def to_json(self) -> dict[str, Any]:
        """Return the plan for the record."""
        return {
            "calls_planned": self.calls,
            "calls_bound": self.most_calls,
            "least_tokens": self.least_tokens,
            "estimated_fact_accuracy": round(self.estimated_fact_accuracy, 4),
            "feasible": self.is_feasible,
            "sections": {
                name: {
                    "calls": section.calls,
                    "sources": {
                        source: {
                            "chars": one.chars,
                            "k": one.k,
                            "d": one.d,
                            "tau": one.tau,
                            "leaves": one.leaves,
                            "reduces": one.reduces,
                        }
                        for source, one in section.sources.items()
                    },
                }
                for name, section in self.sections.items()
            },
        }

    def lines(self) -> list[str]:
        """Return the plan as it is printed."""
        below = "" if self.is_feasible else f", below {self.planner.accuracy_target:g}"
        estimate = f"{self.estimated_fact_accuracy:.3f}{below}"
        bound = f"{self.calls} calls if nothing is done again, at most {self.most_calls}"
        lines = [f"plan: {bound}; the estimated chance that a fact survives is {estimate}"]
        for name, section in self.sections.items():
            lines.append(f"- {name}: {section.calls} calls")
            for source, one in section.sources.items():
                found = [counted(one.chars, "character"), counted(one.leaves, "chunk")]
                if one.reduces:
                    found.append(f"{counted(one.reduces, 'reduction')} of at most {one.k}")
                lines.append(f"  - {source}: {', '.join(found)}")
        return lines
