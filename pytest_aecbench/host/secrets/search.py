"""Search for secrets in bytes of any length, in one way for text, files, names and streams."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.host.secrets.forms import IGNORED, Form, fold, forms, unescaped
from pytest_aecbench.text import CUT

if TYPE_CHECKING:
    import mmap

__all__ = ["Search", "Span", "replaced"]

# Data is searched in windows that the processor's cache holds, with room for line breaks between
# the characters of a secret that lies across two of them.
_WINDOW = 1 << 20
_ROOM = 4096
_BLOCK = 32

# ``CUT`` stands for the middle of an over-long output, which may cut a secret in two. A part with
# fewer characters than ``_SHORTEST_PART`` reveals nothing. In messages, dots stand for something
# left out, but people also write the beginning of a key with dots to explain what keys look like.
_CUT, _DOTS = re.compile(CUT.encode()), re.compile(rb"\.{3,}")
_SHORTEST_PART, _SHORTEST_END = 4, 8


class Span(NamedTuple):
    """A place where a secret stands, and the label to put there."""

    start: int
    end: int
    label: bytes


class Search:
    """Finds all forms of some secrets."""

    def __init__(self, secrets: Iterable[tuple[str, bytes]]) -> None:
        labels: dict[Form, bytes] = {}
        for value, label in secrets:
            for form in forms(value):
                labels.setdefault(form, label)
        self._forms = [(form.needle, form, label) for form, label in labels.items()]
        self._wholes: dict[bytes, bytes] = {}
        for form, label in labels.items():
            self._wholes.setdefault(form.whole, label)
        self._near = 2 * max(map(len, self._wholes), default=0)
        self.reach = self._near + _ROOM

    def __bool__(self) -> bool:
        return bool(self._forms)

    @property
    def labels(self) -> list[str]:
        """The labels of the secrets, sorted."""
        return sorted({label.decode(errors="replace") for label in self._wholes.values()})

    def find(self, data: bytes | mmap.mmap, *, has_dots: bool = False) -> list[Span]:
        """Return the places of secrets, in order; overlapping ones are joined under one label.

        ``has_dots`` is for messages, in which dots may stand for a part of a secret.
        """
        if not self:
            return []
        found = [*self._found(data), *self._found_at_cuts(data)]
        if has_dots:
            found += self._found_at_dots(data)
        found.sort(key=lambda span: (span.start, -span.end))
        apart: list[Span] = []
        for span in found:
            if apart and span.start < apart[-1].end:
                apart[-1] = apart[-1]._replace(end=max(apart[-1].end, span.end))
            else:
                apart.append(span)
        return apart

    def find_in_each(self, pieces: Sequence[bytes]) -> list[list[Span]]:
        """Return the places in each piece; a secret may go on from one piece to the next."""
        starts = [0, *accumulate(len(piece) + 1 for piece in pieces)]
        places: list[list[Span]] = [[] for _ in pieces]
        for span in self.find(b"\n".join(pieces), has_dots=True):
            index = bisect_right(starts, span.start) - 1
            while index < len(pieces) and starts[index] < span.end:
                start = max(span.start - starts[index], 0)
                end = min(span.end - starts[index], len(pieces[index]))
                if start < end:
                    places[index].append(Span(start, end, span.label))
                index += 1
        return places

    def beginning(self, data: bytes) -> int:
        """Return where the last bytes could be the beginning of a secret; else the data's end."""
        raw = data[-self.reach :]
        folded = fold(raw)
        positions = _Positions(raw, folded)
        sizes = (_shared(folded[1 - len(whole) :], whole) for whole in self._wholes)
        starts = [positions[len(folded) - size] for size in sizes if size]
        return len(data) - len(raw) + min(starts, default=len(raw))

    @cached_property
    def _wholes_with(self) -> dict[bytes, set[bytes]]:
        """The forms that have a sequence of a few bytes in them."""
        found: dict[bytes, set[bytes]] = defaultdict(set)
        for whole in self._wholes:
            for start in range(len(whole) - _SHORTEST_PART + 1):
                found[whole[start : start + _SHORTEST_PART]].add(whole)
        return found

    def _found(self, data: bytes | mmap.mmap) -> Iterator[Span]:
        window = max(_WINDOW, 8 * self.reach)
        for start in range(0, len(data), window):
            begin = max(0, start - self.reach)
            raw = bytes(data[begin : start + window])
            for found in self._found_in(raw):
                yield Span(begin + found.start, begin + found.end, found.label)

    def _found_in(self, raw: bytes) -> Iterator[Span]:
        readings = [raw]
        if b"\\" in raw and (other := unescaped(raw)) != raw:
            readings.append(other)
        for reading in readings:
            folded = fold(reading)
            positions = _Positions(reading, folded)
            for needle, form, label in self._forms:
                at = folded.find(needle)
                while at >= 0:
                    start, end = _extended(folded, form, at)
                    first, last = positions[start], positions[end - 1] + 1
                    if form.fits(raw[first:last]):
                        yield Span(first, last, label)
                    at = folded.find(needle, at + 1)

    def _found_at_cuts(self, data: bytes | mmap.mmap) -> Iterator[Span]:
        """Yield the places of a secret's beginning before a cut, and of its end after one."""
        if data.find(b" left out]\n") >= 0:
            for cut in _CUT.finditer(data):
                yield from self._found_before(data, cut.start()).values()
                yield from self._found_after(data, cut.end()).values()

    def _found_at_dots(self, data: bytes | mmap.mmap) -> Iterator[Span]:
        for dots in _DOTS.finditer(data):
            before = self._found_before(data, dots.start())
            after = self._found_after(data, dots.end())
            for whole, span in before.items():
                if whole in after or span.end - span.start >= len(whole) / 2:
                    yield span
            for whole, span in after.items():
                if whole in before or span.end - span.start >= _SHORTEST_END:
                    yield span

    def _found_before(self, data: bytes | mmap.mmap, stop: int) -> dict[bytes, Span]:
        near = bytes(data[max(0, stop - 2 * _SHORTEST_PART) : stop])
        stop -= len(near) - len(near.rstrip(b"\r\n"))
        candidates = self._wholes_with.get(fold(near.rstrip(b"\r\n")[-_SHORTEST_PART:]))
        if not candidates:
            return {}
        raw = bytes(data[max(0, stop - self._near) : stop])
        folded = fold(raw)
        positions = _Positions(raw, folded)
        return {
            whole: Span(stop - len(raw) + positions[len(folded) - size], stop, self._wholes[whole])
            for whole in candidates
            if (size := _shared(folded, whole))
        }

    def _found_after(self, data: bytes | mmap.mmap, start: int) -> dict[bytes, Span]:
        candidates = self._wholes_with.get(fold(bytes(data[start : start + _SHORTEST_PART])))
        if not candidates:
            return {}
        raw = bytes(data[start : start + self._near])
        folded = fold(raw)
        positions = _Positions(raw, folded)
        return {
            whole: Span(start, start + positions[size - 1] + 1, self._wholes[whole])
            for whole in candidates
            if (size := _shared(whole, folded))
        }


