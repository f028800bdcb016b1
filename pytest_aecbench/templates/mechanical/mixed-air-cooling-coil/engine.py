"""Mixed outdoor and return air, and the coil that cools it."""

from __future__ import annotations

import math

PRESSURE = 101.325  # kPa
DENSITY = 1.2  # kg/m³


class Reject(ValueError):
    """Air that is not cooled and dried."""


def humidity(celsius, relative_percent):
    """Return kg of water in a kg of dry air."""
    saturated = 0.61078 * math.exp(17.2694 * celsius / (celsius + 237.29))
    vapour = relative_percent / 100 * saturated
    return 0.621945 * vapour / (PRESSURE - vapour)


def enthalpy(celsius, water):
    """Return kJ in a kg of dry air with its water."""
    return 1.006 * celsius + water * (2501 + 1.86 * celsius)


def mixed(outdoor, indoor, share):
    """Return temperature and humidity of a mixture."""
    return tuple(share * one + (1 - share) * other for one, other in zip(outdoor, indoor))


def loads(air, supply, mass):
    """Return the loads of a coil that takes air to the state of the supply."""
    total = mass * (enthalpy(*air) - enthalpy(*supply))
    sensible = mass * 1.006 * (air[0] - supply[0])
    return {
        "total_kw": total,
        "sensible_kw": sensible,
        "condensate_kg_h": 3600 * mass * (air[1] - supply[1]),
    }


def mixture(air):
    """Return the state of a mixture as results."""
    return {"mixed_c": air[0], "mixed_g_kg": 1000 * air[1], "mixed_kj_kg": enthalpy(*air)}


def fresh_air(share, flow, people):
    """Return the outdoor air of a share, and the check of it."""
    if not 0.08 < share < 0.8:
        raise Reject("hardly any outdoor air, or hardly any other")
    each = 1000 * share * flow / people
    if not 5 < each < 20:
        raise Reject("far from 10 l/s for a person")
    return {
        "outdoor_share_percent": 100 * share,
        "outdoor_l_s_person": each,
        "enough_air": each >= 10,
    }


