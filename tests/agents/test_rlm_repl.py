"""The REPL of ``rlm``: what cells may do to it, and what it has."""

from __future__ import annotations

import json

import pytest

from tests.agents.conftest import DOCKER, MODES, Mode
from tests.agents.recursion import HOME, Workshop, cell, lost_kinds


@pytest.fixture(params=[*MODES, DOCKER])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Try both ways in which the local backend makes sandboxes, and containers."""
    chosen: Mode = request.param
    return chosen


HARMLESS = {
    "exit()": "exit() does not end the REPL",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "print('x' * 200_000_000)": "[199990001 characters left out]",
    "def f():\n    return f()\nf()": "RecursionError",
    "import sys\nsys.stdout = None": "(no output)",
    "import threading, time\nthreading.Thread(target=lambda: time.sleep(1)).start()": "(no output)",
    "import os\npid = os.fork()": "[new: pid: int]",
    "del llm_query, FINAL": "FINAL, llm_query: these names are the REPL's own; restored",
    "class E(Exception):\n    def __str__(self): raise self\nraise E": "E",
    "1 +": "SyntaxError",
}


# Values that no copy of a REPL's variables could keep.
KEPT = "g, f, l = (i for i in range(99)), open('/workspace/f', 'w'), lambda: 5"
USE = "next(g), f.name[-1:], l()"


def test_cells_that_go_wrong_leave_the_variables(workshop: Workshop) -> None:
    cells = [cell(KEPT)]
    for code in HARMLESS:
        cells += [cell(code), cell(USE)]
    run = workshop.solve(*cells, cell("FINAL(next(g))"), timeout_sec=600)
    told = dict(zip(HARMLESS, run.results[1::2], strict=False))
    for code, words in HARMLESS.items():
        assert words in told[code], code
    assert not any(lost_kinds(run.results))
    assert run.results[2].startswith("(0, 'f', 5)")
    assert run.output == f"{len(HARMLESS)}\n"


def test_a_cell_that_does_not_end_is_interrupted_and_leaves_the_variables(
    workshop: Workshop,
) -> None:
    cells = (cell(KEPT), cell("while True:\n    pass"), cell(USE))
    run = workshop.solve(*cells, cell("FINAL(next(g))"), command_timeout=1.0)
    assert "interrupted after 1 s" in run.results[1]
    assert not any(lost_kinds(run.results))
    assert run.output == "1\n"


LATE = """
import os, signal, sys
class Late:
    def write(self, text): pass
    def flush(self): os.kill(os.getpid(), signal.SIGINT)
sys.stdout = Late()
kept = 5
"""
# No other thread runs meanwhile, so that the next cell has not begun when its time is over.
HOLD = """
import sys, threading, time
sys.setswitchinterval(1000)
def hold():
    end = time.monotonic() + 1.5
    while time.monotonic() < end: pass
    sys.setswitchinterval(0.005)
kept = 5
threading.Timer(0.02, hold).start()
"""


@pytest.mark.parametrize(
    ("first", "second"), [(LATE, "kept"), (HOLD, "while True:\n    pass")], ids=["late", "early"]
)
def test_an_interrupt_outside_of_a_cell_loses_neither_its_end_nor_the_variables(
    workshop: Workshop, first: str, second: str
) -> None:
    run = workshop.solve(cell(first), cell(second), cell("FINAL(kept)"), command_timeout=1.0)
    assert not any(lost_kinds(run.results))
    assert ("interrupted after 1 s" in run.results[1]) == ("while" in second)
    assert run.output == "5\n"


DEAF = """
import sys, threading, time
sys.setswitchinterval(1000)
def hold():
    time.sleep(0.05)
    end = time.monotonic() + 15
    while time.monotonic() < end: pass
