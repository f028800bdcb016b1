"""Reading a source for a section: split it, extract from each chunk, reduce what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.agents.lambda_rlm.answers import (
    GIVE_FACTS,
    Extraction,
    merged,
    read_extraction,
)
from pytest_aecbench.agents.lambda_rlm.splitting import split
from pytest_aecbench.agents.lambda_rlm.steps import Step, StepFailedError, gather

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.agents.lambda_rlm.planning import SourcePlan
    from pytest_aecbench.agents.lambda_rlm.prompts import SectionPrompts
    from pytest_aecbench.agents.lambda_rlm.sources import Source
    from pytest_aecbench.agents.lambda_rlm.steps import Steps

__all__ = ["SourceReader"]


class SourceReader:
    """Reads one source for one section, once or again."""

    def __init__(
        self,
        steps: Steps,
        prompts: SectionPrompts,
        source: Source,
        plan: SourcePlan,
        section: str,
        parent: int,
    ) -> None:
        self.source = source
        self._steps = steps
        self._prompts = prompts
        self._plan = plan
        self._section = section
        self._parent = parent

    def read(self, missed: Sequence[str] = ()) -> Extraction:
        """Return what the source says; chunks that could not be read are its failures."""
        problem = (self.source.problem,) if self.source.problem else ()
        chunks = split(self.source.text, self._plan)
        count = len(chunks)
        found = gather(
            self._steps.answer(
                self._step("extract", number if count > 1 else None),
                self._prompts.extract(self.source.name, (number, count), chunk, missed),
                GIVE_FACTS,
                read_extraction,
            )
            for number, chunk in enumerate(chunks, 1)
        )
        leaves = [self._kept(one, number, count) for number, one in enumerate(found, 1)]
        return merged([self._reduced(leaves)], failures=problem)

    def _kept(self, found: Extraction | StepFailedError, number: int, count: int) -> Extraction:
        if isinstance(found, Extraction):
            return found
        where = f", part {number} of {count}" if count > 1 else ""
        return Extraction(failures=(f"{self.source.name}{where}: {found}",))

    def _reduced(self, found: list[Extraction]) -> Extraction:
        """Join extractions, ``k`` at once, until one is left; none is lost if that fails."""
        level = 0
        while len(found) > 1:
            level += 1
            k = self._plan.k
            groups = [found[start : start + k] for start in range(0, len(found), k)]
            asked = {
                number: self._steps.answer(
                    self._step("reduce", None),
                    self._prompts.reduce(self.source.name, level, (number, len(groups)), group),
                    GIVE_FACTS,
                    read_extraction,
                )
                for number, group in enumerate(groups, 1)
                if len(group) > 1
            }
            answers = gather(asked.values())
            joined = dict(zip(asked, answers, strict=True))
            found = [
                self._joined(group, joined.get(number)) for number, group in enumerate(groups, 1)
            ]
        return found[0] if found else Extraction()

    def _joined(
        self, group: list[Extraction], joined: Extraction | StepFailedError | None
    ) -> Extraction:
        if isinstance(joined, Extraction):
            failures = tuple(text for one in group for text in one.failures)
            return merged([joined], failures=failures)
        why = (f"{self.source.name}: could not be reduced, {joined}",) if joined else ()
        return merged(group, failures=why)

    def _step(self, phase: str, chunk: int | None) -> Step:
        return Step(phase, self._section, self._parent, self.source.name, chunk)
