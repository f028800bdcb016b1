"""Raise a number to a power: ``python3 power.py BASE EXPONENT``."""

import sys

if __name__ == "__main__":
    base, exponent = map(float, sys.argv[1:3])
    print(base**exponent)
