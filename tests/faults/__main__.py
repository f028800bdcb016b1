"""Hurt runs, and print what became of their trials: python -m tests.faults [FAULT ...]."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from dataclasses import astuple
from pathlib import Path

from tests.faults.arena import Arena, Verdict
from tests.faults.injected import FAULTS
from tests.faults.places import PLACES, Place

_HEAD = ("cases", "lost", "doubled", "leaked", "zeros", "tracebacks")


def main() -> int:
    """Print the table; return how the process shall end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(FAULTS))
    parser.add_argument("--place", action="append", choices=list(PLACES), help="default: all")
    parser.add_argument("--rounds", type=int, default=2, help="cases of each fault at each place")
    options = parser.parse_args()
    unknown = sorted(set(options.faults) - set(FAULTS))
    if unknown:
        parser.error(f"{unknown[0]!r} is not a fault; one of {', '.join(FAULTS)}")
    print(f"{'fault':32} {'place':8}" + "".join(f"{title:>11}" for title in _HEAD), flush=True)
    sums = [0] * len(_HEAD)
    for name in options.place or PLACES:
        with PLACES[name]() as place:
            for fault in options.faults or FAULTS:
                for number, figures in enumerate(_row(place, fault, options.rounds)):
                    sums[number] += figures
    print(f"{'all':41}" + "".join(f"{figure:11}" for figure in sums))
    return 1 if any(sums[1:]) else 0


def _row(place: Place, fault: str, rounds: int) -> list[int]:
    """Hurt a run some times, print the sums, and return them."""
    verdicts = [_case(place, fault, number) for number in range(rounds)]
    figures = [rounds, *(sum(column) for column in zip(*map(_figures, verdicts), strict=True))]
    print(f"{fault:32} {place.name:8}" + "".join(f"{one:11}" for one in figures), flush=True)
    for verdict in verdicts:
        for line in verdict.details:
            print(f"    {line}", flush=True)
    return figures


def _figures(verdict: Verdict) -> list[int]:
    return [one for one in astuple(verdict) if isinstance(one, int)]


def _case(place: Place, fault: str, number: int) -> Verdict:
    """Hurt one run and resume it; what it printed is kept if something went wrong."""
    home = Path(tempfile.mkdtemp(prefix="aec-fault-"))
    home.chmod(0o755)
    arena = Arena(home, place)
    FAULTS[fault](arena, random.Random(f"{place.name} {fault} {number}"))
    arena.complete()
    verdict = arena.verdict()
    if any(_figures(verdict)):
        print(f"    files are in {home}", flush=True)
    else:
        shutil.rmtree(home, ignore_errors=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