def share_for(capacity, outdoor, indoor, supply, mass):
    """Return the share of outdoor air at which the coil gives all that it can."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if loads(mixed(outdoor, indoor, middle), supply, mass)["total_kw"] < capacity:
            low = middle
        else:
            high = middle
    return high


def compute(
    *,
    zone,
    outdoor_c,
    outdoor_rh_percent,
    return_c,
    return_rh_percent,
    flow_m3_s=None,
    outdoor_percent=None,
    supply_c=None,
    capacity_kw=None,
    people=None,
):
    """Return the mixture, the loads of the coil, or the outdoor air that a coil can take."""
    outdoor = (outdoor_c, humidity(outdoor_c, outdoor_rh_percent))
    indoor = (return_c, humidity(return_c, return_rh_percent))
    if supply_c is None:
        return mixture(mixed(outdoor, indoor, outdoor_percent / 100))
    supply, mass = (supply_c, humidity(supply_c, 95)), DENSITY * flow_m3_s
    found = {}
    if capacity_kw is None:
        share = outdoor_percent / 100
    else:
        share = share_for(capacity_kw, outdoor, indoor, supply, mass)
        found = fresh_air(share, flow_m3_s, people)
    air = mixed(outdoor, indoor, share)
    if air[1] < supply[1] * 1.05:
        raise Reject("the coil does not dry the air")
    found.update(mixture(air))
    found.update(loads(air, supply, mass))
    found["sensible_ratio"] = found["sensible_kw"] / found["total_kw"]
    return found


def mistakes(
    *,
    zone,
    outdoor_c,
    outdoor_rh_percent,
    return_c,
    return_rh_percent,
    flow_m3_s=None,
    outdoor_percent=None,
    supply_c=None,
    capacity_kw=None,
    people=None,
):
    """Return the usual wrong answers."""
    outdoor = (outdoor_c, humidity(outdoor_c, outdoor_rh_percent))
    indoor = (return_c, humidity(return_c, return_rh_percent))
    supply = saturated = indoor
    if supply_c is not None:
        supply = (supply_c, humidity(supply_c, 95))
        saturated = (supply_c, humidity(supply_c, 100))
    flow = flow_m3_s or 0.0
    if capacity_kw is not None:

        def shares(target, cooled, mass=DENSITY * flow):
            share = share_for(target, outdoor, indoor, cooled, mass)
            return {
                "outdoor_share_percent": 100 * share,
                "outdoor_l_s_person": 1000 * share * flow / people,
            }

        still = loads(indoor, supply, DENSITY * flow)["total_kw"]
        return {
            "supply_taken_as_saturated": shares(capacity_kw, saturated),
            "density_forgotten": shares(capacity_kw, supply, flow),
            "load_of_the_return_air_forgotten": shares(capacity_kw + still, supply),
        }
    share = outdoor_percent / 100
    mean_rh = share * outdoor_rh_percent + (1 - share) * return_rh_percent
    air = mixed(outdoor, indoor, share)
    by_rh = (air[0], humidity(air[0], mean_rh))
    swapped = mixed(outdoor, indoor, 1 - share)
    wrong = {
        "relative_humidities_mixed": mixture(by_rh),
        "shares_exchanged": mixture(swapped),
    }
    if supply_c is not None:
        mass = DENSITY * flow
        wrong["relative_humidities_mixed"].update(loads(by_rh, supply, mass))
        wrong["shares_exchanged"].update(loads(swapped, supply, mass))
        wrong["density_forgotten"] = loads(air, supply, flow)
        wrong["supply_taken_as_saturated"] = loads(air, saturated, mass)
    return wrong


def moisture(celsius, percent):
    """Return grams of water in a kg of dry air, from the ratio of partial pressures."""
    exponent = math.log(0.61078) + 17.2694 * celsius / (celsius + 237.29)
    dry = PRESSURE * 100 / (percent * math.exp(exponent)) - 1
    return 621.945 / dry


def solve(
    *,
    zone,
    outdoor_c,
    outdoor_rh_percent,
    return_c,
    return_rh_percent,
    flow_m3_s=None,
    outdoor_percent=None,
    supply_c=None,
    capacity_kw=None,
    people=None,
):
    """Split every load into dry air, vapour and evaporation; a share is a quadratic's root."""
    outside = moisture(outdoor_c, outdoor_rh_percent) / 1e3
    inside = moisture(return_c, return_rh_percent) / 1e3
    warmer, wetter = outdoor_c - return_c, outside - inside
    answer = {}
    if capacity_kw is None:
        share = outdoor_percent / 100
    else:
        # The enthalpy has the product of temperature and humidity, both linear in the share.
        after = moisture(supply_c, 95) / 1e3
        a = 1.86 * wetter * warmer
        b = 1.006 * warmer + 2501 * wetter + 1.86 * (return_c * wetter + inside * warmer)
        c = 1.006 * (return_c - supply_c) + 2501 * (inside - after)
        c = c + 1.86 * (inside * return_c - after * supply_c)
        c = c - capacity_kw / (DENSITY * flow_m3_s)
        share = 2 * -c / (b + math.sqrt(b * b - 4 * a * c))
        answer["outdoor_share_percent"] = share * 100
        answer["outdoor_l_s_person"] = share * flow_m3_s / people * 1e3
        answer["enough_air"] = share * flow_m3_s * 100 >= people
    celsius = return_c + share * warmer
    water = inside + share * wetter
    answer["mixed_c"] = celsius
    answer["mixed_g_kg"] = water * 1e3
    answer["mixed_kj_kg"] = 1.006 * celsius + 2501 * water + 1.86 * celsius * water
    if supply_c is not None:
        after = moisture(supply_c, 95) / 1e3
        air_kg = DENSITY * flow_m3_s
        dry = 1.006 * (celsius - supply_c) * air_kg
        latent = 2501 * (water - after) * air_kg
        vapour = 1.86 * (water * celsius - after * supply_c) * air_kg
        answer["total_kw"] = dry + latent + vapour
        answer["sensible_kw"] = dry
        answer["condensate_kg_h"] = air_kg * (water - after) * 3600
        answer["sensible_ratio"] = dry / (dry + latent + vapour)
    return answer
