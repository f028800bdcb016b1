"""Voltage drop of a feeder, IEC 60364-5-52 annex G."""

from __future__ import annotations

import math

ALPHA = 0.00393  # 1/K, copper


class Reject(ValueError):
    """A feeder that makes no sense."""


def drop_per_km(phases, current_a, resistance, reactance, power_factor):
    """Return the voltage drop of one kilometre."""
    factor = math.sqrt(3) if phases == 3 else 2.0
    sine = math.sqrt(1 - power_factor**2)
    return factor * current_a * (resistance * power_factor + reactance * sine)


def answer(phases, length_m, resistance, volts_per_km, limit_percent):
    """Return all results for a drop per kilometre."""
    nominal = 400.0 if phases == 3 else 230.0
    drop = volts_per_km * length_m / 1000
    percent = 100 * drop / nominal
    return {
        "resistance_ohm_km": resistance,
        "drop_v": drop,
        "drop_percent": percent,
        "max_length_m": limit_percent / percent * length_m,
        "within_limit": percent <= limit_percent,
    }


def compute(
    *,
    phases,
    current_a,
    length_m,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    temperature_c,
    power_factor,
    limit_percent,
):
    """Return the drop at the operating temperature."""
    if power_factor >= 1:
        raise Reject("power factor of 1 or more")
    resistance = r20_ohm_km * (1 + ALPHA * (temperature_c - 20))
    volts = drop_per_km(phases, current_a, resistance, x_ohm_km, power_factor)
    found = answer(phases, length_m, resistance, volts, limit_percent)
    if not limit_percent / 3 < found["drop_percent"] < 3 * limit_percent:
        raise Reject("drop far from its limit")
    return found


def mistakes(
    *,
    phases,
    current_a,
    length_m,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    temperature_c,
    power_factor,
    limit_percent,
):
    """Return the usual wrong answers."""
    hot = r20_ohm_km * (1 + ALPHA * (temperature_c - 20))
    other = 1 if phases == 3 else 3
    wrong_factor = drop_per_km(other, current_a, hot, x_ohm_km, power_factor)
    cold = drop_per_km(phases, current_a, r20_ohm_km, x_ohm_km, power_factor)
    right = drop_per_km(phases, current_a, hot, x_ohm_km, power_factor)
    no_power_factor = drop_per_km(phases, current_a, hot, x_ohm_km, 1.0)
    return {
        "factor_of_the_other_circuit": answer(phases, length_m, hot, wrong_factor, limit_percent),
        "resistance_at_20_degrees": answer(phases, length_m, r20_ohm_km, cold, limit_percent),
        "length_in_metres": answer(phases, 1000 * length_m, hot, right, limit_percent),
        "power_factor_left_out": answer(phases, length_m, hot, no_power_factor, limit_percent),
    }


def solve(
    *,
    phases,
    current_a,
    length_m,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    temperature_c,
    power_factor,
    limit_percent,
):
    """Find the drop from active and reactive power: (P R + Q X) / U."""
    zero_resistance_at = 1 / ALPHA - 20  # degrees below 0 °C
    hot = r20_ohm_km * (zero_resistance_at + temperature_c) / (zero_resistance_at + 20)
    volts = {1: 230.0, 3: 400.0}[phases]
    apparent = current_a * volts * (math.sqrt(3) if phases == 3 else 1)
    conductors = 1 if phases == 3 else 2  # the return conductor drops as much again
    reactive = apparent * math.sin(math.acos(power_factor))
    lost = hot * apparent * power_factor + x_ohm_km * reactive
    drop = conductors * lost / volts * length_m / 1000
    share = drop / volts * 100
    return {
        "resistance_ohm_km": hot,
        "drop_v": drop,
        "drop_percent": share,
        "max_length_m": length_m * limit_percent / share,
        "within_limit": share <= limit_percent,
    }
