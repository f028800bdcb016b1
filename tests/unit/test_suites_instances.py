"""Instances: each can be solved from its own texts, and bad engines give none."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.audit import audit
from pytest_aecbench.suites.draws import SPLITS, Key, draw, params_digest
from pytest_aecbench.suites.generation import generate_tasks, key_of
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.loading import load_template
from pytest_aecbench.suites.prompt import Cell
from pytest_aecbench.suites.sampling import sample
from tests.templating import SHIPPED, cells, changed, some

EASY = Cell("easy", "all_given", "no-tool")
HARD = Cell("hard", "partial", "no-tool")


GUARDS = """\
def guards(*, voltage_v, load_ohm, wire, wire_ohm, fuse_a):
    return {"the fuse": voltage_v / (load_ohm + wire_ohm) / fuse_a - 1}


"""
TOOL = """\
[tools.ohm]
description = "divides"
args = ["{voltage_v}", "{load_ohm}", "{wire_ohm}"]

"""


def compute(body: str) -> tuple[str, str]:
    """Return the change that gives compute another body after its examples were checked."""
    docstring = '    """Return the exact answer."""\n'
    return docstring, f"{docstring}    if voltage_v not in (24.0, 50.0):\n        {body}\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            'raise Reject("too dull")',
            r"no instance in 1000 attempts \(.*too dull [0-9]+.*\); widen",
        ),
        ("return 1 / 0", "compute raises ZeroDivisionError: .* for voltage_v="),
        ('return {"current_a": 1.0}', "compute returns no 'loss_w'"),
        ('return {"x": 1.0}', "compute returns 'x', which is not one of the outputs"),
        ("return 7", "compute returns int, must return a dict"),
        (
            'return dict.fromkeys(("current_a", "loss_w", "load_w"), 10**400)',
            "current_a is not finite",
        ),
    ],
)
def test_an_engine_that_fails_is_one_line_and_nothing_is_written(
    tmp_path: Path, body: str, problem: str
) -> None:
    template = load_template(changed(tmp_path / "templates", "engine.py", compute(body)))
    with pytest.raises(SettingsError, match=problem) as caught:
        generate_tasks(template, [EASY], 3, 1, 0, tmp_path / "tasks")
    assert str(caught.value).startswith("electrical/wire: easy, all_given: ")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "tasks").exists()


def test_results_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    body = 'return dict.fromkeys(("current_a", "loss_w", "load_w"), float("nan"))'
    template = load_template(changed(tmp_path, "engine.py", compute(body)))
    with pytest.raises(SettingsError, match=r"current_a is not finite [0-9]{3}"):
        sample(template, key_of(template, 1, "", 0), EASY)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ('{"current_a": [1]}', r"mistakes returns \[1\] in 'wire_left_out', must return numbers"),
        ("7", "mistakes returns 7 for 'wire_left_out', must return dicts by name"),
        ("{}, 7: {}", "mistakes returns {} for 7, must return dicts by name"),
    ],
)
def test_a_mistake_that_is_not_an_answer_is_one_line(
    tmp_path: Path, wrong: str, problem: str
) -> None:
    old = """"wire_left_out": {
            "current_a": without_wire,
            "loss_w": without_wire**2 * wire_ohm,
            "load_w": without_wire**2 * load_ohm,
        }"""
    template = load_template(changed(tmp_path, "engine.py", (old, f'"wire_left_out": {wrong}')))
    with pytest.raises(SettingsError, match=problem):
        sample(template, key_of(template, 1, "", 0), EASY)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("1 / (voltage_v - voltage_v) > 1", "fails for .*, float division by zero"),
        ("wire < 3", "fails for .*, '<' not supported"),
    ],
)
def test_a_constraint_that_fails_is_one_line(tmp_path: Path, rule: str, problem: str) -> None:
    path = changed(tmp_path, "params.toml", ("voltage_v <= 40 * load_ohm", rule))
    template = load_template(path)
    with pytest.raises(SettingsError, match=problem):
        sample(template, key_of(template, 1, "", 0), EASY)


@pytest.mark.parametrize("rule", ["(-1) ** 0.5", "0 < load_ohm and 'x'", "1e308 * 10"])
def test_a_rule_gives_a_number(tmp_path: Path, rule: str) -> None:
    path = changed(
        tmp_path,
        "params.toml",
        (
            'derive = { file = "wires.csv", key = "wire", column = "ohm" }',
            f'step = 0.1\nderive = {{ rule = "{rule}", document = "basis.md" }}',
        ),
    )
    (path / "data/basis.md").write_text(f"r = {rule}\n")
    template = load_template(path)
    with pytest.raises(SettingsError, match=r"the rule .* gives .*, must give a number"):
        sample(template, key_of(template, 1, "", 0), EASY)


def test_a_file_that_is_not_a_text_is_one_line(tmp_path: Path) -> None:
    hook = FILES_HOOK.replace('"more.txt": "x"', '"more.txt": 7')
    changed(
        tmp_path, "params.toml", ("[difficulty.easy]\n", '[difficulty.easy]\nfiles = "more.txt"\n')
    )
    path = changed(tmp_path, "engine.py", ("def solve(", f"{hook}def solve("))
    template = load_template(path)
    with pytest.raises(
        SettingsError, match=r"files returns int as 'more\.txt', must return a text"
    ):
        sample(template, key_of(template, 1, "", 0), EASY)


def test_an_engine_that_never_ends_is_stopped(tmp_path: Path) -> None:
    loop = "while True:\n            voltage_v = voltage_v + 1"
    template = load_template(changed(tmp_path, "engine.py", compute(loop)))
    with pytest.raises(SettingsError, match=r"drawing an instance takes more than 0\.3 s"):
        sample(template, key_of(template, 1, "", 0), EASY, seconds=0.3)


def test_every_reason_to_reject_a_draw_is_named(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "engine.py",
        ('raise Reject("current far from the fuse\'s")', "pass"),
        ("def mistakes(", f"{GUARDS}def mistakes("),
    )
    template = load_template(path)
    rejected: Counter[str] = Counter()
    taken: set[str] = set()
    for index in range(150):
        sample(template, key_of(template, 1, "", index), EASY, taken, rejected=rejected)
    assert {"too near the fuse", "the mistake 'wire_left_out' would pass"} <= rejected.keys()
    assert "more current than the supply gives" in rejected


def test_no_two_instances_have_the_same_parameters(tmp_path: Path) -> None:
    few = ("min = 12.0\nmax = 230.0", "min = 24.0\nmax = 24.5")
    less = ("min = 2.0\nmax = 60.0", "min = 7.0\nmax = 8.0")
    fuses = ("values = [2.0, 4.0, 6.0, 10.0, 16.0, 20.0]", "values = [2.0, 4.0]")
    template = load_template(changed(tmp_path, "params.toml", few, less, fuses))
    rejected: Counter[str] = Counter()
    taken: set[str] = set()
    keys = [key_of(template, 1, "", index) for index in range(12)]
    made = [sample(template, key, EASY, taken, rejected=rejected) for key in keys]
    assert len({instance.name for instance in made}) == 12
    assert rejected["duplicate parameters"]


def test_an_ill_conditioned_result_is_rejected(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "engine.py",
        ('"load_w": current**2 * load_ohm,', '"load_w": voltage_v * 1.0001 - voltage_v * 1.0,'),
        ('"load_w": voltage_v * share * current,', '"load_w": voltage_v * 0.0001,'),
    )
    text = (path / "params.toml").read_text().replace(", load_w = 67.5", "")
    (path / "params.toml").write_text(text.replace(", load_w = 225.0", ""))
    sharp = (
        (path / "engine.py")
        .read_text()
        .replace("voltage_v * 1.0001 - voltage_v * 1.0", "voltage_v - 120.001")
    )
    (path / "engine.py").write_text(sharp.replace("voltage_v * 0.0001", "voltage_v - 120.001"))
    template = load_template(path)
    rejected: Counter[str] = Counter()
    for index in range(60):
        instance = sample(template, key_of(template, 1, "", index), EASY, rejected=rejected)
        assert abs(instance.params["voltage_v"] - 120.001) > 0.04 * 120  # type: ignore[operator]
    assert any("load_w is too sensitive to voltage_v" in reason for reason in rejected)


def test_a_prompt_that_hides_too_much_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "instruction.md", ("{{ archetype.description }}", "{{ wire_ohm }}"))
    template = load_template(path)
    sample(template, key_of(template, 1, "", 0), EASY)
    with pytest.raises(SettingsError, match="'wire_ohm' is undefined; use a visible parameter"):
        sample(template, key_of(template, 1, "", 0), HARD)


def test_prompts_cannot_reach_python(tmp_path: Path) -> None:
    attack = "{{ meta.__class__.__mro__ }}"
    path = changed(tmp_path, "instruction.md", ("{{ archetype.description }}", attack))
    template = load_template(path)
    with pytest.raises(SettingsError, match=r"instruction\.md: "):
        sample(template, key_of(template, 1, "", 0), EASY)


def test_a_prompt_can_use_the_names_of_the_described_system(tmp_path: Path) -> None:
    names = (
        "{{ archetype_description }}|{{ archetype.site_context }}|{{ site_context }}|"
        "{% for one in visible_params %}{{ one.name }}={{ one.value }} {{ one.unit }},{% endfor %}|"
        "{% for one in outputs %}{{ one.name }}: {{ one.description }},{% endfor %}|"
        "{{ standards | join }}|{{ tool_mode }}|{{ tool_available }}|{{ meta.category }}|"
        "{% if wire_ohm is defined %}{{ wire_ohm }}{% else %}hidden{% endif %}"
    )
    changed(
        tmp_path,
        "params.toml",
        ('tags = ["example"]', 'standards = ["IEC 1"]'),
        ("[archetypes.bench]\n", '[archetypes.bench]\nsite_contexts = ["hall"]\n'),
        ("[archetypes.shed]\n", '[archetypes.shed]\nsite_contexts = ["hall"]\n'),
    )
    path = changed(tmp_path, "instruction.md", ("{{ archetype.description }}", names))
    template = load_template(path)
    for cell in (EASY, HARD):
        (instance,) = some(template, cell, 1)
        (line,) = (one for one in instance.prompt.splitlines() if one.startswith("A supply"))
        shown = {name: template.shown(name, value) for name, value in instance.params.items()}
        described, site, same_site, given, asked, *rest = line.split("|")
        assert described in {one.description for one in template.table.archetypes.values()}
        assert (site, same_site) == ("hall", "hall")
        assert f"load_ohm={shown['load_ohm']} ohm," in given
        assert ("wire_ohm=" in given) == (cell is EASY)
        assert "current_a: current," in asked
        told = shown["wire_ohm"] if cell is EASY else "hidden"
        assert rest[:4] == ["IEC 1", "no-tool", "False", "circuits"]
        assert rest[4].startswith(told)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "maximum recursion depth exceeded"),
        ("{{ 'x' * 10 ** 14 }}", "MemoryError"),
        ("{{ 1 // 0 }}", "division or modulo by zero|by zero"),
        ("{% include 'x' %}", "no loader for this environment"),
    ],
)
def test_a_prompt_that_fails_is_one_line(tmp_path: Path, expression: str, problem: str) -> None:
    path = changed(tmp_path, "instruction.md", ("{{ archetype.description }}", expression))
    template = load_template(path)
    with pytest.raises(SettingsError, match=rf"instruction\.md: .*({problem}).*; ") as caught:
        sample(template, key_of(template, 1, "", 0), EASY)
    assert len(str(caught.value).splitlines()) == 1


def test_every_prompt_has_all_values_and_all_tolerances_wherever_they_are_placed(
    tmp_path: Path,
) -> None:
    path = changed(tmp_path, "instruction.md", ("## Given\n\n{{ given_table }}\n\n", ""))
    template = load_template(path)
    (instance,) = some(template, EASY, 1)
    assert instance.prompt.count("| quantity | value | unit |") == 1
    assert instance.prompt.count("±1 %") == 3
    assert instance.prompt.index("## Given") < instance.prompt.index("## Output")


def test_a_value_of_a_hidden_parameter_is_only_in_its_file() -> None:
    template = SHIPPED["electrical/feeder-voltage-drop"]
    for instance in some(template, HARD, 5):
        resistance = template.shown("r20_ohm_km", instance.params["r20_ohm_km"])
        assert resistance not in instance.prompt
        assert resistance in instance.files["cables.csv"]


FILES_HOOK = """\
def files(*, voltage_v, load_ohm, wire, wire_ohm, fuse_a):
    return {"parts.csv": f"part,ohm\\nheater,{load_ohm}\\nlamp,{2 * load_ohm}\\n", "more.txt": "x"}


