"""Expected answer: flexure and shear design of a rectangular beam to EN 1992-1-1."""

import math

from aec_verify import Number, verify

SPAN, SUPPORT_WIDTH = 7.5, 0.3  # m
B, H, COVER, LINK, BAR = 300.0, 600.0, 35.0, 8.0, 25.0  # mm
LOAD = 1.35 * 18 + 1.5 * 18  # kN/m
F_CK, F_YK = 30.0, 500.0  # MPa
F_CD, F_YD = 0.85 * F_CK / 1.5, F_YK / 1.15
BLOCK = 0.8  # lambda; eta is 1
COT = 2.5

d = H - COVER - LINK - BAR / 2


def block_force(x: float) -> float:
    """Return the compression in the stress block, N, for a neutral axis at ``x``."""
    return BLOCK * x * B * F_CD


# Flexure: M = F (d - lambda x / 2) is a quadratic in x.
m_ed = LOAD * SPAN**2 / 8
half = d / BLOCK
x = half - math.sqrt(half**2 - 2 * m_ed * 1e6 / (BLOCK**2 * B * F_CD))
f_ctm = 0.30 * F_CK ** (2 / 3)
as_min = max(0.26 * f_ctm / F_YK, 0.0013) * B * d
as_required = max(block_force(x) / F_YD, as_min)
bar_area = math.pi * BAR**2 / 4
bar_count = math.ceil(as_required / bar_area)
as_provided = bar_count * bar_area
x_provided = as_provided * F_YD / block_force(1.0)
m_rd = as_provided * F_YD * (d - BLOCK * x_provided / 2) / 1e6

# Shear: variable strut inclination.
v_ed = LOAD * (SPAN / 2 - SUPPORT_WIDTH / 2 - d / 1000)
k = min(1 + math.sqrt(200 / d), 2.0)
rho = min(as_provided / (B * d), 0.02)
v_rd_c = max(0.12 * k * (100 * rho * F_CK) ** (1 / 3), 0.035 * k**1.5 * math.sqrt(F_CK)) * B * d
z = 0.9 * d
v_rd_max = B * z * 0.6 * (1 - F_CK / 250) * F_CD / (COT + 1 / COT)
a_sw = 2 * math.pi * LINK**2 / 4
spacing = min(
    a_sw * z * F_YD * COT / (1000 * v_ed),
    0.75 * d,
    a_sw / (0.08 * math.sqrt(F_CK) / F_YK * B),
)

verify(
    {
        "m_ed_knm": Number(m_ed, rel=0.005, weight=0.1),
        "as_required_mm2": Number(as_required, rel=0.01, weight=0.2),
        "bar_count": Number(bar_count, weight=0.1, needs="as_required_mm2"),
        "m_rd_knm": Number(m_rd, rel=0.005, weight=0.15),
        "v_ed_kn": Number(v_ed, rel=0.005, weight=0.1),
        "v_rd_c_kn": Number(v_rd_c / 1000, rel=0.005, weight=0.1),
        "v_rd_max_kn": Number(v_rd_max / 1000, rel=0.005, weight=0.1),
        "link_spacing_mm": Number(25 * int(spacing // 25), weight=0.15, needs="v_ed_kn"),
    },
    output="/workspace/output.jsonl",
)
