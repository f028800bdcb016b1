"""``rlm`` through the vendors' SDKs, with models on the loopback interface."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from pytest_aecbench.backends.sandbox import Sandbox
from tests.agents.conftest import anywhere
from tests.agents.recursion import FORGED, INSTRUCTION, Run, Workshop
from tests.costs import at_night
from tests.standins.models import KEY, ModelServer, Tokens, Turn, Wish

pytestmark = anywhere

ROOT, SUB = "claude-sonnet-4-20250514", "claude-3-5-haiku-20241022"
DOC = '[inputs.doc]\ntype = "string"\nsource = "doc.txt"\n'
SUB_TOML = f'[execution]\nsubcall_model = "{SUB}"\ncompaction_model = "{SUB}"\n'
COMPACTING = f"{SUB_TOML}context_limit = 1000\n"
PROVIDERS = {
    "anthropic": (ROOT, SUB),
    "openai": ("gpt-4.1", "gpt-4.1-mini"),
    "responses": ("o4-mini", "o3-mini"),
    "bedrock": ("eu.anthropic.root-v1:0", "eu.anthropic.sub-v1:0"),
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    server = ModelServer()
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in server.environment("anthropic", "openai", "bedrock").items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def step(code: str, **tokens: int) -> Turn:
    return Turn("", (Wish("repl", {"code": code}),), tokens=Tokens(**tokens))


def asked(body: Any) -> str:
    """Return the last message of a request, whatever its format."""
    messages = body.get("messages") or body.get("input")
    return json.dumps(messages[-1], ensure_ascii=False)


def bodies(server: ModelServer, model: str) -> list[Any]:
    return [call.body for call in server.calls if call.body.get("model") == model]


def tokens_of_root(run: Run) -> int:
    return sum(entry.usage.total for entry in run.calls("main"))


def test_a_needle_is_found_in_a_document_that_the_root_never_sees(
    workshop: Workshop, server: ModelServer
) -> None:
    counted = []
    for size in (50_000, 5_000_000):
        line = "The quick brown fox looks for clause {:07} of the specification.\n"
        lines = [line.format(number) for number in range(size // 62)]
        place = random.Random(size).randrange(len(lines))
        lines[place] = f"The design wind speed is {size % 97} m/s.\n"
        server.scripts[ROOT] = (
            step("print(len(doc) > 0, doc[:300])"),
            step("print(doc)"),
            step("found = grep(doc, 'design wind speed', context=0)\nprint(found)"),
            step("import re\nFINAL({'speed': int(re.search(r'is (\\d+) m', found)[1])})"),
        )
        server.calls.clear()
        task = workshop.task(DOC, {"doc.txt": "".join(lines)})
        run = workshop.run(ROOT, task)
        assert json.loads(run.output or "") == {"speed": size % 97}
        sent = "".join(asked(body) for body in bodies(server, ROOT)).replace("\\n", "\n")
        assert sent.count("clause 00000") > 10  # both ends of what was printed are shown
        doc = "".join(lines)
        # 12,000 characters in a row hold at least one of these pieces.
        pieces = (doc[start : start + 6000] for start in range(0, len(doc) - 6000, 6000))
        assert not any(piece in sent for piece in pieces)
        longest = max(len(json.dumps(body)) for body in bodies(server, ROOT))
        counted.append(longest)
        kept = [path for path in run.directory.rglob("*") if path.is_file()]
        assert kept
        assert not any(KEY.encode() in path.read_bytes() for path in kept)
    assert abs(counted[0] - counted[1]) < 0.05 * counted[0]


def count_pumps(body: Any) -> Turn:
    return Turn(str(asked(body).count("pump")), tokens=Tokens(50, out=2))


COUNTING = """
size = len(doc) // 8 + 1
parts, start = [], 0
while start < len(doc):
    end = doc.find('\\n', start + size) + 1 or len(doc)
    parts.append(doc[start:end])
    start = end
