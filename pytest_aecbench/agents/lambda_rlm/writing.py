"""Writing a section: read its sources, review what was found, ask for more, generate the text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_aecbench.agents.lambda_rlm.answers import (
    GIVE_FACTS,
    GIVE_REVIEW,
    Extraction,
    Review,
    merged,
    read_extraction,
    read_review,
)
from pytest_aecbench.agents.lambda_rlm.steps import (
    Step,
    StepFailedError,
    gather,
    result_of,
)
from pytest_aecbench.text import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_aecbench.agents.lambda_rlm.config import LambdaConfig
    from pytest_aecbench.agents.lambda_rlm.prompts import SectionPrompts
    from pytest_aecbench.agents.lambda_rlm.reading import SourceReader
    from pytest_aecbench.agents.lambda_rlm.steps import Steps
    from pytest_aecbench.agents.report_template import Section
    from pytest_aecbench.agents.workers import Workers

__all__ = ["SectionResult", "SectionWriter"]

_SAID_CHARS = 2000
_UNREAD = "unreadable"


@dataclass(frozen=True, slots=True)
class SectionResult:
    """A section as far as it was written; ``failure`` says why it has no text."""

    title: str
    content: str = ""
    failure: str | None = None
    gaps: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    review: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the section for ``sections.json``."""
        return {
            "title": self.title,
            "content": self.content,
            "failure": self.failure,
            "gaps": list(self.gaps),
            "risks": list(self.risks),
            "review": self.review,
        }


@dataclass
class SectionWriter:
    """Writes one section whose dependencies are written.

    ``threads`` are for reading sources side by side; the calls themselves are made by ``steps``.
    ``advise`` asks the advisor, or returns None if there is none, or no question left.
    """

    section: Section
    config: LambdaConfig
    prompts: SectionPrompts
    readers: Sequence[SourceReader]
    steps: Steps
    threads: Workers
    parent: int
    advise: Callable[[Step, str], str | None]
    found: dict[str, Extraction] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    is_reviewed: bool = True

    def run(self) -> SectionResult:
        """Return the section."""
        self.found.update(self._read(self.readers))
        review = self._reviewed() if self.is_reviewed else None
        advice = self._advice(review) if review is not None and review.status != "pass" else None
        gaps = (*(review.gaps if review else ()), *self._failures())
        risks = review.risks if review else ()
        status = review.status if review else None
        done = partial(SectionResult, self.section.title, risks=risks, review=status)
        prompt = self.prompts.generate(self.found, gaps, risks, advice or "")
        try:
            text, problem = result_of(self.steps.write(self._step("generate"), prompt))
        except StepFailedError as error:
            return done(failure=str(error), gaps=gaps)
        return done(content=text, gaps=(*gaps, problem) if problem else gaps)

    def _read(
        self, readers: Sequence[SourceReader], missed: Sequence[str] = ()
    ) -> Iterator[tuple[str, Extraction]]:
        """Read sources side by side."""
        futures = [self.threads.submit(reader.read, missed) for reader in readers]
        extractions = gather(futures)
        for reader, extraction in zip(readers, extractions, strict=True):
            assert isinstance(extraction, Extraction)  # a reader keeps failures of steps
            yield reader.source.name, extraction

    def _failures(self) -> Iterator[str]:
        for extraction in self.found.values():
            yield from extraction.failures

    def _reviewed(self) -> Review:
        """Review until it passes or nothing more may be asked for; return the last review."""
        retries, supplements = self.config.review.rounds
        again: Counter[str] = Counter()
        while True:
            review = self._review()
            if review.status == "needs_reextract":
                named = self._named(review)
                wanted = [one for one in named if again[one.source.name] < retries]
                again.update(one.source.name for one in wanted)
                for name, extraction in self._read(wanted, review.gaps):
                    self.found[name] = _improved(self.found[name], extraction)
                if wanted:
                    continue
            elif review.status == "needs_supplement" and supplements:
                supplements -= 1
                self._supplement(review)
                continue
            return review

    def _review(self) -> Review:
        """Return the model's review; one that cannot be read is neither a pass nor an error."""
        asked = self.steps.answer(
            self._step("review"), self.prompts.review(self.found), GIVE_REVIEW, read_review
        )
        try:
            review = result_of(asked)
        except StepFailedError as error:
            return Review(_UNREAD, gaps=(f"the review failed: {error}",))
        self.said.append(f"review: {review.status}; gaps: {', '.join(review.gaps) or 'none'}")
        return review

    def _named(self, review: Review) -> list[SourceReader]:
        """Return the sources that a review wants to be read again; it may leave parts out."""
        wanted = {name.strip() for name in review.reextract_sources}
        return [
            reader
            for reader in self.readers
            if wanted & {reader.source.name, reader.source.name.partition(":")[0]}
        ]

    def _supplement(self, review: Review) -> None:
        """Ask for what follows from what there is; sources are shown if all of them fit."""
        texts = {reader.source.name: reader.source.text for reader in self.readers}
        fits = sum(map(len, texts.values())) <= self.config.planner.context_window_chars
        guidance = review.supplement_guidance or "; ".join(review.gaps)
        prompt = self.prompts.supplement(self.found, guidance, texts if fits else {})
        asked = self.steps.answer(self._step("supplement"), prompt, GIVE_FACTS, read_extraction)
        try:
            more = result_of(asked)
        except StepFailedError as error:
            more = Extraction(failures=(f"the supplement failed: {error}",))
        known = self.found.get("supplement", Extraction())
        self.found["supplement"] = merged([known, more])

    def _advice(self, review: Review) -> str | None:
        advisor = self.config.advisor
        if advisor is None or not advisor.enabled:
            return None
        said = self.said[max(0, len(self.said) - advisor.context_window) :]
        shown = [shortened(text, _SAID_CHARS) for text in said]
        return self.advise(self._step("advise"), self.prompts.advise(self.found, review, shown))

    def _step(self, phase: str) -> Step:
        return Step(phase, self.section.id, self.parent)


def _improved(before: Extraction, again: Extraction) -> Extraction:
    """Return the facts of both readings; only the second says what failed and what is missing."""
    return merged([Extraction(before.facts), again])
