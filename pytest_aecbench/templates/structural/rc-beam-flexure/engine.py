"""Bending resistance of a rectangular concrete section, EN 1992-1-1, 3.1.7 and 6.1."""

from __future__ import annotations

import math

YIELD = 500 / 1.15  # MPa, design value
LINK_MM = 10


class Reject(ValueError):
    """A section that would not be built."""


def depth_of(height, cover, bar):
    """Return the effective depth for links of 10 mm."""
    return height - cover - LINK_MM - bar / 2


def concrete(fck):
    """Return the design strength, with alpha_cc = 0.85 and gamma_c = 1.5."""
    return 0.85 * fck / 1.5


def resistance(width, depth, strength, steel):
    """Return the neutral axis in mm and the moment in kNm."""
    axis = steel * YIELD / (0.8 * width * strength)
    return axis, steel * YIELD * (depth - 0.4 * axis) / 1e6


def least_steel(width, depth, fck):
    """Return the least reinforcement in mm², EN 1992-1-1, 9.2.1.1."""
    tension = 0.30 * fck ** (2 / 3)
    return max(0.26 * tension / 500, 0.0013) * width * depth


def required(width, depth, strength, moment):
    """Return the reinforcement that gives a moment in kNm."""
    block = width * strength
    under_root = depth**2 - 2 * moment * 1e6 / block
    if under_root <= 0:
        raise Reject("more moment than the section takes without compression steel")
    return block * (depth - math.sqrt(under_root)) / YIELD


def check_built(width, cover, bar, bars, axis, depth):
    """Reject bars that do not fit, or that would not yield early enough."""
    free = width - 2 * (cover + LINK_MM) - bars * bar
    if free < (bars - 1) * max(bar, 25):
        raise Reject("the bars do not fit into one layer")
    if axis > 0.44 * depth:
        raise Reject("too much reinforcement for a ductile section")


def compute(
    *,
    width_mm,
    height_mm,
    exposure,
    fck_mpa,
    cover_mm,
    bar_mm,
    bars=None,
    moment_knm=None,
):
    """Return the resistance with given bars, or the bars for a moment."""
    depth, strength = depth_of(height_mm, cover_mm, bar_mm), concrete(fck_mpa)
    one = math.pi * bar_mm**2 / 4
    least = least_steel(width_mm, depth, fck_mpa)
    found = {"depth_mm": depth, "least_steel_mm2": least}
    count = bars
    if count is None:
        needed = required(width_mm, depth, strength, moment_knm)
        found["required_steel_mm2"] = needed
        count = max(2, math.ceil(max(needed, least) / one))
    steel = count * one
    axis, moment = resistance(width_mm, depth, strength, steel)
    check_built(width_mm, cover_mm, bar_mm, count, axis, depth)
    if steel < least:
        raise Reject("less than the least reinforcement")
    found.update({"bars_needed": count, "axis_mm": axis, "resistance_knm": moment})
    if moment_knm is not None:
        if not 0.6 < moment / moment_knm < 1.6:
            raise Reject("moment far from the resistance")
        found["suffices"] = moment >= moment_knm
    return found


def guards(
    *,
    width_mm,
    height_mm,
    exposure,
    fck_mpa,
    cover_mm,
    bar_mm,
    bars=None,
    moment_knm=None,
):
    """Return how far the number of bars is from a whole one."""
    if bars is not None:
        return {}
    depth = depth_of(height_mm, cover_mm, bar_mm)
    needed = required(width_mm, depth, concrete(fck_mpa), moment_knm)
    count = max(needed, least_steel(width_mm, depth, fck_mpa)) / (math.pi * bar_mm**2 / 4)
    return {"a whole number of bars": count - math.floor(count + 0.5)}


def mistakes(
    *,
    width_mm,
    height_mm,
    exposure,
    fck_mpa,
    cover_mm,
    bar_mm,
    bars=None,
    moment_knm=None,
):
    """Return the usual wrong answers."""
    depth, strength = depth_of(height_mm, cover_mm, bar_mm), concrete(fck_mpa)
    one = math.pi * bar_mm**2 / 4
    too_deep = height_mm - cover_mm

    def wrong(deep, strong):
        found, count = {}, bars
        if count is None:
            found["required_steel_mm2"] = required(width_mm, deep, strong, moment_knm)
            count = max(2, math.ceil(found["required_steel_mm2"] / one))
            found["bars_needed"] = count
        axis, moment = resistance(width_mm, deep, strong, count * one)
        return {**found, "axis_mm": axis, "resistance_knm": moment}

    whole_depth = {"resistance_knm": (bars or 0) * one * YIELD * depth / 1e6}
    if bars is None:
        whole_depth = {"required_steel_mm2": 1e6 * moment_knm / (YIELD * depth)}
    return {
        "depth_without_link_and_bar": wrong(too_deep, strength),
        "alpha_cc_left_out": wrong(depth, fck_mpa / 1.5),
        "partial_factor_of_concrete_left_out": wrong(depth, 0.85 * fck_mpa),
        "lever_arm_as_whole_depth": whole_depth,
    }


def solve(
    *,
    width_mm,
    height_mm,
    exposure,
    fck_mpa,
    cover_mm,
    bar_mm,
    bars=None,
    moment_knm=None,
):
    """Work in metres and MN, with lever arms; find a required lever arm by iteration."""
    width, lever = width_mm / 1e3, 0.0
    depth = (height_mm - cover_mm - 10) / 1e3 - bar_mm / 2e3
    stress = fck_mpa * 0.85 / 1.5
    steel_stress = 500 / 1.15
    one = math.pi * (bar_mm / 2e3) ** 2
    least = width * depth * max(0.26 * 0.3 * math.exp(2 / 3 * math.log(fck_mpa)) / 500, 0.0013)
    answer = {"depth_mm": 1e3 * depth, "least_steel_mm2": 1e6 * least}
    count = bars
    if count is None:
        before, lever = 0.0, 0.9 * depth
        while abs(lever - before) > 1e-14:
            before = lever
            force = moment_knm / 1e3 / lever
            lever = depth - force / (width * stress) / 2
        needed = moment_knm / 1e3 / lever / steel_stress
        answer["required_steel_mm2"] = 1e6 * needed
        count = 2
        while count * one < max(needed, least):
            count += 1
    force = count * one * steel_stress
    block = force / (width * stress)
    moment = 1e3 * force * (depth - block / 2)
    answer["bars_needed"] = count
    answer["axis_mm"] = 1e3 * block / 0.8
    answer["resistance_knm"] = moment
    if moment_knm is not None:
        answer["suffices"] = moment >= moment_knm
    return answer
