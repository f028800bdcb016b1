"""Writes the diary of the task ``construction/site-diary``: long, and the same every time.

``python -m tests.site_diary`` writes it to the task, and prints the sums that the verifier has.
"""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

__all__ = ["DIARY", "Diary"]

DIARY = Path(__file__).parents[1] / "tasks/construction/site-diary/environment/site-diary.md"
DAYS = 420
ELEMENTS = [f"{part} of block {block}" for block in "ABC" for part in ("raft", "core", "slabs")]
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
WEATHER = ("dry and cold", "overcast", "light rain until noon", "clear", "fog in the morning")
GANGS = ("steel fixers", "carpenters", "bricklayers", "drain layers", "scaffolders", "labourers")
WORKS = (
    "Shutters of the {a} were struck, cleaned and oiled; two split panels went to the yard.",
    "Reinforcement of the {a} was checked against the drawings; missing spacers were put in.",
    "The drain between manholes {n} and {m} was laid to its line and tested with water; it held.",
    "Blockwork in block {b} reached lintel height; the ties of the inner leaf were counted.",
    "The scaffold along gridline {n} was lifted by one bay; the foreman inspected its ties.",
    "Backfill behind the retaining wall was brought up in layers of 200 mm, each rolled six times.",
    "The surveyor set out gridlines {n} to {m} again, because pegs had been disturbed by a lorry.",
    "Waterproofing of the {a} was patched at two corners and protected with boards.",
    "Conduits in the ceiling of block {b} were fixed; the electrician asks for the revised layout.",
    "A toolbox talk was held on work near open edges; all {k} who were present signed the sheet.",
)
PLANT = (
    "Plant on site: one tower crane, two excavators, one telehandler, {k} mixers and a roller.",
    "The excavator of the subcontractor was serviced; it was back at work after the break.",
    "A generator was returned to the hire company, with its hours noted on the sheet.",
    "The telehandler had a puncture; the tyre was changed by the supplier in the afternoon.",
)
VISITORS = (
    "Visitors: the architect's assistant walked block {b} and took photographs of the parapets.",
    "Visitors: the building inspector looked at the stair of block {b}; nothing was noted.",
    "Visitors: two students of the college, with the safety adviser, for an hour.",
    "No visitors.",
)
POURED = (
    "Ticket {t}: {v} m³ for the {e}.",
    "The {e} took {v} m³ (ticket {t}).",
    "A load of {v} m³ under ticket {t} was placed in the {e}.",
    "For the {e} came ticket {t} with {v} m³.",
)
SENT_BACK = (
    "Ticket {t} went back to the plant, because its slump was too high; nothing was placed.",
    "The load of ticket {t} was turned away at the gate: it was over 90 minutes old.",
)
CORRECTED = (
    "Correction: the weighbridge shows that ticket {t} was {v} m³.",
    "The supplier's statement gives {v} m³ for ticket {t}, and the diary is amended to that.",
)
BROKEN_OUT = (
    "The cubes of ticket {t} failed at 28 days; all of that concrete was broken out.",
    "What was placed under ticket {t} was cut out after the cores had shown voids.",
)
ACCEPTED = (
    "The cubes of ticket {t} passed at 28 days.",
    "The doubt about ticket {t} was settled by cores; the concrete stays.",
)
WINDY = (
    "The tower crane stood from {h} to {i} because of wind.",
    "Gusts: the tower crane was in free slew from {h} to {i}.",
)
BROKEN = (
    "The tower crane stood from {h} to {i} because of a fault in its hoist brake.",
    "From {h} to {i} the tower crane waited for a lorry that was stuck at the gate.",
)


