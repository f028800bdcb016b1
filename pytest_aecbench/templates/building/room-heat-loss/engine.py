"""Design heat loss of a room on the top floor, EN 12831-1 simplified, and its radiator."""

from __future__ import annotations

import math

# heat in W at 75/65/20 °C
RADIATORS = {
    "R05": 500,
    "R07": 700,
    "R09": 900,
    "R11": 1150,
    "R14": 1450,
    "R18": 1800,
    "R22": 2250,
    "R28": 2800,
    "R35": 3500,
    "R43": 4300,
    "R53": 5300,
}
RATED_K = 50.0
EXPONENT = 1.3


class Reject(ValueError):
    """A room that would not be heated like this."""


def transmission(length, width, height, walls, glass, u_values):
    """Return the transmission coefficient in W/K; the first outside wall is the long one."""
    u_wall, u_glass, u_roof = u_values
    gross = length * height
    if walls == 2:
        gross = gross + width * height
    if glass > 0.5 * gross:
        raise Reject("more than half of the wall is glass")
    return u_wall * (gross - glass) + u_glass * glass + u_roof * length * width


def derated(supply, back, indoor):
    """Return the share of its rating that a radiator gives, by the arithmetic mean."""
    return (((supply + back) / 2 - indoor) / RATED_K) ** EXPONENT


def smallest(needed):
    """Return the smallest radiator with at least this rating."""
    for name in sorted(RADIATORS):
        if RADIATORS[name] >= needed:
            return name
    raise Reject("more than the largest radiator gives")


def compute(
    *,
    length_m,
    width_m,
    height_m,
    walls,
    glass_m2,
    u_wall,
    u_glass,
    u_roof,
    changes_per_h,
    indoor_c,
    outdoor_c,
    place=None,
    emitter_w=None,
    supply_c=None,
    return_c=None,
    reheat_w_m2=None,
):
    """Return the heat loss, and what it means for a radiator."""
    if length_m < width_m + 0.3:
        raise Reject("not longer than wide")
    through = transmission(length_m, width_m, height_m, walls, glass_m2, (u_wall, u_glass, u_roof))
    air = 0.34 * changes_per_h * length_m * width_m * height_m
    loss = (through + air) * (indoor_c - outdoor_c)
    found = {"transmission_w_k": through, "ventilation_w_k": air, "loss_w": loss}
    if reheat_w_m2 is not None:
        share = derated(supply_c, return_c, indoor_c)
        load = loss + reheat_w_m2 * length_m * width_m
        name = smallest(load / share)
        found["load_w"] = load
        found["rating_w"] = load / share
        found["radiator"] = name
        found["given_w"] = RADIATORS[name] * share
    elif emitter_w is not None:
        share = derated(supply_c, return_c, indoor_c)
        found["given_w"] = emitter_w * share
        if not 0.5 < found["given_w"] / loss < 2:
            raise Reject("radiator far from the heat loss")
        found["suffices"] = found["given_w"] >= loss
    return found


def mistakes(
    *,
    length_m,
    width_m,
    height_m,
    walls,
    glass_m2,
    u_wall,
    u_glass,
    u_roof,
    changes_per_h,
    indoor_c,
    outdoor_c,
    place=None,
    emitter_w=None,
    supply_c=None,
    return_c=None,
    reheat_w_m2=None,
):
    """Return the usual wrong answers."""
    u_values = (u_wall, u_glass, u_roof)
    room = (length_m, width_m, height_m)
    through = transmission(*room, walls, glass_m2, u_values)
    air = 0.34 * changes_per_h * length_m * width_m * height_m
    difference = indoor_c - outdoor_c

    def wrong(coefficient, flow, kelvin=difference):
        loss = (coefficient + flow) * kelvin
        found = {"transmission_w_k": coefficient, "ventilation_w_k": flow, "loss_w": loss}
        if reheat_w_m2 is not None:
            share = derated(supply_c, return_c, indoor_c)
            found["load_w"] = loss + reheat_w_m2 * length_m * width_m
            found["rating_w"] = found["load_w"] / share
        return found

    results = {
        "gross_area_of_the_wall": wrong(through + u_wall * glass_m2, air),
        "roof_forgotten": wrong(through - u_roof * length_m * width_m, air),
        "ventilation_forgotten": wrong(through, 0.0),
        "minus_sign_lost": wrong(through, air, indoor_c - abs(outdoor_c)),
    }
    if walls == 1:
        short = transmission(width_m, length_m, height_m, 1, 0.0, u_values)
        results["short_wall_outside"] = wrong(short + (u_glass - u_wall) * glass_m2, air)
    if emitter_w is not None:
        linear = derated(supply_c, return_c, indoor_c) ** (1 / EXPONENT)
        results["radiator_at_its_rating"] = {"given_w": float(emitter_w)}
        results["radiator_linear"] = {"given_w": emitter_w * linear}
    if reheat_w_m2 is not None:
        loss = (through + air) * difference
        results["reheat_forgotten"] = {"load_w": loss}
        load = loss + reheat_w_m2 * length_m * width_m
        results["radiator_at_its_rating"] = {"rating_w": load, "radiator": smallest(load)}
    return results


def solve(
    *,
    length_m,
    width_m,
    height_m,
    walls,
    glass_m2,
    u_wall,
    u_glass,
    u_roof,
    changes_per_h,
    indoor_c,
    outdoor_c,
    place=None,
    emitter_w=None,
    supply_c=None,
    return_c=None,
    reheat_w_m2=None,
):
    """Add up the heat through each surface and with the air, in watts."""
    kelvin = indoor_c - outdoor_c
    surfaces = [
        (length_m * height_m, u_wall),
        (width_m * height_m * (walls - 1), u_wall),
        (glass_m2, u_glass - u_wall),  # glass instead of wall
        (length_m * width_m, u_roof),
    ]
    watts = math.fsum(area * u * kelvin for area, u in surfaces)
    exchanged = changes_per_h * math.prod((length_m, width_m, height_m))  # m³/h
    warmed = exchanged * 0.34 * kelvin
    answer = {
        "transmission_w_k": watts / kelvin,
        "ventilation_w_k": warmed / kelvin,
        "loss_w": watts + warmed,
    }
    if supply_c is None:
        return answer
    hotter = supply_c / 2 + return_c / 2 - indoor_c
    share = math.exp(EXPONENT * math.log(hotter / RATED_K))
    if reheat_w_m2 is None:
        answer["given_w"] = share * emitter_w
        answer["suffices"] = share * emitter_w >= watts + warmed
        return answer
    load = watts + warmed + length_m * width_m * reheat_w_m2
    able = [(rated, name) for name, rated in RADIATORS.items() if rated * share >= load]
    rated, name = min(able)
    answer["load_w"] = load
    answer["rating_w"] = load / share
    answer["radiator"] = name
    answer["given_w"] = rated * share
    return answer


def files(
    *,
    length_m,
    width_m,
    height_m,
    walls,
    glass_m2,
    u_wall,
    u_glass,
    u_roof,
    changes_per_h,
    indoor_c,
    outdoor_c,
    place=None,
    emitter_w=None,
    supply_c=None,
    return_c=None,
    reheat_w_m2=None,
):
    """Return the list of radiators."""
    rows = [f"{name},{rated}" for name, rated in RADIATORS.items()]
    return {"radiators.csv": "\n".join(["radiator,rated_w", *rows]) + "\n"}
