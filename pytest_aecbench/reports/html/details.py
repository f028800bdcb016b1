"""The details of single trials: what each got, said and did, the most telling ones first."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from pytest_aecbench.ledger.entry import Entry
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.reports.html.columns import packed
from pytest_aecbench.reports.html.texts import shown, shown_in
from pytest_aecbench.text import both_ends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_aecbench.ledger.entry import Recorded
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.reports.html.source import Evidence, Figures

__all__ = ["BLOCK", "Details", "by_worth", "detail_of", "details", "shown_entries"]

# Trials in a block, which is unpacked as a whole when one of them is opened.
BLOCK = 8
# Of a longer output, both ends are shown.
_MAX_OUTPUT = 2000
# Of a longer reply or prompt.
_MAX_TEXT = 20_000
# Room for a block's element and for its trials' places.
_OVERHEAD = 120


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks of trials, where each included trial is, by its number, and the instructions."""

    blocks: Sequence[str]
    places: Mapping[int, int]
    instructions: Mapping[str, str]

    @property
    def included(self) -> int:
        """The number of trials with details."""
        return len(self.places)


def details(figures: Figures, max_bytes: int) -> Details:
    """Return the details that fit into so many bytes."""
    blocks: list[str] = []
    places: dict[int, int] = {}
    instructions: dict[str, str] = {}
    if not figures.source.has_results:
        return Details(blocks, places, instructions)
    order = iter(by_worth(figures))
    size = BLOCK
    while chunk := list(islice(order, size)):
        found = [_with_instruction(figures, index) for index in chunk]
        new = {key: text for _, key, text in found if key and key not in instructions}
        packed_new = {key: packed(text) for key, text in new.items()}
        block = packed([detail for detail, _, _ in found])
        needed = len(block) + sum(map(len, packed_new.values())) + _OVERHEAD * (1 + len(packed_new))
        if needed > max_bytes:
            break
        max_bytes -= needed
        instructions |= packed_new
        for position, index in enumerate(chunk):
            places[index] = len(blocks) * BLOCK + position
        blocks.append(block)
    return Details(blocks, places, instructions)


def by_worth(figures: Figures) -> list[int]:
    """Return the numbers of attempts: errors, regressions, failed, a passed one of each, others."""
    comparison = figures.source.comparison
    fell = {
        (agent.after_agent, task.task_id)
        for agent in (comparison.agents if comparison else ())
        for task in agent.worse
    }
    seen: set[tuple[str, str]] = set()

    def worth(index: int, record: Recorded) -> int:
        outcome = outcome_of(record)
        trial = (figures.name_of(record), record.task.task_id)
        if outcome == "error":
            return 0
        if (record.agent.name, record.task.task_id) in fell and outcome == "failed":
            return 1
        if outcome != "passed":
            return 2
        if trial in seen:
            return 4
        seen.add(trial)
        return 3

    ranked = [(worth(index, record), index) for index, record in enumerate(figures.attempts)]
    return [index for _, index in sorted(ranked)]


def _with_instruction(figures: Figures, index: int) -> tuple[dict[str, Any], str, str]:
    """Return an attempt's details, and the key and the text of its instruction."""
    source, record = figures.source, figures.attempts[index]
    assert not isinstance(record, Entry)  # which has no details
    evidence = source.evidence(record) if source.has_evidence else None
    detail = source.scrub(detail_of(record, evidence))
    text = evidence.instruction if evidence else None
    if text is None:
        return detail, "", ""
    text = shown(source.scrub(text))
    key = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return {**detail, "instruction": key}, key, text


def detail_of(record: TrialRecord, evidence: Evidence | None) -> dict[str, Any]:
    """Return what a trial's page shows besides what the table of trials has."""
    evaluation, result = record.evaluation, record.agent_result
    found: dict[str, Any] = {
        "parts": shown_in(evaluation.details),
        "breakdown": shown_in(evaluation.breakdown),
        "error": shown_in(evaluation.error.model_dump()) if evaluation.error else None,
        "cause": shown(evaluation.cause or ""),
        "excerpt": shown(record.outputs.output_excerpt or ""),
        "output_path": shown(record.outputs.output_path or ""),
        "warnings": [shown(warning) for warning in record.warnings],
        "agent_error": shown(both_ends(result.error or "", _MAX_OUTPUT)) if result else "",
        "starts": record.timing.starts,
        "verifier_returncode": evaluation.verifier_returncode,
    }
    if evidence is not None:
        found |= {
            "instruction_from": evidence.instruction_from,
            "verifier_output": shown(both_ends(evidence.verifier_output, 2 * _MAX_OUTPUT)),
            "entries": [*shown_entries(evidence.entries)],
            "files": [
                [shown(path), size, None if text is None else shown(text)]
                for path, size, text in evidence.files
            ],
            "problems": [shown(problem) for problem in evidence.problems],
        }
    return {key: value for key, value in found.items() if value not in (None, "", [], {})}


_NAMES = {
    "turn": "turn",
    "role": "role",
    "tool_name": "tool",
    "exit_code": "exit",
    "duration_ms": "ms",
}
_NUMBERS = ("tokens_in", "tokens_out", "tokens_cache_read", "cost_usd", "waited_sec")


def shown_entries(entries: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a trajectory's entries as the page needs them."""
    for entry in entries:
        metadata = entry.get("metadata") or {}
        texts = {
            "text": both_ends(entry.get("content") or "", _MAX_TEXT),
            "command": both_ends(entry.get("command") or "", _MAX_TEXT),
            "out": both_ends(entry.get("stdout") or "", _MAX_OUTPUT),
            "err": both_ends(entry.get("stderr") or "", _MAX_OUTPUT),
            "reasoning": both_ends(str(metadata.get("reasoning") or ""), _MAX_TEXT),
        }
        if entry.get("role") == "tool_result":
            texts["text"] = both_ends(entry.get("content") or "", _MAX_OUTPUT)
            if texts["out"] or texts["err"]:
                texts["text"] = ""  # what the model got is the same
        found: dict[str, Any] = {
            short: shown_in(entry[name])
            for name, short in _NAMES.items()
            if entry.get(name) is not None
        }
        found |= {name: shown(text) for name, text in texts.items() if text}
        found |= {name: metadata[name] for name in _NUMBERS if metadata.get(name)}
        if entry.get("arguments"):
            found["arguments"] = shown_in(entry["arguments"])
        for name in ("model", "link"):
            if metadata.get(name):
                found[name] = shown(str(metadata[name]))
        if metadata.get("is_error"):
            found["failed"] = True
        yield found
