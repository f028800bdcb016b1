"""Thermal transmittance of a wall with studs in its insulation, ISO 6946, 6.7.2."""

from __future__ import annotations

import math

INSIDE, OUTSIDE = 0.13, 0.04  # surface resistances, m²K/W
THICKNESSES = (60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300)


class Reject(ValueError):
    """A wall that would not be built."""


def resistance(millimetres, conductivity):
    """Return the resistance of a layer."""
    return millimetres / 1000 / conductivity


def limits(plain, insulation, stud, share):
    """Return the upper and the lower limit; ``plain`` is everything but the bridged layer."""
    upper = 1 / ((1 - share) / (plain + insulation) + share / (plain + stud))
    lower = plain + 1 / ((1 - share) / insulation + share / stud)
    return upper, lower


def transmittance(plain, thickness, insulation_w_mk, stud_w_mk, share):
    """Return both limits and the transmittance by their mean."""
    layer = resistance(thickness, insulation_w_mk)
    stud = resistance(thickness, stud_w_mk)
    upper, lower = limits(plain, layer, stud, share)
    return {
        "upper_m2k_w": upper,
        "lower_m2k_w": lower,
        "u_w_m2k": 2 / (upper + lower),
    }


def thickness_for(target, plain, insulation_w_mk, stud_w_mk, share):
    """Return the thickness of the insulation for a transmittance."""
    low, high = 1.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        found = transmittance(plain, middle, insulation_w_mk, stud_w_mk, share)
        if found["u_w_m2k"] > target:
            low = middle
        else:
            high = middle
    return high


def next_thickness(needed):
    """Return the smallest thickness on sale that is not below what is needed."""
    for one in THICKNESSES:
        if one >= needed:
            return one
    raise Reject("thicker than all insulation on sale")


def compute(
    *,
    lining_mm,
    lining_w_mk,
    insulation,
    insulation_w_mk,
    frame,
    stud_w_mk,
    bridge_percent,
    outer_mm,
    outer_w_mk,
    insulation_mm=None,
    limit_w_m2k=None,
):
    """Return the transmittance of a wall, or the insulation for a transmittance."""
    plain = INSIDE + resistance(lining_mm, lining_w_mk) + resistance(outer_mm, outer_w_mk) + OUTSIDE
    share = bridge_percent / 100
    rest = (insulation_w_mk, stud_w_mk, share)
    if insulation_mm is None:
        needed = thickness_for(limit_w_m2k, plain, *rest)
        if needed < THICKNESSES[0]:
            raise Reject("thinner than all insulation on sale")
        chosen = next_thickness(needed)
        found = transmittance(plain, chosen, *rest)
        return {"needed_mm": needed, "thickness_mm": chosen, **found}
    found = transmittance(plain, insulation_mm, *rest)
    found["u_without_studs"] = 1 / (plain + resistance(insulation_mm, insulation_w_mk))
    if limit_w_m2k is not None:
        if not 0.7 < found["u_w_m2k"] / limit_w_m2k < 1.4:
            raise Reject("transmittance far from its limit")
        found["within_limit"] = found["u_w_m2k"] <= limit_w_m2k
    return found


def guards(
    *,
    lining_mm,
    lining_w_mk,
    insulation,
    insulation_w_mk,
    frame,
    stud_w_mk,
    bridge_percent,
    outer_mm,
    outer_w_mk,
    insulation_mm=None,
    limit_w_m2k=None,
):
    """Return the distance from each thickness on sale; 2 % of it are enough."""
    if insulation_mm is not None:
        return {}
    plain = INSIDE + resistance(lining_mm, lining_w_mk) + resistance(outer_mm, outer_w_mk) + OUTSIDE
    share = bridge_percent / 100
    needed = thickness_for(limit_w_m2k, plain, insulation_w_mk, stud_w_mk, share)
    return {f"{one} mm": 1.5 * (needed / one - 1) for one in THICKNESSES}


def mistakes(
    *,
    lining_mm,
    lining_w_mk,
    insulation,
    insulation_w_mk,
    frame,
    stud_w_mk,
    bridge_percent,
    outer_mm,
    outer_w_mk,
    insulation_mm=None,
    limit_w_m2k=None,
):
    """Return the usual wrong answers."""
    layers = resistance(lining_mm, lining_w_mk) + resistance(outer_mm, outer_w_mk)
    plain, share = INSIDE + layers + OUTSIDE, bridge_percent / 100
    rest = (insulation_w_mk, stud_w_mk, share)
    if insulation_mm is None:
        unbridged = 1000 * insulation_w_mk * (1 / limit_w_m2k - plain)
        low = insulation_w_mk * (1 - share) + stud_w_mk * share
        return {
            "studs_forgotten": {"needed_mm": unbridged},
            "lower_limit_alone": {"needed_mm": 1000 * low * (1 / limit_w_m2k - plain)},
            "surfaces_forgotten": {"needed_mm": thickness_for(limit_w_m2k, layers, *rest)},
        }
    right = transmittance(plain, insulation_mm, *rest)
    bare = 1 / (plain + resistance(insulation_mm, insulation_w_mk))
    return {
        "studs_forgotten": {"u_w_m2k": bare},
        "limits_exchanged": {
            "upper_m2k_w": right["lower_m2k_w"],
            "lower_m2k_w": right["upper_m2k_w"],
        },
        "surfaces_forgotten": transmittance(layers, insulation_mm, *rest),
        "lower_limit_alone": {"u_w_m2k": 1 / right["lower_m2k_w"]},
    }


def heat_through(paths):
    """Return the heat for 1 K through paths side by side, each a share and its resistances."""
    return math.fsum(share / math.fsum(layers) for share, layers in paths)


def solve(
    *,
    lining_mm,
    lining_w_mk,
    insulation,
    insulation_w_mk,
    frame,
    stud_w_mk,
    bridge_percent,
    outer_mm,
    outer_w_mk,
    insulation_mm=None,
    limit_w_m2k=None,
):
    """Add up heat through parallel paths, and through mean conductivities; thickness by secant."""
    common = [0.13, lining_mm / lining_w_mk / 1e3, outer_mm / outer_w_mk / 1e3, 0.04]
    studs = bridge_percent / 100
    mean = insulation_w_mk + studs * (stud_w_mk - insulation_w_mk)

    def both(millimetres):
        metres = millimetres / 1e3
        upper = 1 / heat_through(
            [
                (1 - studs, [*common, metres / insulation_w_mk]),
                (studs, [*common, metres / stud_w_mk]),
            ]
        )
        return upper, math.fsum([*common, metres / mean])

    answer = {}
    thickness = insulation_mm
    if thickness is None:
        one, other = 100.0, 150.0
        for _ in range(60):
            error = math.fsum(both(one)) / 2 - 1 / limit_w_m2k
            error_other = math.fsum(both(other)) / 2 - 1 / limit_w_m2k
            if error == error_other:
                break
            one, other = one - error * (one - other) / (error - error_other), one
        answer["needed_mm"] = one
        thickness = min(size for size in THICKNESSES if size >= one)
        answer["thickness_mm"] = thickness
    else:
        answer["u_without_studs"] = heat_through(
            [(1, [*common, thickness / insulation_w_mk / 1e3])]
        )
    upper, lower = both(thickness)
    answer["upper_m2k_w"] = upper
    answer["lower_m2k_w"] = lower
    answer["u_w_m2k"] = 1 / ((upper + lower) / 2)
    if limit_w_m2k is not None and insulation_mm is not None:
        answer["within_limit"] = (upper + lower) / 2 * limit_w_m2k >= 1
    return answer
