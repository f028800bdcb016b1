"""Expected answer: U-value and Glaser condensation of a layered wall in steady state."""

import csv
import json
import math
from itertools import accumulate
from pathlib import Path

from aec_verify import Flag, Number, verify

# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
climate = json.loads((INPUTS / "climate.json").read_text(encoding="utf-8"))
inside, outside = climate["inside"], climate["outside"]
with (INPUTS / "layers.csv").open(encoding="utf-8", newline="") as stream:
    layers = list(csv.DictReader(stream))


def saturation_pressure(temperature: float) -> float:
    a, b = (17.269, 237.3) if temperature >= 0 else (21.875, 265.5)
    return 610.5 * math.exp(a * temperature / (b + temperature))


def vapour_pressure(side: dict[str, float]) -> float:
    return side["relative_humidity_percent"] / 100 * saturation_pressure(side["temperature_c"])


def dew_point(pressure: float) -> float:
    """Invert saturation_pressure above freezing."""
    assert pressure >= 610.5
    logarithm = math.log(pressure / 610.5)
    return 237.3 * logarithm / (17.269 - logarithm)


resistances = [float(row["thickness_m"]) / float(row["conductivity_w_mk"]) for row in layers]
diffusion = [float(row["thickness_m"]) * float(row["vapour_resistance_factor"]) for row in layers]
difference = inside["temperature_c"] - outside["temperature_c"]
total = inside["surface_resistance_m2k_w"] + sum(resistances) + outside["surface_resistance_m2k_w"]
flux = difference / total

# The surface check has a surface resistance of its own, for corners where air hardly moves.
behind_surface = sum(resistances) + outside["surface_resistance_m2k_w"]
factor = behind_surface / (inside["surface_check_resistance_m2k_w"] + behind_surface)
surface = outside["temperature_c"] + factor * difference

# Temperatures and accumulated s_d at: inner surface, interface 1, interface 2, ..., outer surface.
passed = accumulate(resistances, initial=inside["surface_resistance_m2k_w"])
temperatures = [inside["temperature_c"] - flux * resistance for resistance in passed]
depths = list(accumulate(diffusion, initial=0.0))

p_in, p_out = vapour_pressure(inside), vapour_pressure(outside)
condensing = [
    k
    for k in range(1, len(layers))
    if p_in + (p_out - p_in) * depths[k] / depths[-1] > saturation_pressure(temperatures[k])
]
(interface,) = condensing
p_sat = saturation_pressure(temperatures[interface])
arriving = (p_in - p_sat) / depths[interface]
leaving = (p_sat - p_out) / (depths[-1] - depths[interface])
rate = climate["vapour_permeability_air_kg_msPa"] * (arriving - leaving) * 1000 * 3600
dew = dew_point(p_in)

verify(
    {
        "u_value_w_m2k": Number(1 / total, rel=0.001, weight=0.15),
        "heat_flux_w_m2": Number(flux, rel=0.001, weight=0.1),
        "temperature_factor": Number(factor, rel=0.001, weight=0.1),
        "dew_point_c": Number(dew, abs=0.05, weight=0.15),
        "surface_condensation": Flag(surface < dew, weight=0.05, needs="dew_point_c"),
        "interface_temperature_c": Number(temperatures[interface], abs=0.04, weight=0.15),
        "condensing_interface": Number(interface, weight=0.1, needs="interface_temperature_c"),
        "condensation_g_m2_h": Number(rate, rel=0.005, weight=0.2),
    },
    output="/workspace/output.jsonl",
)
