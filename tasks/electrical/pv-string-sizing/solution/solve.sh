#!/usr/bin/env bash
set -eu
cd /workspace
python3 - <<'PYTHON'
import json

with open("module.json") as m, open("inverter.json") as i, open("site.json") as s:
    module, inverter, site = json.load(m), json.load(i), json.load(s)

cold_shift = site["ambient_min_c"] - 25
hot_cell = site["ambient_max_c"] + (module["noct_c"] - 20) * site["irradiance_hot_w_m2"] / 800
hot_shift = hot_cell - 25
v_oc_cold = module["v_oc_v"] * (1 + module["temp_coeff_v_oc_percent_per_k"] * cold_shift / 100)
v_mp_cold = module["v_mp_v"] * (1 + module["temp_coeff_v_mp_percent_per_k"] * cold_shift / 100)
v_mp_hot = module["v_mp_v"] * (1 + module["temp_coeff_v_mp_percent_per_k"] * hot_shift / 100)

# Try lengths and counts one by one instead of dividing.
lengths = [
    n
    for n in range(1, 100)
    if n * v_oc_cold <= inverter["v_dc_max_v"] and n * v_mp_cold <= inverter["mppt_v_max_v"]
]
shortest = next(n for n in range(1, 100) if n * v_mp_hot >= inverter["mppt_v_min_v"])
strings = max(
    n
    for n in range(100)
    if n * module["i_mp_a"] <= inverter["mppt_i_max_a"]
    and n * module["i_sc_a"] * site["i_sc_safety_factor"] <= inverter["mppt_i_sc_max_a"]
)
modules = lengths[-1] * strings * inverter["mppt_count"]
dc_kw = modules * module["p_max_w"] / 1000
answer = {
    "v_oc_cold_v": v_oc_cold,
    "v_mp_hot_v": v_mp_hot,
    "max_modules_per_string": lengths[-1],
    "min_modules_per_string": shortest,
    "strings_per_mppt": strings,
    "array_dc_kw": dc_kw,
    "dc_ac_ratio_ok": dc_kw <= inverter["max_dc_ac_ratio"] * inverter["p_ac_rated_kw"],
}
with open("output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
