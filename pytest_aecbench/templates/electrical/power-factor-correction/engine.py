"""Capacitors in delta that raise the power factor of a three-phase load."""

from __future__ import annotations

import math

VOLTS = 400.0


class Reject(ValueError):
    """A load that needs no capacitors, or too many."""


def tangent(power_factor):
    """Return reactive over active power."""
    return math.sqrt(1 - power_factor**2) / power_factor


def load_of(power_kw, power_factor, active_mwh, reactive_mvarh, hours):
    """Return active and reactive power, as given or as the means of what meters counted."""
    if power_kw is not None:
        return power_kw, power_kw * tangent(power_factor)
    return 1000 * active_mwh / hours, 1000 * reactive_mvarh / hours


def answer(power, reactive, wanted, frequency, step):
    """Return all results for the reactive power that the capacitors should give."""
    found = {"needed_kvar": wanted}
    if frequency is not None:
        omega = 2 * math.pi * frequency
        found["capacitance_uf"] = 1e9 * wanted / (3 * omega * VOLTS**2)
    if step is not None:
        steps = math.ceil(wanted / step)
        apparent = math.hypot(power, reactive - steps * step)
        found["steps"] = steps
        found["power_factor_after"] = power / apparent
        found["current_a"] = 1000 * apparent / (math.sqrt(3) * VOLTS)
    return found


def step_at(step_kvar, rated_v):
    """Return what one step gives at the voltage of the network."""
    if step_kvar is None or rated_v is None:
        return step_kvar
    return step_kvar * (VOLTS / rated_v) ** 2


def compute(
    *,
    target,
    power_kw=None,
    power_factor=None,
    active_mwh=None,
    reactive_mvarh=None,
    hours=None,
    frequency_hz=None,
    step_kvar=None,
    series=None,
    rated_v=None,
):
    """Return the capacitors for a target, and the load with them."""
    power, reactive = load_of(power_kw, power_factor, active_mwh, reactive_mvarh, hours)
    wanted = reactive - power * tangent(target)
    if wanted < 0.1 * reactive:
        raise Reject("hardly anything to correct")
    step = step_at(step_kvar, rated_v)
    found = answer(power, reactive, wanted, frequency_hz, step)
    if step is not None:
        if not 3 <= found["steps"] <= 16:
            raise Reject("fewer than 3 or more than 16 steps")
        if found["steps"] * step > reactive:
            raise Reject("the steps give more than the load takes")
    return found


def guards(
    *,
    target,
    power_kw=None,
    power_factor=None,
    active_mwh=None,
    reactive_mvarh=None,
    hours=None,
    frequency_hz=None,
    step_kvar=None,
    series=None,
    rated_v=None,
):
    """Return how far the number of steps is from a whole one."""
    step = step_at(step_kvar, rated_v)
    if step is None:
        return {}
    power, reactive = load_of(power_kw, power_factor, active_mwh, reactive_mvarh, hours)
    steps = (reactive - power * tangent(target)) / step
    return {"a whole number of steps": steps - math.floor(steps + 0.5)}


def mistakes(
    *,
    target,
    power_kw=None,
    power_factor=None,
    active_mwh=None,
    reactive_mvarh=None,
    hours=None,
    frequency_hz=None,
    step_kvar=None,
    series=None,
    rated_v=None,
):
    """Return the usual wrong answers."""
    power, reactive = load_of(power_kw, power_factor, active_mwh, reactive_mvarh, hours)
    wanted = reactive - power * tangent(target)
    step = step_at(step_kvar, rated_v)
    before = power / math.hypot(power, reactive)
    by_factors = answer(power, reactive, power * (target - before), frequency_hz, step)
    wrong = {"difference_of_power_factors": by_factors}
    if frequency_hz is not None:
        right = answer(power, reactive, wanted, frequency_hz, step)
        wrong["capacitors_in_star"] = {"capacitance_uf": 3 * right["capacitance_uf"]}
        wrong["frequency_as_angular"] = {"capacitance_uf": 2 * math.pi * right["capacitance_uf"]}
    if rated_v is not None:
        wrong["steps_at_their_rated_voltage"] = answer(power, reactive, wanted, None, step_kvar)
        linear = step_kvar * VOLTS / rated_v
        wrong["output_linear_in_voltage"] = answer(power, reactive, wanted, None, linear)
    if step is not None:
        fewer = math.floor(wanted / step)
        left = math.hypot(power, reactive - fewer * step)
        wrong["steps_rounded_down"] = {"steps": fewer, "power_factor_after": power / left}
    return wrong


def solve(
    *,
    target,
    power_kw=None,
    power_factor=None,
    active_mwh=None,
    reactive_mvarh=None,
    hours=None,
    frequency_hz=None,
    step_kvar=None,
    series=None,
    rated_v=None,
):
    """Work with angles, and switch steps on until the target is reached."""
    if power_kw is None:
        power = active_mwh / hours * 1e3
        angle = math.atan2(reactive_mvarh, active_mwh)
    else:
        power, angle = power_kw, math.acos(power_factor)
    wanted = power * (math.tan(angle) - math.tan(math.acos(target)))
    result = {"needed_kvar": wanted}
    if frequency_hz is not None:
        # The current of one capacitor between two lines is U · ω · C.
        amperes = wanted * 1e3 / 3 / VOLTS
        result["capacitance_uf"] = amperes / (VOLTS * 2 * math.pi * frequency_hz) * 1e6
    if step_kvar is not None:
        ratio = 1.0 if rated_v is None else VOLTS / rated_v
        on, given = 0, 0.0
        while given < wanted:
            on += 1
            given = on * step_kvar * ratio * ratio
        after = math.atan(math.tan(angle) - given / power)
        result["steps"] = on
        result["power_factor_after"] = math.cos(after)
        result["current_a"] = power * 1e3 / math.cos(after) / VOLTS / math.sqrt(3)
    return result
