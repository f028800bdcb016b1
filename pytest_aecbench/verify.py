"""Grade an agent's answer field by field: one file that needs nothing but Python 3.8 or newer.

A verifier finds it beside itself as ``aec_verify``; ``tests/verify.py`` says what is right::

    from aec_verify import Flag, Number, verify

    verify(
        {
            "current_a": Number(2.0, rel=0.01, unit="A"),
            "fuse_holds": Flag(True, needs="current_a"),
        },
        output="/workspace/output.jsonl",
    )

Nothing that an agent can write makes it fail: what is wrong earns 0, with the reason in
``details.json``. A mistake in the verifier itself raises, and then no reward is written.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Between",
    "Choice",
    "Entries",
    "Field",
    "Flag",
    "Grade",
    "Items",
    "Number",
    "Unusable",
    "Verdict",
    "convert",
    "grade",
    "read_answer",
    "verify",
]

WORKSPACE = "/workspace"
LOGS = "/logs/verifier"
MAX_BYTES = 1 << 20
# What decimal fractions and changes of unit lose in binary; far below any tolerance.
_ROUNDING = 1e-14


class Unusable(Exception):  # noqa: N818  (a state of the file, not a failure of this code)
    """Why an output file earns nothing at all."""


class Verdict(NamedTuple):
    """The share that a field earns, from 0 to 1, and what is wrong where that is not 1."""

    score: float
    fault: str | None = None


RIGHT = Verdict(1.0)


class Field:
    """One field of an answer; subclass it and give it ``judge`` for a check of your own.

    A field earns its ``weight`` only when all fields that it ``needs`` are right too, so that a
    guessed verdict is worth nothing without the figures it rests on.
    """

    expected: object = None
    tolerance = "exact"

    def __init__(self, *, weight: float = 1.0, needs: str | Sequence[str] = ()) -> None:
        self.weight = _finite("weight", weight)
        if self.weight <= 0:
            raise ValueError(f"weight: {weight!r} is not valid; use a number above 0")
        self.needs = (needs,) if isinstance(needs, str) else tuple(needs)

    def judge(self, value: object) -> Verdict:
        """Return what ``value``, any JSON value at all, earns."""
        raise NotImplementedError


class Number(Field):
    """A number within ``rel`` times the expected one or within ``abs``, whichever is wider.

    With ``unit``, the answer may also be a text such as ``"3.2 kV"``, or an object with ``value``
    and ``unit``; a bare number is in ``unit``. Within ``near`` times the tolerance it earns half.
    """

    def __init__(
        self,
        expected: float,
        *,
        rel: float = 0.0,
        abs: float = 0.0,  # noqa: A002  (as in pytest.approx)
        unit: str | None = None,
        near: float = 1.0,
        weight: float = 1.0,
        needs: str | Sequence[str] = (),
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        _finite("expected", expected)
        for name, share in (("rel", rel), ("abs", abs)):
            if _finite(name, share) < 0:
                raise ValueError(f"{name}: {share!r} is not valid; use a number from 0")
        if rel and not (expected or abs):
            raise ValueError(f"rel: {rel!r} of 0 allows nothing; use abs")
        if _finite("near", near) < 1 or (near > 1 and not (rel or abs)):
            raise ValueError(f"near: {near!r} is not valid; use a number above 1 and a tolerance")
        self.expected = expected
        self.unit = _checked(unit)
        self.near = near
        allowed = max(abs, rel * math.fabs(expected))
        self._allowed = allowed + _ROUNDING * allowed + _ROUNDING * math.fabs(expected)
        parts = [f"±{100 * rel:g} %"] if rel else []
        parts += [f"±{abs:g}"] if abs else []
        self.tolerance = " or ".join(parts) or "exact"

    def judge(self, value: object) -> Verdict:
        """Compare with the expected number."""
        number = _number(value, self.unit)
        if isinstance(number, str):
            return Verdict(0.0, number)
        assert isinstance(self.expected, (int, float))
        error = math.fabs(number - self.expected)
        if error <= self._allowed:
            return RIGHT
        return Verdict(0.5 if error <= self.near * self._allowed else 0.0, "outside the tolerance")


class Between(Field):
    """A number from ``low`` to ``high``, where any of them will do; units as for Number."""

    def __init__(
        self,
        low: float,
        high: float,
        *,
        unit: str | None = None,
        weight: float = 1.0,
        needs: str | Sequence[str] = (),
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        if _finite("low", low) > _finite("high", high):
            raise ValueError(f"low: {low!r} is above high, {high!r}; swap them")
        self.low, self.high, self.unit = low, high, _checked(unit)
        self.expected = [low, high]
        self.tolerance = "range"

    def judge(self, value: object) -> Verdict:
        """Compare with both ends, which are allowed too."""
        number = _number(value, self.unit)
        if isinstance(number, str):
            return Verdict(0.0, number)
        slack = _ROUNDING * max(math.fabs(self.low), math.fabs(self.high))
        inside = self.low - slack <= number <= self.high + slack
        return RIGHT if inside else Verdict(0.0, "outside the range")


class Flag(Field):
    """``true`` or ``false``; nothing else will do for either."""

    def __init__(
        self, expected: bool, *, weight: float = 1.0, needs: str | Sequence[str] = ()
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        if not isinstance(expected, bool):
            raise TypeError(f"expected: {expected!r} is not a bool; use True or False")
        self.expected = expected

    def judge(self, value: object) -> Verdict:
        """Compare."""
        if not isinstance(value, bool):
            return Verdict(0.0, f"is {_kind(value)}, must be true/false")
        return RIGHT if value is self.expected else Verdict(0.0, "wrong")


class Choice(Field):
    """One text out of ``options``; case and spaces around it do not matter."""

    def __init__(
        self,
        expected: str,
        options: Sequence[str],
        *,
        weight: float = 1.0,
        needs: str | Sequence[str] = (),
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        self.options = tuple(options)
        if isinstance(options, str) or expected not in self.options:
            raise ValueError(f"options: {options!r} lack {expected!r}; list every valid text")
        if len({_plain(option) for option in self.options}) < len(self.options):
            raise ValueError(f"options: two of {options!r} differ in case or spaces only")
        self.expected = expected

    def judge(self, value: object) -> Verdict:
        """Compare."""
        if not isinstance(value, str):
            return Verdict(0.0, f"is {_kind(value)}, must be a text")
        if _plain(value) == _plain(str(self.expected)):
            return RIGHT
        if any(_plain(value) == _plain(option) for option in self.options):
            return Verdict(0.0, "wrong")
        return Verdict(0.0, f"is none of {', '.join(self.options)}")


class Items(Field):
    """A list of texts, numbers, flags or fields; in any order unless ``ordered``.

    With ``partial`` it earns the share of right items among those expected or given, whichever
    are more: to list everything earns little.
    """

    def __init__(
        self,
        expected: Sequence[object],
        *,
        ordered: bool = False,
        partial: bool = False,
        weight: float = 1.0,
        needs: str | Sequence[str] = (),
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        if isinstance(expected, str) or not expected:
            raise ValueError(f"expected: {expected!r} is not valid; use a list of at least one")
        self.items = tuple(_as_field(item) for item in expected)
        self.ordered = ordered
        self.partial = partial
        self.expected = [item.expected for item in self.items]
        self.tolerance = ", ".join(dict.fromkeys(item.tolerance for item in self.items))

    def judge(self, value: object) -> Verdict:
        """Pair expected items with given ones, as many as can be."""
        if not isinstance(value, list):
            return Verdict(0.0, f"is {_kind(value)}, must be a list")
        wanted, given = len(self.items), len(value)
        if given > 4 * wanted + 100:  # not worth the time
            return Verdict(0.0, f"has {given} items, expected {wanted}")
        fits = [
            [
                at
                for at in ([i] if self.ordered else range(given))
                if at < given and _fits(item, value[at])
            ]
            for i, item in enumerate(self.items)
        ]
        right = _pairs(fits)
        if right == wanted == given:
            return RIGHT
        score = right / max(wanted, given) if self.partial else 0.0
        return Verdict(score, f"{right} of {wanted} items are right, {given} given")


class Entries(Field):
    """An object with an entry for each of some names, such as findings by line.

    A right entry earns 1, one with a wrong value ``wrong``, and one whose name is not expected
    ``extra``; the field earns their sum divided by the number of expected ones, but not less than
    0. Negative values make guesses cost: to name everything, or to say the same of all, earns
    nothing.
    """

    def __init__(
        self,
        expected: Mapping[str, object],
        *,
        wrong: float = 0.0,
        extra: float = 0.0,
        weight: float = 1.0,
        needs: str | Sequence[str] = (),
    ) -> None:
        super().__init__(weight=weight, needs=needs)
        self.entries = {_plain(name): _as_field(item) for name, item in expected.items()}
        if not expected or len(self.entries) < len(expected):
            raise ValueError(f"expected: {expected!r} is not valid; use at least one, and no twins")
        if _finite("wrong", wrong) >= 1 or _finite("extra", extra) > 0:
            raise ValueError(f"wrong, extra: {wrong!r}, {extra!r} pay; use less than 1, at most 0")
        self.wrong, self.extra = wrong, extra
        self.expected = {name: _as_field(item).expected for name, item in expected.items()}
        self.tolerance = ", ".join(
            dict.fromkeys(entry.tolerance for entry in self.entries.values())
        )

    def judge(self, value: object) -> Verdict:
        """Judge each entry by its name; case and spaces around a name do not matter."""
        if not isinstance(value, dict):
            return Verdict(0.0, f"is {_kind(value)}, must be an object")
        given = {_plain(name): entry for name, entry in value.items()}
        if len(given) < len(value):
            return Verdict(0.0, "has a name twice")
        known = {name: entry for name, entry in given.items() if name in self.entries}
        right = sum(_fits(self.entries[name], entry) for name, entry in known.items())
        wrong, extra = len(known) - right, len(given) - len(known)
        earned = (right + self.wrong * wrong + self.extra * extra) / len(self.entries)
        if earned == 1:
            return RIGHT
        fault = f"{right} of {len(self.entries)} are right, {wrong} wrong, {extra} not expected"
        return Verdict(max(0.0, earned), fault)


def _as_field(item: object) -> Field:
    if isinstance(item, Field) and not isinstance(item, (Entries, Items)):
        return item
    if isinstance(item, bool):
        return Flag(item)
    if isinstance(item, (int, float)):
        return Number(item)
    if isinstance(item, str):
        return Choice(item, [item])
    raise TypeError(f"expected: {item!r} is not an item; use a text, number, bool or field")


def _fits(item: Field, value: object) -> bool:
    return item.judge(value).score == 1


def _pairs(fits: list[list[int]]) -> int:
    """Return how many can be paired at once, where ``fits`` has the candidates of each."""
    taken: dict[int, int] = {}
    seats: dict[int, int] = {}

    def place(start: int) -> bool:
        # Breadth first along alternating pairs; recursion could be made to run too deep.
        came_from: dict[int, int] = {}
        queue = [start]
        for one in queue:
            for at in fits[one]:
                if at in came_from:
                    continue
                came_from[at] = one
                if at in taken:
                    queue.append(taken[at])
                    continue
                free: int | None = at
                while free is not None:  # everyone on the way moves up
                    mover = came_from[free]
                    taken[free] = mover
                    left = seats.get(mover)
                    seats[mover] = free
                    free = left
                return True
        return False

    return sum(place(one) for one in range(len(fits)))


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not valid; use a finite number")
    return value


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _kind(value: object) -> str:
    """Name a JSON value's type as people do."""
    names = {bool: "true/false", int: "a number", float: "a number", str: "a text"}
    names.update({dict: "an object", list: "a list", type(None): "null"})
    return names.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    """Describe a value in a few characters, whatever its size or depth."""
    return _kind(value) if isinstance(value, (dict, list)) else ascii(value)[:80]


