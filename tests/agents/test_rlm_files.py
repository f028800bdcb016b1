"""The files of a task that ``rlm`` puts into its REPL: documents, functions, templates."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from pytest_aecbench.errors import TaskError
from tests.agents.conftest import anywhere
from tests.agents.recursion import Workshop, cell, said

pytestmark = anywhere

INPUTS = """
[inputs.text]
type = "string"
source = "data/text.md"
description = "what was asked"
[inputs.table]
type = "csv"
source = "data/table.csv"
pre_parse = true
[inputs.settings]
type = "toml"
source = "data/settings.toml"
pre_parse = true
[inputs.facts]
type = "json"
source = "data/facts.json"
pre_parse = true
[inputs.raw]
type = "json"
source = "data/facts.json"
[inputs.drawing]
type = "path"
source = "data/drawing.bin"
[inputs.inside]
type = "string"
source = "/workspace/inside.txt"
"""
FILES: dict[str, str | bytes] = {
    "data/text.md": "Ünïcode\n",
    "data/table.csv": 'name,value\n"a, b",1\nc,2\n',
    "data/settings.toml": "[a]\nb = 1.5\nd = 2024-01-01\n",
    "data/facts.json": '{"x": [1, null]}',
    "data/drawing.bin": b"\xff\xfe\x00",
}


def test_inputs_are_variables_of_their_types(workshop: Workshop) -> None:
    code = """
FINAL([text, table, settings, facts, raw, open(drawing, 'rb').read().hex(), drawing[-12:], inside])
"""
    workshop.sandbox.execute("printf 'a\\xffb' > /workspace/inside.txt")
    run = workshop.solve(cell(code), toml=INPUTS, files=FILES)
    text, table, settings, facts, raw, content, name, inside = json.loads(run.output or "")
    assert text == "Ünïcode\n"
    assert table == [{"name": "a, b", "value": "1"}, {"name": "c", "value": "2"}]
    assert settings == {"a": {"b": 1.5, "d": "2024-01-01"}}
    assert (facts, raw) == ({"x": [1, None]}, '{"x": [1, null]}')
    assert (content, name, inside) == ("fffe00", "/drawing.bin", "a\ufffdb")
    system = run.entries[0].content
    assert "- text: str(8) - what was asked" in system
    assert "- table: list(2)" in system
    assert "Ünïcode" not in system


def test_a_large_document_is_a_variable_and_never_whole_in_the_memory_of_the_host(
    workshop: Workshop,
) -> None:
    table = one("table.csv", "csv", "table", "pre_parse = true\n")
    files = {"doc.txt": b"0123456789" * 2_000_000, "table.csv": b"1,2\n" * 100_000}
    task = workshop.task(one("doc.txt") + table, files)
    model = workshop.script(cell("FINAL(len(doc) + len(table))"))
    tracemalloc.start()
    try:
        run = workshop.run(model, task)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert run.output == "20099999\n"
    assert peak < 10_000_000


def one(source: str, kind: str = "string", name: str = "doc", more: str = "") -> str:
    return f'[inputs.{name}]\ntype = "{kind}"\nsource = "{source}"\n{more}'


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (one("nowhere.txt"), "inputs.doc.source: 'nowhere.txt' does not exist"),
        (one("../task.toml"), "'../task.toml' is not in the task"),
        (one("tests/test.sh"), "'tests/test.sh' is in tests/"),
        (one("solution/solve.sh"), "'solution/solve.sh' is in solution/"),
        (one("link"), "'link' is not in the task"),
        (one("/tests/test.sh"), "'/tests/test.sh' is not for agents"),
        (one("/workspace/../tests/x"), "is not for agents"),
        (one("data/drawing.bin"), "'drawing.bin' is not UTF-8"),
        (one("data/text.md", "json", more="pre_parse = true"), "'text.md' is not json"),
        (one("data/text.md", "toml", more="pre_parse = true"), "'text.md' is not toml"),
        (one("data/text.md", more="pre_parse = true"), "pre_parse: 'string' has nothing to parse"),
        (one("data/text.md", name="llm_query"), "the REPL has another 'llm_query'"),
        (one("data/text.md", name="open"), "the REPL has another 'open'"),
        (one("data/text.md", name="extract"), "the REPL has another 'extract'"),
        (one("data/text.md", name="not-a-name"), "cannot name a variable"),
        ('[subcalls.FINAL]\ncustom_impl = "own.py:f"\n', "the REPL has another 'FINAL'"),
        ('[subcalls.own]\ncustom_impl = "own.py:g"\n', "'own.py' has no function 'g'; use 'f'"),
        ('[subcalls.own]\ncustom_impl = "no.py:g"\n', "'no.py' does not exist"),
        ('[subcalls.own]\ncustom_impl = "broken.py:g"\n', "'broken.py' is not Python"),
        ("[subcalls.extrct]\n", "did you mean 'extract'?"),
    ],
)
def test_files_that_cannot_be_used_are_refused_before_the_run(
    workshop: Workshop, toml: str, problem: str
) -> None:
    own = {"own.py": "def f(llm_query): pass\n", "broken.py": "def ("}
    task = workshop.task(toml, {**FILES, **own, "solution/solve.sh": "true"})
    (task.path / "link").symlink_to(Path("/etc/passwd"))
    with pytest.raises(TaskError) as caught:
        workshop.run(workshop.script(cell("FINAL(1)")), task)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_the_sandbox_lacks_is_an_error_of_the_task(workshop: Workshop) -> None:
    with pytest.raises(TaskError, match=r"inputs\.doc: /data/none\.txt"):
        workshop.solve(cell("FINAL(1)"), toml=one("/data/none.txt"))


OWN = """
def twice(llm_query, text, times=2):
    '''Ask several times.'''
    return [llm_query(f"own {text} {number}") for number in range(times)]