"""


def test_an_engine_can_write_the_file_that_a_value_is_hidden_in(tmp_path: Path) -> None:
    derive = 'derive = { file = "parts.csv", key = "part", row = "heater", column = "ohm" }'
    path = changed(
        tmp_path,
        "params.toml",
        ("step = 0.1", f"step = 0.1\n{derive}"),
        ('hidden = ["wire_ohm"]', 'hidden = ["load_ohm"]'),
    )
    template = load_template(
        changed(tmp_path, "engine.py", ("def solve(", f"{FILES_HOOK}def solve("))
    )
    assert template.path == path
    for instance in some(template, HARD, 10):
        load = instance.params["load_ohm"]
        assert list(instance.files) == ["parts.csv"]
        assert f"heater,{load}\n" in instance.files["parts.csv"]
        row = "in `/workspace/parts.csv`, column `ohm`, row where `part` is heater"
        assert f"| resistance of the load, R | {row} | ohm |" in instance.prompt
        assert "COPY parts.csv /workspace/" in task_files(instance)["environment/Dockerfile"]
    (easy,) = some(template, EASY, 1)
    assert easy.files == {}


def test_a_file_that_contradicts_the_draw_is_refused(tmp_path: Path) -> None:
    derive = 'derive = { file = "parts.csv", key = "part", row = "lamp", column = "ohm" }'
    changed(
        tmp_path,
        "params.toml",
        ("step = 0.1", f"step = 0.1\n{derive}"),
        ('hidden = ["wire_ohm"]', 'hidden = ["load_ohm"]'),
    )
    template = load_template(
        changed(tmp_path, "engine.py", ("def solve(", f"{FILES_HOOK}def solve("))
    )
    with pytest.raises(SettingsError, match=r"load_ohm is .*, but the texts say .*; correct"):
        some(template, HARD, 1)


def test_a_rule_is_hidden_only_with_its_document() -> None:
    template = SHIPPED["electrical/adiabatic-conductor"]
    for instance in some(template, HARD, 5):
        impedance, current = (instance.params[name] for name in ("loop_impedance_ohm", "fault_ka"))
        assert isinstance(impedance, float)
        assert current == pytest.approx(0.2185 / impedance, abs=0.0005)
        assert "0.2185 / loop_impedance_ohm" in instance.files["design_basis.md"]
        assert template.shown("fault_ka", current) not in instance.prompt


def test_adding_reordering_and_other_templates_change_no_draw(tmp_path: Path) -> None:
    before = load_template(changed(tmp_path / "a"))
    text = (before.path / "params.toml").read_text()
    start, end = text.index("[params.load_ohm]"), text.index("[params.wire]")
    moved = text[:start] + text[end:].replace(
        "[outputs.current_a]", text[start:end] + "[outputs.current_a]", 1
    )
    path = changed(tmp_path / "b", "engine.py", ("fuse_a):", "fuse_a, load_c=None):"))
    (path / "params.toml").write_text(
        moved.replace("[outputs.current_a]", f"{ADDED}[outputs.current_a]")
    )
    after = load_template(path)
    for index in range(20):
        one, two = (draw(t, t.levels["easy"], key_of(t, 3, "", index)) for t in (before, after))
        assert {**one.params, "load_c": two.params["load_c"]} == two.params


ADDED = """\
[params.load_c]
type = "int"
min = 20
max = 90
description = "temperature of the load"

