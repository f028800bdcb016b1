"""Return the results of pressure tests at valves of the main, in the order in which they are made.

Reads {"valves": [8, 14]} from standard input: all tests that the crew has made so far and the next
one. Prints {"results": ["holds", "falls"]}: with valve k closed and sections 1 to k under
pressure, the pressure "falls" (one of them leaks) or "holds" (a later section leaks).
"""

import json
import sys

SECTIONS = 24
# A bit for each pair of first and last section where the leak can still be, and each valve between.
RESULTS = (
    "24ce38f0f0f87e1fc0fc01e007801f003f003f801fe007fc00ffc00ffe007ff801fff2cce78f1f1f87e0fc03"
    "c01e00f803f007f007f803fe00ffc01ffc01ffe00fff96631c78f87c0300e01e01f00fc03f807f807fc03ff0"
    "0ffe01ffe01fff24c638f0f0180e03c07c07e03f80ff01ff01ff80ffe03ffc01ffc9339e3c0c0e0781f03f01"
    "f80fe03fc07fc07fe03ff807ff2dce783030381e07c0fc0fe07f81ff03ff03ff80ffe598c3060e0f07c0f81f"
    "81fc0ff03fe07fe07ff2442183070783e0fc1fc1fe0ff83ff03ff24461870f0f87e1fc3fc3fe1ff83ff24c63"
    "8f1f1f8fe3fc7fc7fe1ff96673cf9f9fcff3fe7fe3ff2cce79f0f0f87e1fc1fcb33861c3c3e1f87f2cc638f1"
    "f1f87e488c71e3e1f24ce79f1f2dde79f2cc60926124492"
)


def offsets():
    """Return where the bits of each pair of sections start."""
    found, at = {}, 0
    for first in range(1, SECTIONS + 1):
        for last in range(first + 1, SECTIONS + 1):
            found[first, last] = at
            at += last - first
    return found


def results(valves):
    """Return what each test shows; a test that cannot show anything new repeats what is known."""
    bits = "".join(f"{int(digit, 16):04b}" for digit in RESULTS)
    starts = offsets()
    first, last = 1, SECTIONS
    shown = []
    for valve in valves:
        if valve < first:
            falls = False
        elif valve >= last:
            falls = True
        else:
            falls = bits[starts[first, last] + valve - first] == "1"
            first, last = (first, valve) if falls else (valve + 1, last)
        shown.append("falls" if falls else "holds")
    return shown


def main():
    try:
        asked = json.load(sys.stdin)
        valves = asked["valves"]
        valid = isinstance(valves, list) and all(
            type(valve) is int and 1 <= valve < SECTIONS for valve in valves
        )
    except (KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        sys.exit('pressure_test: give {"valves": [...]} with valves from 1 to 23')
    print(json.dumps({"results": results(valves)}))


if __name__ == "__main__":
    main()
