"""Expected answer: maximum three-phase fault currents in the manner of IEC 60909-0."""

import math

from aec_verify import Flag, Number, verify

U = 400.0  # V
C = 1.05
S_NETWORK, C_NETWORK, R_OVER_X_NETWORK = 250e6, 1.10, 0.10
S_TRANSFORMER, SHORT_CIRCUIT_VOLTAGE, LOAD_LOSS = 1.0e6, 0.06, 10.5e3
CABLE_LENGTH, CABLE_R, CABLE_X = 0.060, 0.193, 0.075  # km, ohm/km
BREAKING_CAPACITY = 15.0  # kA


def network() -> complex:
    magnitude = C_NETWORK * U**2 / S_NETWORK
    x = magnitude / math.hypot(1, R_OVER_X_NETWORK)
    return complex(R_OVER_X_NETWORK * x, x)


def transformer() -> complex:
    magnitude = SHORT_CIRCUIT_VOLTAGE * U**2 / S_TRANSFORMER
    r = LOAD_LOSS * (U / S_TRANSFORMER) ** 2
    x = math.sqrt(magnitude**2 - r**2)
    correction = 0.95 * C / (1 + 0.6 * x * S_TRANSFORMER / U**2)
    return correction * complex(r, x)


def fault(z: complex) -> tuple[float, float]:
    """Return I_k'' and the peak current in kA for a fault behind ``z``."""
    initial = C * U / (math.sqrt(3) * abs(z)) / 1000
    kappa = 1.02 + 0.98 * math.exp(-3 * z.real / z.imag)
    return initial, kappa * math.sqrt(2) * initial


z_msb = network() + transformer()
z_db = z_msb + CABLE_LENGTH * complex(CABLE_R, CABLE_X)
ik_msb, ip_msb = fault(z_msb)
ik_db, ip_db = fault(z_db)

verify(
    {
        "ik_msb_ka": Number(ik_msb, rel=0.005, weight=0.25),
        "ip_msb_ka": Number(ip_msb, rel=0.005, weight=0.15),
        "ik_db_ka": Number(ik_db, rel=0.005, weight=0.25),
        "ip_db_ka": Number(ip_db, rel=0.005, weight=0.15),
        "db_breakers_adequate": Flag(ik_db <= BREAKING_CAPACITY, weight=0.2, needs="ik_db_ka"),
    },
    output="/workspace/output.jsonl",
)