# Units: SI prefixes, the units that take them, and those that do not.

# fmt: off
_POWERS_OF_TEN = {
    "": 0, "T": 12, "G": 9, "M": 6, "k": 3, "h": 2, "d": -1, "c": -2, "m": -3, "u": -6, "n": -9,
    "p": -12,
}
# fmt: on
# Apparent and reactive power are of a kind of their own: 5 kW is not an answer in kVA.
# fmt: off
_PREFIXED = {
    "m": (1.0, "m"), "g": (1e-3, "kg"), "s": (1.0, "s"), "A": (1.0, "A"), "K": (1.0, "K"),
    "N": (1.0, "kg m s-2"), "Pa": (1.0, "kg m-1 s-2"), "bar": (1e5, "kg m-1 s-2"),
    "J": (1.0, "kg m2 s-2"), "Nm": (1.0, "kg m2 s-2"),
    "W": (1.0, "kg m2 s-3"), "Wh": (3600.0, "kg m2 s-2"),
    "VA": (1.0, "VA"), "VAh": (3600.0, "VA s"), "var": (1.0, "var"), "varh": (3600.0, "var s"),
    "V": (1.0, "kg m2 s-3 A-1"), "Ah": (3600.0, "A s"), "ohm": (1.0, "kg m2 s-3 A-2"),
    "F": (1.0, "kg-1 m-2 s4 A2"), "H": (1.0, "kg m2 s-2 A-2"), "Hz": (1.0, "s-1"),
    "l": (1e-3, "m3"), "L": (1e-3, "m3"), "rad": (1.0, "rad"), "lm": (1.0, "cd"),
    "lx": (1.0, "cd m-2"),
}
_WHOLE = {
    "min": (60.0, "s"), "h": (3600.0, "s"), "d": (86400.0, "s"), "ha": (1e4, "m2"),
    "t": (1e3, "kg"), "°C": (1.0, "K"), "°": (math.pi / 180, "rad"), "rpm": (1 / 60, "s-1"),
    "%": (0.01, ""), "ppm": (1e-6, ""),
}
_SPELLINGS = {
    "\N{OHM SIGN}": "ohm", "\N{GREEK CAPITAL LETTER OMEGA}": "ohm", "Ohm": "ohm", "ohms": "ohm",
    "\N{MICRO SIGN}": "u", "\N{GREEK SMALL LETTER MU}": "u", "VAr": "var",
    "\N{DEGREE CELSIUS}": "°C", "degC": "°C", "deg": "°", "²": "2", "³": "3", "^": "",
    "·": " ", "\N{DOT OPERATOR}": " ", "*": " ", "\N{MINUS SIGN}": "-",
}
# fmt: on
_ATOM = re.compile(r"([A-Za-z°%]+)(-?[0-9])?")
_ATOMS = re.compile(rf"{_ATOM.pattern}(?:[ .]*{_ATOM.pattern})*")
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9,.].*)?")
_KELVIN_AT_0_C = 273.15
_LONGEST_UNIT = 40


