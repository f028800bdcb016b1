"""Expected answer: voltage drop of a balanced three-phase feeder with a lagging load."""

import math

from fieldcheck import Field, grade

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

grade(
    "/workspace/output.jsonl",
    [
        Field("voltage_drop_v", drop, weight=0.35, relative=0.005),
        Field("voltage_drop_percent", percent, weight=0.25, relative=0.005),
        Field("max_length_m", max_length, weight=0.2, relative=0.005),
        Field("compliance", percent <= LIMIT, weight=0.2, needs=("voltage_drop_percent",)),
    ],
)
