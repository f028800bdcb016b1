"""The templates of the package: each keeps every promise that templates can be held to."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from contextlib import suppress

import pytest

from pytest_aecbench.suites.audit import audit
from pytest_aecbench.suites.draws import draw
from pytest_aecbench.suites.engine import RejectedError
from pytest_aecbench.suites.generation import key_of
from pytest_aecbench.suites.grading import fields_of, reward_of
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.recovery import recovered
from pytest_aecbench.suites.sampling import mistaken, solved
from pytest_aecbench.suites.template import Template
from tests.costs import at_night
from tests.templating import SHIPPED, cells, some

each = pytest.mark.parametrize("name", SHIPPED)
# How a result grows with a parameter: as this power of it, all else being equal.
LAWS: dict[str, dict[tuple[str, str], float]] = {
    "building/bridged-wall-u-value": {
        ("bridge_percent", "u_without_studs"): 0,
    },
    "building/reverberation-treatment": {
        ("height_m", "wall_m2"): 1,
    },
    "building/room-heat-loss": {
        ("changes_per_h", "ventilation_w_k"): 1,
        ("changes_per_h", "transmission_w_k"): 0,
    },
    "civil/earthworks-balance": {
        ("spacing_m", "cut_m3"): 1,
        ("spacing_m", "fill_m3"): 1,
    },
    "civil/horizontal-curve": {
        ("radius_m", "tangent_m"): 1,
        ("deflection_deg", "length_m"): 1,
        ("radius_m", "least_radius_m"): 0,
    },
    "civil/stopping-sight-crest": {
        ("speed_kmh", "reaction_m"): 1,
        ("speed_kmh", "braking_m"): 2,
        ("reaction_s", "braking_m"): 0,
    },
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
    "electrical/power-factor-correction": {
        ("power_kw", "needed_kvar"): 1,
        ("power_kw", "capacitance_uf"): 1,
    },
    "electrical/transformer-fault-level": {
        ("uk_percent", "transformer_mohm"): 1,
        ("uk_percent", "terminal_fault_ka"): -1,
        ("length_m", "terminal_fault_ka"): 0,
    },
    "ground/clay-settlement-time": {
        ("thickness_m", "settlement_mm"): 1,
        ("thickness_m", "time_years"): 2,
        ("cv_m2_a", "time_years"): -1,
        ("cc", "settlement_mm"): 1,
    },
    "ground/gravity-wall": {
        ("surcharge_kpa", "ka"): 0,
        ("base_friction_deg", "overturning"): 0,
    },
    "ground/strip-bearing-drained": {
        ("weight_kn_m3", "weight_kpa"): 1,
        ("depth_m", "weight_kpa"): 0,
    },
    "mechanical/heat-exchanger-area": {
        ("hot_cp", "heat_kw"): 1,
        ("u_w_m2k", "mean_k"): 0,
    },
    "mechanical/mixed-air-cooling-coil": {
        ("return_rh_percent", "mixed_c"): 0,
    },
    "mechanical/vibration-isolation": {
        ("mass_kg", "deflection_mm"): 1,
        ("mass_kg", "natural_hz"): -0.5,
        ("stiffness_kn_m", "natural_hz"): 0.5,
        ("rpm", "ratio"): 1,
    },
    "structural/beam-serviceability": {
        ("inertia_cm4", "deflection_mm"): -1,
        ("inertia_cm4", "moment_knm"): 0,
    },
    "structural/eccentric-bolt-group": {
        ("load_kn", "bolt_kn"): 1,
        ("load_kn", "polar_mm2"): 0,
    },
    "structural/rc-beam-flexure": {
        ("width_mm", "axis_mm"): -1,
        ("height_mm", "axis_mm"): 0,
    },
    "structural/steel-column-buckling": {
        ("area_cm2", "resistance_kn"): 1,
        ("length_m", "slenderness"): 1,
        ("i_z_cm", "slenderness"): -1,
    },
    "water/part-full-sewer": {
        ("slope_percent", "flow_l_s"): 0.5,
        ("roughness", "velocity_m_s"): -1,
        ("roughness", "full_flow_l_s"): -1,
    },
    "water/pipe-colebrook": {
        ("length_m", "loss_m"): 1,
        ("flow_l_s", "reynolds"): 1,
        ("viscosity_mm2_s", "reynolds"): -1,
    },
    "water/pump-npsh": {
        ("flow_l_s", "loss_m"): 2,
        ("altitude_m", "loss_m"): 0,
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


@pytest.mark.parametrize(
    "name", [name if number % 4 == 0 else at_night(name) for number, name in enumerate(SHIPPED)]
)
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


@each
def test_results_grow_with_parameters_as_the_physics_says(name: str) -> None:
    template = SHIPPED[name]
    factor, tried = 1.01, set()
    for cell in cells(template)[:2]:  # harder levels may ask for the inverse
        for instance in some(template, cell, 10):
            for (param, output), power in LAWS[name].items():
                value = instance.params[param]
                assert isinstance(value, (int, float))
                changed = {**instance.params, param: value * factor}
                with suppress(RejectedError):
                    more = template.engine.call("compute", changed)[output]
                    before = template.engine.call("compute", instance.params)[output]
                    assert more / before == pytest.approx(factor**power, rel=1e-9)
                    tried.add((param, output))
    assert tried == LAWS[name].keys()


def test_a_sewer_is_as_deep_as_its_prompt_says() -> None:
    template = SHIPPED["water/part-full-sewer"]
    assert "It lies below 0.8 of the diameter" in template.instruction
    pipe = {"diameter_mm": 450, "slope_percent": 0.4, "material": "plastic", "roughness": 0.011}
    deep = template.engine.call("compute", {**pipe, "depth_ratio": 0.805})["flow_l_s"]
    with pytest.raises(RejectedError, match="too deep"):
        template.engine.call("compute", {**pipe, "inflow_l_s": deep})


def test_a_version_gives_the_same_tasks_on_every_python() -> None:
    found = {
        f"{name} {template.version}": _digest_of_tasks(template)
        for name, template in SHIPPED.items()
    }
    assert found == PINNED, "raise the version of what changed, and pin it"


def _digest_of_tasks(template: Template) -> str:
    """Return a short digest of what agents and people see of some tasks."""
    digest = hashlib.sha256()
    for cell in cells(template):
        for instance in some(template, cell, 5):
            files = task_files(instance)
            shown = {n: files[n] for n in files if n.endswith(".md") or n.startswith("environ")}
            digest.update(json.dumps([instance.name, instance.params, shown]).encode())
    return digest.hexdigest()[:16]


PINNED = {
    "building/bridged-wall-u-value 1.0.0": "e791dff8e13fa458",
    "building/reverberation-treatment 1.0.0": "bf25c68eea7819e5",
    "building/room-heat-loss 1.0.0": "f13b0097bf1e1ca6",
    "civil/earthworks-balance 1.0.0": "691f0d14e94fa769",
    "civil/horizontal-curve 1.0.0": "e25665b39eba03b4",
    "civil/stopping-sight-crest 1.0.0": "d5d8e7a962f5f167",
    "electrical/adiabatic-conductor 1.0.0": "e39e167a6a37a10a",
    "electrical/feeder-voltage-drop 1.0.0": "83b1c399ac1ddbca",
    "electrical/power-factor-correction 1.0.0": "5ac1d0a373f0fbb2",
    "electrical/transformer-fault-level 1.0.0": "23098ab5b62843ab",
    "ground/clay-settlement-time 1.0.0": "e9f620578bcd893a",
    "ground/gravity-wall 1.0.0": "888f82ed0685d5fa",
    "ground/strip-bearing-drained 1.0.0": "8ad1311d3566f14a",
    "mechanical/heat-exchanger-area 1.0.0": "a227fa2004a71ae5",
    "mechanical/mixed-air-cooling-coil 1.0.0": "7ebcc532ec883814",
    "mechanical/vibration-isolation 1.0.0": "eb0be8bff0b6b61c",
    "structural/beam-serviceability 1.0.0": "f349458bf1dc14b0",
    "structural/eccentric-bolt-group 1.0.0": "88b8b676c9ff6441",
    "structural/rc-beam-flexure 1.0.0": "8e3199cddfeeffe9",
    "structural/steel-column-buckling 1.0.0": "d5ed4f12263a88b6",
    "water/part-full-sewer 1.0.0": "199ca68af1a5b890",
    "water/pipe-colebrook 1.0.0": "54ad0dc9b0f62a6b",
    "water/pump-npsh 1.0.0": "2288c3e813e4613d",
    "water/rational-storm-peak 1.0.0": "1bf5895f0153bde2",
}


@pytest.mark.slow
@pytest.mark.nightly
@each
def test_both_ways_agree_on_ten_thousand_draws(name: str) -> None:
    template = SHIPPED[name]
    levels = [*template.levels.values()]
    agreed, index = 0, 0
    while agreed < 10_000:
        level = levels[index % len(levels)]
        with suppress(RejectedError):
            solved(template, level, draw(template, level, key_of(template, 11, "", index)).params)
            agreed += 1
        index += 1
    assert agreed > 0.1 * index
