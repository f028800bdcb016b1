"""``report_template.toml``: sections, fields, dependencies, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.agents.report_template import ReportTemplate, read_report_template
from pytest_aecbench.errors import TaskError

A = "[[sections]]\nid = 'a'\ntitle = 'A'\n"
B = "[[sections]]\nid = 'b'\ntitle = 'B'\n"


def read(directory: Path, text: str) -> ReportTemplate:
    path = directory / "report_template.toml"
    path.write_text(text)
    return read_report_template(path)


def problem(directory: Path, text: str) -> str:
    with pytest.raises(TaskError) as caught:
        read(directory, text)
    where, _, what = str(caught.value).partition("report_template.toml: ")
    assert where.endswith("/")
    assert "\n" not in what
    return what


def test_everything_that_a_section_may_have(tmp_path: Path) -> None:
    template = read(
        tmp_path,
        """
        [meta]
        name = "Condition report"
        voice = "plain"

        [[sections]]
        id = "findings"
        title = "Findings"
        depends_on = ["background"]
        generation_mode = "guided"
        fields = [{ name = "span", dtype = "float", unit = "m", tolerance = 0.02 }]
        writing_guidance = { summary = "Say what is cracked.", rules = ["No adjectives."] }
        input_mapping = { sources = ["spec", "brief:Scope"], priority = { spec = 1 } }

        [[sections]]
        id = "background"
        title = "Background"
        fields = { owner = "str", year = { dtype = "int", required = false } }
        writing_guidance = ["Be short."]
        input_mapping = ["brief:Background"]
        """,
    )
    assert (template.meta.name, template.meta.voice) == ("Condition report", "plain")
    findings, background = template.sections
    assert [section.id for section in template.order] == ["background", "findings"]
    assert findings.writing_guidance == ("Say what is cracked.", "No adjectives.")
    assert (findings.fields[0].unit, findings.fields[0].tolerance) == ("m", 0.02)
    assert findings.input_mapping.sources == ("spec", "brief:Scope")
    assert [findings.input_mapping.rank(name) for name in ("spec", "brief:Scope")] == [1, None]
    owner, year = background.fields
    assert (owner.name, owner.dtype, owner.required) == ("owner", "str", True)
    assert (year.name, year.dtype, year.required) == ("year", "int", False)
    assert background.generation_mode == "transform"
    assert template.section("findings") is findings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "sections: missing; add a [[sections]] with 'id' and 'title'"),
        ("sections = []", "sections: there are no sections; add a [[sections]] with"),
        (A + A, "sections: id 'a' occurs twice; keep one, or rename it"),
        (A + "depends_on = ['c']\n" + B, "sections: 'a' depends on 'c', which is not a section; "),
        (A + "depends_on = ['a']\n", "sections: 'a' -> 'a' depend on one another"),
        (
            A + "depends_on = ['b']\n" + B + "depends_on = ['a']\n",
            "sections: 'a' -> 'b' -> 'a' depend on one another; remove one dependency",
        ),
        (A + "depends_on = ['b', 'b']\n" + B, "sections: 'a': dependency 'b' occurs twice"),
        (A + "generation_mode = 'compose'\n", "sections.0: generation_mode: 'compose' and its"),
        (A + "blocks = []\n", "sections.0: generation_mode: 'compose' and its blocks are not"),
        (A + "per_discipline = true\n", "sections.0: per_discipline: true is not supported; "),
        (A + "generation_mode = 'magic'\n", "sections.0.generation_mode: 'magic' is not valid; "),
        (A + "fields = [{ dtype = 'str' }]\n", "sections.0.fields.0.name: missing; add "),
        (A + "fields = { x = 'complex' }\n", "sections.0.fields.0.dtype: 'complex' is not valid"),
        (A + "fields = [{ name = 'x' }, { name = 'x' }]\n", "sections.0.fields: field 'x' occurs"),
        (A + "writing_guidance = { rule = [] }\n", "sections.0.writing_guidance: 'rule' is not"),
        (A + "input_mapping = ['x', 'x']\n", "sections.0.input_mapping: source 'x' occurs twice"),
        (
            A + "input_mapping = { sources = ['x'], priority = { y = 1 } }\n",
            "sections.0.input_mapping: priority: 'y' is not a source of the section; ",
        ),
        (A + "titel = 'x'\n", "sections.0.titel: unknown key; did you mean 'title'?"),
        (A + "depends_on = null\n", "line 4: invalid value in 'depends_on = null'; TOML has no"),
        (A + "[rubric]\n", "rubric: is not supported; leave the table out"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert problem(tmp_path, text).startswith(expected)


@given(st.data())
def test_the_order_is_that_of_dependencies_and_then_of_the_template(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    names = data.draw(st.permutations([f"s{n}" for n in range(count)]))
    needs = {
        name: data.draw(st.lists(st.sampled_from(names[:n]), unique=True)) if n else []
        for n, name in enumerate(names)
    }
    written = data.draw(st.permutations(names))
    sections = [{"id": name, "title": name, "depends_on": needs[name]} for name in written]
    template = ReportTemplate.model_validate({"sections": sections})
    order = [section.id for section in template.order]
    assert sorted(order) == sorted(names)
    for number, name in enumerate(order):
        assert set(needs[name]) <= set(order[:number])
        earlier = [other for other in written if other not in order[:number]]
        ready = [other for other in earlier if set(needs[other]) <= set(order[:number])]
        assert ready[0] == name