"""


def test_a_major_version_gives_other_draws() -> None:
    one, two = (Key("a/b", major, 1, "", 0).pick("x", 2**32) for major in ("1", "2"))
    assert one != two


def test_draws_never_change() -> None:
    picked = [
        Key("a/b", "1", 42, "train", 7, 3).pick(name, 1000) for name in ("x", "y", "/archetype")
    ]
    assert picked == PINNED


PINNED = [315, 913, 529]


@pytest.mark.parametrize("seeds", [3, pytest.param(10, marks=pytest.mark.nightly)])
def test_seeds_and_splits_share_no_parameters(seeds: int) -> None:
    template = SHIPPED["water/rational-storm-peak"]
    names = [
        params_digest(template.id, sample(template, key_of(template, seed, split, i), EASY).params)
        for seed in range(seeds)
        for split in SPLITS
        for i in range(10 * seeds)
    ]
    assert len(set(names)) == len(names)


def test_a_split_never_has_parameters_of_another(tmp_path: Path) -> None:
    template = load_template(changed(tmp_path))
    owners: dict[str, set[str]] = {}
    for seed in range(4):
        for split in SPLITS:
            for index in range(10):
                instance = sample(template, key_of(template, seed, split, index), EASY)
                owners.setdefault(instance.name, set()).add(split)
    assert all(len(splits) == 1 for splits in owners.values())


def test_the_files_of_an_instance_never_change(tmp_path: Path) -> None:
    template = load_template(changed(tmp_path))
    digest = hashlib.sha256()
    for cell in cells(template):
        for instance in some(template, cell, 3):
            files = {n: text for n, text in task_files(instance).items() if n != "task.toml"}
            digest.update(json.dumps(files, sort_keys=True).encode())
    assert digest.hexdigest() == FILES


FILES = "c9f6443286e87dfbc8e2ef655943107b099083d96e97f3876f21ad2f88bdd72b"


def test_an_audit_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "params.toml",
        ("values = [2.0, 4.0, 6.0, 10.0, 16.0, 20.0]", "values = [16.0, 20.0]"),
        ("fuse_a = 4.0 }", "fuse_a = 16.0 }"),
        ("fuse_holds = false", "fuse_holds = true"),
    )
    engine = (path / "engine.py").read_text().replace("0.4 <", "0.1 <")
    (path / "engine.py").write_text(engine)
    found = audit(load_template(path), draws=40)
    assert any("fuse_holds has the same value in" in problem for problem in found.problems)
    assert {row.difficulty for row in found.rows} == {"easy", "medium", "hard"}


CANCELLING = """(load_ohm + wire_ohm)
    more = current + 9999.0
    current = more - 9999.0
    if"""
FEWER_SETS = (
    ("max = 230.0\nstep = 0.5", "max = 230.0\nstep = 109.0"),
    ("max = 60.0\nstep = 0.1", "max = 60.0\nstep = 5.8"),
)


@pytest.mark.parametrize(
    ("file", "changes", "problem"),
    [
        (
            "engine.py",
            [compute("if int(voltage_v) % 25:\n            raise Reject('odd')")],
            "of the draws are accepted, 10% are needed (odd ",
        ),
        ("params.toml", FEWER_SETS, "there are only 1188 sets of parameters, 2000 are needed"),
        (
            "engine.py",
            [("(load_ohm + wire_ohm)\n    if", CANCELLING)],
            "of the answers with four digits are wrong",
        ),
    ],
)
def test_an_audit_finds_what_makes_a_template_unsound(
    tmp_path: Path, file: str, changes: list[tuple[str, str]], problem: str
) -> None:
    problems = audit(load_template(changed(tmp_path, file, *changes)), draws=10).problems
    assert any(problem in one for one in problems), problems


def test_an_audit_compares_the_files_of_two_processes(tmp_path: Path) -> None:
    hook = FILES_HOOK.replace("part,ohm", "part,ohm,{str(files)}")  # has an address in memory
    changed(tmp_path, "engine.py", ("def solve(", f"{hook}def solve("))
    changed(tmp_path, "instruction.md", ("## Method", "See `/workspace/parts.csv`.\n\n## Method"))
    level = "[difficulty.hard]\n"
    path = changed(tmp_path, "params.toml", (level, f'{level}files = "parts.csv"\n'))
    problems = audit(load_template(path), draws=5).problems
    assert any("its results depend on PYTHONHASHSEED" in one for one in problems), problems


def test_a_tool_that_gives_the_answer_away_is_found(tmp_path: Path) -> None:
    path = changed(
        tmp_path,
        "params.toml",
        ('tags = ["example"]', 'tool_mode = "both"'),
        ("# At least two", f"{TOOL}# At least two"),
    )
    (path / "tools").mkdir()
    tool = path / "tools/ohm.py"
    tool.write_text("import sys\nu, r, s = map(float, sys.argv[1:])\nprint(u / (r + s))\n")
    problems = audit(load_template(path), draws=5).problems
    (problem, *_) = (one for one in problems if one.startswith("tools/ohm.py: prints "))
    assert "the expected current_a" in problem
    tool.write_text((path / "engine.py").read_text())
    problems = audit(load_template(path), draws=5).problems
    assert any("tools/ohm.py: contains 'compute' of the engine" in one for one in problems)
