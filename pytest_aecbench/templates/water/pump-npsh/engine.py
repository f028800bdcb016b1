"""Net positive suction head of a pump."""

from __future__ import annotations

import math

GRAVITY = 9.81


class Reject(ValueError):
    """A suction that makes no sense."""


def air_pressure(altitude_m):
    """Return the pressure of the standard atmosphere in kPa."""
    return 101.325 * (1 - 2.25577e-5 * altitude_m) ** 5.25588


def losses(flow, diameter, length, friction, fittings):
    """Return the head lost in the suction pipe, for a flow in m³/s."""
    velocity = flow / (math.pi * diameter**2 / 4)
    return (friction * length / diameter + fittings) * velocity**2 / (2 * GRAVITY)


def surface_head(altitude_m, vapour_kpa, density_kg_m3):
    """Return the pressure of the air above the vapour pressure, as a head."""
    return 1000 * (air_pressure(altitude_m) - vapour_kpa) / (density_kg_m3 * GRAVITY)


def checked(found, required, margin):
    """Return the results with the check of a requirement."""
    if required is None:
        return found
    lowest = found["loss_m"] + required + margin - found["surface_m"]
    available = found["available_m"]
    return {**found, "lowest_level_m": lowest, "suffices": available >= required + margin}


def results(altitude_m, vapour_kpa, density_kg_m3, level_m, loss):
    """Return heads for a loss."""
    surface = surface_head(altitude_m, vapour_kpa, density_kg_m3)
    return {
        "air_kpa": air_pressure(altitude_m),
        "surface_m": surface,
        "loss_m": loss,
        "available_m": surface + level_m - loss,
    }


def compute(
    *,
    altitude_m,
    temperature_c,
    vapour_kpa,
    density_kg_m3,
    level_m,
    diameter_mm,
    length_m,
    friction,
    fittings,
    flow_l_s=None,
    required_m=None,
    margin_m=None,
    shut_off_m=None,
    curve_m=None,
):
    """Return the head that is available for a flow, or the largest flow."""
    place = (altitude_m, vapour_kpa, density_kg_m3, level_m)
    pipe = (diameter_mm / 1000, length_m, friction, fittings)
    if flow_l_s is None:
        at_one = losses(0.001, *pipe)  # of one l/s
        spare = surface_head(*place[:3]) + level_m - margin_m - shut_off_m
        if spare < 0.5:
            raise Reject("hardly any head is left for a flow")
        flow = math.sqrt(spare / (at_one + curve_m / 1000))
        velocity = flow / 1000 / (math.pi * pipe[0] ** 2 / 4)
        if not 0.5 <= velocity <= 5:
            raise Reject("a velocity below 0.5 m/s or above 5 m/s")
        found = results(*place, at_one * flow**2)
        found["largest_flow_l_s"] = flow
        return found
    flow = flow_l_s / 1000
    if not 0.6 <= flow / (math.pi * pipe[0] ** 2 / 4) <= 4:
        raise Reject("a velocity below 0.6 m/s or above 4 m/s")
    found = results(*place, losses(flow, *pipe))
    if found["available_m"] < 1:
        raise Reject("hardly any head is available")
    found = checked(found, required_m, margin_m)
    if required_m is not None:
        spare = found["available_m"] - required_m - margin_m
        if not 0.1 < abs(spare) < 4:
            raise Reject("too near its requirement, or far from it")
    return found


def mistakes(
    *,
    altitude_m,
    temperature_c,
    vapour_kpa,
    density_kg_m3,
    level_m,
    diameter_mm,
    length_m,
    friction,
    fittings,
    flow_l_s=None,
    required_m=None,
    margin_m=None,
    shut_off_m=None,
    curve_m=None,
):
    """Return the usual wrong answers."""
    pipe = (diameter_mm / 1000, length_m, friction, fittings)
    place = (altitude_m, vapour_kpa, density_kg_m3, level_m)
    if flow_l_s is None:
        at_one = losses(0.001, *pipe)

        def largest(altitude, vapour, level, pump=curve_m / 1000):
            surface = surface_head(altitude, vapour, density_kg_m3)
            spare = max(surface + level - margin_m - shut_off_m, 0.0)
            return {"largest_flow_l_s": math.sqrt(spare / (at_one + pump))}

        return {
            "sign_of_the_level": largest(altitude_m, vapour_kpa, -level_m),
            "vapour_pressure_forgotten": largest(altitude_m, 0.0, level_m),
            "altitude_forgotten": {
                "air_kpa": air_pressure(0),
                **largest(0, vapour_kpa, level_m),
            },
            "pump_curve_taken_as_constant": largest(altitude_m, vapour_kpa, level_m, 0.0),
        }
    loss = losses(flow_l_s / 1000, *pipe)
    straight = losses(flow_l_s / 1000, *pipe[:3], 0.0)
    wrong = {
        "sign_of_the_level": results(*place[:3], -level_m, loss),
        "vapour_pressure_forgotten": results(altitude_m, 0.0, density_kg_m3, level_m, loss),
        "altitude_forgotten": results(0, vapour_kpa, density_kg_m3, level_m, loss),
        "fittings_forgotten": results(*place, straight),
    }
    return {name: checked(found, required_m, margin_m) for name, found in wrong.items()}


def atmosphere(altitude_m):
    """Return the pressure of the standard atmosphere in Pa, by logarithms."""
    exponent = math.log(1 - 2.25577e-5 * altitude_m) * 5.25588
    return 101325 * math.exp(exponent)


def solve(
    *,
    altitude_m,
    temperature_c,
    vapour_kpa,
    density_kg_m3,
    level_m,
    diameter_mm,
    length_m,
    friction,
    fittings,
    flow_l_s=None,
    required_m=None,
    margin_m=None,
    shut_off_m=None,
    curve_m=None,
):
    """Balance pressures in Pa; find a largest flow by halving."""
    weight = density_kg_m3 * GRAVITY
    absolute = atmosphere(altitude_m) + weight * level_m - 1e3 * vapour_kpa
    pipe_area = math.pi / 4 * (diameter_mm / 1e3) ** 2

    def dropped(litres):
        velocity = litres / 1e3 / pipe_area
        coefficient = fittings + friction * length_m * 1e3 / diameter_mm
        return coefficient * density_kg_m3 / 2 * velocity * velocity

    litres = flow_l_s
    if litres is None:
        low, high = 0.0, 10000.0
        for _ in range(100):
            litres = (low + high) / 2
            needed = margin_m + shut_off_m + curve_m * litres**2 / 1000
            if (absolute - dropped(litres)) / weight > needed:
                low = litres
            else:
                high = litres
    left = absolute - dropped(litres)
    answer = {
        "air_kpa": atmosphere(altitude_m) / 1e3,
        "surface_m": (atmosphere(altitude_m) - 1e3 * vapour_kpa) / weight,
        "loss_m": dropped(litres) / weight,
        "available_m": left / weight,
    }
    if flow_l_s is None:
        answer["largest_flow_l_s"] = litres
    if required_m is not None:
        answer["lowest_level_m"] = level_m - (left / weight - required_m - margin_m)
        answer["suffices"] = left >= weight * (required_m + margin_m)
    return answer
