"""Gravity wall with a vertical back, by Rankine."""

from __future__ import annotations

import math

CONCRETE = 24.0  # kN/m³


class Reject(ValueError):
    """A wall that would not be built."""


def active(friction_deg):
    """Return Rankine's active coefficient."""
    return math.tan(math.pi / 4 - math.radians(friction_deg) / 2) ** 2


def thrusts(height, friction_deg, weight, surcharge):
    """Return the thrust of the ground and that of the surcharge, in kN/m."""
    ka = active(friction_deg)
    return 0.5 * ka * weight * height**2, ka * surcharge * height


def dead(height, base, top):
    """Return weight and moment about the toe of a wall whose front slopes."""
    block = top * height * CONCRETE
    wedge = (base - top) * height / 2 * CONCRETE
    return block + wedge, block * (base - top / 2) + wedge * (base - top) * 2 / 3


def pressure(vertical, base, eccentricity):
    """Return the largest pressure below the base."""
    if abs(eccentricity) <= base / 6:
        return vertical / base * (1 + 6 * abs(eccentricity) / base)
    return 2 * vertical / (3 * (base / 2 - abs(eccentricity)))


def results(height, base, top, thrust, base_friction_deg):
    """Return the checks for the thrusts of ground and surcharge."""
    ground, extra = thrust
    horizontal = ground + extra
    turning = ground * height / 3 + extra * height / 2
    vertical, righting = dead(height, base, top)
    eccentricity = base / 2 - (righting - turning) / vertical
    return {
        "thrust_kn_m": horizontal,
        "overturning": righting / turning,
        "sliding": vertical * math.tan(math.radians(base_friction_deg)) / horizontal,
        "eccentricity_m": eccentricity,
        "pressure_kpa": pressure(vertical, base, eccentricity),
    }


def base_for_sliding(height, top, horizontal, safety, base_friction_deg):
    """Return the base with which the wall has a safety against sliding."""
    vertical = safety * horizontal / math.tan(math.radians(base_friction_deg))
    return 2 * vertical / (height * CONCRETE) - top


def base_for_kern(height, top, turning):
    """Return the base with which the resultant passes at the edge of the middle third."""
    # righting - turning = vertical · base / 3, all of them quadratic in the base
    half = height * CONCRETE / 2
    a = half * (2 / 3 - 1 / 3)
    b = half * (2 * top - 4 / 3 * top - top / 3)
    c = half * (2 / 3 - 1) * top**2 - turning
    return (math.sqrt(b**2 - 4 * a * c) - b) / (2 * a)


def compute(
    *,
    height_m,
    top_m,
    backfill,
    friction_deg,
    weight_kn_m3,
    surcharge_kpa,
    base_friction_deg,
    base_m=None,
    safety=None,
):
    """Return the checks of a wall, or the narrowest wall that passes two of them."""
    thrust = thrusts(height_m, friction_deg, weight_kn_m3, surcharge_kpa)
    base, found = base_m, {"ka": active(friction_deg)}
    if base is None:
        turning = thrust[0] * height_m / 3 + thrust[1] * height_m / 2
        slide = base_for_sliding(height_m, top_m, thrust[0] + thrust[1], safety, base_friction_deg)
        kern = base_for_kern(height_m, top_m, turning)
        base = max(slide, kern)
        found["needed_base_m"] = base
        found["governing"] = "sliding" if slide > kern else "middle third"
    if not 0.3 * height_m <= base <= 1.1 * height_m or base < top_m + 0.2:
        raise Reject("a wall too slender or too wide")
    found.update(results(height_m, base, top_m, thrust, base_friction_deg))
    if found["eccentricity_m"] > 0.4 * base:
        raise Reject("the wall overturns, or nearly so")
    if safety is not None and base_m is not None:
        if not 0.6 < found["sliding"] / safety < 1.6:
            raise Reject("safety far from what is required")
        found["safe_from_sliding"] = found["sliding"] >= safety
    return found


def guards(
    *,
    height_m,
    top_m,
    backfill,
    friction_deg,
    weight_kn_m3,
    surcharge_kpa,
    base_friction_deg,
    base_m=None,
    safety=None,
):
    """Return how far the resultant is from the edge of the middle third."""
    if base_m is None:
        return {}
    thrust = thrusts(height_m, friction_deg, weight_kn_m3, surcharge_kpa)
    found = results(height_m, base_m, top_m, thrust, base_friction_deg)
    return {"the edge of the middle third": found["eccentricity_m"] * 6 / base_m - 1}


