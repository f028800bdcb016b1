"""``rlm`` against cells that attack it: they harm their own REPL, and nothing else."""

from __future__ import annotations

import pytest

from pytest_aecbench.errors import SandboxBroken
from tests.agents.conftest import anywhere
from tests.agents.recursion import FORGED, HOME, Workshop, cell
from tests.costs import at_night

pytestmark = anywhere


@pytest.mark.parametrize(
    ("event", "words"),
    [
        at_night(
            "{'event': 'done', 'output': 5, 'error': {}, 'new': 3, 'progress': {'total': 1}}", None
        ),
        ("{'event': 'done', 'progress': {'total': 3, 'unlocked': 5, 'filled': 'x'}}", None),
        ("{'event': 'done', 'interrupted_sec': 10**400, 'final': [1], 'notes': 7}", None),
        at_night("{'event': 'done', 'new': {str(n): 'x' for n in range(100_000)}}", "and 470 more"),
        ("{'event': 'call', 'id': 9, 'requests': [{}] * 10_001}", "a call made no sense"),
        at_night("{'event': 'call', 'id': 9, 'requests': 'x'}", "a call made no sense"),
        at_night("{'event': 'call', 'id': 9, 'requests': [{'prompt': 5, 'kind': {}}]}", None),
        at_night("{'event': 'call', 'id': 'x', 'requests': []}", None),
        at_night("{'event': 'x' * 200_000_000}", "sent an event of over 16777216 bytes"),
    ],
)
def test_events_that_a_cell_forges_harm_only_its_own_repl(
    workshop: Workshop, event: str, words: str | None
) -> None:
    run = workshop.solve(
        cell(f"{FORGED}\ntell({event})\nimport time\ntime.sleep(1)"),
        cell("x = 5"),
        cell("FINAL(x)"),
        timeout_sec=120,
    )
    assert run.output == "5\n"
    if words:
        assert words in "\n".join(run.results)


def test_forged_calls_count_like_all_others(workshop: Workshop) -> None:
    request = "{'kind': 'llm_query', 'prompt': 'sub'}"
    tell = f"tell({{'event': 'call', 'id': 1, 'requests': [{request}] * 3}})"
    code = f"{FORGED}\nimport time\n{tell}\ntime.sleep(0.5)\n{tell}\ntime.sleep(2)"
    toml = "[guardrails]\nmax_subcalls = 4\n"
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml=toml, others={"sub": "two"})
    assert len(run.calls("subcall")) == 4
    assert run.usage == run.result.usage
    assert run.result.calls == 6


COUNTERS = """
import gc
for one in gc.get_objects():
    for name in ('_begun', 'counted_tokens', 'token_budget', 'max_calls', '_asked'):
        if type(one) is dict and name in one:
            one[name] = -10**9
        elif hasattr(one, '__dict__') and name in vars(one):
            setattr(one, name, -10**9)
[str(one)[:40] for one in llm_query_batched(['sub'] * 5)]
"""


def test_budgets_are_counted_where_no_cell_can_change_them(workshop: Workshop) -> None:
    toml = "[guardrails]\nmax_subcalls = 2\n[execution]\nmax_parallel_workers = 1\n"
    run = workshop.solve(cell(COUNTERS), cell("FINAL(1)"), toml=toml, others={"sub": "two"})
    assert len(run.calls("subcall")) == 2
    assert run.usage == run.result.usage


SELF = f"""{HOME}
import json, os, socket
LIMITS = {{'timeout': 1, 'grace': 1, 'wait': 0}}
def ask(request):
    link = socket.socket(socket.AF_UNIX)
    link.connect(home + '/socket')
    link.sendall(json.dumps(request).encode())
    link.shutdown(socket.SHUT_WR)
    return link
"""


