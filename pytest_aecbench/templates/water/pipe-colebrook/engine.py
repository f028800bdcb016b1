"""Friction in a full pipe, by Colebrook and White."""

from __future__ import annotations

import math

GRAVITY = 9.81
DENSITY = 1000.0


class Reject(ValueError):
    """A flow outside the range of the formula."""


def friction(reynolds, relative):
    """Return the friction factor, by iteration."""
    root = 8.0  # 1/√f
    for _ in range(60):
        root = -2 * math.log10(relative / 3.7 + 2.51 * root / reynolds)
    return 1 / root**2


def results(flow, diameter, length, roughness, viscosity, lift, efficiency):
    """Return all results for a flow in m³/s."""
    velocity = flow / (math.pi * diameter**2 / 4)
    reynolds = velocity * diameter / viscosity
    factor = friction(reynolds, roughness / diameter)
    loss = factor * length / diameter * velocity**2 / (2 * GRAVITY)
    found = {
        "velocity_m_s": velocity,
        "reynolds": reynolds,
        "friction_factor": factor,
        "loss_m": loss,
    }
    if lift is not None:
        found["power_kw"] = DENSITY * GRAVITY * flow * (lift + loss) / efficiency / 1000
    return found


def flow_for(head, diameter, length, roughness, viscosity):
    """Return the flow that a head drives; Colebrook's formula gives it without iteration."""
    speed = math.sqrt(2 * GRAVITY * diameter * head / length)  # velocity times √f
    root = -2 * math.log10(roughness / diameter / 3.7 + 2.51 * viscosity / (diameter * speed))
    return speed * root * math.pi * diameter**2 / 4


def compute(
    *,
    diameter_mm,
    length_m,
    material,
    roughness_mm,
    temperature_c,
    viscosity_mm2_s,
    flow_l_s=None,
    lift_m=None,
    efficiency=None,
    motor_kw=None,
    head_m=None,
    demand_l_s=None,
):
    """Return loss and power of a flow, or the flow that a head drives."""
    diameter, roughness = diameter_mm / 1000, roughness_mm / 1000
    viscosity = viscosity_mm2_s / 1e6
    pipe = (diameter, length_m, roughness, viscosity)
    flow = flow_l_s / 1000 if head_m is None else flow_for(head_m, *pipe)
    found = results(flow, *pipe, lift_m, efficiency)
    if found["reynolds"] < 2e4:
        raise Reject("a Reynolds number below 20 000")
    if not 0.3 <= found["velocity_m_s"] <= 4:
        raise Reject("a velocity below 0.3 m/s or above 4 m/s")
    if motor_kw is not None:
        if not 0.5 < found["power_kw"] / motor_kw < 1.8:
            raise Reject("power far from that of the motor")
        found["motor_suffices"] = found["power_kw"] <= motor_kw
    if head_m is not None:
        found["capacity_l_s"] = 1000 * flow
        if not 0.6 < found["capacity_l_s"] / demand_l_s < 1.6:
            raise Reject("flow far from the demand")
        found["meets_demand"] = found["capacity_l_s"] >= demand_l_s
    return found


def mistakes(
    *,
    diameter_mm,
    length_m,
    material,
    roughness_mm,
    temperature_c,
    viscosity_mm2_s,
    flow_l_s=None,
    lift_m=None,
    efficiency=None,
    motor_kw=None,
    head_m=None,
    demand_l_s=None,
):
    """Return the usual wrong answers."""
    diameter, roughness = diameter_mm / 1000, roughness_mm / 1000
    pipe = (diameter, length_m, roughness, viscosity_mm2_s / 1e6)
    radius = (diameter / 2, *pipe[1:])
    if head_m is not None:
        right = flow_for(head_m, *pipe)
        doubled = right * 2  # Fanning's factor for Darcy's
        rough = flow_for(head_m, *pipe[:3], 1e-12)
        area = math.pi * diameter**2 / 4
        return {
            "factor_of_fanning": {"capacity_l_s": 1000 * doubled, "velocity_m_s": doubled / area},
            "viscosity_forgotten": {
                "capacity_l_s": 1000 * rough,
                "velocity_m_s": rough / area,
                "friction_factor": friction(1e15, roughness / diameter),
            },
            "roughness_in_metres": {
                "capacity_l_s": 1000 * flow_for(head_m, *pipe[:2], roughness / 1000, pipe[3])
            },
        }
    flow = flow_l_s / 1000
    rest = (lift_m, efficiency)
    right = results(flow, *pipe, *rest)
    found = {
        "factor_of_fanning": {
            "friction_factor": right["friction_factor"] / 4,
            "loss_m": right["loss_m"] / 4,
        },
        "radius_for_diameter": results(flow, *radius, *rest),
        "smooth_pipe": results(flow, *pipe[:2], 1e-12, pipe[3], *rest),
    }
    if lift_m is not None:
        found["efficiency_multiplied"] = {"power_kw": right["power_kw"] * efficiency**2}
        found["lift_forgotten"] = {"power_kw": results(flow, *pipe, 0.0, efficiency)["power_kw"]}
    return found


def newton(reynolds, relative):
    """Return Darcy's factor by Newton's method on 1/√f."""
    x = 7.0
    for _ in range(30):
        inside = relative / 3.7 + 2.51 * x / reynolds
        error = x + 2 * math.log(inside) / math.log(10)
        slope = 1 + 2 / math.log(10) * 2.51 / reynolds / inside
        x = x - error / slope
    return x**-2


def solve(
    *,
    diameter_mm,
    length_m,
    material,
    roughness_mm,
    temperature_c,
    viscosity_mm2_s,
    flow_l_s=None,
    lift_m=None,
    efficiency=None,
    motor_kw=None,
    head_m=None,
    demand_l_s=None,
):
    """Use Newton's method for the factor, and balance head and loss for a flow."""
    relative = roughness_mm / diameter_mm

    def lost(litres):
        reynolds = 4e6 * litres / (math.pi * diameter_mm * viscosity_mm2_s)
        factor = newton(reynolds, relative)
        slope = 8 * factor * (litres / 1e3) ** 2 / (math.pi**2 * GRAVITY * (diameter_mm / 1e3) ** 5)
        return reynolds, factor, slope * length_m

    litres = flow_l_s
    if head_m is not None:
        # The loss grows a little less than with the square of the flow.
        litres = 10.0
        for _ in range(100):
            litres = litres * math.sqrt(head_m / lost(litres)[2])
    reynolds, factor, loss = lost(litres)
    answer = {
        "velocity_m_s": litres * 1e3 / (math.pi / 4 * diameter_mm**2),
        "reynolds": reynolds,
        "friction_factor": factor,
        "loss_m": loss,
    }
    if lift_m is not None:
        newtons = DENSITY * GRAVITY * litres / 1e3
        answer["power_kw"] = newtons * (loss + lift_m) / (1e3 * efficiency)
    if motor_kw is not None:
        answer["motor_suffices"] = answer["power_kw"] <= motor_kw
    if head_m is not None:
        answer["capacity_l_s"] = litres
        answer["meets_demand"] = litres >= demand_l_s
    return answer