def convert(number: float, unit: str, to: str) -> float:
    """Return ``number`` of one unit in another; ValueError where they do not fit.

    ``/`` divides by all that follows it up to the next ``/``: ``W/m2K`` is ``W/(m2·K)``. ``°C``
    alone is a temperature, in company a difference.
    """
    unit, to = _spelled(unit), _spelled(to)
    factor, kind = _parsed(unit)
    own, own_kind = _parsed(to)
    if kind != own_kind:
        raise ValueError(f"{unit!r} is not a unit for {to!r}")
    if unit == to:
        return number
    shift = _KELVIN_AT_0_C if unit == "°C" else 0.0
    back = _KELVIN_AT_0_C if to == "°C" else 0.0
    return (number + shift) * factor / own - back


def _spelled(unit: str) -> str:
    for spelling, plain in _SPELLINGS.items():
        unit = unit.replace(spelling, plain)
    return " ".join(unit.split())


def _parsed(unit: str) -> tuple[float, dict[str, int]]:
    """Return a unit's size and what it measures, as powers of basic units."""
    factor = 1.0
    kind: dict[str, int] = {}
    for at, part in enumerate(unit.split("/")):
        inner = part.strip()
        inner = inner[1:-1] if inner[:1] == "(" and inner[-1:] == ")" else inner
        atoms = _ATOM.findall(inner)
        units = [_unit_named(name) for name, _ in atoms]
        if not _ATOMS.fullmatch(inner) or None in units or len(unit) > _LONGEST_UNIT:
            raise ValueError(f"{unit[:_LONGEST_UNIT]!r} is not a known unit")
        for (_, power), found in zip(atoms, units):  # noqa: B905  (strict is newer than 3.8)
            assert found is not None
            times = int(power or 1) * (-1 if at else 1)
            factor *= found[0] ** times
            for name, exponent in _ATOM.findall(found[1]):
                kind[name] = kind.get(name, 0) + times * int(exponent or 1)
    return factor, {name: power for name, power in kind.items() if power}


