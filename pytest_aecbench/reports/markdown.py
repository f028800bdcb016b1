"""The summary of a run as GitHub Markdown, for the summary of a CI job."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import (
    TABLE,
    USED,
    cells,
    heads,
    number_text,
    p_text,
)
from pytest_aecbench.reports.results import final_results
from pytest_aecbench.reports.summary import summarise
from pytest_aecbench.reports.text import comparison_notes, design_text
from pytest_aecbench.text import counted, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_aecbench.reports.comparison import Comparison
    from pytest_aecbench.reports.gates import Verdict
    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.summary import AgentSummary, Group

__all__ = ["code", "comparison_blocks", "markdown_summary", "table"]

_LISTED = 20
# By this line a workflow finds the comment that it wrote before, to replace it.
MARKER = "<!-- aec-bench -->"
# GitHub takes 65,536 of a comment.
MAX_CHARS = 60_000


def markdown_summary(
    results: Sequence[TrialResult],
    *,
    experiment_id: str,
    wall_sec: float,
    verdict: Verdict | None = None,
    comparison: Comparison | None = None,
) -> str:
    """Return the run's tables, and the trials that failed or broke; held-out tasks are not named.

    Whatever names the results bring, they are shown as they are and change nothing around them.
    """
    summaries = summarise(results)
    blocks = [
        _headline(experiment_id, verdict),
        _counts(summaries, wall_sec),
        *_gate_block(verdict),
        *(_agent_blocks(summaries) if summaries else ()),
        *(comparison_blocks(comparison) if comparison else ()),
        *_trial_blocks(results),
    ]
    return "\n\n".join(_capped(blocks)) + "\n"


def _capped(blocks: Sequence[str]) -> list[str]:
    """Return the blocks without the longest ones if GitHub would not take them all."""
    kept = list(blocks)
    while len("\n\n".join(kept)) > MAX_CHARS:
        longest = max(range(len(kept)), key=lambda index: len(kept[index]))
        lines = kept[longest].count("\n") + 1
        left_out = f"Left out, because the summary would be too long: {counted(lines, 'line')}."
        if len(left_out) >= len(kept[longest]):
            break
        kept[longest] = left_out
    return kept


def _headline(experiment_id: str, verdict: Verdict | None) -> str:
    gate = "" if verdict is None else f": gate {'passed' if verdict.passed else 'failed'}"
    return f"{MARKER}\n## aec: {code(experiment_id)}{gate}"


def _counts(summaries: Sequence[AgentSummary], wall_sec: float) -> str:
    held_out = sum(summary.holdout.trials for summary in summaries if summary.holdout)
    return ", ".join(
        [
            f"trials {sum(summary.overall.trials for summary in summaries)}",
            f"errors {sum(summary.overall.errors for summary in summaries)}",
            *([f"held-out trials {held_out} (not shown)"] if held_out else []),
            f"wall time {duration_text(wall_sec)}",
        ]
    )


def _gate_block(verdict: Verdict | None) -> Iterator[str]:
    if verdict is not None:
        yield "\n".join(f"- {code(line)}" for line in verdict.lines)


def _agent_blocks(summaries: Sequence[AgentSummary]) -> Iterator[str]:
    repeated = sorted({summary.repetitions for summary in summaries if summary.repetitions > 1})
    yield table(
        (
            "agent",
            *heads(TABLE),
            *chain.from_iterable((f"pass@{k}", f"pass^{k}") for k in repeated),
            *heads(USED),
        ),
        (
            (
                code(summary.agent),
                *cells(TABLE, summary.overall),
                *chain.from_iterable(_pass_cells(summary, k) for k in repeated),
                *cells(USED, summary),
            )
            for summary in summaries
        ),
    )
    yield from _details("domain", summaries, lambda summary: summary.by_domain)
    yield from _details("difficulty", summaries, lambda summary: summary.by_difficulty)


def _pass_cells(summary: AgentSummary, k: int) -> tuple[str, str]:
    if summary.repetitions != k or summary.pass_at_k is None or summary.pass_hat_k is None:
        return "-", "-"
    tasks, of = summary.pass_k_tasks, summary.overall.tasks
    partly = "" if tasks == of else f" ({counted(tasks, 'task', of)})"
    return f"{summary.pass_at_k:.2f}{partly}", f"{summary.pass_hat_k:.2f}{partly}"


def _details(
    what: str,
    summaries: Sequence[AgentSummary],
    groups: Callable[[AgentSummary], Mapping[str, Group]],
) -> Iterator[str]:
    rows = [
        (code(summary.agent), code(name), *cells(TABLE, group))
        for summary in summaries
        for name, group in groups(summary).items()
    ]
    if rows:
        yield f"<details><summary>By {what}</summary>"
        yield table(("agent", what, *heads(TABLE)), rows)
        yield "</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison_blocks(comparison: Comparison) -> Iterator[str]:
    """Yield how the agents' rewards changed since an earlier experiment."""
    yield f"### Compared with {code(comparison.before)}"
    if comparison.agents:
        yield table(
            ("agent", "pairs", "before", "after", "change", "95 % interval", "SE", "p"),
            (
                (
                    code(agent.name),
                    str(agent.pairs),
                    f"{agent.before:.2f}",
                    f"{agent.after:.2f}",
                    f"{agent.change:+.2f}",
                    agent.bounds_text,
                    number_text(agent.standard_error),
                    p_text(agent.p),
                )
                for agent in comparison.agents
            ),
        )
    tasks = [
        f"- {word}: {code(task.task_id)} {task.before:.2f} to {task.after:.2f}"
        for agent in comparison.agents
        for word, found in (("worse", agent.worse), ("better", agent.better))
        for task in found[:_LISTED]
    ]
    designs = [f"- {code(agent.name)}: {design_text(agent)}" for agent in comparison.agents]
    notes = [f"- {code(note.strip())}" for note in comparison_notes(comparison)]
    yield "\n".join([*tasks, *designs, *notes])


def _trial_blocks(results: Iterable[TrialResult]) -> Iterator[str]:
    public = sorted(
        (trial for trial in final_results(results) if trial.visibility == "public"),
        key=lambda trial: (trial.reward or 0, trial.task_id, trial.agent, trial.repetition),
    )
    failed = [trial for trial in public if trial.passed is False]
    yield from _list("Failed, lowest rewards first", failed, lambda t: f"reward {t.reward:.4g}")
    broken = [trial for trial in public if trial.error_cause is not None]
    yield from _list("Errors, not scored", broken, lambda t: code(t.error_cause or ""))


def _list(
    title: str, trials: Sequence[TrialResult], outcome: Callable[[TrialResult], str]
) -> Iterator[str]:
    if not trials:
        return
    yield f"### {title}: {len(trials)}"
    lines = [
        f"- {code(f'{trial.task_id}[{trial.agent}-{trial.repetition}]')} {outcome(trial)}"
        for trial in trials[:_LISTED]
    ]
    more = len(trials) - _LISTED
    yield "\n".join([*lines, f"- and {more} more"] if more > 0 else lines)


def code(text: str) -> str:
    """Return text as code, where GitHub makes no link, mention or markup of it.

    A code span takes most text as it is, but neither a backtick nor, in a table, a vertical bar.
    """
    if text.strip() and text.isprintable() and not set(text) & set("`|\\"):
        return f"`{text}`"
    return f"<code>{''.join(map(_character, text))}</code>"


def _character(char: str) -> str:
    if char.isalnum() or char == " ":
        return char
    if char == "@":
        return "&#64;<!-- -->"  # the empty comment keeps an address from becoming a link
    return f"&#{ord(char) if char.isprintable() else 0xFFFD};"
