"""The format of templates: whatever cannot be honoured is an error of one line at load."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.catalogue import find_template, find_templates
from pytest_aecbench.suites.engine import load_engine
from pytest_aecbench.suites.grid import grid_of, literal
from pytest_aecbench.suites.loading import load_template
from pytest_aecbench.suites.rules import parse_rule
from pytest_aecbench.suites.schema import ParamTable
from tests.templating import SHIPPED, changed

WIRE = 'derive = { file = "wires.csv", key = "wire", column = "ohm" }'


def problem_of(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        load_template(path)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('name = "wire"', 'name = "Wire 1"', "meta.name: 'Wire 1' is not valid; use a name such"),
        ('tags = ["example"]', "colour = 1", "meta.colour: unknown key; "),
        ("step = 0.5", "step = 0.7", "params.voltage_v.max: 230.0 is not a whole number of steps"),
        ("max = 230.0", "max = 2.0", "params.voltage_v.max: 2.0 is below min, 12.0; swap them"),
        ("max = 60.0\n", "", "params.load_ohm.max: missing; add a number"),
        ("step = 0.1", "step = 0.1\ndefault = 5", "params.load_ohm.default: has no effect; every"),
        ("step = 0.1", "step = 0.1\noptional = true", "params.load_ohm.optional: has no effect;"),
        ("step = 0.1", 'derivable_from = "U"', "params.load_ohm.derivable_from: has no effect; a"),
        ('values = ["thin"', 'values = [1, "thin"', "params.wire.values: a list of one kind"),
        ('description = "wire"', 'description = "voltage of the supply"\nsymbol = "U"', "is that"),
        ("rel = 0.01\nweight = 2", "rel = 5.0", "outputs.current_a.rel: 5.0 is not valid; use a"),
        ("rel = 0.01\nweight = 2", "tolerance = 0.0", "outputs.current_a.tolerance: 0.0 is not"),
        ("rel = 0.01\nweight = 2", "weight = 2", "outputs.current_a: a number has no tolerance"),
        ('needs = "current_a"', "", "outputs.fuse_holds: needs: missing; a guessed flag"),
        ('needs = "current_a"', 'needs = "curent"', "did you mean 'current_a'?"),
        ('type = "flag"', 'type = "flag"\nabs = 1', "outputs.fuse_holds: abs: a flag is compared"),
        ('hidden = ["wire_ohm"]', "", "difficulty.hard.hidden: missing; 'partial' hides at least"),
        ('hidden = ["wire_ohm"]', 'hidden = ["load_ohm"]', "nothing says how to find 'load_ohm'"),
        ('hidden = ["wire_ohm"]', 'hidden = ["wire", "wire_ohm"]', "nothing says how to find"),
        ('hidden = ["wire_ohm"]', 'hidden = ["wire_om"]', "did you mean 'wire_ohm'?"),
        ('"partial", "all_given"', '"scenario_only"', "'scenario_only' would hide what nothing"),
        ("[difficulty.easy]\n", '[difficulty.easy]\nreplacement_text = "x"\n', "has no effect;"),
        (
            "[difficulty.easy]\n",
            "[difficulty.easy]\nvoltage_v = false\n",
            "False is not valid; use",
        ),
        (
            "[difficulty.easy]\n",
            "[difficulty.easy]\nvoltage_v = [12.1]\n",
            "12.1 is not one of its",
        ),
        (
            "[difficulty.easy]\n",
            "[difficulty.easy]\nvoltag = [12.0]\n",
            "unknown key; did you mean",
        ),
        ("[difficulty.easy]", "[difficulty.trivial]", "difficulty.trivial: 'trivial' is not valid"),
        (
            '"current_a", "loss_w", "load_w"]',
            '"fuse_holds"]',
            "fuse_holds needs current_a; ask for",
        ),
        ("voltage_v <= 40 * load_ohm", "voltage_v <= open(1)", "constraints.0.rule: "),
        ("voltage_v <= 40 * load_ohm", "voltage <= 40", "did you mean 'voltage_v'?"),
        ("current_a = 3.0, loss", "current_a = 3.1, loss", "examples.0: outputs.current_a is 3.1"),
        (WIRE, 'derive = { file = "wire.csv", key = "wire", column = "ohm" }', "does not exist"),
        (WIRE, 'derive = { file = "wires.csv", key = "wire", column = "r" }', "no column 'r'"),
        (WIRE, 'derive = { file = "wires.csv" }', "say where in the file the value is"),
        (WIRE, 'step = 0.1\nderive = { rule = "2 * load_ohm" }', "is not a file in data/"),
        (WIRE, 'derive = "archetype"', "params.wire_ohm.min: missing"),
        ('tags = ["example"]', 'tool_mode = "both"', "meta.tool_mode: there is no tool"),
        ('tags = ["example"]', 'tags = ["a\\u0007"]', "without control characters and"),
        ('values = ["thin"', 'values = ["a | b", "thin"', "params.wire.values.0: 'a | b' is not"),
        ("max = 230.0", f"max = 1{'0' * 400}", "params.voltage_v.max: "),
        ("weight = 2", f"weight = 1{'0' * 400}", "outputs.current_a.weight: "),
        ('unit = "V"', 'unit = "V"\nlabels = { "12.0" = "a", "13.0" = "a" }', "two are the same"),
        ("[difficulty.easy]\n", '[difficulty.easy]\nfiles = ["../x"]\n', "'../x' cannot be a file"),
        ("[difficulty.easy]\n", '[difficulty.easy]\nfiles = ["Dockerfile"]\n', "cannot be a file"),
        (
            "[difficulty.easy]\n",
            "[difficulty.easy]\nvoltage_v = [nan]\n",
            "nan is not valid; use a finite",
        ),
        (
            "[difficulty.easy]\n",
            "[difficulty.easy]\nvoltage_v = { min = nan }\n",
            "nan is not valid",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_what_would_be_right(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    line = problem_of(changed(tmp_path, "params.toml", (old, new)))
    assert problem in line
    assert "params.toml: " in line


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import random", "line 1: imports 'random'; use nothing but math"),
        ("from os import path", "line 1: imports 'os'; use nothing but math"),
        ("X = open('x')", "line 1: 'open' is not allowed"),
        ("def compute():\n    return sum([1.0])", "line 2: 'sum' is not allowed; use math.fsum"),
        ("def compute():\n    return round(1.0)", "line 2: 'round' is not allowed; return exact"),
        ("X = {1, 2}", "line 1: set is not allowed"),
        ("X = ().__class__", "line 1: the attribute '__class__' is not allowed"),
        ("X = (one for one in ()).gi_frame", "line 1: the attribute 'gi_frame' is not allowed"),
        ("X = '{0.real}'.format(1)", "line 1: the attribute 'format' is not allowed"),
        (f"X = {'-' * 100_000}1", "write Python that 3.8 understands"),
        ("X = '\\ud800'", "line 1: half a character cannot be written to a file"),
        ("class Other:\n    pass", "line 1: the class 'Other' is not allowed"),
        ("def compute(:", "line 1: "),
        ("try:\n    X = 1\nexcept:\n    X = 2", "line 3: an except without a class"),
        ("try:\n    X = 1\nfinally:\n    X = 2", "line 1: finally is not allowed"),
        ("X = 1 / 0", "cannot be imported, ZeroDivisionError"),
        ("X = 1", "has no compute"),
        (
            "def f():\n    return 1\ndef compute():\n    return f()\ndef solve():\n    return f()",
            "share",
        ),
    ],
)
def test_an_engine_that_is_not_pure_is_refused(code: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_engine(code + "\n", "engine.py")
    (line,) = str(caught.value).splitlines()
    assert line.startswith("engine.py: ")
    assert problem in line


def test_an_engine_and_its_parameters_must_agree(tmp_path: Path) -> None:
    path = changed(tmp_path, "engine.py", ("def compute(*, voltage_v,", "def compute(*, voltage,"))
    assert "difficulty.easy: compute and params differ in 'voltage'" in problem_of(path)


@pytest.mark.parametrize("found", ["voltage_v * current", "[current]", "None", "str(current)"])
def test_a_solution_that_finds_something_else_is_refused(tmp_path: Path, found: str) -> None:
    path = changed(tmp_path, "engine.py", ("voltage_v * share * current", found))
    assert "examples.0: solve and compute do not agree" in problem_of(path)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("thick,0.2\n", "", "wires.csv has 0 rows where wire is 'thick'; correct the file"),
        ("thick,0.2\n", "thick,0.2\nthick,0.3\n", "wires.csv has 2 rows where wire is 'thick'"),
        ("thick,0.2\n", "thick,\n", "wires.csv has an empty cell where wire is 'thick'"),
        ("thick,0.2\n", "thick,much\n", "could not convert string to float: 'much'"),
    ],
)
def test_a_file_has_a_row_for_everything_that_may_be_drawn(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    line = problem_of(changed(tmp_path, "data/wires.csv", (old, new)))
    assert f"params.wire_ohm.derive: {problem}" in line


def test_a_tool_is_a_program(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "params.toml",
        ('tags = ["example"]', 'tool_mode = "both"'),
        ("# At least two", '[tools.ohm]\ndescription = "divides"\n\n# At least two'),
    )
    (path / "tools").mkdir()
    (path / "tools/ohm.py").write_text("print(\n")
    assert "tools/ohm.py: '(' was never closed" in problem_of(path)


def test_a_scenario_must_tell_what_it_hides(tmp_path: Path) -> None:
    hides = ('description = "wire"', 'description = "wire"\nderive = "archetype"')
    also = ('hidden = ["wire_ohm"]', 'hidden = ["wire"]')
    path = changed(tmp_path, "params.toml", hides, also)
    assert "leaves 'wire' open; give it one value in each scenario" in problem_of(path)
    fixed = [
        (f"[archetypes.{name}]\n", f'[archetypes.{name}]\nwire = ["thin"]\n') for name in NAMES
    ]
    assert "the scenario does not tell 'wire'; write 'thin' in" in problem_of(
        changed(tmp_path, "params.toml", *fixed)
    )
    told = [("on a bench", "on a bench by a thin wire"), ("in a shed", "in a shed by a thin wire")]
    assert load_template(changed(tmp_path, "params.toml", *told)).levels["hard"].hidden == ("wire",)


NAMES = ("bench", "shed")


def test_templates_of_the_described_system_load_as_far_as_they_can_be_honoured(
    tmp_path: Path,
) -> None:
    path = changed(
        tmp_path,
        "params.toml",
        ('visibility = ["partial", "all_given"]', 'visibility = "partial"'),
        ("hidden = [", "hidden_params = ["),
        ("rel = 0.01\nweight = 2", "tolerance = 0.03"),
        ('values = ["thin"', 'values = ["thin"'),
        ('type = "choice"\nvalues = ["thin"', 'type = "enum"\nvalues = ["thin"'),
        (
            "[archetypes.bench]\n",
            '[archetypes.bench]\nsite_contexts = ["a", "b"]\nwire = ["thin"]\n',
        ),
    )
    text = (path / "params.toml").read_text()
    start, end = text.index("[[constraints]]"), text.index("# At least two examples")
    rules = '[constraints]\nrules = ["voltage_v <= 40 * load_ohm"]\n\n'
    (path / "params.toml").write_text(text[:start] + rules + text[end:])
    template = load_template(path)
    assert template.levels["hard"].visibility == ("partial",)
    assert template.grids["easy", "bench"]["wire"].listed == ("thin",)
    assert [rule.text for rule, _ in template.constraints] == ["voltage_v <= 40 * load_ohm"]


def test_two_templates_of_one_name_are_refused(tmp_path: Path) -> None:
    changed(tmp_path / "one")
    changed(tmp_path / "two")
    with pytest.raises(SettingsError, match=r"electrical/wire is also in .*; rename one of them"):
        find_templates([tmp_path / "one", tmp_path / "two"])


def test_templates_are_found_by_name_with_or_without_their_discipline(tmp_path: Path) -> None:
    changed(tmp_path)
    found = find_templates([tmp_path])
    assert find_template("wire", found) is find_template("electrical/wire", found)
    with pytest.raises(SettingsError, match="'wir' is not a template; did you mean 'wire'"):
        find_template("wir", found)


@given(
    low=st.integers(-500, 500),
    steps=st.integers(0, 300),
    step=st.sampled_from([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 25]),
)
def test_a_value_is_the_literal_that_is_printed(low: int, steps: int, step: float) -> None:
    low_end, high_end = (float(Decimal(str(step)) * at) for at in (low, low + steps))
    table = ParamTable(type="float", description="x", min=low_end, max=high_end, step=step)
    grid = grid_of(table)
    assert grid.size == steps + 1
    values = [grid.at(index) for index in range(grid.size)]
    assert [float(literal(value, grid.decimals)) for value in values] == values
    assert all(map(grid.has, values))
    assert values == sorted(values)


def test_a_range_without_a_step_has_three_digits_at_its_smaller_end() -> None:
    grid = grid_of(ParamTable(type="float", description="x", min=0.05, max=0.60))
    assert (grid.size, grid.at(1)) == (5501, 0.0501)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("a * 2 <= b + 1", False),
        ("a < b < 10 or not a == 3", True),
        ("kind in ('x', 'y') and a >= 1", True),
        ("-a ** 2", -9),
    ],
)
def test_rules_are_arithmetic(rule: str, value: object) -> None:
    params = {"a": 3, "b": 4, "kind": "x"}
    assert parse_rule(rule, params).of(params) == value


@pytest.mark.parametrize(
    "rule", ["a.real", "a()", "[x for x in a]", "lambda: a", "a if a else a", "(", "-" * 100_000]
)
def test_rules_are_nothing_else(rule: str) -> None:
    with pytest.raises(ValueError, match=";"):
        parse_rule(rule, ["a"])


def test_a_range_in_a_level_narrows_without_new_values() -> None:
    template = SHIPPED["water/part-full-sewer"]
    easy, hard = (template.grids[level, "trunk"]["slope_percent"] for level in ("easy", "hard"))
    assert (easy.at(easy.size - 1), hard.at(hard.size - 1)) == (1.2, 0.6)
    assert hard.at(0) == easy.at(0)