@pytest.mark.parametrize(
    "request_",
    [
        "{'do': 'stop'}",
        "{'do': 'cell', 'cell': {'do': 'run', 'code': 'FINAL(0)'}, **LIMITS}",
        at_night("{'do': 'wait', 'wait': 1}"),
        at_night("{'do': 'answer', 'answers': [{'id': 1, 'replies': []}], 'wait': 0}"),
        at_night("{'do': 'nothing of the kind'}"),
    ],
)
def test_a_cell_that_speaks_for_the_host_harms_only_its_own_repl(
    workshop: Workshop, request_: str
) -> None:
    run = workshop.solve(
        cell(f"{SELF}\nask({request_})\nimport time\ntime.sleep(1)"),
        cell("x = 5"),
        cell("FINAL(x if 'x' in globals() else 5)"),
        timeout_sec=120,
    )
    assert run.output in ("5\n", "0\n")
    assert run.result.end == "submitted"


def test_a_repl_that_cannot_be_started_again_is_the_end_of_the_agent(
    workshop: Workshop,
) -> None:
    toml = '[inputs.doc]\ntype = "string"\nsource = "/workspace/doc.txt"\n'
    workshop.sandbox.execute("echo one > /workspace/doc.txt")
    gone = cell("import os; os.remove('/workspace/doc.txt'); os.kill(os.getppid(), 9)")
    run = workshop.solve(gone, cell("FINAL('doc' in globals())"), toml=toml)
    assert "an input could not be loaded again: doc: " in run.results[0]
    assert run.output == "false\n"


@pytest.mark.nightly
def test_a_repl_that_is_lost_again_and_again_is_not_started_for_ever(workshop: Workshop) -> None:
    kill = cell("import os; os.kill(os.getppid(), 9)")
    with pytest.raises(SandboxBroken, match=r"the REPL was lost .* was started 20 times"):
        workshop.solve(*[kill, cell("1")] * 25, timeout_sec=120)


def test_a_cell_that_spoils_the_files_of_its_repl_loses_notes_and_sections(
    workshop: Workshop,
) -> None:
    spoil = f"""{HOME}
import glob, os
NOTE('a', 1)
for path in glob.glob(home + '/**', recursive=True):
    if os.path.isfile(path):
        open(path, 'w').write('\\x00 not what it was')
open(home + '/big', 'w').truncate(10**9)
os._exit(3)
"""
    run = workshop.solve(cell(spoil), cell("print(RECALL())"), cell("FINAL(5)"), timeout_sec=120)
    assert "variables are lost" in run.results[0]
    assert run.results[1].startswith("(no notes)")
    assert run.output == "5\n"


BUSY = f"""{HOME}
import os, socket
path = home + '/socket'
os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(16)
if not os.fork():
    os.setsid()
    said = b'{{"event": "busy"}}'
    while True:
        link, _ = listener.accept()
        link.recv(1 << 20)
        link.sendall(b'{{"reply": 1, "size": %d}}\\n%s' % (len(said), said))
        link.close()
"""


@pytest.mark.nightly
def test_something_else_in_the_place_of_the_repl_cannot_keep_a_run_from_ending(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_aecbench.agents.rlm.link.WAIT_SEC", 1.0)
    monkeypatch.setattr("pytest_aecbench.agents.rlm.link.DO_SEC", 3.0)
    cells = (cell("answer['content'] = 'half'"), cell(BUSY), cell("print('never run')"))
    run = workshop.solve(*cells, timeout_sec=8)
    assert (run.result.end, run.result.turns) == ("deadline", 3)
    assert run.output is None  # what was begun was lost with the REPL


def test_prompts_that_wait_do_not_fill_the_memory_of_the_host(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_aecbench.agents.rlm.answering._MOST_WAITING", 1 << 20)
    code = """
print([type(one).__name__ for one in llm_query_batched(['sub' + 'x' * 400_000] * 3)])
print([type(one).__name__ for one in llm_query_batched(['sub' + 'x' * 400_000] * 2)])
print([type(one).__name__ for one in llm_query_batched(['sub' + 'é' * 300_000] * 2)])
try:
    llm_query_batched(['sub'] * 10_001)
except ValueError as error:
    print(error)
"""
    run = workshop.solve(cell(code), cell("FINAL(1)"), others={"sub": "two"})
    many, few, wide, error, *_ = run.results[0].splitlines()
    assert (many, few) == ("['SubcallError', 'SubcallError', 'SubcallError']", "['str', 'str']")
    assert wide == "['SubcallError', 'SubcallError']"
    assert error == "10,001 prompts at once are too many; give 10,000"
