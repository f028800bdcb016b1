"""Settlement of a clay layer by consolidation, and the time that it takes."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A layer for which the method says nothing."""


def settlement(thickness, e0, cc, cr, initial, preconsolidation, final):
    """Return the settlement in metres, on recompression and then on the virgin line."""
    turning = min(final, preconsolidation)
    strain = cr * math.log10(turning / initial)
    if final > preconsolidation:
        strain = strain + cc * math.log10(final / preconsolidation)
    return thickness / (1 + e0) * strain


def time_factor(degree):
    """Return Terzaghi's time factor for a degree of consolidation."""
    if degree <= 0.6:
        return math.pi / 4 * degree**2
    return 1.781 - 0.933 * math.log10(100 - 100 * degree)


def answer(thickness, drained_faces, cv, whole, degree, left=None):
    """Return all results for a whole settlement and a degree of consolidation."""
    factor = time_factor(degree)
    path = thickness / drained_faces
    found = {
        "settlement_mm": 1000 * whole,
        "time_factor": factor,
        "time_years": factor * path**2 / cv,
    }
    if left is not None:
        found["degree"] = degree
    return found


def compute(
    *,
    thickness_m,
    e0,
    cc,
    stress_kpa,
    increase_kpa,
    cv_m2_a,
    drained_faces,
    degree_percent=None,
    cr_ratio=None,
    ocr=None,
    fill_m=None,
    fill_kn_m3=None,
    left_mm=None,
):
    """Return settlement and time for a degree of consolidation, or for what may be left."""
    final = stress_kpa + increase_kpa
    limit = stress_kpa * (1.0 if ocr is None else ocr)
    cr = cc * (1.0 if cr_ratio is None else cr_ratio)
    whole = settlement(thickness_m, e0, cc, cr, stress_kpa, limit, final)
    degree = degree_percent / 100 if left_mm is None else 1 - left_mm / (1000 * whole)
    if not 0.24 <= degree <= 0.95:
        raise Reject("a degree of consolidation outside 24 % to 95 %")
    if 0.58 < degree < 0.62:
        raise Reject("a degree of consolidation where the formula changes")
    return answer(thickness_m, drained_faces, cv_m2_a, whole, degree, left_mm)


def guards(
    *,
    thickness_m,
    e0,
    cc,
    stress_kpa,
    increase_kpa,
    cv_m2_a,
    drained_faces,
    degree_percent=None,
    cr_ratio=None,
    ocr=None,
    fill_m=None,
    fill_kn_m3=None,
    left_mm=None,
):
    """Return how far the stress is from where the index changes; 5 % count as 3 %."""
    final = stress_kpa + increase_kpa
    limit = stress_kpa * (1.0 if ocr is None else ocr)
    return {"the preconsolidation pressure": 0.6 * (final / limit - 1)}


def mistakes(
    *,
    thickness_m,
    e0,
    cc,
    stress_kpa,
    increase_kpa,
    cv_m2_a,
    drained_faces,
    degree_percent=None,
    cr_ratio=None,
    ocr=None,
    fill_m=None,
    fill_kn_m3=None,
    left_mm=None,
):
    """Return the usual wrong answers."""
    final = stress_kpa + increase_kpa
    limit = stress_kpa * (1.0 if ocr is None else ocr)
    cr = cc * (1.0 if cr_ratio is None else cr_ratio)
    whole = settlement(thickness_m, e0, cc, cr, stress_kpa, limit, final)

    def wrong(total, faces=drained_faces):
        if left_mm is None:
            return answer(thickness_m, faces, cv_m2_a, total, degree_percent / 100)
        degree = min(max(1 - left_mm / (1000 * total), 0.05), 0.99)
        return answer(thickness_m, faces, cv_m2_a, total, degree, left_mm)

    natural = whole * math.log(10)
    found = {
        "drainage_path_of_the_other_case": wrong(whole, 3 - drained_faces),
        "natural_logarithm": wrong(natural),
        "void_ratio_for_specific_volume": wrong(whole * (1 + e0) / e0),
    }
    if ocr is not None:
        virgin = settlement(thickness_m, e0, cc, cc, stress_kpa, stress_kpa, final)
        found["all_on_the_virgin_line"] = wrong(virgin)
    return found


def consolidated(factor):
    """Return the degree of consolidation of a time factor, by the inverse formulas."""
    small = math.sqrt(4 * factor / math.pi)
    return small if small <= 0.6 else 1 - 10 ** ((1.781 - factor) / 0.933) / 100


def solve(
    *,
    thickness_m,
    e0,
    cc,
    stress_kpa,
    increase_kpa,
    cv_m2_a,
    drained_faces,
    degree_percent=None,
    cr_ratio=None,
    ocr=None,
    fill_m=None,
    fill_kn_m3=None,
    left_mm=None,
):
    """Follow the void ratio through the loading, and look for the time by halving."""
    final = stress_kpa + increase_kpa
    turn = stress_kpa * ocr if ocr is not None else stress_kpa
    swelling = cc * cr_ratio if cr_ratio is not None else cc
    ratio = e0
    for start, end, index in ((stress_kpa, min(turn, final), swelling), (turn, final, cc)):
        if end > start:
            ratio = ratio - index * (math.log(end) - math.log(start)) / math.log(10)
    whole = thickness_m * (1 - (1 + ratio) / (1 + e0)) * 1e3
    wanted = degree_percent / 100 if left_mm is None else (whole - left_mm) / whole
    low, high = 0.0, 5.0
    for _ in range(80):
        factor = (low + high) / 2
        if consolidated(factor) < wanted:
            low = factor
        else:
            high = factor
    rate = cv_m2_a * drained_faces**2 / thickness_m**2
    result = {"settlement_mm": whole, "time_factor": factor, "time_years": factor / rate}
    if left_mm is not None:
        result["degree"] = wanted
    return result


def files(
    *,
    thickness_m,
    e0,
    cc,
    stress_kpa,
    increase_kpa,
    cv_m2_a,
    drained_faces,
    degree_percent=None,
    cr_ratio=None,
    ocr=None,
    fill_m=None,
    fill_kn_m3=None,
    left_mm=None,
):
    """Return the laboratory's table; the samples above and below are of other layers."""
    rows = [
        ("S1", "crust", e0 - 0.2, cc - 0.1, cv_m2_a + 1.5),
        ("S2", "clay", e0, cc, cv_m2_a),
        ("S3", "silt below the clay", e0 - 0.3, cc - 0.08, cv_m2_a + 4.2),
    ]
    lines = [f"{name},{layer},{e:.2f},{c:.2f},{v:.1f}" for name, layer, e, c, v in rows]
    return {"laboratory.csv": "\n".join(["sample,layer,e0,cc,cv_m2_a", *lines]) + "\n"}