threading.Thread(target=hold).start()
said = llm_query_batched(['x'] * 20)
len(said), {len(one) for one in said}
"""


@pytest.mark.nightly
def test_answers_wait_for_a_cell_that_does_not_listen(workshop: Workshop) -> None:
    others = {"x": "y" * 200_000}
    run = workshop.solve(cell(DEAF), cell("FINAL(len(said))"), others=others, timeout_sec=120)
    assert run.results[0].startswith("(20, {200000})")
    assert run.output == "20\n"


LOSING = {
    "import os\nos._exit(3)": "ended with exit code 3",
    "import os\nos.closerange(0, 99)": "its process",
    "import os\nos.kill(os.getpid(), 9)": "ended with exit code -9",
    f"{HOME}\nimport shutil\nshutil.rmtree(home)": None,
    "import os\nos.kill(os.getppid(), 9)": "the connection to it broke",
    "import glob, os\n"
    "for n in range(3, 30):\n"
    "    try:\n        os.write(n, b'not JSON\\n')\n"
    "    except OSError:\n        pass\n"
    "import time\ntime.sleep(30)": "sent an event that is not JSON",
}


def test_cells_that_end_the_repl_are_told_that_their_variables_are_lost(
    workshop: Workshop,
) -> None:
    cells = []
    for code in LOSING:
        cells += [cell("kept = doc[:2]"), cell(code), cell("print(doc[:2], 'kept' in globals())")]
    toml = '[inputs.doc]\ntype = "string"\nsource = "doc.txt"\n'
    run = workshop.solve(
        *cells, cell("FINAL(doc)"), toml=toml, files={"doc.txt": "the data"}, timeout_sec=120
    )
    assert run.output == "the data"
    for number, words in enumerate(LOSING.values()):
        ended, after = run.results[3 * number + 1 : 3 * number + 3]
        if words is None:  # found out with the next cell
            assert "variables are lost" in after
            continue
        assert words in ended
        assert "variables are lost" in ended
        assert after.startswith("th False")


KEYS = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GEMINI_API_KEY"),
)


def test_the_repl_has_neither_keys_nor_names_of_the_harness(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "sk-secret-4242")
    code = """
import os
seen = [open(f'/proc/{pid}/environ').read() for pid in (os.getpid(), os.getppid())]
FINAL([dict(os.environ), any('sk-' + 'secret' in one for one in seen), llm_query('x')])
"""
    run = workshop.solve(cell(code), others={"x": "still answered"})
    environment, is_seen, answer = json.loads(run.output or "")
    assert not {*KEYS, "AECBENCH_REPL"} & environment.keys()
    assert not [value for value in environment.values() if "sk-secret" in value]
    assert not is_seen
    assert answer == "still answered"


def test_helpers_help(workshop: Workshop) -> None:
    code = """
text = 'one\\ntwo\\nthree\\nfour\\nTWO\\n'
print(grep(text, 'two', context=1))
def fail():
    raise ValueError('no')
print(parallel([lambda: 1, fail, lambda: llm_query('x')]))
NOTE('found', {'I': 2}); print(RECALL()); print(RECALL('found'))
HELP()
"""
    run = workshop.solve(cell(code), cell("SHOW_VARS()"), cell("FINAL(1)"), others={"x": "yes"})
    assert "1- one\n2: two\n3- three\n4- four\n5: TWO" in run.results[0]
    assert "[1, ParallelError(" in run.results[0]
    assert "'yes']" in run.results[0]
    assert "found: {'I': 2}" in run.results[0]
    assert "llm_query_batched(prompts)\n    ask many things" in run.results[0]
    assert "text: str(23)" in run.results[1]
    assert "fail: function" in run.results[1]


def test_calls_of_threads_are_answered_while_others_wait(workshop: Workshop) -> None:
    code = """
def chain(n):
    return [llm_query(f'x{n}.{i}') for i in range(3)]
FINAL(parallel([lambda n=n: chain(n) for n in range(4)]))
"""
    run = workshop.solve(cell(code), others={"x": "y"})
    assert json.loads(run.output or "") == [["y"] * 3] * 4


def test_the_log_has_all_calls_of_cells(workshop: Workshop) -> None:
    code = """
llm_query('x'); llm_query_batched(['x', ' ']); extract('none', ['a'])
print([(c['kind'], c['error'], c['input_tokens']) for c in SUBCALL_LOG.all])
last = SUBCALL_LOG.last(2)
print(last[-1]['text'], len(last), len(SUBCALL_LOG.by_type('extract')))
SUBCALL_LOG
"""
    others = {"Extract": "not JSON", "x": "yes"}
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml="[subcalls.extract]\n", others=others)
    kinds = [("llm_query", None, 100)] * 2 + [("llm_query", "the prompt is empty", None)]
    assert f"{[*kinds, ('extract', None, 100)]}\nnot JSON 2 1\n" in run.results[0]
    assert "llm_query: 'the prompt is empty'\nextract: 'not JSON'" in run.results[0]


def test_text_that_utf_8_cannot_carry_reaches_neither_models_nor_files(
    workshop: Workshop,
) -> None:
    half = "\\ud800"
    cells = (
        cell(f"print(llm_query('x{half}')); globals()['v{half}'] = 1; NOTE('k{half}', '{half}')"),
        cell(f"raise ValueError('{half} is half, \\U0001f600 is whole')"),
        cell(f"FINAL('{half}')"),
    )
    run = workshop.solve(*cells, others={"x": "yes"})
    assert run.results[0].startswith("yes")
    assert "ValueError: ? is half, \U0001f600 is whole" in run.results[1]
    assert run.output == "?"
    assert run.calls("subcall")[0].metadata["prompt"] == "x?"
