"""Heat exchanger with water on the cold side: its area, or the temperatures that it reaches."""

from __future__ import annotations

import math

CP_WATER = 4.186  # kJ/(kg K)


class Reject(ValueError):
    """Temperatures that cross, or that leave the mean undefined."""


def mean_difference(one, other):
    """Return the logarithmic mean of two temperature differences."""
    if min(one, other) < 3:
        raise Reject("temperatures that cross or nearly touch")
    if abs(one / other - 1) < 0.05:
        raise Reject("equal differences at both ends")
    return (one - other) / math.log(one / other)


def ends(flow, hot_in, hot_out, cold_in, cold_out):
    """Return the temperature differences at the ends."""
    if flow == "counter-flow":
        return hot_in - cold_out, hot_out - cold_in
    return hot_in - cold_in, hot_out - cold_out


def effectiveness(flow, units, ratio):
    """Return the share of the largest possible heat, by transfer units and capacity ratio."""
    if flow == "parallel-flow":
        return (1 - math.exp(-units * (1 + ratio))) / (1 + ratio)
    power = math.exp(-units * (1 - ratio))
    return (1 - power) / (1 - ratio * power)


def reached(flow, hot, cold, hot_in, cold_in, u, area):
    """Return heat in kW and outlet temperatures; hot and cold are capacity flows in kW/K."""
    least, most = min(hot, cold), max(hot, cold)
    share = effectiveness(flow, u * area / 1000 / least, least / most)
    heat = share * least * (hot_in - cold_in)
    return {
        "heat_kw": heat,
        "hot_outlet_c": hot_in - heat / hot,
        "cold_outlet_c": cold_in + heat / cold,
    }


def sized(flow, heat, hot_in, hot_out, cold_in, cold_out, u):
    """Return mean difference and area."""
    mean = mean_difference(*ends(flow, hot_in, hot_out, cold_in, cold_out))
    return {"mean_k": mean, "area_needed_m2": 1000 * heat / (u * mean)}


def compute(
    *,
    flow,
    hot_kg_s,
    hot_cp,
    hot_in_c,
    cold_kg_s,
    cold_in_c,
    build,
    u_w_m2k,
    hot_out_c=None,
    fouling_m2k_kw=None,
    area_m2=None,
):
    """Return the area for an outlet temperature, or the outlet temperatures of an area."""
    hot, cold = hot_kg_s * hot_cp, cold_kg_s * CP_WATER
    if hot_in_c - cold_in_c < 20:
        raise Reject("hardly any temperature difference")
    if hot_out_c is None:
        if abs(hot / cold - 1) < 0.08:
            raise Reject("equal capacity flows")
        found = reached(flow, hot, cold, hot_in_c, cold_in_c, u_w_m2k, area_m2)
        if (
            found["cold_outlet_c"] > 95
            or not 0.15 < found["heat_kw"] / min(hot, cold) / (hot_in_c - cold_in_c) < 0.9
        ):
            raise Reject("hardly any heat, or nearly all of it")
        return found
    if not cold_in_c + 5 < hot_out_c < hot_in_c - 8:
        raise Reject("outlet not between the inlets")
    heat = hot * (hot_in_c - hot_out_c)
    cold_out = cold_in_c + heat / cold
    if cold_out > 95:
        raise Reject("the water would boil")
    found = {"heat_kw": heat, "cold_outlet_c": cold_out}
    temperatures = (heat, hot_in_c, hot_out_c, cold_in_c, cold_out)
    if fouling_m2k_kw is None:
        found.update(sized(flow, *temperatures, u_w_m2k))
        return found
    dirty = 1 / (1 / u_w_m2k + fouling_m2k_kw / 1000)
    found["u_fouled_w_m2k"] = dirty
    found.update(sized(flow, *temperatures, dirty))
    if not 0.6 < found["area_needed_m2"] / area_m2 < 1.6:
        raise Reject("area far from what is needed")
    found["suffices"] = area_m2 >= found["area_needed_m2"]
    return found


