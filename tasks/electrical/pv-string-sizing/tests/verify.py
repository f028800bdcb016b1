"""Expected answer: string sizing of a photovoltaic array over its temperature range."""

import json
import math
from pathlib import Path

from aec_verify import Flag, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
module, inverter, site = (
    json.loads((INPUTS / name).read_text(encoding="utf-8"))
    for name in ("module.json", "inverter.json", "site.json")
)


def voltage(rating: str, cell_temperature: float) -> float:
    """Return a rated module voltage at a cell temperature."""
    coefficient = module[f"temp_coeff_{rating}_percent_per_k"] / 100
    return module[f"{rating}_v"] * (1 + coefficient * (cell_temperature - 25))


cold = site["ambient_min_c"]
hot = site["ambient_max_c"] + (module["noct_c"] - 20) / 800 * site["irradiance_hot_w_m2"]
v_oc_cold, v_mp_cold, v_mp_hot = voltage("v_oc", cold), voltage("v_mp", cold), voltage("v_mp", hot)
longest = min(
    math.floor(inverter["v_dc_max_v"] / v_oc_cold),
    math.floor(inverter["mppt_v_max_v"] / v_mp_cold),
)
shortest = math.ceil(inverter["mppt_v_min_v"] / v_mp_hot)
strings = min(
    math.floor(inverter["mppt_i_max_a"] / module["i_mp_a"]),
    math.floor(inverter["mppt_i_sc_max_a"] / (site["i_sc_safety_factor"] * module["i_sc_a"])),
)
array_kw = longest * strings * inverter["mppt_count"] * module["p_max_w"] / 1000
ratio_ok = array_kw / inverter["p_ac_rated_kw"] <= inverter["max_dc_ac_ratio"]

verify(
    {
        "v_oc_cold_v": Number(v_oc_cold, rel=0.002, weight=0.15),
        "v_mp_hot_v": Number(v_mp_hot, rel=0.002, weight=0.15),
        "max_modules_per_string": Number(longest, weight=0.2),
        "min_modules_per_string": Number(shortest, weight=0.15),
        "strings_per_mppt": Number(strings, weight=0.1),
        "array_dc_kw": Number(array_kw, rel=0.002, weight=0.15),
        "dc_ac_ratio_ok": Flag(ratio_ok, weight=0.1, needs="array_dc_kw"),
    },
    output="/workspace/output.jsonl",
)