def replaced(data: bytes | mmap.mmap, spans: Iterable[Span]) -> Iterator[bytes]:
    """Yield the data with labels in place of the spans, piece by piece."""
    position = 0
    for span in spans:
        yield bytes(data[position : span.start])
        yield span.label
        position = span.end
    yield bytes(data[position:])


def _extended(folded: bytes, form: Form, at: int) -> tuple[int, int]:
    """Return the place of as much of the form as is there around its needle."""
    whole, offset = form.whole, form.offset
    start = at - offset
    if start >= 0 and folded.startswith(whole, start):
        return start, start + len(whole)
    before = 0
    while before < min(at, offset) and folded[at - before - 1] == whole[offset - before - 1]:
        before += 1
    size = len(form.needle)
    while folded[at + size : at + size + 1] == whole[offset + size : offset + size + 1] != b"":
        size += 1
    return at - before, at + size


def _shared(first: bytes, second: bytes) -> int:
    """Return how many bytes ``first`` ends and ``second`` begins with; 0 if too few to matter."""
    beginning = second[:_SHORTEST_PART]
    at = first.find(beginning, max(0, len(first) - len(second)))
    while at >= 0:
        if len(first) - at >= _SHORTEST_PART and second.startswith(first[at:]):
            return len(first) - at
        at = first.find(beginning, at + 1)
    return 0


class _Positions:
    """Maps positions in folded bytes to positions in the bytes that were folded."""

    def __init__(self, raw: bytes, folded: bytes) -> None:
        self._raw = raw
        self._is_same = len(raw) == len(folded)
        self._kept: list[int] = []

    def __getitem__(self, index: int) -> int:
        if self._is_same:
            return index
        if not self._kept:
            blocks = (self._raw[at : at + _BLOCK] for at in range(0, len(self._raw), _BLOCK))
            self._kept = [0, *accumulate(len(fold(block)) for block in blocks)]
        block = bisect_right(self._kept, index) - 1
        missing = index - self._kept[block]
        for position in range(block * _BLOCK, len(self._raw)):
            if self._raw[position] not in IGNORED:
                if not missing:
                    return position
                missing -= 1
        return len(self._raw)
