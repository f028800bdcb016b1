"""Expected answer: moment, shear and elastic deflection of a simply supported beam."""

from aec_verify import Flag, Number, verify

SPAN = 7.2  # m
UNIFORM_G, UNIFORM_Q, POINT_Q = 6.5, 9.0, 20.0  # kN/m, kN/m, kN
E = 200e6  # kN/m2
I = 121e-6  # m4
MOMENT_CAPACITY = 0.9 * 300e3 * 774e-6  # kNm
DEFLECTION_LIMIT = SPAN / 250  # m


def combine(g: float, q: float) -> tuple[float, float]:
    """Return the uniform and the point load of a combination g G + q Q."""
    return g * UNIFORM_G + q * UNIFORM_Q, q * POINT_Q


w, p = combine(1.2, 1.5)
moment = w * SPAN**2 / 8 + p * SPAN / 4
shear = (w * SPAN + p) / 2
utilisation = moment / MOMENT_CAPACITY

w, p = combine(1.0, 0.7)
deflection = 5 * w * SPAN**4 / (384 * E * I) + p * SPAN**3 / (48 * E * I)

verify(
    {
        "design_moment_knm": Number(moment, rel=0.005, weight=0.25),
        "design_shear_kn": Number(shear, rel=0.005, weight=0.15),
        "moment_utilisation": Number(utilisation, rel=0.005, weight=0.15),
        "deflection_mm": Number(1000 * deflection, rel=0.005, weight=0.3),
        "adequate": Flag(
            utilisation <= 1 and deflection <= DEFLECTION_LIMIT,
            weight=0.15,
            needs=("moment_utilisation", "deflection_mm"),
        ),
    },
    output="/workspace/output.jsonl",
)