def _unit_named(name: str) -> tuple[float, str] | None:
    if name in _WHOLE:
        return _WHOLE[name]
    for length in (0, 1):
        power = _POWERS_OF_TEN.get(name[:length])
        if power is not None and name[length:] in _PREFIXED:
            factor, kind = _PREFIXED[name[length:]]
            return 10.0**power * factor, kind
    return None


def _checked(unit: str | None) -> str | None:
    if unit is not None:
        _parsed(_spelled(unit))
    return unit


def _number(value: object, unit: str | None) -> float | str:
    """Return the finite number that ``value`` stands for, in ``unit`` if any, or what is wrong."""
    if unit is not None and isinstance(value, dict) and set(value) == {"value", "unit"}:
        return _converted(value["value"], value["unit"], unit)
    if unit is not None and isinstance(value, str):
        match = _QUANTITY.fullmatch(value.strip()[:200].replace("\N{MINUS SIGN}", "-"))
        if match and match[2]:
            return _converted(float(match[1]), match[2], unit)
        return f"is a text, must be a number, or a number and a unit as in '1 {unit}'"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"is {_kind(value)}, must be a number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else "is infinite or too large, must be a number"


def _converted(value: object, given: object, unit: str) -> float | str:
    number = _number(value, None)
    if isinstance(number, str):
        return number
    if not isinstance(given, str):
        return f"has {_kind(given)} for a unit, must be a text"
    try:
        return _number(convert(number, given, unit), None)
    except ValueError as error:
        return str(error)


