"""Compare both sides of Colebrook and White: ``python3 root.py RELATIVE REYNOLDS GUESS``."""

import math
import sys

if __name__ == "__main__":
    relative, reynolds, guess = map(float, sys.argv[1:4])
    right = -2 * math.log10(relative / 3.7 + 2.51 / (reynolds * math.sqrt(guess)))
    print(f"left {1 / math.sqrt(guess):.6f}, right {right:.6f}")