counts = llm_query_batched(['How many of these are for water? ' + part for part in parts])
FINAL(sum(int(count) for count in counts))
"""


def test_models_count_in_a_document_side_by_side(workshop: Workshop, server: ModelServer) -> None:
    chosen = random.Random(7)
    doc = "".join(f"{chosen.choice(('pump', 'fan', 'beam'))} {n:06}\n" for n in range(90_000))
    server.scripts[ROOT] = (step(COUNTING),)
    server.policies[SUB] = count_pumps
    server.delay_sec = 0.2
    began = time.monotonic()
    run = workshop.run(ROOT, workshop.task(f"{DOC}{SUB_TOML}", {"doc.txt": doc}))
    assert int(run.output or "0") == doc.count("pump")
    assert server.most_at_once == 4
    assert time.monotonic() - began < 60
    calls = run.calls("subcall")
    assert len(calls) == len(bodies(server, SUB)) == 8
    assert sum(entry.duration_ms or 0 for entry in calls) >= 8 * 200
    assert run.usage == run.result.usage
    assert len(server.calls) == sum(entry.role == "assistant" for entry in run.entries)


def test_calls_at_once_take_few_commands_of_the_sandbox(
    workshop: Workshop, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[float] = []
    execute = Sandbox.execute

    def counted(self: Sandbox, *args: Any, **more: Any) -> Any:
        commands.append(time.monotonic())
        return execute(self, *args, **more)

    monkeypatch.setattr(Sandbox, "execute", counted)
    server.scripts[ROOT] = (step("llm_query_batched(['x'] * 32)"), step("FINAL(1)"))
    server.policies[SUB] = lambda body: Turn("yes")
    server.delay_sec = 0.1
    run = workshop.run(ROOT, workshop.task(SUB_TOML))
    began, ended = (
        next(e.timestamp for e in run.entries if e.role == role) or ""
        for role in ("tool_call", "tool_result")
    )
    sec = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    assert len(run.calls("subcall")) == 32
    # One begins the cell and one answers it; between them, each look takes twice as long to come.
    assert len(commands) <= 6 + 2 + math.log2(max(1, sec / 0.25)) + 1, sec


def test_requests_begin_with_the_same_bytes_turn_after_turn(
    workshop: Workshop, server: ModelServer
) -> None:
    server.scripts[ROOT] = (*[step("print(1)")] * 4, step("FINAL(1)"))
    toml = "[guardrails]\ntoken_budget = 400\nbudget_warning_pct = 50.0\n"
    run = workshop.run(ROOT, workshop.task(toml), cache_prompt=False)
    sent = bodies(server, ROOT)
    assert run.result.end == "token_budget"
    assert len({json.dumps([body["system"], body["tools"]]) for body in sent}) == 1
    assert "budget of tokens" not in json.dumps(sent[0]["system"])
    for earlier, later in itertools.pairwise(sent):
        assert later["messages"][: len(earlier["messages"]) - 1] == earlier["messages"][:-1]
    warned = [text for text in run.results if "of the budget of tokens is used" in text]
    assert len(warned) == 1


def test_a_conversation_that_fills_the_context_is_replaced_by_a_summary(
    workshop: Workshop, server: ModelServer
) -> None:
    server.scripts[SUB] = (Turn("SUMMARY: x is 5", tokens=Tokens(30, out=3)),)
    turns = iter(
        (
            step("x = 5\nprint('an old result')", fresh=840, out=10),  # 85 %, and not above
            step("print('another')", fresh=850, out=11),
            step("print(x, len(history), 'an old result' in str(history))", fresh=200, out=10),
            step("FINAL(x)", fresh=300, out=10),
        )
    )
    server.policies[ROOT] = lambda body: next(turns)
    run = workshop.run(ROOT, workshop.task(COMPACTING))
    assert (run.output, run.result.end) == ("5\n", "submitted")
    (summary,) = bodies(server, SUB)
    assert "an old result" in json.dumps(summary)
    assert INSTRUCTION in json.dumps(summary)
    before, after = bodies(server, ROOT)[1:3]
    assert before["system"] == after["system"]
    (message,) = after["messages"]
    assert message["content"][0]["text"] == INSTRUCTION
    assert "SUMMARY: x is 5" in message["content"][1]["text"]
    assert "- x: int" in message["content"][1]["text"]
    assert "an old result" not in json.dumps(after)
    assert run.results[2].startswith("5 5 True")
    assert len(run.calls("compaction")) == 1
    assert run.usage == run.result.usage


@pytest.mark.parametrize(
    ("toml", "first", "second"),
    [
        ("", 960, 950),
        at_night("compaction_threshold_pct = 0.3\nhard_ceiling_pct = 0.4\n", 300, 400),
    ],
)
def test_a_context_that_is_full_right_after_a_compaction_ends_the_run(
    workshop: Workshop, server: ModelServer, toml: str, first: int, second: int
) -> None:
    turns = iter(
        (
            step("x = 5", fresh=first, out=1),
            step("x = 6", fresh=second, out=1),
            step("FINAL(x)", fresh=10, out=1),
        )
    )
    server.policies[ROOT] = lambda body: next(turns)
    run = workshop.run(ROOT, workshop.task(f"{COMPACTING}{toml}"))
    assert (run.result.status, run.result.end) == ("limit_reached", "context_length")
    assert run.output == "6\n"
    assert len(bodies(server, SUB)) == 1


@pytest.mark.parametrize(("faults", "end"), [(1, "submitted"), (2, "context_length")])
def test_a_provider_that_finds_the_prompt_too_long_is_asked_once_more(
    workshop: Workshop, server: ModelServer, faults: int, end: str
) -> None:
    turns = iter((step("x = 5"), step("FINAL(x)")))

    def policy(body: Any) -> Turn:
        turn = next(turns)
        if turn.calls[0].arguments == {"code": "x = 5"}:
            # The next request of the root, then that of the summary, then the root's again.
            server.queue.extend(["context", "", *["context"] * (faults - 1)])
        return turn

    server.policies[ROOT] = policy
    run = workshop.run(ROOT, workshop.task(SUB_TOML))
    assert (run.result.end, run.output) == (end, "5\n")
    assert len(run.calls("compaction")) == 1


def test_tokens_from_the_cache_are_not_billable(workshop: Workshop, server: ModelServer) -> None:
    cells = [step("1", fresh=10, read=90, written=20, out=5)] * 3
    server.scripts[ROOT] = (*cells, step("FINAL(1)"))
    toml = "[guardrails]\nbillable_input_budget = 90\n"
    run = workshop.run(ROOT, workshop.task(toml))
    assert (run.result.end, run.result.turns) == ("billable_input", 4)
    assert run.output == "1\n"


def test_tokens_of_a_compaction_count(workshop: Workshop, server: ModelServer) -> None:
    server.scripts[SUB] = (Turn("SUMMARY", tokens=Tokens(600, out=1)),)
    turns = iter((step("x = 5", fresh=900, out=1), step("FINAL(x)", fresh=10, out=1)))
    server.policies[ROOT] = lambda body: next(turns)
    toml = f"{COMPACTING}[guardrails]\ntoken_budget = 1500\n"
    run = workshop.run(ROOT, workshop.task(toml))
    # The one call after the summary is the last turn, which may go over the budget.
    assert (run.result.end, run.output, run.result.turns) == ("token_budget", "5\n", 2)
    assert len(run.calls("compaction")) == 1


def test_the_advisor_has_its_own_model_and_length(workshop: Workshop, server: ModelServer) -> None:
    server.scripts[ROOT] = (step("ADVISOR(problem='x')"), step("FINAL(1)"))
    toml = f'[advisor]\nmodel = "{SUB}"\nmax_response_tokens = 77\n'
    run = workshop.run(ROOT, workshop.task(toml))
    (asked_for,) = bodies(server, SUB)
    assert asked_for["max_tokens"] == 77
    assert len(run.calls("advisor")) == 1


def test_a_context_budget_of_the_agent_makes_a_smaller_context(
    workshop: Workshop, server: ModelServer
) -> None:
    turns = iter((step("x = 5", fresh=900), step("FINAL(x)", fresh=10)))
    server.policies[ROOT] = lambda body: next(turns)
    run = workshop.run(ROOT, workshop.task(SUB_TOML), context_budget_tokens=1000)
    assert (len(run.calls("compaction")), run.output) == (1, "5\n")


def test_an_outage_in_a_call_of_a_cell_is_retried(workshop: Workshop, server: ModelServer) -> None:
    server.scripts[ROOT] = (step("FINAL(llm_query('x'))"),)
    faulty = f"{SUB}-fault-overloaded-x1"
    server.scripts[faulty] = (Turn("at last"),)
    toml = f'[execution]\nsubcall_model = "{faulty}"\n'
    run = workshop.run(ROOT, workshop.task(toml))
    assert run.output == "at last"
    (call,) = run.calls("subcall")
    assert re.match("Overloaded", call.metadata["failures"][0])


@pytest.mark.parametrize(
    "provider", ["anthropic", "openai", at_night("responses"), at_night("bedrock")]
)
def test_every_provider_gives_the_same_trial(
    workshop: Workshop, server: ModelServer, provider: str
) -> None:
    root, sub = PROVIDERS[provider]
    server.scripts[root] = (
        step("a = llm_query_batched(['one', 'two'])\nprint(a)"),
        step("1 / 0"),
        step("FINAL(a)"),
    )
    server.scripts[sub] = (Turn("yes", tokens=Tokens(40, out=4)),)
    run = workshop.run(root, workshop.task(f'[execution]\nsubcall_model = "{sub}"\n'))
    assert json.loads(run.output or "") == ["yes", "yes"]
    assert (run.result.end, run.result.turns, run.result.calls) == ("submitted", 3, 5)
    assert (run.result.usage.tokens_in, run.result.usage.tokens_out) == (380, 68)
    assert run.usage.total == run.result.usage.total
    first, second, last = run.results
    assert first.startswith("['yes', 'yes']")
    assert "ZeroDivisionError" in second
    # Identifiers, times and names of models differ.
    shown = [
        (e.role, e.turn, e.tool_name, e.content, e.exit_code, e.metadata.get("call_type"))
        for e in run.entries[2:]
    ]
    subcall = ("assistant", 1, None, "yes", None, "subcall")
    assert shown == [
        ("assistant", 1, None, "", None, "main"),
        ("tool_call", 1, "repl", "", None, None),
        *(subcall, subcall),
        ("tool_result", 1, "repl", first, 0, None),
        ("assistant", 2, None, "", None, "main"),
        ("tool_call", 2, "repl", "", None, None),
        ("tool_result", 2, "repl", second, 1, None),
        ("assistant", 3, None, "", None, "main"),
        ("tool_call", 3, "repl", "", None, None),
        ("tool_result", 3, "repl", last, 0, None),
    ]


def test_a_run_that_is_interrupted_does_not_wait_for_calls(
    workshop: Workshop, server: ModelServer
) -> None:
    def interrupt() -> None:
        while server.most_at_once < 4:
            time.sleep(0.01)
        interrupted.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    interrupted: list[float] = []
    server.policies[SUB] = lambda body: Turn("late")
    server.scripts[ROOT] = (step("llm_query_batched(['x'] * 8)"),)
    server.delay_sec = 30.0
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        workshop.run(ROOT, workshop.task(SUB_TOML), max_retries=0)
    assert time.monotonic() - interrupted[0] < 20
    thread.join()


def test_half_a_character_in_a_prompt_is_sent_as_something_that_can_be(
    workshop: Workshop, server: ModelServer
) -> None:
    server.scripts[ROOT] = (step("print(llm_query('x\\ud800'))"), step("FINAL(1)"))
    server.policies[SUB] = lambda body: Turn("yes" if "x?" in asked(body) else "no")
    run = workshop.run(ROOT, workshop.task(SUB_TOML))
    assert run.results[0].startswith("yes")


def test_calls_under_a_forged_number_are_waited_for_as_well(
    workshop: Workshop, server: ModelServer
) -> None:
    request = "{'kind': 'llm_query', 'prompt': 'x'}"
    tell = f"tell({{'event': 'call', 'id': 1, 'requests': [{request}] * 3}})\n"
    twice = f"{tell}time.sleep(0.3)\n{tell}time.sleep(1)\n"
    server.scripts[ROOT] = (step(f"{FORGED}\nimport time\n{twice}FINAL(1)"),)
    server.policies[SUB] = lambda body: Turn("late")
    server.delay_sec = 1.5
    toml = f"{SUB_TOML}max_parallel_workers = 6\n"
    run = workshop.run(ROOT, workshop.task(toml))
    assert run.result.calls == 1 + 6
    assert run.usage == run.result.usage
