"""Uniform flow in a circular pipe that runs part full, by Manning."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A flow that the pipe does not carry as a part-full pipe should."""


def section(diameter, ratio):
    """Return the wetted area and the hydraulic radius at a relative depth."""
    theta = 2 * math.acos(1 - 2 * ratio)
    area = diameter**2 / 8 * (theta - math.sin(theta))
    return area, area / (diameter * theta / 2)


def manning(diameter, ratio, slope, roughness):
    """Return the wetted area and the velocity at a relative depth."""
    area, radius = section(diameter, ratio)
    return area, radius ** (2 / 3) * math.sqrt(slope) / roughness


def depth_of(flow, diameter, slope, roughness):
    """Return the relative depth that carries a flow; the flow grows with it up to 0.93."""
    low, high = 0.0001, 0.93
    area, velocity = manning(diameter, high, slope, roughness)
    if area * velocity <= flow:
        raise Reject("more than the pipe carries")
    for _ in range(60):
        middle = (low + high) / 2
        area, velocity = manning(diameter, middle, slope, roughness)
        if area * velocity < flow:
            low = middle
        else:
            high = middle
    return high


def results(diameter, ratio, slope, roughness, min_velocity):
    """Return all results at a relative depth."""
    area, velocity = manning(diameter, ratio, slope, roughness)
    full_area, full_velocity = manning(diameter, 1.0, slope, roughness)
    found = {
        "area_m2": area,
        "velocity_m_s": velocity,
        "flow_l_s": 1000 * area * velocity,
        "full_flow_l_s": 1000 * full_area * full_velocity,
        "relative_depth": ratio,
    }
    if min_velocity is not None:
        found["self_cleansing"] = velocity >= min_velocity
    return found


def compute(
    *,
    diameter_mm,
    slope_percent,
    material,
    roughness,
    min_velocity=None,
    depth_ratio=None,
    inflow_l_s=None,
):
    """Return the flow at a depth, or the depth of a flow."""
    diameter, slope = diameter_mm / 1000, slope_percent / 100
    ratio = depth_ratio
    if ratio is None:
        ratio = depth_of(inflow_l_s / 1000, diameter, slope, roughness)
        if not 0.14 <= ratio < 0.8:
            raise Reject("too shallow or too deep")
    found = results(diameter, ratio, slope, roughness, min_velocity)
    if min_velocity is not None and not 0.5 < found["velocity_m_s"] / min_velocity < 1.8:
        raise Reject("velocity far from its minimum")
    return found


def mistakes(
    *,
    diameter_mm,
    slope_percent,
    material,
    roughness,
    min_velocity=None,
    depth_ratio=None,
    inflow_l_s=None,
):
    """Return the usual wrong answers."""
    diameter, slope = diameter_mm / 1000, slope_percent / 100
    ratio = depth_ratio
    if ratio is None:
        ratio = depth_of(inflow_l_s / 1000, diameter, slope, roughness)
        full_area, full_velocity = manning(diameter, 1.0, slope, roughness)
        proportional = inflow_l_s / 1000 / (full_area * full_velocity)
        wrong = {
            "depth_in_proportion_to_flow": {
                "relative_depth": proportional,
                "velocity_m_s": full_velocity * proportional,
            },
            "velocity_of_the_full_pipe": {
                "relative_depth": inflow_l_s / 1000 / (full_velocity * full_area),
                "velocity_m_s": full_velocity,
            },
        }
    else:
        wrong = {"whole_section_is_wetted": results(diameter, 1.0, slope, roughness, min_velocity)}
    area, radius = section(diameter, ratio)
    percent = radius ** (2 / 3) * math.sqrt(slope_percent) / roughness
    wrong["slope_in_percent"] = {"velocity_m_s": percent, "flow_l_s": 1000 * area * percent}
    return wrong


def segment(radius, depth):
    """Return area and perimeter of a circular segment, from its depth."""
    half = math.acos((radius - depth) / radius)
    chord = math.sqrt(2 * radius * depth - depth * depth)
    return radius * radius * half - (radius - depth) * chord, 2 * radius * half


def solve(
    *,
    diameter_mm,
    slope_percent,
    material,
    roughness,
    min_velocity=None,
    depth_ratio=None,
    inflow_l_s=None,
):
    """Work with segments of a circle, in metres; find a depth by the secant rule."""
    radius = diameter_mm / 2000
    factor = (slope_percent / 100) ** 0.5 / roughness

    def flow(depth):
        area, perimeter = segment(radius, depth)
        return factor * area ** (5 / 3) / perimeter ** (2 / 3)

    if depth_ratio is None:
        target = inflow_l_s / 1000
        depth, before = 0.5 * radius, 0.6 * radius
        for _ in range(60):
            error, error_before = flow(depth) - target, flow(before) - target
            if error == error_before:
                break
            better = depth - error * (depth - before) / (error - error_before)
            depth, before = min(max(better, 0.01 * radius), 1.85 * radius), depth
    else:
        depth = 2 * radius * depth_ratio
    area, _ = segment(radius, depth)
    velocity = flow(depth) / area
    answer = {
        "area_m2": area,
        "velocity_m_s": velocity,
        "flow_l_s": flow(depth) * 1000,
        "full_flow_l_s": 1000 * factor * math.pi * radius**2 * (radius / 2) ** (2 / 3),
        "relative_depth": depth / (2 * radius),
    }
    if min_velocity is not None:
        answer["self_cleansing"] = velocity >= min_velocity
    return answer
