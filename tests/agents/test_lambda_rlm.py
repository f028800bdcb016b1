"""The harness ``lambda-rlm`` in real sandboxes, through the vendors' SDKs against a stand-in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_aecbench.agents import AgentContext
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.errors import AuthFailed, TaskError
from pytest_aecbench.providers import Usage
from tests.agents.conftest import anywhere
from tests.agents.lambda_rlm import (
    INSTRUCTION,
    Trial,
    facts,
    honest,
    policy,
    review,
    step_of,
)
from tests.conformance.providers import WAYS, at, forget_variables
from tests.standins.models import Tokens, Turn, Wish
from tests.standins.models.policy import Asked, PolicyServer

pytestmark = [anywhere, pytest.mark.usefixtures("own_machine")]

Serve = Callable[..., PolicyServer]
TWO = {
    "background": {"input_mapping": ["brief"]},
    "findings": {"input_mapping": ["survey"], "depends_on": ["background"]},
}
DOCUMENTS = {
    "brief.md": "# Scope\n\nFACT-OWNER is Shire.\n\n# Limits\n\nFACT-SPAN is 18m.\n",
    "survey.md": "FACT-CRACK is 3mm.\n",
}
NO_REVIEW = "[review]\nenabled = false\n"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, own_machine: Path) -> Iterator[Serve]:
    """Start a stand-in with a policy, to which all providers lead.

    A model that another test has told to slow down has fewer calls in flight on that machine.
    """
    servers: list[PolicyServer] = []

    def make(
        decide: Callable[[Asked], Turn | str] = honest, way: str = "anthropic", **more: Any
    ) -> PolicyServer:
        forget_variables(monkeypatch)
        servers.append(PolicyServer(decide, **more))
        for name, value in at(servers[-1].url, WAYS[way].variables).items():
            monkeypatch.setenv(name, value)
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def trial(sandbox: Sandbox, tmp_path: Path) -> Trial:
    return Trial(sandbox, tmp_path, TWO, DOCUMENTS)


def phases(server: PolicyServer) -> list[str]:
    return [" ".join(filter(None, step_of(asked)[:2])) for asked in server.asked]


def test_a_report_is_written_from_its_sources(serve: Serve, trial: Trial) -> None:
    server = serve()
    result = trial.run()
    assert (result.status, result.end, result.error) == ("completed", "written", None)
    assert trial.report == (
        "# 1. Background\n\nFACT-OWNER is Shire.\nFACT-SPAN is 18m.\n\n"
        "# 2. Findings\n\nFACT-CRACK is 3mm.\n"
    )
    assert trial.written["findings"] == {
        "title": "Findings",
        "content": "FACT-CRACK is 3mm.",
        "failure": None,
        "gaps": [],
        "risks": [],
        "review": "pass",
    }
    assert phases(server) == [
        *("extract background", "review background", "generate background"),
        *("extract findings", "review findings", "generate findings"),
    ]
    assert all(INSTRUCTION in asked.system for asked in server.asked)
    assert "FACT-SPAN is 18m." in server.asked[-1].first  # of the dependency
    assert result.plan is not None
    assert result.calls == result.turns == result.plan["calls_planned"] == 6
    assert result.prompt_version == "lambda-rlm-1"


@pytest.mark.parametrize("way", ["anthropic", "openai-chat", "openai-responses", "bedrock-token"])
def test_every_provider_writes_the_same_report(serve: Serve, trial: Trial, way: str) -> None:
    server = serve(way=way)
    trial.model = WAYS[way].model
    result = trial.run()
    assert result.end == "written"
    assert "FACT-SPAN is 18m." in trial.report
    assert result.calls == len(server.calls) == 6


def test_the_trajectory_has_each_call_and_its_sum_is_that_of_the_record(
    serve: Serve, trial: Trial
) -> None:
    tokens = Tokens(fresh=11, read=22, written=33, out=44)

    def other(phase: str, asked: Asked) -> Turn | None:
        return facts({}, tokens) if phase == "extract" else None

    server = serve(policy(other))
    result = trial.run()
    calls = trial.calls
    assert len(calls) == len(server.asked) == result.calls
    summed = Usage()
    for entry in calls:
        summed += entry.usage
    assert summed == result.usage
    plan, first = trial.entries[1:3]
    assert plan.content.startswith("plan: 6 calls if nothing is done again, at most ")
    assert (first.metadata["parent"], first.metadata["phase"]) == (plan.step, "section")
    extract = calls[0].metadata
    assert (extract["call_type"], extract["parent"]) == ("subcall", first.step)
    assert extract["prompt"].startswith("# extract: background from brief\n")
    assert calls[2].metadata["call_type"] == "main"
    assert {entry.metadata["model"] for entry in calls} == {f"{trial.model}-20991231"}


# Order and parallelism


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [f"s{n}" for n in range(draw(st.integers(1, 12)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:n]), unique=True, max_size=3)) if n else []
        for n, name in enumerate(names)
    }


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(graphs(), st.sampled_from([1, 3]))
def test_a_section_begins_when_its_dependencies_are_written(
    serve: Serve, trial: Trial, graph: dict[str, list[str]], workers: int
) -> None:
    server = serve(delay_sec=0.01)
    trial.sections = {
        name: {"depends_on": needs, "input_mapping": ["survey"]} for name, needs in graph.items()
    }
    trial.toml = f"[execution]\nmax_parallel_workers = {workers}\n"
    early: list[str] = []

    def watched(asked: Asked) -> Turn | str:
        answered = [step_of(one) for one in server.answered]
        written = {section for phase, section, _ in answered if phase == "generate"}
        early.extend(need for need in graph[step_of(asked)[1]] if need not in written)
        return honest(asked)

    server.policy = watched
    result = trial.run()
    assert early == []
    assert server.most_in_flight <= workers
    assert re.findall(r"^# \d+\. S(\d+)$", trial.report, re.MULTILINE) == [
        name[1:] for name in graph
    ]
    assert result.plan is not None
    assert result.calls == result.plan["calls_planned"]
    server.close()


def test_workers_are_used_side_by_side_and_never_more(serve: Serve, trial: Trial) -> None:
    server = serve(delay_sec=0.2)
    trial.documents = {"long.txt": "one line of it\n" * 1000}
    trial.sections = {"only": {"input_mapping": ["long"]}}
    trial.toml = "[planner]\ncontext_window_chars = 1000\n[execution]\nmax_parallel_workers = 4\n"
    trial.run()
    assert server.most_in_flight == 4


def test_sections_that_do_not_depend_on_one_another_are_written_side_by_side(
    serve: Serve, trial: Trial
) -> None:
    server = serve(delay_sec=0.4)
    trial.sections = {name: {"input_mapping": ["survey"]} for name in ("a", "b")}
    trial.toml = f"{NO_REVIEW}[execution]\nmax_parallel_workers = 2\n"
    trial.run()
    assert server.most_in_flight == 2


# Long sources


def test_a_long_source_is_read_in_chunks_and_reduced_in_a_tree(serve: Serve, trial: Trial) -> None:
    server = serve()
    # A fact in each line, so that there are facts on both sides of each cut.
    lines = [f"FACT-{n:04} is V{n}." for n in range(640)]
    trial.documents = {"long.txt": "\n".join(lines)}
    trial.sections = {"only": {"input_mapping": ["long.txt"]}}
    trial.toml = "[planner]\ncontext_window_chars = 1000\nmax_branching_factor = 3\n"
    result = trial.run()
    assert result.plan is not None
    source = result.plan["sections"]["only"]["sources"]["long.txt"]
    assert (source["k"], source["d"]) == (3, 3)
    assert (source["leaves"], source["reduces"]) == (27, 13)
    assert result.calls == result.plan["calls_planned"] == 27 + 13 + 2
    assert sum(phase == "reduce only" for phase in phases(server)) == 13
    asked = [one.first for one in server.asked if one.first.startswith("# reduce")]
    assert all(text.count("## Part ") == 3 for text in asked)
    assert set(trial.report.splitlines()) == {"# 1. Only", "", *lines}
    assert result.plan["feasible"] is False
    (warning,) = result.warnings
    assert "0.693 is below 0.8" in warning


def test_a_part_of_a_source_is_what_is_below_its_heading(serve: Serve, trial: Trial) -> None:
    serve()
    trial.sections = {"only": {"input_mapping": ["brief:limits"]}}
    trial.run()
    assert "FACT-SPAN" in trial.report
    assert "FACT-OWNER" not in trial.report


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("surve", "there is no source 'surve'; use one of 'brief.md', 'survey.csv', 'survey.md'"),
        ("survey", "'survey' means 2 files; use one of 'survey.csv', 'survey.md'"),
        ("brief:Scop", "'brief:Scop': there is no heading 'Scop'; use one of 'Scope', 'Limits'"),
    ],
)
def test_a_source_that_is_not_there_is_an_error_before_the_first_call(
    serve: Serve, trial: Trial, label: str, expected: str
) -> None:
    server = serve()
    trial.documents = {**DOCUMENTS, "survey.csv": "a,b\n", "picture.png": "x"}
    trial.sections = {"only": {"input_mapping": [label]}}
    with pytest.raises(TaskError) as caught:
        trial.run()
    assert str(caught.value) == f"task: only.input_mapping: {expected}"
    assert server.calls == []


def test_sources_are_those_of_the_working_directory_if_it_has_no_documents(
    serve: Serve, trial: Trial
) -> None:
    serve()
    trial.sections = {"only": {"input_mapping": ["notes/site"]}}
    trial.setup = (
        "rm -rf documents; mkdir notes .git; echo FACT-SITE is wet. > notes/site.txt; "
        "touch .git/x.txt output.md"
    )
    trial.run()
    assert "FACT-SITE is wet." in trial.report


def test_no_source_is_a_hidden_file_or_the_output(serve: Serve, trial: Trial) -> None:
    serve()
    trial.sections = {"only": {"input_mapping": ["nothing"]}}
    trial.setup = "rm -rf documents; mkdir .git; touch .git/x.txt .hidden.md output.md"
    with pytest.raises(TaskError, match="there is no source 'nothing'; put files"):
        trial.run()


# Reviews


def asking(status: str, times: int, **more: Any) -> Callable[[str, Asked], Turn | None]:
    """Return a decision that lets the first reviews of findings ask for more."""
    left = [times]

    def decide(phase: str, asked: Asked) -> Turn | None:
        if phase != "review" or step_of(asked)[1] != "findings" or not left[0]:
            return None
        left[0] -= 1
        return review(status, gaps=["the date of the survey"], **more)

    return decide


@pytest.mark.parametrize("named", ["brief:Scope", "brief"])
def test_only_the_source_that_a_review_names_is_read_again(
    serve: Serve, trial: Trial, named: str
) -> None:
    trial.sections = {"findings": {"input_mapping": ["survey", "brief:Scope"]}}
    server = serve(policy(asking("needs_reextract", 1, reextract_sources=[named])))
    result = trial.run()
    assert result.end == "written"
    again = [asked for asked in server.asked if "An earlier reading missed" in asked.first]
    assert [step_of(asked)[2] for asked in again] == ["brief:Scope"]
    assert "- the date of the survey" in again[0].first
    assert phases(server).count("review findings") == 2
    assert trial.written["findings"]["review"] == "pass"


def test_a_source_is_read_again_as_often_as_it_may_be_and_chunk_by_chunk(
    serve: Serve, trial: Trial
) -> None:
    trial.documents = {"survey.md": "Nothing to see.\n" * 100, "brief.md": "FACT-OWNER is Shire."}
    trial.sections = {"findings": {"input_mapping": ["survey", "brief"]}}
    trial.toml = "[planner]\ncontext_window_chars = 800\n[review]\nmax_retries_per_source = 2\n"
    server = serve(policy(asking("needs_reextract", 99, reextract_sources=["survey"])))
    result = trial.run()
    sources = [step_of(asked)[2] for asked in server.asked if step_of(asked)[0] == "extract"]
    assert (sources.count("survey"), sources.count("brief")) == (3 * 2, 1)
    assert phases(server).count("reduce findings") == 3
    assert phases(server).count("review findings") == 3
    assert trial.written["findings"]["review"] == "needs_reextract"
    assert trial.written["findings"]["gaps"] == ["the date of the survey"]
    assert "- the date of the survey" in server.asked[-1].first
    assert result.plan is not None
    assert result.calls is not None
    assert result.plan["calls_planned"] < result.calls <= result.plan["calls_bound"]


def test_a_supplement_is_asked_for_as_often_as_it_may_be(serve: Serve, trial: Trial) -> None:
    trial.toml = "[review]\nmax_supplements_per_section = 2\n"
    decide = asking("needs_supplement", 99, supplement_guidance="Work out the load.")
    server = serve(policy(decide))
    trial.run()
    assert phases(server).count("supplement findings") == 2
    assert phases(server).count("review findings") == 3
    asked = next(asked for asked in server.asked if asked.first.startswith("# supplement"))
    assert "A review asks for this: Work out the load." in asked.first
    assert DOCUMENTS["survey.md"].strip() in asked.first


def test_a_review_that_cannot_be_read_is_not_a_pass(serve: Serve, trial: Trial) -> None:
    def mumble(phase: str, asked: Asked) -> Turn | None:
        return Turn("All is well, I think.") if phase == "review" else None

    server = serve(policy(mumble))
    result = trial.run()
    assert phases(server).count("review findings") == 2  # one repair
    assert "there is no call of give_review" in server.asked[2].last
    assert trial.written["findings"]["review"] == "unreadable"
    assert "the review failed: the answer could not be read" in trial.written["findings"]["gaps"][0]
    assert result.end == "written"


@pytest.mark.parametrize("toml", [NO_REVIEW, '[review]\ntrigger = "never"\n'])
def test_a_task_may_do_without_reviews(serve: Serve, trial: Trial, toml: str) -> None:
    trial.toml = toml
    server = serve()
    result = trial.run()
    assert phases(server) == [
        *("extract background", "generate background"),
        *("extract findings", "generate findings"),
    ]
    assert trial.written["findings"]["review"] is None
    assert result.plan is not None
    assert result.calls == result.plan["calls_planned"] == 4


@pytest.mark.parametrize("form", ["tool", "fenced", "plain"])
def test_a_bad_answer_is_repaired_once_and_json_in_the_text_will_do(
    serve: Serve, trial: Trial, form: str
) -> None:
    given = {"facts": [{"name": "FACT-CRACK", "value": 3}], "missing": []}
    forms = {
        "tool": Turn(calls=(Wish("give_facts", given),)),
        "fenced": Turn(f"Here it is:\n```json\n{json.dumps(given)}\n```\n"),
        "plain": Turn(json.dumps(given)),
    }

    def decide(phase: str, asked: Asked) -> Turn | None:
        if phase != "extract" or step_of(asked)[1] != "findings":
            return None
        return forms[form] if asked.turns else Turn(calls=(Wish("give_facts", '{"facts": ['),))

    server = serve(policy(decide))
    result = trial.run()
    assert result.end == "written"
    repaired = [asked for asked in server.asked if asked.turns]
    assert len(repaired) == 1
    assert "the arguments are not a JSON object. Call `give_facts`" in repaired[0].last
    assert '"value": "3"' in server.asked[-1].first
    assert "repair" in trial.calls[4].metadata


# Budgets


def test_a_budget_that_cannot_be_enough_is_refused_before_the_first_call(
    serve: Serve, trial: Trial
) -> None:
    server = serve()
    trial.toml = "[guardrails]\ntoken_budget = 100\n"
    with pytest.raises(TaskError) as caught:
        trial.run()
    assert re.search(
        r"lambda-rlm\.toml: guardrails\.token_budget: 100 tokens cannot be enough for 6 calls, "
        r"which use at least \d+; raise it",
        str(caught.value),
    )
    assert server.calls == []


@pytest.mark.parametrize("where", ["file", "parameter"])
def test_a_budget_that_is_spent_midway_leaves_what_is_done(
    serve: Serve, trial: Trial, where: str
) -> None:
    def costly(phase: str, asked: Asked) -> Turn | None:
        found = {"generate": Turn("Text.", tokens=Tokens(fresh=4000, out=1000))}
        return found.get(phase)

    server = serve(policy(costly))
    if where == "file":
        trial.toml = "[guardrails]\ntoken_budget = 5000\n"
    else:
        trial.parameters = {"token_budget": 5000}
    result = trial.run()
    assert (result.status, result.end) == ("limit_reached", "token_budget")
    assert result.error == "used 5240 tokens"
    assert len(server.calls) == 3
    assert trial.report == (
        "# 1. Background\n\nText.\n\n# 2. Findings\n\n[Not written: used 5240 tokens]\n"
    )
    assert trial.written["findings"]["failure"] == "used 5240 tokens"


def test_the_advisor_is_asked_once_after_a_review_has_failed_and_counts(
    serve: Serve, trial: Trial
) -> None:
    trial.toml = '[advisor]\nmodel = "claude-opus-4-5"\nmax_response_tokens = 77\n'
    decide = asking("needs_reextract", 99, reextract_sources=["survey"])
    server = serve(policy(decide))
    result = trial.run()
    advised = [call for call in server.calls if call.body["model"] == "claude-opus-4-5"]
    assert len(advised) == 1
    assert advised[0].body["max_tokens"] == 77
    assert "the date of the survey" in json.dumps(advised[0].body)
    assert "## Advice\n\nSay that it is unknown." in server.asked[-1].first
    assert result.calls == len(server.calls) == len(trial.calls)
    (entry,) = (one for one in trial.calls if one.metadata["call_type"] == "advisor")
    assert entry.metadata["model"] == "claude-opus-4-5-20991231"


@pytest.mark.parametrize(
    ("toml", "times"), [("max_uses = 1", 1), ("max_uses = 9", 3), ("enabled = false", 0)]
)
def test_the_advisor_is_asked_no_more_often_than_it_may_be(
    serve: Serve, trial: Trial, toml: str, times: int
) -> None:
    trial.toml = f'[advisor]\nmodel = "claude-opus-4-5"\n{toml}\n[execution]\n'
    trial.sections = {name: {"input_mapping": ["survey"]} for name in ("a", "b", "c")}

    def decide(phase: str, asked: Asked) -> Turn | None:
        return review("needs_supplement") if phase == "review" else None

    server = serve(policy(decide))
    result = trial.run()
    assert sum(asked.model == "claude-opus-4-5" for asked in server.asked) == times
    assert result.end == "written"


@pytest.mark.parametrize(("window", "shown"), [(0, 0), (1, 1), (10, 2)])
def test_the_advisor_sees_as_many_reviews_as_it_may(
    serve: Serve, trial: Trial, window: int, shown: int
) -> None:
    trial.toml = f'[advisor]\nmodel = "claude-opus-4-5"\ncontext_window = {window}\n'
    server = serve(policy(asking("needs_reextract", 99, reextract_sources=["survey"])))
    trial.run()
    (asked,) = (one for one in server.asked if one.model == "claude-opus-4-5")
    assert asked.first.count("review: needs_reextract; gaps: the date of the survey") == shown


def test_the_deadline_leaves_what_is_done(serve: Serve, trial: Trial) -> None:
    def slow(phase: str, asked: Asked) -> Turn | str | None:
        is_late = step_of(asked)[:2] == ("extract", "findings")
        return "hang" if is_late else None

    serve(policy(slow))
    trial.timeout_sec = 2
    result = trial.run()
    assert (result.status, result.end) == ("timed_out", "deadline")
    assert "FACT-SPAN is 18m." in trial.report
    assert "[Not written: the agent's time was over]" in trial.report


# Faults


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_aecbench.providers.calls._FIRST_DELAY_SEC", 0.01)


def failing(fault: str, times: int) -> Callable[[str, Asked], str | None]:
    left = [times]

    def decide(phase: str, asked: Asked) -> str | None:
        if phase != "extract" or not left[0]:
            return None
        left[0] -= 1
        return fault

    return decide


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(("fault", "times"), [("rate", 1), ("failing", 2), ("torn", 1)])
def test_a_failure_that_passes_is_waited_for(
    serve: Serve, trial: Trial, fault: str, times: int
) -> None:
    server = serve(policy(failing(fault, times)))
    result = trial.run()
    assert result.end == "written"
    assert result.calls == 6
    assert len(server.calls) == 6 + times
    assert len(trial.calls[0].metadata["failures"]) == times


def test_an_outage_is_an_error_of_the_trial_and_keeps_what_was_spent(
    serve: Serve, trial: Trial, sandbox: Sandbox
) -> None:
    def decide(phase: str, asked: Asked) -> str | None:
        return "unauthorised" if step_of(asked)[:2] == ("extract", "findings") else None

    serve(policy(decide))
    with pytest.raises(AuthFailed):
        trial.run()
    context = sandbox.context
    assert isinstance(context, AgentContext)
    assert context.meter.calls == len(trial.calls) == 3
    assert sandbox.execute("test -e output.md").returncode != 0


@pytest.mark.parametrize("how", ["refusal", "filtered"])
def test_a_section_that_a_model_refuses_to_write_is_marked(
    serve: Serve, trial: Trial, how: str
) -> None:
    def decide(phase: str, asked: Asked) -> Turn | str | None:
        if step_of(asked)[:2] != ("generate", "background"):
            return None
        return "filtered" if how == "filtered" else Turn("I will not.", stop="refusal")

    serve(policy(decide))
    result = trial.run()
    assert (result.status, result.end) == ("failed", "incomplete")
    assert "background: " in (result.error or "")
    assert "# 1. Background\n\n[Not written: " in trial.report
    assert "FACT-CRACK is 3mm." in trial.report


def test_a_source_that_is_refused_is_a_gap_of_its_section(serve: Serve, trial: Trial) -> None:
    trial.sections = {"findings": {"input_mapping": ["survey", "brief"]}}

    def decide(phase: str, asked: Asked) -> Turn | None:
        is_survey = phase == "extract" and step_of(asked)[2] == "survey"
        return Turn("I will not.", stop="refusal") if is_survey else None

    server = serve(policy(decide))
    result = trial.run()
    assert result.end == "written"
    assert trial.written["findings"]["gaps"] == ["survey: the model refused"]
    assert "- survey: the model refused" in server.asked[-1].first
    assert "FACT-SPAN is 18m." in trial.report


def test_a_text_that_was_cut_is_kept_and_marked(serve: Serve, trial: Trial) -> None:
    def decide(phase: str, asked: Asked) -> Turn | None:
        return Turn("The beginning", stop="length") if phase == "generate" else None

    serve(policy(decide))
    trial.run()
    assert trial.written["findings"]["gaps"] == ["the text was cut at max_tokens"]
    assert trial.written["findings"]["content"] == "The beginning"


def test_a_reading_that_was_cut_is_asked_for_again(serve: Serve, trial: Trial) -> None:
    def decide(phase: str, asked: Asked) -> Turn | None:
        if phase != "extract" or asked.turns:
            return None
        return Turn('{"facts": [{"name": "FACT-', stop="length")

    server = serve(policy(decide))
    assert trial.run().end == "written"
    again = [asked.last for asked in server.asked if asked.turns]
    assert len(again) == 2
    assert all("it was cut at its maximum length" in text for text in again)


def test_facts_that_cannot_be_reduced_are_kept_as_they_are(serve: Serve, trial: Trial) -> None:
    trial.documents = {"long.txt": "FACT-A is 1.\n" + "x\n" * 500 + "FACT-B is 2.\n"}
    trial.sections = {"only": {"input_mapping": ["long"]}}
    trial.toml = "[planner]\ncontext_window_chars = 600\n"

    def decide(phase: str, asked: Asked) -> Turn | None:
        return Turn("no idea") if phase == "reduce" else None

    serve(policy(decide))
    trial.run()
    assert "FACT-A is 1.\nFACT-B is 2." in trial.report
    assert "long: could not be reduced" in trial.written["only"]["gaps"][0]


def test_a_source_that_is_not_text_or_empty_is_a_gap(serve: Serve, trial: Trial) -> None:
    serve()
    trial.documents = {"empty.md": " \n", "bytes.txt": b"FACT-A is 1.\n\xff\xfe"}
    trial.sections = {"only": {"input_mapping": ["empty", "bytes"]}}
    result = trial.run()
    assert trial.written["only"]["gaps"] == ["empty is empty", "bytes is not all UTF-8 text"]
    assert "FACT-A is 1." in trial.report
    assert result.plan is not None
    assert result.calls == result.plan["calls_planned"] == 3


# Other shapes


def test_a_flat_task_has_one_text_from_all_sources(serve: Serve, trial: Trial) -> None:
    trial.toml = '[template]\ntier = "flat"\n'
    server = serve()
    result = trial.run()
    assert result.end == "written"
    assert trial.report == "FACT-CRACK is 3mm.\nFACT-OWNER is Shire.\nFACT-SPAN is 18m."
    assert "Write the whole content of the output file" in server.asked[-1].first
    assert phases(server).count("extract answer") == 2


def test_sections_from_elsewhere_and_standard_text_need_no_sources(
    serve: Serve, trial: Trial
) -> None:
    trial.sections = {
        "drawings": {"generation_mode": "external"},
        "notes": {"generation_mode": "boilerplate", "writing_guidance": ["Say who to call."]},
    }
    server = serve()
    result = trial.run()
    assert result.end == "written"
    assert phases(server) == ["generate notes"]
    assert "- Say who to call." in server.asked[0].first
    assert "# 1. Drawings\n\n[Not written: it comes from elsewhere]" in trial.report


def test_what_a_template_says_of_a_section_is_told(serve: Serve, trial: Trial) -> None:
    trial.meta = '[meta]\nname = "B-17"\nvoice = "plain"\n'
    trial.sections = {
        "findings": {
            "writing_guidance": ["State the crack."],
            "input_mapping": {"sources": ["survey", "brief"], "priority": {"survey": 1}},
            "generation_mode": "guided",
            "fields": [{"name": "span", "unit": "m", "dtype": "float", "tolerance": 0.02}],
        }
    }
    server = serve()
    trial.run()
    told = server.asked[-1].first
    for text in (
        "The report: B-17",
        "Voice: plain",
        "The section: Findings. Follow the guidance closely.",
        "- State the crack.",
        "- span (float, m, to within 0.02 of its value)",
        "## Found in survey, priority 1",
        "## Found in brief\n",
    ):
        assert text in told