def broken(llm_query):
    raise ValueError("my own fault")
"""


def test_functions_of_the_task_get_llm_query(workshop: Workshop) -> None:
    toml = """
[subcalls.ask_twice]
custom_impl = "own.py:twice"
description = "asks twice"
[subcalls.breaks]
custom_impl = "own.py:broken"
[subcalls.verify]
enabled = false
"""
    code = "print('verify' in globals())\nask_twice('x', times=3)"
    run = workshop.solve(
        cell(code),
        cell("breaks()"),
        cell("FINAL(1)"),
        toml=toml,
        files={"own.py": OWN},
        others={"own": "yes"},
    )
    assert run.results[0].startswith("False\n['yes', 'yes', 'yes']")
    assert "ValueError: my own fault" in run.results[1]
    assert "- ask_twice(...) - asks twice" in run.entries[0].content
    assert len(run.calls("subcall")) == 3


TYPED = {
    "extract('12 V', ['U']).values": '{"U": "12 V"}',
    "calculate(expression='U/R', parameters={'U': 12}).values": '{"I": 2}',
    "retrieve(query='codes', max_results=1).results": '[{"text": "a"}, {"text": "b"}]',
    "verify(value=2, criterion='> 1').passed": 'So:\n```json\n{"passed": true}\n```',
    "summarise(content=['a', 'b']).summary": " short ",
    "reason(question='why').conclusion": '{"conclusion": "so"}',
    "review(section_content='x', writing_guidance='y').status": '{"status": "pass"}',
}
FOUND = [{"U": "12 V"}, {"I": 2}, [{"text": "a"}], True, "short", "so", "pass"]


def test_typed_calls_read_answers_into_fields(workshop: Workshop) -> None:
    names = [code.partition("(")[0] for code in TYPED]
    begins = ("Extract", "Work out", "Name the", "Does the", "Summarise", "Answer", "Review")
    run = workshop.solve(
        cell(f"FINAL([{', '.join(TYPED)}])"),
        toml="".join(f"[subcalls.{name}]\n" for name in names),
        others={word: [said(text)] for word, text in zip(begins, TYPED.values(), strict=True)},
    )
    assert json.loads(run.output or "") == FOUND
    assert [entry.metadata["kind"] for entry in run.calls("subcall")] == names


def test_a_typed_call_says_which_fields_there_are_and_keeps_its_prompt_short(
    workshop: Workshop,
) -> None:
    code = """
