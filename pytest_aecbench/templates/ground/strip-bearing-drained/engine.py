"""Drained bearing resistance of a footing, EN 1997-1 annex D."""

from __future__ import annotations

import math


class Reject(ValueError):
    """A footing that would not be built."""


def factors(friction_deg):
    """Return Nq, Nc and Ngamma for a rough base."""
    phi = math.radians(friction_deg)
    nq = math.exp(math.pi * math.tan(phi)) * math.tan(math.pi / 4 + phi / 2) ** 2
    return nq, (nq - 1) / math.tan(phi), 2 * (nq - 1) * math.tan(phi)


def resistance(width, length, friction_deg, cohesion, surcharge, weight):
    """Return the bearing resistance in kPa of a rectangle with a vertical, central load."""
    nq, nc, ngamma = factors(friction_deg)
    ratio = width / length
    sq = 1 + ratio * math.sin(math.radians(friction_deg))
    sgamma = 1 - 0.3 * ratio
    sc = (sq * nq - 1) / (nq - 1)
    return cohesion * nc * sc + surcharge * nq * sq + 0.5 * weight * width * ngamma * sgamma


def width_for(load, safety, resistance_of):
    """Return the side of a square for which the load has this safety."""
    low, high = 0.1, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        if resistance_of(middle) * middle**2 < safety * load:
            low = middle
        else:
            high = middle
    return high


def compute(
    *,
    depth_m,
    soil,
    friction_deg,
    cohesion_kpa,
    weight_kn_m3,
    width_m=None,
    length_m=None,
    load_kn=None,
    safety=None,
    submerged_kn_m3=None,
    water_m=None,
):
    """Return the resistance and the safety of a footing, or the side of a square one."""
    nq, _, ngamma = factors(friction_deg)
    found = {"nq": nq, "ngamma": ngamma}
    if width_m is None:
        if not 0.2 <= water_m <= depth_m - 0.2:
            raise Reject("water not between the ground and the base")
        surcharge = weight_kn_m3 * water_m + submerged_kn_m3 * (depth_m - water_m)

        def of_square(side):
            return resistance(side, side, friction_deg, cohesion_kpa, surcharge, submerged_kn_m3)

        width = width_for(load_kn, safety, of_square)
        if not 0.8 <= width <= 5:
            raise Reject("a footing below 0.8 m or above 5 m")
        found["surcharge_kpa"] = surcharge
        found["side_m"] = width
        found["resistance_kpa"] = of_square(width)
        return found
    pressure = resistance(
        width_m, length_m, friction_deg, cohesion_kpa, weight_kn_m3 * depth_m, weight_kn_m3
    )
    found["resistance_kpa"] = pressure
    found["weight_kpa"] = pressure - resistance(
        width_m, length_m, friction_deg, cohesion_kpa, weight_kn_m3 * depth_m, 0.0
    )
    if load_kn is not None:
        found["factor_of_safety"] = pressure * width_m * length_m / load_kn
        if not 0.4 < found["factor_of_safety"] / safety < 2.2:
            raise Reject("safety far from what is required")
        found["suffices"] = found["factor_of_safety"] >= safety
    return found