# Reading what an agent wrote.

_FENCE = re.compile(r" {0,3}(```+|~~~+)[ \t]*([\w-]*)[^`]*")
_LABELS = ("json", "jsonl", "ndjson")


def read_answer(output: str, workspace: str = WORKSPACE) -> dict[str, object]:
    """Return the last JSON object in a file, or raise Unusable with the reason.

    The file is JSON, JSONL (its last line counts), or text with JSON in a fenced block or at its
    end (the last one counts). Links are not followed, nothing is waited for, and no more than
    1 MiB is read.
    """
    path = Path(os.path.normpath(Path(workspace, output)))
    if Path(workspace) not in path.parents:
        raise ValueError(f"output: {output!r} is not below {workspace!r}; say which workspace")
    text = _text(path, Path(workspace))
    if not text.strip():
        raise Unusable(f"{path} is empty")
    try:
        value = _last_json(text)
    except RecursionError:
        raise Unusable(f"{path} is nested too deep") from None
    except ValueError as error:
        raise Unusable(f"{path} does not end in a JSON object: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise Unusable(f"{path} holds {_kind(value)}, must hold a JSON object")
    return value


def _text(path: Path, workspace: Path) -> str:
    # Not Path.resolve, which raises for links in a circle.
    root, directory = Path(os.path.realpath(workspace)), Path(os.path.realpath(path.parent))
    if root not in (directory, *directory.parents):
        raise Unusable(f"{path} is not below {workspace}")
    try:
        # Without O_NONBLOCK, a FIFO would keep it waiting for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise Unusable(f"{path} does not exist") from None
    except PermissionError:
        raise Unusable(f"{path} may not be read") from None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise
        raise Unusable(f"{path} is not a regular file") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unusable(f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Unusable(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unusable(f"{path} is not UTF-8") from None


def _last_json(text: str) -> object:
    try:
        return _loads(text)  # a fence in one of its texts is none
    except ValueError:
        blocks = _blocks(text)
    labelled = [block for label, block in blocks if label.lower() in _LABELS]
    unlabelled = [block for label, block in blocks if not label]
    return _last_document((labelled or unlabelled or [text])[-1])


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the label and the content of each fenced block that is closed."""
    blocks = []
    fence = label = ""
    inside: list[str] = []
    for line in text.splitlines():
        match = _FENCE.fullmatch(line)
        if not fence and match:
            fence, label, inside = match[1], match[2], []
        elif fence and match and match[1].startswith(fence) and line.strip() == match[1]:
            blocks.append((label, "\n".join(inside)))
            fence = ""
        elif fence:
            inside.append(line)
    return blocks


def _last_document(text: str) -> object:
    """Read all of the text, its last line, or what starts with the last ``{`` of a line."""
    try:
        return _loads(text)
    except ValueError as error:
        whole = error
    start = max(text.rfind("\n{") + 1, 0)
    for part in (text.rstrip().rpartition("\n")[2], text[start:]):
        try:
            return _loads(part)
        except ValueError:
            continue
    raise whole


def _loads(text: str) -> object:
    return json.loads(
        text, parse_int=_whole, parse_constant=float, object_pairs_hook=_without_duplicates
    )


def _whole(digits: str) -> float:
    # Thousands of digits take Python a long time, and newer ones refuse them.
    return int(digits) if len(digits) < 19 else float(digits)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object, refusing one that answers a field twice."""
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError("a key occurs twice")
    return built


# Grading and writing.

_MISSING = object()


class Grade(NamedTuple):
    """The reward of an answer: in all, by field, and why."""

    reward: float
    scores: dict[str, float]
    details: dict[str, dict[str, object]]


def grade(fields: Mapping[str, Field], answer: Mapping[str, object]) -> Grade:
    """Judge every field; the reward is the weighted mean of what they earn.

    A name with dots finds its value in nested objects, unless there is a field of just that name.
    """
    _check(fields)
    values = {name: _find(answer, name) for name in fields}
    verdicts = {
        name: Verdict(0.0, "missing") if values[name] is _MISSING else field.judge(values[name])
        for name, field in fields.items()
    }
    for name, verdict in verdicts.items():
        if not 0 <= verdict.score <= 1:
            raise ValueError(f"{name}: judge gave {verdict.score!r}; use a number from 0 to 1")
    changed = True
    while changed:  # a need may have needs of its own
        changed = False
        for name, field in fields.items():
            lacking = [need for need in field.needs if verdicts[need].score < 1]
            if lacking and verdicts[name].score > 0:
                verdicts[name] = Verdict(0.0, f"counts only with {', '.join(lacking)}")
                changed = True
    earned = math.fsum(field.weight * verdicts[name].score for name, field in fields.items())
    reward = round(earned / math.fsum(field.weight for field in fields.values()), 12)
    details: dict[str, dict[str, object]] = {
        name: {
            "ok": verdicts[name].score == 1,
            "score": verdicts[name].score,
            "got": None if values[name] is _MISSING else _shown(values[name]),
            "expected": field.expected,
            "tolerance": field.tolerance,
            "weight": field.weight,
            "error": verdicts[name].fault,
        }
        for name, field in fields.items()
    }
    return Grade(reward, {name: verdict.score for name, verdict in verdicts.items()}, details)


def _check(fields: Mapping[str, Field]) -> None:
    if not fields:
        raise ValueError("fields: none given; there is nothing to verify")
    if "reward" in fields:
        raise ValueError("fields: 'reward' is the name of the whole; call the field otherwise")
    for name, field in fields.items():
        for need in field.needs:
            if need not in fields or need == name:
                raise ValueError(f"{name}: needs {need!r}, which is not another field")


def _find(answer: Mapping[str, object], name: str) -> object:
    if name in answer:
        return answer[name]
    value: object = answer
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def verify(
    fields: Mapping[str, Field],
    output: str = "output.jsonl",
    *,
    workspace: str = WORKSPACE,
    logs: str = LOGS,
) -> float:
    """Grade the file ``output`` below ``workspace``, write the reward and its details, return it.

    The reward is written last, when nothing can fail any more.
    """
    problem = None
    answer: dict[str, object] = {}
    try:
        answer = read_answer(output, workspace)
    except Unusable as reason:
        problem = str(reason)
    graded = grade(fields, answer)
    directory = Path(logs)
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "details.json", {"problem": problem, "fields": graded.details})
    _write(directory / "reward.json", {"reward": graded.reward, **graded.scores})
    faults = [
        f"{name}: {field['error']}" for name, field in graded.details.items() if field["error"]
    ]
    print("\n".join([f"reward {graded.reward:g}", *([problem] if problem else faults)]))
    return graded.reward


def _write(path: Path, value: object) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(path)