found = review(section_content='x', writing_guidance='y', extracted_data='d' * 4000)
print(found.gaps, found.input_tokens, found.error)
found.values
"""
    asked = {"Review the section": '{"status": "needs_work", "gaps": ["span"]}'}
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml="[subcalls.review]\n", others=asked)
    assert run.results[0].startswith("['span'] 100 None\n")
    assert "there is no field 'values'; there are error, gaps, input_tokens" in run.results[0]
    prompt = run.calls("subcall")[0].metadata["prompt"]
    assert prompt.count("d" * 3000) == 1
    assert "d" * 3001 not in prompt


TEMPLATE = """
[[sections]]
id = "summary"
title = "Summary"
depends_on = ["loads", "site"]
[[sections]]
id = "site"
title = "Site"
[[sections]]
id = "loads"
title = "Loads"
depends_on = ["site"]
fields = [{ name = "dead", dtype = "float", unit = "kN" }, { name = "note", required = false }]
"""
WITH_TEMPLATE = '[template]\ntier = "dependency_tree"\ndefinition = "report_template.toml"\n'


def test_a_report_is_filled_in_the_order_it_needs_and_printed_in_its_own(
    workshop: Workshop,
) -> None:
    run = workshop.solve(
        cell("FILL('summary', 'early')"),
        cell("FINAL('not so')"),
        cell("FILL('site', 'Flat.'); FILL('loads', {'note': 'x'})"),
        cell("FILL('loads', {'dead': '12'})"),
        cell("FILL('loads', {'dead': 12}); SUBMIT()"),
        cell("FILL('summary', 'Fine.'); STATUS()"),
        cell("SUBMIT()"),
        toml=WITH_TEMPLATE,
        files={"report_template.toml": TEMPLATE},
    )
    assert "fill loads, site first; 'summary' depends on it" in run.results[0]
    assert "FILL its sections and call SUBMIT()" in run.results[1]
    assert "'loads' lacks the field dead (float in kN)" in run.results[2]
    assert "[1 of 3 sections filled; can be filled now: loads]" in run.results[2]
    assert "'dead' has to be float, not str" in run.results[3]
    assert "these sections are not filled: summary" in run.results[4]
    assert "loads: Loads [filled]" in run.results[5]
    assert json.loads(run.output or "") == {
        "summary": "Fine.",
        "site": "Flat.",
        "loads": {"dead": 12},
    }
    assert list(json.loads(run.output or "")) == ["summary", "site", "loads"]


# Every call has 100 tokens of input and 10 of output.
@pytest.mark.parametrize(
    ("limit", "end", "error"),
    [
        ("max_iterations = 2", "turn_limit", "used all of its 2 turns"),
        ("token_budget = 220", "token_budget", "used 220 tokens"),
        ("billable_input_budget = 200", "billable_input", "used 200 tokens of input that no cache"),
        ("max_budget_usd = 220.0", "cost_limit", "cost 220.0000 USD"),
    ],
)
def test_sections_that_are_filled_land_in_the_output_of_a_run_that_is_over(
    workshop: Workshop, limit: str, end: str, error: str
) -> None:
    run = workshop.solve(
        cell("FILL('site', 'Flat.')"),
        cell("import os; os._exit(1)"),
        cell("FILL('loads', {'dead': 12})"),
        cell("FILL('summary', 'too late')"),
        toml=f"{WITH_TEMPLATE}[guardrails]\n{limit}\n",
        files={"report_template.toml": TEMPLATE},
        price=True,
    )
    assert json.loads(run.output or "") == {"site": "Flat.", "loads": {"dead": 12}}
    assert (run.result.status, run.result.end, run.result.turns) == ("limit_reached", end, 3)
    assert (run.result.error or "").startswith(error)


def test_sections_can_be_filled_at_once(workshop: Workshop) -> None:
    sections = "".join(f'[[sections]]\nid = "s{n}"\ntitle = "S{n}"\n' for n in range(4))
    code = "parallel([lambda n=n: FILL(f's{n}', llm_query(f'x{n}')) for n in range(4)])\nSUBMIT()"
    run = workshop.solve(
        cell(code),
        toml=WITH_TEMPLATE,
        files={"report_template.toml": sections},
        others={f"x{n}": str(n) for n in range(4)},
    )
    assert json.loads(run.output or "") == {f"s{n}": str(n) for n in range(4)}


def test_fill_parallel_fills_sections_after_those_that_they_need(workshop: Workshop) -> None:
    code = """
def write(section_id):
    asked = llm_query('write ' + section_id)
    if section_id == 'loads':
        return {'dead': float(asked)}
    return asked
print(fill_parallel(write, ['summary', 'loads', 'site', 'sit', 'site']))
print(STATUS('summary'))
print(len(SUBCALL_LOG), SUBCALL_LOG.by_type('llm_query')[0]['prompt'])
"""
    run = workshop.solve(
        cell(code),
        cell("SUBMIT()"),
        toml=WITH_TEMPLATE,
        files={"report_template.toml": TEMPLATE},
        others={"write site": "Flat.", "write loads": "12", "write summary": "Fine."},
    )
    assert "'sit': ParallelError(" in run.results[0]
    assert "there is no section " in run.results[0]
    assert "loads:\n- dead: 12.0\n\nsite:\nFlat.\n\nsummary:\nFine.\n" in run.results[0]
    assert "3 write site\n" in run.results[0]
    assert json.loads(run.output or "")["loads"] == {"dead": 12.0}


def test_fill_parallel_asks_nothing_for_sections_that_cannot_be_filled(
    workshop: Workshop,
) -> None:
    code = """