def mistakes(
    *,
    depth_m,
    soil,
    friction_deg,
    cohesion_kpa,
    weight_kn_m3,
    width_m=None,
    length_m=None,
    load_kn=None,
    safety=None,
    submerged_kn_m3=None,
    water_m=None,
):
    """Return the usual wrong answers."""
    nq, _, ngamma = factors(friction_deg)
    vesic = ngamma * (nq + 1) / (nq - 1)
    if width_m is None:

        def square(surcharge, weight, count=1):
            def of(side):
                return resistance(side, side, friction_deg, cohesion_kpa, surcharge, weight)

            side = width_for(load_kn, safety / count, of)
            return {"side_m": side, "resistance_kpa": of(side)}

        dry = weight_kn_m3 * depth_m
        wet = weight_kn_m3 * water_m + submerged_kn_m3 * (depth_m - water_m)
        return {
            "water_forgotten": {"surcharge_kpa": dry, **square(dry, weight_kn_m3)},
            "water_only_above_the_base": square(wet, weight_kn_m3),
            "water_only_below_the_base": {
                "surcharge_kpa": dry,
                **square(dry, submerged_kn_m3),
            },
            "safety_left_out": square(wet, submerged_kn_m3, safety),
        }
    surcharge = weight_kn_m3 * depth_m
    strip = resistance(width_m, 1e9, friction_deg, cohesion_kpa, surcharge, weight_kn_m3)
    shapes = (width_m, length_m, friction_deg, cohesion_kpa, surcharge)
    right = resistance(*shapes, weight_kn_m3)
    weight_part = right - resistance(*shapes, 0.0)
    wrong = {
        "shape_factors_forgotten": strip,
        "factor_of_vesic": right + weight_part * (vesic / ngamma - 1),
        "width_not_halved": right + weight_part,
        "surcharge_forgotten": resistance(*shapes[:4], 0.0, weight_kn_m3),
    }
    found = {name: {"resistance_kpa": value} for name, value in wrong.items()}
    found["factor_of_vesic"]["ngamma"] = vesic
    found["width_not_halved"]["weight_kpa"] = 2 * weight_part
    if load_kn is not None:
        for values in found.values():
            values["factor_of_safety"] = values["resistance_kpa"] * width_m * length_m / load_kn
    return found


def passive(friction_deg):
    """Return Rankine's passive coefficient from the sine."""
    sine = math.sin(math.radians(friction_deg))
    return (1 + sine) / (1 - sine)


def pressed(width, length, friction_deg, cohesion, surcharge, weight):
    """Return the resistance with cohesion as a pressure c · cot φ on all sides."""
    tangent = math.tan(math.radians(friction_deg))
    nq = passive(friction_deg) * math.exp(math.pi * tangent)
    shaped = nq * (1 + width / length * math.sin(math.radians(friction_deg)))
    inner = cohesion / tangent
    wedge = weight * width * (nq - 1) * tangent * (1 - 0.3 * width / length)
    return (surcharge + inner) * shaped - inner + wedge


def solve(
    *,
    depth_m,
    soil,
    friction_deg,
    cohesion_kpa,
    weight_kn_m3,
    width_m=None,
    length_m=None,
    load_kn=None,
    safety=None,
    submerged_kn_m3=None,
    water_m=None,
):
    """Use the passive coefficient and the theorem of corresponding states; sides by the secant."""
    tangent = math.tan(math.radians(friction_deg))
    nq = passive(friction_deg) * math.exp(math.pi * tangent)
    answer = {"nq": nq, "ngamma": 2 * (nq - 1) * tangent}
    if width_m is not None:
        surcharge = depth_m * weight_kn_m3
        ground = (friction_deg, cohesion_kpa, surcharge, weight_kn_m3)
        answer["resistance_kpa"] = pressed(width_m, length_m, *ground)
        shape = width_m - 0.3 * width_m**2 / length_m
        answer["weight_kpa"] = weight_kn_m3 * shape * (nq - 1) * tangent
        if load_kn is not None:
            stress = load_kn / width_m / length_m
            answer["factor_of_safety"] = answer["resistance_kpa"] / stress
            answer["suffices"] = answer["factor_of_safety"] >= safety
        return answer
    lifted = (weight_kn_m3 - submerged_kn_m3) * (depth_m - water_m)
    surcharge = depth_m * weight_kn_m3 - lifted
    ground = (friction_deg, cohesion_kpa, surcharge, submerged_kn_m3)
    side, before = 2.0, 1.5

    def missing(one):
        return math.log(pressed(one, one, *ground) * one * one / safety / load_kn)

    for _ in range(60):
        error, error_before = missing(side), missing(before)
        if error == error_before:
            break
        side, before = side - error * (side - before) / (error - error_before), side
    answer["surcharge_kpa"] = surcharge
    answer["side_m"] = side
    answer["resistance_kpa"] = safety * load_kn / side**2
    return answer
