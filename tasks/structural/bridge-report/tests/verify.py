"""Expected answer: the condition of a bridge, from few entries of a long log."""

import math
import statistics

from aec_verify import Choice, Items, Number, verify

# Cracks of girders in mm as corrected: the log reads 4.2 mm on S07-G1 and leaves S02-G1 out.
CRACKS = {
    "S01-G2": 0.34,
    "S02-G1": 0.36,
    "S02-G4": 0.28,
    "S04-G1": 0.31,
    "S05-G3": 0.38,
    "S07-G1": 0.42,
    "S08-G1": 0.46,
    "S10-G1": 0.43,
    "S11-G4": 0.95,
}
# Spalls of girders in m²; that on S03-G1 was 0.62, and those of parapets do not count.
SPALLS = {"S03-G1": 0.71, "S09-G2": 0.85, "S12-G2": 0.37}
CUTTING_BACK = 1.15
SPRAY_ZONE = ("S01", "S02", "S03", "S04")
WIDEST_IN_SPRAY, WIDEST_ELSEWHERE = 0.30, 0.40
# Without C03, which contains reinforcement, and C06, which was damaged; MPa.
CORES = [36.8, 33.1, 35.4, 31.7, 34.6, 37.2, 32.9, 35.0]
FACTOR, FULL_STRENGTH, FULL_LIMIT, PER_GIRDER = 1.48, 35.0, 44.0, 0.5

repair = [
    name
    for name, width in CRACKS.items()
    if width > (WIDEST_IN_SPRAY if name.startswith(SPRAY_ZONE) else WIDEST_ELSEWHERE)
]
worst = max(CRACKS, key=lambda name: CRACKS[name])
strength = statistics.mean(CORES) - FACTOR * statistics.stdev(CORES)
limit = math.floor(min(1.0, strength / FULL_STRENGTH) * FULL_LIMIT - PER_GIRDER * len(repair))

verify(
    {
        "repair": Items(repair, weight=0.35),
        "worst_crack_at": Choice(worst, list(CRACKS), weight=0.1),
        "repair_area_m2": Number(CUTTING_BACK * sum(SPALLS.values()), rel=0.005, weight=0.2),
        "strength_mpa": Number(strength, rel=0.002, weight=0.2),
        "limit_t": Number(limit, weight=0.15, needs=["strength_mpa", "repair"]),
    },
    output="/workspace/output.md",
)
