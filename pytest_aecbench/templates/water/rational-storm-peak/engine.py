"""Peak runoff by the rational method, with Kirpich's time of concentration."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A storm or a culvert that makes no sense."""


def results(areas, coefficients, time, rain, capacity):
    """Return all results for a time of concentration."""
    a, b, c = rain
    intensity = a / (time + b) ** c
    area = math.fsum(areas)
    runoff = math.fsum(one * share for one, share in zip(areas, coefficients)) / area
    peak = runoff * intensity * area / 360
    return {
        "time_min": time,
        "intensity_mm_h": intensity,
        "runoff": runoff,
        "peak_m3_s": peak,
        "culvert_suffices": peak <= capacity,
    }


def compute(
    *,
    area_1_ha,
    runoff_1,
    area_2_ha,
    runoff_2,
    flow_length_m,
    slope_percent,
    return_period_a,
    idf_a,
    idf_b,
    idf_c,
    capacity_m3_s,
):
    """Return the peak runoff."""
    time = 0.0195 * flow_length_m**0.77 * (slope_percent / 100) ** -0.385
    if not 5 <= time <= 60:
        raise Reject("time of concentration outside 5 to 60 minutes")
    areas, coefficients = (area_1_ha, area_2_ha), (runoff_1, runoff_2)
    found = results(areas, coefficients, time, (idf_a, idf_b, idf_c), capacity_m3_s)
    if not 0.5 < found["peak_m3_s"] / capacity_m3_s < 2:
        raise Reject("capacity far from the peak")
    return found


def mistakes(
    *,
    area_1_ha,
    runoff_1,
    area_2_ha,
    runoff_2,
    flow_length_m,
    slope_percent,
    return_period_a,
    idf_a,
    idf_b,
    idf_c,
    capacity_m3_s,
):
    """Return the usual wrong answers."""
    areas, rain = (area_1_ha, area_2_ha), (idf_a, idf_b, idf_c)
    time = 0.0195 * flow_length_m**0.77 * (slope_percent / 100) ** -0.385
    steep = 0.0195 * flow_length_m**0.77 * slope_percent**-0.385
    mean = (runoff_1 + runoff_2) / 2
    right = results(areas, (runoff_1, runoff_2), time, rain, capacity_m3_s)
    return {
        "slope_in_percent": results(areas, (runoff_1, runoff_2), steep, rain, capacity_m3_s),
        "coefficients_not_weighted": results(areas, (mean, mean), time, rain, capacity_m3_s),
        "area_in_square_metres": {"peak_m3_s": 10000 * right["peak_m3_s"]},
        "time_in_hours": results(areas, (runoff_1, runoff_2), time / 60, rain, capacity_m3_s),
    }


def solve(
    *,
    area_1_ha,
    runoff_1,
    area_2_ha,
    runoff_2,
    flow_length_m,
    slope_percent,
    return_period_a,
    idf_a,
    idf_b,
    idf_c,
    capacity_m3_s,
):
    """Work with logarithms and SI units: square metres and metres per second."""
    minutes = math.exp(
        math.log(0.0195) + 0.77 * math.log(flow_length_m) - 0.385 * math.log(slope_percent / 100)
    )
    rain = math.exp(math.log(idf_a) - idf_c * math.log(minutes + idf_b))
    paved, green = area_1_ha * 1e4, area_2_ha * 1e4
    effective = paved * runoff_1 + green * runoff_2
    peak = effective * rain / 1000 / 3600
    return {
        "time_min": minutes,
        "intensity_mm_h": rain,
        "runoff": effective / (paved + green),
        "peak_m3_s": peak,
        "culvert_suffices": peak <= capacity_m3_s,
    }
