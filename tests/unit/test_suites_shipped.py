"""The templates of the package: each keeps every promise that templates can be held to."""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress

import pytest

from pytest_aecbench.suites.audit import audit
from pytest_aecbench.suites.engine import RejectedError
from pytest_aecbench.suites.grading import fields_of, reward_of
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.recovery import recovered
from pytest_aecbench.suites.sampling import mistaken
from tests.templating import SHIPPED, cells, some

each = pytest.mark.parametrize("name", SHIPPED)
# How a result grows with a parameter: as this power of it, all else being equal.
LAWS: dict[str, dict[tuple[str, str], float]] = {
    "electrical/adiabatic-conductor": {
        ("fault_ka", "minimum_area_mm2"): 1,
        ("time_s", "minimum_area_mm2"): 0.5,
        ("time_s", "energy_ka2s"): 1,
        ("time_s", "max_time_s"): 0,
    },
    "electrical/feeder-voltage-drop": {
        ("current_a", "drop_v"): 1,
        ("length_m", "drop_percent"): 1,
        ("length_m", "max_length_m"): 0,
        ("limit_percent", "max_length_m"): 1,
    },
    "water/part-full-sewer": {
        ("slope_percent", "flow_l_s"): 0.5,
        ("roughness", "velocity_m_s"): -1,
        ("roughness", "full_flow_l_s"): -1,
    },
    "water/rational-storm-peak": {
        ("idf_a", "peak_m3_s"): 1,
        ("flow_length_m", "time_min"): 0.77,
        ("slope_percent", "time_min"): -0.385,
        ("idf_a", "runoff"): 0,
    },
}


@each
def test_a_template_has_levels_examples_mistakes_and_a_second_way(name: str) -> None:
    template = SHIPPED[name]
    assert name == "/".join(template.path.parts[-2:])
    assert tuple(template.levels) == ("easy", "medium", "hard")
    assert "partial" in template.levels["hard"].visibility
    assert len(template.table.examples) >= 2
    assert {"mistakes", "solve"} <= template.engine.functions.keys()
    asked = [(level.outputs, level.params) for level in template.levels.values()]
    assert len(set(asked)) > 1, "levels ask the same"


@each
def test_instances_are_solvable_robust_and_not_guessable(name: str) -> None:
    assert audit(SHIPPED[name]).problems == ()


@each
def test_prompt_and_files_alone_give_the_full_reward(name: str) -> None:
    template = SHIPPED[name]
    for cell in cells(template):
        for instance in some(template, cell, 15):
            files = task_files(instance)
            data = {
                n.partition("/")[2]: t for n, t in files.items() if n.startswith("environment/")
            }
            prompt = files["instruction.md"]
            params = recovered(template, cell.difficulty, cell.visibility, prompt, data)
            answer = template.engine.call("compute", params)
            assert reward_of(fields_of(template, instance.truth), answer) == 1


@each
def test_usual_mistakes_and_wrong_units_never_pass(name: str) -> None:
    template = SHIPPED[name]
    for cell in cells(template):
        for instance in some(template, cell, 15):
            fields = fields_of(template, instance.truth)
            wrong = mistaken(template, instance.params, instance.truth)
            assert wrong, "no mistake concerns what is asked"
            assert max(reward_of(fields, one) for one in wrong.values()) < 1
            for factor in (1000, 0.001, 57.29578):
                scaled = {
                    key: value if isinstance(value, (bool, str)) else factor * value
                    for key, value in instance.truth.items()
                }
                assert reward_of(fields, scaled) < 0.5


@each
def test_the_examples_of_a_task_are_what_they_say(name: str) -> None:
    template = SHIPPED[name]
    for cell in cells(template):
        for instance in some(template, cell, 3):
            files = task_files(instance)
            fields = fields_of(template, instance.truth)
            answers = [
                json.loads(re.findall("```json\n(.*)\n```", files[f"tests/fixtures/{kind}.md"])[0])
                for kind in ("golden_pass", "golden_fail")
            ]
            assert reward_of(fields, answers[0]) == 1
            assert reward_of(fields, answers[1]) < 1
            assert "def compute" not in files["solution/solve.py"]
            assert "solve" in {
                node.name
                for node in ast.parse(files["solution/solve.py"]).body
                if isinstance(node, ast.FunctionDef)
            }


@pytest.mark.parametrize("name", LAWS)
def test_results_grow_with_parameters_as_the_physics_says(name: str) -> None:
    template = SHIPPED[name]
    factor, tried = 1.01, set()
    for cell in cells(template)[:2]:  # harder levels may ask for the inverse
        for instance in some(template, cell, 10):
            for (param, output), power in LAWS[name].items():
                value = instance.params[param]
                assert isinstance(value, float)
                changed = {**instance.params, param: value * factor}
                with suppress(RejectedError):
                    more = template.engine.call("compute", changed)[output]
                    before = template.engine.call("compute", instance.params)[output]
                    assert more / before == pytest.approx(factor**power, rel=1e-9)
                    tried.add((param, output))
    assert tried == LAWS[name].keys()


@pytest.mark.nightly
@each
def test_both_ways_agree_on_ten_thousand_draws(name: str) -> None:
    template = SHIPPED[name]  # sample compares them for every draw
    for cell in cells(template):
        assert len(some(template, cell, 2500, seed=11)) == 2500
