"""The parser of gates, such as ``mean>=0.6 and errors<=5%``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.reports.gates import (
    FILTERS,
    METRICS,
    OPERATORS,
    WORD,
    Clause,
    Combination,
    Condition,
    Filter,
    Gate,
    Not,
)
from pytest_aecbench.text import did_you_mean, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


__all__ = ["parse_gate"]


_PASS = re.compile(r"pass[@^][1-9][0-9]{0,3}")
# Matches wherever it is tried: at the end, nothing.
_TOKEN = re.compile(
    rf"""\s*({WORD.pattern}|"[^"]*"|'[^']*'|(?P<unclosed>["'].*)|[<>=]=|[<>=()\[\],]|\Z)""",
    re.DOTALL,
)
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(%?)")

# Far more than a person writes, far less than what Python's stack or a terminal can take.
_MAX_DEPTH = 20
_MAX_TOKENS = 500
_MAX_TOKEN_LENGTH = 200


def parse_gate(text: str, where: str) -> Gate:
    """Read a gate.

    ::

        gate       = all {"or" all}
        all        = one {"and" one}
        one        = "not" one | "(" gate ")" | comparison
        comparison = metric ["[" filter {"," filter} "]"] ("<" | "<=" | "==" | ">" | ">=") number
        metric     = "errors" | "mean" | "min" | "pass@K" | "pass^K" | "trials"
        filter     = ("agent" | "difficulty" | "domain" | "task") "=" (word | quoted string)

    Raises:
        SettingsError: ``text`` is not a gate; the message starts with ``where``.

    """
    return _Parser(text, where).gate()


class _Token(NamedTuple):
    """A word, a quoted string or a sign; the end of the text is empty."""

    text: str
    column: int

    def __str__(self) -> str:
        return repr(shortened(self.text, 80)) if self.text else "the end"


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._depth = 0
        self._tokens = self._read()
        self._token = next(self._tokens)

    def gate(self) -> Gate:
        condition = self._any()
        if self._token.text:
            raise self._unexpected("'and', 'or' or the end")
        return Gate(condition)

    def _any(self) -> Condition:
        return self._joined("or", self._all)

    def _all(self) -> Condition:
        return self._joined("and", self._one)

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._token.text == word:
            self._advance()
            parts.append(part())
        return Combination(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _one(self) -> Condition:
        opening = self._token
        if opening.text not in ("not", "("):
            return self._comparison()
        if self._depth == _MAX_DEPTH:
            raise self._error(opening, f"nested too deep; use at most {_MAX_DEPTH} levels")
        self._depth += 1
        self._advance()
        if opening.text == "not":
            condition: Condition = Not(self._one())
        else:
            condition = self._any()
            self._expect(")", "'and', 'or' or ')'")
        self._depth -= 1
        return condition

    def _comparison(self) -> Clause:
        metric = self._metric()
        filters = tuple(self._filters()) if self._token.text == "[" else ()
        if self._token.text not in OPERATORS:
            raise self._unexpected(f"one of {', '.join(OPERATORS)}")
        return Clause(metric, filters, self._advance().text, self._number(metric))

    def _metric(self) -> str:
        token = self._token
        if not WORD.fullmatch(token.text) or token.text in ("and", "or"):
            raise self._unexpected(f"'not', '(' or one of {', '.join(METRICS)}")
        if not _PASS.fullmatch(token.text):
            if token.text.startswith(("pass@", "pass^")):
                right = "use a whole number from 1 to 9999 for K, as in pass@3"
                raise self._error(token, f"{token} has no valid K; {right}")
            if token.text not in METRICS:
                raise self._unknown("metric", METRICS)
        return self._advance().text

    def _filters(self) -> Iterator[Filter]:
        while self._advance().text in ("[", ","):
            if not WORD.fullmatch(self._token.text):
                raise self._unexpected(f"one of {', '.join(FILTERS)}")
            if self._token.text not in FILTERS:
                raise self._unknown("filter", FILTERS)
            key = self._advance().text
            self._expect("=", "'='")
            yield Filter(key, self._value())
            if self._token.text not in (",", "]"):
                raise self._unexpected("',' or ']'")

    def _value(self) -> str:
        token = self._token
        quoted = token.text[:1] in ("'", '"')
        value = token.text[1:-1] if quoted else token.text
        if not value or not (quoted or WORD.fullmatch(value)):
            raise self._unexpected("a word or a quoted string, with * for any text")
        if not value.isprintable():
            raise self._error(token, f"{token} cannot be shown; use printable characters")
        self._advance()
        return value

    def _number(self, metric: str) -> float:
        if metric == "trials":
            number, right = _count(self._token.text), "a whole number"
        else:
            number, right = _share(self._token.text), "a number from 0 to 1, such as 0.6 or 60%"
        if number is None:
            raise self._unexpected(right)
        self._advance()
        return number

    def _advance(self) -> _Token:
        """Step to the next token and return the one left behind."""
        token, self._token = self._token, next(self._tokens)
        return token

    def _expect(self, text: str, right: str) -> None:
        if self._token.text != text:
            raise self._unexpected(right)
        self._advance()

    def _read(self) -> Iterator[_Token]:
        for number, match in enumerate(_TOKEN.finditer(self._text)):
            token = _Token(match[1], match.start(1) + 1)
            if number == _MAX_TOKENS and token.text:
                raise self._error(token, f"too long; use at most {_MAX_TOKENS} words and signs")
            if match["unclosed"]:
                raise self._error(token, f"{token} has no closing quote; add one")
            if len(token.text) > _MAX_TOKEN_LENGTH:
                right = f"use at most {_MAX_TOKEN_LENGTH} characters"
                raise self._error(token, f"{token} is too long; {right}")
            yield token

    def _unexpected(self, right: str) -> SettingsError:
        return self._error(self._token, f"found {self._token}; expected {right}")

    def _unknown(self, what: str, known: Mapping[str, object] | Sequence[str]) -> SettingsError:
        right = did_you_mean(self._token.text, known)
        return self._error(self._token, f"unknown {what} {self._token}; {right}")

    def _error(self, token: _Token, message: str) -> SettingsError:
        text = repr(shortened(self._text, 80))
        return SettingsError(f"{self._where}: {text}: column {token.column}: {message}")


def _count(text: str) -> float | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _share(text: str) -> float | None:
    match = _SHARE.fullmatch(text)
    if match is None:
        return None
    share = Fraction(match[1]) / (100 if match[2] else 1)
    return float(share) if share <= 1 else None