def write(section_id):
    raise ValueError(section_id + ' is hard')
said = fill_parallel(write, ['site', 'loads'])
[(type(one).__name__, str(one)) for one in said.values()]
"""
    run = workshop.solve(
        cell(code),
        cell("FILL('site', 'x'); FILL('loads', {'dead': 1}); FILL('summary', 'y'); SUBMIT()"),
        toml=WITH_TEMPLATE,
        files={"report_template.toml": TEMPLATE},
    )
    assert "site is hard" in run.results[0]
    assert "loads is hard" not in run.results[0]
    assert "fill site first; " in run.results[0]


def test_extract_for_a_section_says_what_the_section_needs(workshop: Workshop) -> None:
    template = TEMPLATE.replace(
        'title = "Loads"',
        'title = "Loads"\ngeneration_mode = "guided"\nwriting_guidance = ["Name codes."]',
    )
    code = """
FILL('site', 'Flat. ' + 'x' * 600)
print(extract('12 kN', section='loads').values, extract('12 kN', ['dead'], section='loads').values)
extract('12 kN', section='load')
"""
    asked = {"Extract from the text below": [said('{"dead": "12 kN"}')]}
    run = workshop.solve(
        cell(code),
        cell("FILL('loads', {'dead': 1}); FILL('summary', 'y'); SUBMIT()"),
        toml=f"{WITH_TEMPLATE}[subcalls.extract]\n",
        files={"report_template.toml": template},
        others=asked,
    )
    assert "{'dead': '12 kN'} {'dead': '12 kN'}" in run.results[0]
    assert "there is no section 'load'" in run.results[0]
    free, named = (entry.metadata["prompt"] for entry in run.calls("subcall"))
    for text in ("Loads (guided)", "Name codes.", "dead (float in kN)", "Flat. xxx"):
        assert text in free
        assert text in named
    assert "x" * (500 - len("Flat. ")) + '"' in free
    assert "Choose short names" in free
    assert "below: dead. Give" in named
    plain = workshop.solve(
        cell("extract('x', section='loads')"), cell("FINAL(1)"), toml="[subcalls.extract]\n"
    )
    assert "'section' needs a task with a template" in plain.results[0]
    assert "section" not in plain.entries[0].content.partition("extract(")[2].partition("\n")[0]


def test_a_model_is_nudged_to_fill_the_sections_of_its_report(workshop: Workshop) -> None:
    run = workshop.solve(
        *[cell("1")] * 20,
        cell("FILL('site', 'x')"),
        *[cell("1")] * 3,
        cell("FILL('loads', {'dead': 1}); FILL('summary', 'y')"),
        cell("SUBMIT()"),
        toml=WITH_TEMPLATE,
        files={"report_template.toml": TEMPLATE},
    )
    told = [text.rpartition("\n")[2] for text in run.results]
    assert told[1] == "[0 of 3 sections filled; can be filled now: site]"
    assert told[2] == "[0 of 3 sections filled, none in the last 3 turns; can be filled now: site]"
    assert told[9] == "[0 of 3 sections filled after 10 turns; begin to FILL: site]"
    assert "after 20 turns; stop reading and FILL one now" in told[19]
    assert told[22] == "[1 of 3 sections filled; can be filled now: loads]"
    assert "none in the last 3 turns" in told[23]
    assert told[24] == "[3 of 3 sections filled; SUBMIT() writes the report]"


def test_a_task_without_scaffolding_has_calls_and_finals_and_no_more(workshop: Workshop) -> None:
    names = ("grep", "NOTE", "RECALL", "parallel", "SUBCALL_LOG", "FILL", "STATUS", "ADVISOR")
    code = f"[n for n in {names} if n in globals()], callable(llm_query), callable(SHOW_VARS)"
    run = workshop.solve(cell(code), cell("FINAL(1)"), toml="[execution]\nscaffolding = false\n")
    assert run.results[0].startswith("([], True, True)")
    assert not [name for name in names if f"- {name}" in run.entries[0].content]
