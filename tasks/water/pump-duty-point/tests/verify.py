"""Expected answer: duty point of a pump against two pipes in series, and its suction margin."""

import math

from aec_verify import Flag, Number, verify

G, DENSITY, VISCOSITY = 9.81, 992.2, 0.658e-6
ROUGHNESS = 0.15e-3  # m
STATIC_HEAD, AXIS_HEIGHT = 18.0, 3.4  # m
SUCTION = (8.0, 0.250, 2.8)  # length m, diameter m, sum of K
DELIVERY = (420.0, 0.200, 6.5)
ATMOSPHERE, VAPOUR = 89.9e3, 7.38e3  # Pa
REQUIRED_MARGIN = 0.5  # m


def colebrook(reynolds: float, relative_roughness: float) -> float:
    """Solve Colebrook-White for f by Newton's method on s = 1/sqrt(f)."""
    a, b = relative_roughness / 3.7, 2.51 / reynolds
    s = 7.0
    for _ in range(50):
        residual = s + 2 * math.log10(a + b * s)
        s -= residual / (1 + 2 * b / (math.log(10) * (a + b * s)))
    return 1 / s**2


def pipe_loss(flow: float, pipe: tuple[float, float, float]) -> float:
    """Return the head lost in a pipe, m, at a flow in m3/s."""
    length, diameter, minor = pipe
    velocity = flow / (math.pi * diameter**2 / 4)
    f = colebrook(velocity * diameter / VISCOSITY, ROUGHNESS / diameter)
    return (f * length / diameter + minor) * velocity**2 / (2 * G)


def pump_head(flow: float) -> float:
    return 46 - 0.0048 * (1000 * flow) ** 2


def system_head(flow: float) -> float:
    return STATIC_HEAD + pipe_loss(flow, SUCTION) + pipe_loss(flow, DELIVERY)


# The pump curve falls and the system curve rises, so there is one crossing.
low, high = 0.005, 0.095
for _ in range(100):
    flow = (low + high) / 2
    if pump_head(flow) > system_head(flow):
        low = flow
    else:
        high = flow

head = pump_head(flow)
litres = 1000 * flow
efficiency = 0.0265 * litres - 0.00022 * litres**2
power = DENSITY * G * flow * head / efficiency / 1000
available = (ATMOSPHERE - VAPOUR) / (DENSITY * G) - AXIS_HEIGHT - pipe_loss(flow, SUCTION)
margin = available - (1.6 + 0.0006 * litres**2)

verify(
    {
        "flow_l_s": Number(litres, rel=0.005, weight=0.3),
        "head_m": Number(head, rel=0.01, weight=0.2),
        "shaft_power_kw": Number(power, rel=0.015, weight=0.15),
        "npsh_available_m": Number(available, rel=0.01, weight=0.15),
        "npsh_margin_m": Number(margin, abs=0.1, weight=0.1),
        "suction_safe": Flag(margin >= REQUIRED_MARGIN, weight=0.1, needs="npsh_margin_m"),
    },
    output="/workspace/output.jsonl",
)
