"""Darcy friction factor from the Colebrook-White equation.

Reads {"reynolds": ..., "relative_roughness": ...} from standard input and
prints {"friction_factor": ...}.
"""

import json
import math
import sys


def friction_factor(reynolds: float, relative_roughness: float) -> float:
    if reynolds < 2300:
        return 64 / reynolds
    root = 8.0  # 1/sqrt(f); the fixed-point iteration contracts for all turbulent flow
    for _ in range(60):
        root = -2 * math.log10(relative_roughness / 3.7 + 2.51 * root / reynolds)
    return 1 / root**2


def main() -> int:
    try:
        request = json.load(sys.stdin)
        reynolds = float(request["reynolds"])
        roughness = float(request["relative_roughness"])
    except (ValueError, TypeError, KeyError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        return 1
    if not (0 < reynolds < math.inf and 0 <= roughness <= 0.05):
        print(
            json.dumps({"error": "reynolds must be positive, relative_roughness within 0 to 0.05"})
        )
        return 1
    print(json.dumps({"friction_factor": friction_factor(reynolds, roughness)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