class Diary:
    """The diary's text, and the sums of what it says."""

    def __init__(self) -> None:
        self._chance = random.Random("site-diary-1")
        self._ticket = 41_003
        self._later: dict[int, list[str]] = {}
        self.delivered: defaultdict[str, float] = defaultdict(float)
        self.turned_away: defaultdict[str, float] = defaultdict(float)
        self.corrected: defaultdict[str, float] = defaultdict(float)
        self.broken_out: defaultdict[str, float] = defaultdict(float)
        self.windy_min = 0
        title = "# Site diary of the school extension"
        head = f"{title}\n\nKept by the site manager, one entry a day.\n"
        self.text = head + "".join(self._day(number) for number in range(1, DAYS + 1))

    def _day(self, number: int) -> str:
        chance = self._chance
        said = [f"Weather: {chance.choice(WEATHER)}, {chance.randint(-3, 29)} °C at eight o'clock."]
        gangs = ", ".join(f"{chance.randint(2, 14)} {gang}" for gang in chance.sample(GANGS, 4))
        said += [f"On site: {gangs}.", self._filled(PLANT)]
        middle = [self._filled(WORKS) for _ in range(4)] + self._later.pop(number, [])
        if number <= DAYS - 80 and chance.random() < 0.55:
            middle += [self._pour(number) for _ in range(chance.randint(1, 3))]
        if chance.random() < 0.16:
            middle.append(self._stop())
        chance.shuffle(middle)
        said += [*middle, self._filled(VISITORS)]
        week = WEEK[(number - 1) % 5]
        return f"\n## Day {number}, {week}\n\n" + " ".join(said) + "\n"

    def _filled(self, choices: tuple[str, ...]) -> str:
        chance = self._chance
        n = chance.randint(1, 30)
        return chance.choice(choices).format(
            a=chance.choice(ELEMENTS),
            b=chance.choice("ABC"),
            n=n,
            m=n + chance.randint(1, 9),
            k=chance.randint(3, 19),
        )

    def _pour(self, day: int) -> str:
        """Write a delivery, and maybe what becomes of it later."""
        chance = self._chance
        self._ticket += chance.randint(1, 9)
        ticket, element = self._ticket, chance.choice(ELEMENTS)
        volume = chance.randint(6, 18) / 2
        self.delivered[element] += volume
        told = self._told(POURED, ticket, volume, element)
        fate, later = chance.random(), min(day + chance.randint(20, 160), DAYS - 40)
        if fate < 0.08:
            self.turned_away[element] += volume
            return f"{told} {self._told(SENT_BACK, ticket)}"
        if fate < 0.2:
            right = volume - chance.choice((0.5, 1.0, 1.5))
            self.corrected[element] += right - volume
            self._note(later, self._told(CORRECTED, ticket, right))
            volume = right
        if 0.14 < fate < 0.26:
            self.broken_out[element] += volume
            self._note(later + 30, self._told(BROKEN_OUT, ticket))
        elif fate > 0.86:
            self._note(later, self._told(ACCEPTED, ticket))
        return told

    def _note(self, day: int, text: str) -> None:
        self._later.setdefault(day, []).append(text)

    def _told(
        self, choices: tuple[str, ...], ticket: int, volume: float = 0, element: str = ""
    ) -> str:
        return self._chance.choice(choices).format(t=ticket, v=f"{volume:.1f}", e=element)

    def _stop(self) -> str:
        chance = self._chance
        begins = chance.randint(14, 28) * 30
        lasts = chance.randint(1, 6) * 30
        choices = WINDY if chance.random() < 0.6 else BROKEN
        self.windy_min += lasts if choices is WINDY else 0
        clock = [f"{minute // 60}:{minute % 60:02}" for minute in (begins, begins + lasts)]
        return chance.choice(choices).format(h=clock[0], i=clock[1])


if __name__ == "__main__":
    diary = Diary()
    DIARY.write_text(diary.text, encoding="utf-8")
    for name in ("delivered", "turned_away", "corrected", "broken_out", "windy_min"):
        found = getattr(diary, name)
        print(name, found if isinstance(found, int) else dict(sorted(found.items())))
