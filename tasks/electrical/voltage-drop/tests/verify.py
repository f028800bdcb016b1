"""Expected answer: voltage drop of a balanced three-phase feeder with a lagging load."""

import math

from aec_verify import Flag, Number, verify

LINE_VOLTAGE = 400.0  # V
CURRENT = 85.0  # A
POWER_FACTOR = 0.85
LENGTH = 0.140  # km
RESISTANCE = 0.506  # ohm/km
REACTANCE = 0.0865  # ohm/km
LIMIT = 2.5  # %

# Vd = sqrt(3) I L (R cos phi + X sin phi)
reactive_factor = math.sqrt(1 - POWER_FACTOR**2)
impedance = RESISTANCE * POWER_FACTOR + REACTANCE * reactive_factor
drop = math.sqrt(3) * CURRENT * LENGTH * impedance
percent = 100 * drop / LINE_VOLTAGE
max_length = 1000 * (LIMIT / 100 * LINE_VOLTAGE) / (math.sqrt(3) * CURRENT * impedance)

verify(
    {
        "voltage_drop_v": Number(drop, rel=0.005, weight=0.35),
        "voltage_drop_percent": Number(percent, rel=0.005, weight=0.25),
        "max_length_m": Number(max_length, rel=0.01, weight=0.2),
        "compliance": Flag(percent <= LIMIT, weight=0.2, needs="voltage_drop_percent"),
    },
    output="/workspace/output.jsonl",
)
