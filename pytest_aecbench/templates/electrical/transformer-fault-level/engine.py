"""Three-phase fault behind a transformer and a cable, IEC 60909-0."""

from __future__ import annotations

import math

VOLTS = 400.0
FACTOR = 1.05  # c for the largest fault current


class Reject(ValueError):
    """A cable that makes no sense behind this transformer."""


def transformer(rating_kva, uk_percent, load_loss_kw):
    """Return resistance and reactance in milliohms."""
    base = VOLTS**2 / rating_kva  # milliohms, because kVA is in the denominator
    impedance = uk_percent / 100 * base
    resistance = load_loss_kw / rating_kva * base
    if resistance > 0.7 * impedance:
        raise Reject("more resistance than a transformer has")
    return resistance, math.sqrt(impedance**2 - resistance**2)


def fault_of(impedance, factor=FACTOR):
    """Return the current in kA for an impedance in milliohms."""
    return factor * VOLTS / math.sqrt(3) / impedance


def results(resistance, reactance, breaking_ka):
    """Return what depends on the whole impedance."""
    impedance = math.hypot(resistance, reactance)
    fault = fault_of(impedance)
    peak_factor = 1.02 + 0.98 * math.exp(-3 * resistance / reactance)
    found = {
        "resistance_mohm": resistance,
        "reactance_mohm": reactance,
        "loop_mohm": impedance,
        "fault_ka": fault,
        "peak_factor": peak_factor,
        "peak_ka": peak_factor * math.sqrt(2) * fault,
    }
    if breaking_ka is not None:
        found["breaker_suffices"] = fault <= breaking_ka
    return found


def length_for(target, resistance, reactance, r, x):
    """Return the length in metres at which the whole impedance is ``target``."""
    if target < 1.1 * math.hypot(resistance, reactance):
        raise Reject("the breaker suffices at the transformer, or nearly so")
    a = r**2 + x**2
    b = r * resistance + x * reactance
    c = resistance**2 + reactance**2 - target**2
    return (math.sqrt(b**2 - a * c) - b) / a


def compute(
    *,
    rating_kva,
    uk_percent,
    load_loss_kw,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    length_m=None,
    breaking_ka=None,
):
    """Return the fault at the end of the cable, or the cable for a fault current."""
    resistance, reactance = transformer(rating_kva, uk_percent, load_loss_kw)
    own = math.hypot(resistance, reactance)
    found = {"transformer_mohm": own, "terminal_fault_ka": fault_of(own)}
    length = length_m
    if length is None:
        target = FACTOR * VOLTS / math.sqrt(3) / breaking_ka
        length = length_for(target, resistance, reactance, r20_ohm_km, x_ohm_km)
        if not 5 <= length <= 250:
            raise Reject("a cable shorter than 5 m or longer than 250 m")
        found["min_length_m"] = length
    at_end = results(resistance + r20_ohm_km * length, reactance + x_ohm_km * length, breaking_ka)
    checked = length_m is not None and breaking_ka is not None
    if checked and not 0.6 < at_end["fault_ka"] / breaking_ka < 1.6:
        raise Reject("fault current far from the breaking capacity")
    found.update(at_end)
    return found


def mistakes(
    *,
    rating_kva,
    uk_percent,
    load_loss_kw,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    length_m=None,
    breaking_ka=None,
):
    """Return the usual wrong answers."""
    resistance, reactance = transformer(rating_kva, uk_percent, load_loss_kw)
    own = math.hypot(resistance, reactance)
    cable = math.hypot(r20_ohm_km, x_ohm_km)
    if length_m is None:
        target = FACTOR * VOLTS / math.sqrt(3) / breaking_ka
        return {
            "magnitudes_added": {"min_length_m": (target - own) / cable},
            "cable_resistance_alone": {"min_length_m": (target - own) / r20_ohm_km},
            "voltage_factor_left_out": {"terminal_fault_ka": fault_of(own, 1.0)},
        }
    right = results(
        resistance + r20_ohm_km * length_m, reactance + x_ohm_km * length_m, breaking_ka
    )
    whole, added = right["loop_mohm"], own + cable * length_m
    terminal = results(resistance, reactance, None)
    return {
        "magnitudes_added": {"loop_mohm": added, "fault_ka": fault_of(added)},
        "voltage_factor_left_out": {"fault_ka": fault_of(whole, 1.0)},
        "line_voltage_without_root_three": {"fault_ka": math.sqrt(3) * fault_of(whole)},
        "peak_factor_of_the_transformer": {"peak_factor": terminal["peak_factor"]},
        "peak_without_root_two": {"peak_ka": right["peak_ka"] / math.sqrt(2)},
    }


def per_unit(rating_kva, uk_percent, load_loss_kw, r20_ohm_km, x_ohm_km, length_m):
    """Return the whole impedance as a complex share of the transformer's base impedance."""
    own = uk_percent / 100
    active = load_loss_kw / rating_kva
    base_ohm = VOLTS**2 / (1000 * rating_kva)
    cable = (r20_ohm_km + 1j * x_ohm_km) * length_m / 1000 / base_ohm
    return active + 1j * math.sqrt((own - active) * (own + active)) + cable


def solve(
    *,
    rating_kva,
    uk_percent,
    load_loss_kw,
    size_mm2,
    r20_ohm_km,
    x_ohm_km,
    length_m=None,
    breaking_ka=None,
):
    """Work in per-unit values with complex numbers; find a length by halving."""
    base_ka = rating_kva / (VOLTS * math.sqrt(3))
    base_mohm = VOLTS**2 / rating_kva

    def at(length):
        return per_unit(rating_kva, uk_percent, load_loss_kw, r20_ohm_km, x_ohm_km, length)

    answer = {
        "transformer_mohm": abs(at(0)) * base_mohm,
        "terminal_fault_ka": FACTOR * base_ka / abs(at(0)),
    }
    length = length_m
    if length is None:
        low, high = 0.0, 10000.0
        for _ in range(100):
            length = (low + high) / 2
            if FACTOR * base_ka / abs(at(length)) > breaking_ka:
                low = length
            else:
                high = length
        answer["min_length_m"] = length
    share = at(length)
    fault = FACTOR * base_ka / abs(share)
    kappa = 1.02 + 0.98 / math.exp(3 * share.real / share.imag)
    answer["resistance_mohm"] = share.real * base_mohm
    answer["reactance_mohm"] = share.imag * base_mohm
    answer["loop_mohm"] = abs(share) * base_mohm
    answer["fault_ka"] = fault
    answer["peak_factor"] = kappa
    answer["peak_ka"] = kappa * fault * 2**0.5
    if breaking_ka is not None and length_m is not None:
        answer["breaker_suffices"] = fault <= breaking_ka
    return answer
