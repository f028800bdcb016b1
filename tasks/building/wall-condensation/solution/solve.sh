#!/usr/bin/env bash
set -eu
cd /workspace
python3 - <<'PYTHON'
import csv
import json
from math import exp

with open("climate.json") as stream:
    climate = json.load(stream)
with open("layers.csv", newline="") as stream:
    layers = [
        tuple(float(text) for text in row[2:5])  # thickness, conductivity, resistance factor
        for row in list(csv.reader(stream))[1:]
    ]
ti, te = climate["inside"]["temperature_c"], climate["outside"]["temperature_c"]
rsi, rse = (climate[side]["surface_resistance_m2k_w"] for side in ("inside", "outside"))


def psat(t):
    return 610.5 * exp(17.269 * t / (237.3 + t) if t >= 0 else 21.875 * t / (265.5 + t))


pi = psat(ti) * climate["inside"]["relative_humidity_percent"] / 100
pe = psat(te) * climate["outside"]["relative_humidity_percent"] / 100
u = 1 / (rsi + rse + sum(d / k for d, k, _ in layers))
flux = u * (ti - te)

# Walk from the outside in, the other way round from the layer numbers.
t, sd_out, sd_total = te + flux * rse, 0.0, sum(d * mu for d, _, mu in layers)
found = None
for number in range(len(layers) - 1, 0, -1):
    d, k, mu = layers[number]
    t += flux * d / k
    sd_out += d * mu
    if pe + (pi - pe) * sd_out / sd_total > psat(t):
        assert found is None
        found = number, t, (pi - psat(t)) / (sd_total - sd_out) - (psat(t) - pe) / sd_out
interface, t_interface, gradient = found

low, high = 0.0, ti
for _ in range(100):
    dew = (low + high) / 2
    low, high = (dew, high) if psat(dew) < pi else (low, dew)

corner = climate["inside"]["surface_check_resistance_m2k_w"]
u_corner = 1 / (1 / u - rsi + corner)
surface = ti - u_corner * (ti - te) * corner
answer = {
    "u_value_w_m2k": u,
    "heat_flux_w_m2": flux,
    "temperature_factor": 1 - u_corner * corner,
    "dew_point_c": dew,
    "surface_condensation": surface < dew,
    "condensing_interface": interface,
    "interface_temperature_c": t_interface,
    "condensation_g_m2_h": gradient * climate["vapour_permeability_air_kg_msPa"] * 3.6e6,
}
with open("output.jsonl", "w", encoding="utf-8") as output:
    output.write(json.dumps(answer) + "\n")
PYTHON
