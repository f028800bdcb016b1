"""Circular curve of a road: least radius, elements and chainages."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A curve that would not be built."""


def elements(radius, degrees, chainage):
    """Return lengths and chainages of a curve."""
    half = math.radians(degrees) / 2
    tangent = radius * math.tan(half)
    length = radius * math.radians(degrees)
    found = {
        "tangent_m": tangent,
        "length_m": length,
        "external_m": radius * (1 / math.cos(half) - 1),
        "radius_needed_m": radius,
    }
    if chainage is not None:
        found["end_chainage_m"] = chainage - tangent + length
    return found


def least_radius(speed_kmh, superelevation_percent, side_friction):
    """Return the least radius for a speed."""
    return speed_kmh**2 / (127 * (superelevation_percent / 100 + side_friction))


def compute(
    *,
    speed_kmh,
    superelevation_percent,
    side_friction,
    deflection_deg=None,
    radius_m=None,
    chainage_m=None,
    bearing_in_deg=None,
    bearing_out_deg=None,
    clearance_m=None,
):
    """Return the elements of a curve with a radius, or of one that passes at a distance."""
    least = least_radius(speed_kmh, superelevation_percent, side_friction)
    degrees, radius = deflection_deg, radius_m
    if degrees is None:
        degrees = bearing_out_deg - bearing_in_deg
        if not 20 <= degrees <= 90:
            raise Reject("a turn below 20 or above 90 degrees")
        radius = clearance_m / (1 / math.cos(math.radians(degrees) / 2) - 1)
    if not 60 <= radius <= 900:
        raise Reject("a radius below 60 m or above 900 m")
    if not 0.6 < radius / least < 1.8:
        raise Reject("radius far from the least one")
    found = elements(radius, degrees, chainage_m)
    if found["length_m"] > 500:
        raise Reject("a curve longer than 500 m")
    if chainage_m is not None and chainage_m < found["tangent_m"] + 20:
        raise Reject("the curve would start before the road")
    found["least_radius_m"] = least
    found["suffices"] = radius >= least
    return found


def mistakes(
    *,
    speed_kmh,
    superelevation_percent,
    side_friction,
    deflection_deg=None,
    radius_m=None,
    chainage_m=None,
    bearing_in_deg=None,
    bearing_out_deg=None,
    clearance_m=None,
):
    """Return the usual wrong answers."""
    wrong = {
        "superelevation_in_percent": {
            "least_radius_m": speed_kmh**2 / (127 * (superelevation_percent + side_friction))
        },
        "friction_left_out": {
            "least_radius_m": least_radius(speed_kmh, superelevation_percent, 0.0)
        },
    }
    degrees, radius = deflection_deg, radius_m
    if degrees is None:
        degrees = bearing_out_deg - bearing_in_deg
        radius = clearance_m / (1 / math.cos(math.radians(degrees) / 2) - 1)
        secant = 1 - math.cos(math.radians(degrees) / 2)
        wrong["middle_ordinate_for_external"] = elements(clearance_m / secant, degrees, chainage_m)
    right = elements(radius, degrees, chainage_m)
    wrong["whole_angle_in_the_tangent"] = {
        "tangent_m": radius * math.tan(math.radians(min(degrees, 85)))
    }
    if chainage_m is not None:
        wrong["end_at_intersection_plus_tangent"] = {
            "end_chainage_m": chainage_m + right["tangent_m"]
        }
        wrong["end_at_intersection_plus_length"] = {
            "end_chainage_m": chainage_m + right["length_m"]
        }
    return wrong


def solve(
    *,
    speed_kmh,
    superelevation_percent,
    side_friction,
    deflection_deg=None,
    radius_m=None,
    chainage_m=None,
    bearing_in_deg=None,
    bearing_out_deg=None,
    clearance_m=None,
):
    """Work with the triangle of centre, intersection and tangent point."""
    per_radius = (superelevation_percent + 100 * side_friction) * 1.27
    answer = {"least_radius_m": speed_kmh * speed_kmh / per_radius}
    degrees = deflection_deg
    if degrees is None:
        degrees = bearing_out_deg - bearing_in_deg
    # tan(x/2) = sin x / (1 + cos x)
    angle = math.pi * degrees / 180
    slope = math.sin(angle) / (1 + math.cos(angle))
    radius = radius_m
    if radius is None:
        # From the intersection, centre and tangent point are at hypot(R, T) and T = slope · R.
        radius = clearance_m / (math.hypot(1, slope) - 1)
    tangent = slope * radius
    arc = 2 * math.pi * radius * degrees / 360
    answer["tangent_m"] = tangent
    answer["length_m"] = arc
    answer["external_m"] = math.hypot(radius, tangent) - radius
    answer["radius_needed_m"] = radius
    if chainage_m is not None:
        start = chainage_m - tangent
        answer["end_chainage_m"] = start + arc
    answer["suffices"] = radius >= answer["least_radius_m"]
    return answer