def mistakes(
    *,
    height_m,
    top_m,
    backfill,
    friction_deg,
    weight_kn_m3,
    surcharge_kpa,
    base_friction_deg,
    base_m=None,
    safety=None,
):
    """Return the usual wrong answers."""
    ground, extra = thrusts(height_m, friction_deg, weight_kn_m3, surcharge_kpa)
    ka = active(friction_deg)

    def wrong(thrust, turning=None, base=base_m):
        if turning is None:
            turning = thrust[0] * height_m / 3 + thrust[1] * height_m / 2
        if base is None:
            slide = base_for_sliding(
                height_m, top_m, thrust[0] + thrust[1], safety, base_friction_deg
            )
            base = max(slide, base_for_kern(height_m, top_m, turning))
        found = results(height_m, base, top_m, thrust, base_friction_deg)
        found["overturning"] = dead(height_m, base, top_m)[1] / turning
        return {**found, "needed_base_m": base}

    found = {
        "surcharge_forgotten": wrong((ground, 0.0)),
        "passive_for_active": {"ka": 1 / ka, **wrong((ground / ka**2, extra / ka**2))},
        "surcharge_at_a_third": wrong((ground, extra), (ground + extra) * height_m / 3),
    }
    if base_m is None:
        turning = ground * height_m / 3 + extra * height_m / 2
        slide = base_for_sliding(height_m, top_m, ground + extra, safety, base_friction_deg)
        kern = base_for_kern(height_m, top_m, turning)
        found["only_the_other_check"] = wrong((ground, extra), base=min(slide, kern))
    return found


def slices(height, base, top, count=64):
    """Integrate the wall in horizontal layers (Simpson): weight and moment about the toe."""
    step = height / count
    weights, moments = [], []
    for index in range(count + 1):
        share = index / count
        front = (base - top) * share
        factor = 1 if index in (0, count) else 4 if index % 2 else 2
        weights.append(factor * (base - front))
        moments.append(factor * (base - front) * (base + front) / 2)
    unit = step / 3 * CONCRETE
    return unit * math.fsum(weights), unit * math.fsum(moments)


def solve(
    *,
    height_m,
    top_m,
    backfill,
    friction_deg,
    weight_kn_m3,
    surcharge_kpa,
    base_friction_deg,
    base_m=None,
    safety=None,
):
    """Integrate wall and earth pressure over the height; find a base by halving."""
    sine = math.sin(math.radians(friction_deg))
    ka = (1 - sine) / (1 + sine)
    top_pressure, gain = ka * surcharge_kpa, ka * weight_kn_m3
    # Pressure at the depth z is top_pressure + gain · z, with the arm height - z.
    force = top_pressure * height_m + gain * height_m**2 / 2
    turning = top_pressure * height_m**2 / 2 + gain * height_m**3 / 6
    rough = math.tan(math.radians(base_friction_deg))

    def slides(base):
        return slices(height_m, base, top_m, 2)[0] * rough < safety * force

    def tilts(base):
        vertical, righting = slices(height_m, base, top_m, 2)
        return (righting - turning) / vertical < base / 3

    answer = {"ka": ka, "thrust_kn_m": force}
    base = base_m
    if base is None:
        found = []
        for fails in (slides, tilts):
            low, high = 0.0, 100.0
            for _ in range(80):
                base = (low + high) / 2
                if fails(base):
                    low = base
                else:
                    high = base
            found.append(base)
        base = max(found)
        answer["needed_base_m"] = base
        answer["governing"] = ("sliding", "middle third")[found.index(base)]
    vertical, righting = slices(height_m, base, top_m)
    arm = (righting - turning) / vertical
    # A triangle of pressure below a part of the base, or a trapezium below all of it.
    highest = 2 * vertical / (3 * arm)
    if arm > base / 3:
        highest = vertical / base * (4 - 6 * arm / base)
    if arm > base / 2:
        highest = vertical / base * (6 * arm / base - 2)
    answer["overturning"] = righting / turning
    answer["sliding"] = vertical * rough / force
    answer["eccentricity_m"] = base / 2 - arm
    answer["pressure_kpa"] = highest
    if safety is not None and base_m is not None:
        answer["safe_from_sliding"] = vertical * rough >= safety * force
    return answer