def mistakes(
    *,
    flow,
    hot_kg_s,
    hot_cp,
    hot_in_c,
    cold_kg_s,
    cold_in_c,
    build,
    u_w_m2k,
    hot_out_c=None,
    fouling_m2k_kw=None,
    area_m2=None,
):
    """Return the usual wrong answers."""
    hot, cold = hot_kg_s * hot_cp, cold_kg_s * CP_WATER
    other = "parallel-flow" if flow == "counter-flow" else "counter-flow"
    if hot_out_c is None:
        simple = u_w_m2k * area_m2 / 1000 * (hot_in_c - cold_in_c)
        simple = min(simple, 0.99 * min(hot, cold) * (hot_in_c - cold_in_c))
        swapped = reached(flow, cold, hot, hot_in_c, cold_in_c, u_w_m2k, area_m2)
        return {
            "other_arrangement": reached(other, hot, cold, hot_in_c, cold_in_c, u_w_m2k, area_m2),
            "difference_of_the_inlets": {
                "heat_kw": simple,
                "hot_outlet_c": hot_in_c - simple / hot,
                "cold_outlet_c": cold_in_c + simple / cold,
            },
            "capacity_flows_exchanged": {
                "hot_outlet_c": swapped["hot_outlet_c"],
                "cold_outlet_c": swapped["cold_outlet_c"],
            },
        }
    heat = hot * (hot_in_c - hot_out_c)
    cold_out = cold_in_c + heat / cold
    u = u_w_m2k if fouling_m2k_kw is None else 1 / (1 / u_w_m2k + fouling_m2k_kw / 1000)
    arithmetic = (hot_in_c + hot_out_c - cold_in_c - cold_out) / 2
    one, two = ends(other, hot_in_c, hot_out_c, cold_in_c, cold_out)
    wrong = {
        "heat_of_water_for_both": {
            "heat_kw": heat * CP_WATER / hot_cp,
            "area_needed_m2": 1000 * heat * CP_WATER / hot_cp / (u * arithmetic),
        },
    }
    right = sized(flow, heat, hot_in_c, hot_out_c, cold_in_c, cold_out, u)
    if abs(arithmetic / right["mean_k"] - 1) > 0.02:
        wrong["arithmetic_mean"] = {
            "mean_k": arithmetic,
            "area_needed_m2": 1000 * heat / (u * arithmetic),
        }
    if min(one, two) > 3 and abs(one / two - 1) > 0.05:
        wrong["ends_paired_wrongly"] = sized(
            other, heat, hot_in_c, hot_out_c, cold_in_c, cold_out, u
        )
    if fouling_m2k_kw is not None:
        clean = sized(flow, heat, hot_in_c, hot_out_c, cold_in_c, cold_out, u_w_m2k)
        wrong["fouling_forgotten"] = {"u_fouled_w_m2k": u_w_m2k, **clean}
    return wrong


def area_to(flow, hot, cold, hot_in, cold_in, heat, u, count=2000):
    """Integrate dQ / (U ΔT) from one end to the other (Boole), for heat in kW."""
    step = heat / count
    terms = []
    for index in range(count + 1):
        done = index * step
        warm = hot_in - done / hot
        taken = heat - done if flow == "counter-flow" else done
        water = cold_in + taken / cold
        weight = (14, 32, 12, 32)[index % 4]
        terms.append((7 if index in (0, count) else weight) / (warm - water))
    return 2 * step / 45 * math.fsum(terms) * 1000 / u


def solve(
    *,
    flow,
    hot_kg_s,
    hot_cp,
    hot_in_c,
    cold_kg_s,
    cold_in_c,
    build,
    u_w_m2k,
    hot_out_c=None,
    fouling_m2k_kw=None,
    area_m2=None,
):
    """Integrate along the exchanger for an area; balance both streams for temperatures."""
    hot, cold = hot_kg_s * hot_cp, cold_kg_s * CP_WATER
    if hot_out_c is not None:
        heat = hot * (hot_in_c - hot_out_c)
        answer = {"heat_kw": heat, "cold_outlet_c": cold_in_c + heat / cold}
        u = u_w_m2k
        if fouling_m2k_kw is not None:
            u = 1000 * u_w_m2k / (1000 + u_w_m2k * fouling_m2k_kw)
            answer["u_fouled_w_m2k"] = u
        area = area_to(flow, hot, cold, hot_in_c, cold_in_c, heat, u)
        answer["area_needed_m2"] = area
        answer["mean_k"] = 1000 * heat / (u * area)
        if fouling_m2k_kw is not None:
            answer["suffices"] = area_m2 >= area
        return answer
    # ln(ΔT at one end / ΔT at the other) is U A (1/C ± 1/C); the balance is linear in the heat.
    sign = -1 if flow == "counter-flow" else 1
    decay = math.exp(-u_w_m2k * area_m2 / 1000 * (1 / hot + sign / cold))
    difference = hot_in_c - cold_in_c
    if flow == "counter-flow":
        # ΔT at the hot end is difference - Q/cold, at the cold end difference - Q/hot.
        heat = difference * (1 - decay) / (1 / hot - decay / cold)
    else:
        heat = difference * (1 - decay) / (1 / hot + 1 / cold)
    return {
        "heat_kw": heat,
        "hot_outlet_c": hot_in_c - heat / hot,
        "cold_outlet_c": cold_in_c + heat / cold,
    }
