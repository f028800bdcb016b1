"""The shipped tasks accept their own rounding, and what follows from any value they accept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.unit.test_shipped_tasks import (
    Solved,
    instruction,
    solved,  # noqa: F401  (a fixture)
    task,  # noqa: F401  (a fixture)
    task_id,
)

Answer: TypeAlias = dict[str, Any]
COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
DIGITS = re.compile(rf"({'|'.join(COUNTS)}) (significant|decimals?)\b")


def ceil_to(value: float, step: float) -> float:
    return step * math.ceil(value / step)


def clay_settlement(stress_mid_clay_kpa: float) -> float:
    """Return the settlement of three sublayers, in mm, from the stress in the middle one."""
    total = 0.0
    for offset in (-2.0, 0.0, 2.0):
        before = stress_mid_clay_kpa + offset * (17.2 - 9.81)
        ratio = (before + 64.0) / (1.25 * before)
        total += 2000 / 2.05 * (0.06 * math.log10(1.25) + 0.34 * math.log10(ratio))
    return total


def condensation(interface_c: float) -> float:
    """Return the rate at which vapour condenses in the wall, in g/(m²·h)."""

    def saturation(temperature: float) -> float:
        a, b = (17.269, 237.3) if temperature >= 0 else (21.875, 265.5)
        return 610.5 * math.exp(a * temperature / (b + temperature))

    inside, outside, here = 0.55 * saturation(21), 0.85 * saturation(-5), saturation(interface_c)
    s_d_inside = 0.013 * 8 + 0.100 * 10 + 0.120
    return 2e-10 * 3.6e6 * ((inside - here) / s_d_inside - (here - outside) / (0.110 * 10))


def steel_for(moment: float) -> float:
    """Return the reinforcement that a moment in kNm needs, in mm²."""
    depth, width, concrete = 544.5, 300.0, 17.0
    block = depth - math.sqrt(depth**2 - 2e6 * moment / (width * concrete))
    return block * width * concrete / (500 / 1.15)


def links_for(shear: float) -> int:
    """Return the spacing of links for a shear force in kN, in mm."""
    depth, area = 544.5, 2 * math.pi * 16
    spacing = min(
        area * 0.9 * depth * 500 / 1.15 * 2.5 / (1000 * shear),
        0.75 * depth,
        area / (0.08 * math.sqrt(30) / 500 * 300),
    )
    return 25 * int(spacing // 25)


# The coats of paint systems: litres for a square metre, and the price of a litre.
PAINT = {
    "P1": ((0.075 / 0.406, 14.20), (0.0508 / 0.364, 71.50 / 3.785411784)),
    "P2": ((0.080 / 0.403, 16.90), (0.127 / 0.481, 66 / 3.785411784), (0.060 / 0.325, 21.40)),
}
# How values of an answer follow from others of the same answer, in the order of the calculation.
FOLLOWS: dict[str, dict[str, Callable[[Answer], Any]]] = {
    "building/wall-condensation": {
        "heat_flux_w_m2": lambda a: a["u_value_w_m2k"] * 26,
        "temperature_factor": lambda a: 1 - 0.25 / (1 / a["u_value_w_m2k"] - 0.13 + 0.25),
        "surface_condensation": lambda a: -5 + 26 * a["temperature_factor"] < a["dew_point_c"],
        "interface_temperature_c": lambda a: -5 + a["heat_flux_w_m2"] * (0.04 + 0.110 / 0.77),
        "condensation_g_m2_h": lambda a: condensation(a["interface_temperature_c"]),
    },
    "civil/crest-curve": {
        "min_length_m": lambda a: (
            5.6
            * a["stopping_sight_distance_m"] ** 2
            / (200 * (math.sqrt(1.1) + math.sqrt(0.2)) ** 2)
        ),
        "adopted_length_m": lambda a: ceil_to(a["min_length_m"], 10),
        "high_point_chainage_m": lambda a: 1250 + a["adopted_length_m"] * (3.2 / 5.6 - 0.5),
        "high_point_level_m": lambda a: (
            86.4 - 0.016 * a["adopted_length_m"] + 0.032**2 * a["adopted_length_m"] / (2 * 0.056)
        ),
    },
    "civil/earthworks-volumes": {
        "balance_bank_m3": lambda a: a["cut_bank_m3"] - a["fill_compacted_m3"] / 0.88,
        "truck_loads": lambda a: math.ceil(a["balance_bank_m3"] * 1.25 / 12),
    },
    "cost/bill-check": {
        "corrected_total": lambda a: 135332.57 + sum(a["errors"].values()),  # the sound items
    },
    "electrical/fault-level": {
        "db_breakers_adequate": lambda a: a["ik_db_ka"] <= 15,
    },
    "electrical/pv-string-sizing": {
        "min_modules_per_string": lambda a: math.ceil(450 / a["v_mp_hot_v"]),
        "dc_ac_ratio_ok": lambda a: a["array_dc_kw"] / 36 <= 1.3,
    },
    "electrical/voltage-drop": {
        "voltage_drop_percent": lambda a: a["voltage_drop_v"] / 4,
        "max_length_m": lambda a: 140 * 2.5 / a["voltage_drop_percent"],
        "compliance": lambda a: a["voltage_drop_percent"] <= 2.5,
    },
    "ground/bishop-slope": {
        "fos_ordinary": lambda a: 1042.61 / a["driving_sum_kn_per_m"],  # the sum that resists
        "fos_bishop": lambda a: 1173.14 / a["driving_sum_kn_per_m"],
        "fos_bishop_dry": lambda a: 1502.63 / a["driving_sum_kn_per_m"],
        "acceptable": lambda a: a["fos_bishop"] >= 1.5,
    },
    "ground/consolidation": {
        "settlement_mm": lambda a: clay_settlement(a["stress_mid_clay_kpa"]),
        "remaining_mm": lambda a: (1 - a["degree_percent"] / 100) * a["settlement_mm"],
        "acceptable": lambda a: a["remaining_mm"] <= 50,
    },
    "mechanical/duct-sizing": {
        "friction_rate_pa_m": lambda a: a["friction_factor"] / 0.5 * 0.6 * a["velocity_m_s"] ** 2,
        "pressure_drop_pa": lambda a: (
            38 * a["friction_rate_pa_m"] + 3.2 * 0.6 * a["velocity_m_s"] ** 2 + 145
        ),
        "fan_power_w": lambda a: 1.1 * a["pressure_drop_pa"] / 0.58,
    },
    "structural/beam-deflection": {
        "moment_utilisation": lambda a: a["design_moment_knm"] / (0.9 * 0.3 * 774),
        "adequate": lambda a: a["moment_utilisation"] <= 1 and a["deflection_mm"] <= 28.8,
    },
    "structural/rc-beam": {
        "as_required_mm2": lambda a: steel_for(a["m_ed_knm"]),
        "bar_count": lambda a: math.ceil(a["as_required_mm2"] / (math.pi * 156.25)),
        "link_spacing_mm": lambda a: links_for(a["v_ed_kn"]),
    },
    "structural/steel-takeoff": {
        "paint_l": lambda a: {
            system: sum(litres for litres, _ in coats) * a["painted_surface_m2"][system]
            for system, coats in PAINT.items()
        },
        "paint_cost": lambda a: sum(
            litres * price * a["painted_surface_m2"][system]
            for system, coats in PAINT.items()
            for litres, price in coats
        ),
    },
    "water/hydraulic-jump": {
        "froude_1": lambda a: 4.8 / math.sqrt(9.81 * a["depth_1_m"] ** 3),
        "depth_2_m": lambda a: a["depth_1_m"] / 2 * (math.sqrt(1 + 8 * a["froude_1"] ** 2) - 1),
        "energy_loss_m": lambda a: (
            (a["depth_2_m"] - a["depth_1_m"]) ** 3 / (4 * a["depth_1_m"] * a["depth_2_m"])
        ),
        "power_kw": lambda a: 9.81 * 24 * a["energy_loss_m"],
        "swept_out": lambda a: a["tailwater_depth_m"] < a["depth_2_m"],
    },
    "water/pump-duty-point": {
        "head_m": lambda a: 46 - 0.0048 * a["flow_l_s"] ** 2,
        "shaft_power_kw": lambda a: (
            992.2e-6 * 9.81 * a["head_m"] / (0.0265 - 0.00022 * a["flow_l_s"])
        ),
        "npsh_margin_m": lambda a: a["npsh_available_m"] - 1.6 - 0.0006 * a["flow_l_s"] ** 2,
        "suction_safe": lambda a: a["npsh_margin_m"] >= 0.5,
    },
}


def rounded(value: Any, digits: int, *, significant: bool) -> Any:
    """Return an answer, or a part of it, with numbers rounded as the prompt asks."""
    if isinstance(value, dict):
        return {
            name: rounded(part, digits, significant=significant) for name, part in value.items()
        }
    if isinstance(value, list):
        return [rounded(part, digits, significant=significant) for part in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if significant else round(value, digits)


def test_the_prompt_says_how_many_digits_are_wanted_and_they_earn_all(
    task: Path,  # noqa: F811
    solved: Solved,  # noqa: F811
) -> None:
    asked = DIGITS.search(instruction(task))
    if asked is None:
        assert rounded(solved.answer, 0, significant=False) == solved.answer, "digits not stated"
        return
    answer = rounded(solved.answer, COUNTS[asked[1]], significant=asked[2] == "significant")
    graded = solved.sandbox.verify(json.dumps(answer))
    assert graded.reward["reward"] == 1, graded.fields


def off(field: dict[str, Any]) -> Iterator[Any]:
    """Yield the values at both ends of a field's tolerance; those of an object go together."""
    expected, tolerance = field["expected"], field["tolerance"]
    if not re.fullmatch(r"±[\d.]+(?: %)?", tolerance):
        return
    for side in (-0.999, 0.999):
        if isinstance(expected, dict):
            yield {name: moved(value, tolerance, side) for name, value in expected.items()}
        elif not isinstance(expected, (str, list)):
            yield moved(expected, tolerance, side)


def moved(value: float, tolerance: str, share: float) -> float:
    """Return a value that is off by a share of what its tolerance allows."""
    allowed = float(tolerance.strip("± %")) * (value / 100 if tolerance.endswith("%") else 1)
    return value + share * allowed


def test_what_follows_from_a_value_within_its_tolerance_earns_all(
    task: Path,  # noqa: F811
    solved: Solved,  # noqa: F811
) -> None:
    follows = FOLLOWS.get(task_id(task), {})
    for name, get in follows.items():
        assert get(solved.answer) == pytest.approx(solved.answer[name], rel=1e-5), name
    outputs = {}
    for name, field in solved.graded.fields.items():
        for end, value in enumerate(off(field)):
            answer = {**solved.answer, name: value}
            for other, get in follows.items():
                if other != name:
                    answer[other] = get(answer)
            outputs[f"{name} {end}"] = json.dumps(answer)
    for changed, graded in solved.sandbox.verify_each(outputs).items():
        assert graded.reward["reward"] == 1, (changed, graded.fields)
