"""Problems of a configuration file, in one line each: key, bad value, what would be right.

A field's description says what would be right; its error message ends with it.
"""

from __future__ import annotations

import re
import reprlib
import sys
from typing import TYPE_CHECKING, Any, get_args

from pytest_aecbench.text import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

__all__ = ["dotted", "load_toml", "model_problems", "shown"]


def load_toml(text: str) -> dict[str, Any]:
    """Return the data of a TOML text, or raise a ValueError of one line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_syntax_problem(text, str(error))) from None
    except RecursionError:
        raise ValueError("values are nested too deep; nest them less") from None
    except ValueError:
        raise ValueError("a number has too many digits; write a smaller one") from None


def model_problems(
    error: ValidationError, model: type[BaseModel], *, table: str = "a table"
) -> list[str]:
    """Return a line for each error of the model; ``table`` is the format's word for a mapping."""
    return [_problem(one, model, table) for one in error.errors(include_url=False)]


def _problem(error: ErrorDetails, model: type[BaseModel], table: str) -> str:
    where = dotted(*(part for part in error["loc"] if part != "[key]"))
    prefix = f"{where}: " if where else ""
    owner, advice = _followed(model, error["loc"], table)
    if error["type"] == "extra_forbidden":
        return f"{prefix}unknown key; {did_you_mean(str(error['loc'][-1]), owner.model_fields)}"
    if error["type"] == "missing":
        return f"{prefix}missing; add {advice}"
    if error["type"] == "custom":
        return prefix + error["msg"]
    if error["type"] == "literal_error":
        choices = sorted(re.findall("'[^']*'", error["ctx"]["expected"]))
        advice = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    return f"{prefix}{shown(error['input'])} is not valid; use {advice}"


def _followed(
    model: type[BaseModel], loc: tuple[int | str, ...], table: str
) -> tuple[type[BaseModel], str]:
    """Return the model that has the field at ``loc``, and what would be right there."""
    owner, inner, advice = model, model, table
    for part in loc:
        field = inner.model_fields.get(str(part)) if inner else None
        if field is not None and inner is not None:
            owner, inner = inner, _model_in(field.annotation)
            advice = field.description or table
        elif isinstance(part, int) and inner is not None:
            advice = table  # an item of a list of models has no description
        elif inner is not None:
            owner = inner
    return owner, advice


def _model_in(annotation: Any) -> Any:
    if hasattr(annotation, "model_fields"):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model), None)


_SYNTAX = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_BARE_WORDS = {
    **dict.fromkeys(("null", "None", "nil"), "TOML has no null, leave the key out"),
    **dict.fromkeys(("True", "False"), "write true or false"),
}


def _syntax_problem(text: str, message: str) -> str:
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    what, number, column = message, len(lines), 1
    if match := _SYNTAX.fullmatch(message):
        what, number, column = match[1], int(match[2] or len(lines)), int(match[3] or 1)
    line = lines[min(number, len(lines)) - 1]
    word = re.match(r"\w+", line[column - 1 :])
    advice = _BARE_WORDS.get(word[0] if word else "", "write valid TOML")
    return f"line {number}: {what[:1].lower()}{what[1:]} in {shown(line.strip())}; {advice}"


def dotted(*parts: int | str) -> str:
    """Join the parts of a key as TOML writes them, on one line."""
    plain = (str(p) if re.fullmatch(r"[\w-]{1,80}", str(p)) else shown(p) for p in parts)
    return ".".join(plain)


_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: object) -> str:
    """Return the value's repr, shortened."""
    try:
        return _short.repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return "a huge number"
