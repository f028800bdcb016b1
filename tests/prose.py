"""The rules for English in pages, docstrings, comments and messages."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

# What to avoid -> what to write instead.
PHRASES = {
    r"(?<!\bthere )\bis no (?!longer\b)": "is not a",
    r"(?<!\bthere )\bare no (?!longer\b)": "are not",
    r"\bwhoever\b": "the noun that is meant",
    r"\bnobody\b": "no process, no user, …",
    r"\bof late\b": "recently",
    r", for (?:it|they|such|these|those|all|only)\b": "because",
    r"\btakes? note\b": "remember, record",
    r"(?:^|[.!?] )(?-i:What) [^?.]*(?:\.|$)|; (?-i:what) [^?.]*(?:\.|$)": "a noun as the subject",
    r"\bas it stands\b": "right away, unchanged",
    r"\ball the same\b": "still",
}


def faults(text: str) -> list[str]:
    """Return what is wrong with some sentences, one line for each phrase."""
    return [
        f"{' '.join(match[0].split())!r}: write {better!r} (…{_around(text, match)}…)"
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase, " ".join(text.split()), re.IGNORECASE)
    ]


def _around(text: str, match: re.Match[str]) -> str:
    return " ".join(text.split())[max(0, match.start() - 30) : match.end() + 30]


# Nouns that messages count.
COUNTED = re.compile(
    r" (?:(?!with|has|runs)[a-z]+ )?(?:agent|attempt|check|error|experiment|line|record|row|sandbox"
    r"|section|task|template|trial|warning)(?:s|es)\b"
)


@cache
def _nodes(module: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(module.read_text(encoding="utf-8"))))


def uncounted(module: Path) -> Iterator[str]:
    """Yield the messages of a module in which a plural noun follows a number that may be one."""
    for node in _nodes(module):
        for number, text in pairwise(node.values if isinstance(node, ast.JoinedStr) else []):
            if not isinstance(number, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            is_constant = (
                isinstance(number.value, ast.Name) and number.value.id.strip("_").isupper()
            )
            if COUNTED.match(str(text.value)) and not is_constant:
                yield ast.unparse(node)


def paragraphs(page: str) -> list[str]:
    """Return the paragraphs, list items and table rows of a page, without code and headings."""
    text = re.sub(r"^ *```.*?^ *```$", "\n", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`", "`…`", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    text = re.sub(r"^(?=\s*(?:[-*]|\d+\.|\|) ?)|^(?=#)|(?<=\n)(?=#)", "\n", text, flags=re.M)
    blocks = (block.strip() for block in re.split(r"\n\s*\n", text))
    return [block for block in blocks if block and not block.startswith(("#", "|--"))]


def docstrings(module: Path) -> Iterator[str]:
    """Yield the docstrings of a module, for the same rules."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in _nodes(module):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def comments(module: Path) -> Iterator[str]:
    """Yield the comments of a module, those of several lines whole."""
    lines: list[str] = []
    last = 0
    with tokenize.open(module) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            if lines and token.start[0] != last + 1:
                yield " ".join(lines)
                lines = []
            last = token.start[0]
            lines.append(token.string.lstrip("# "))
    if lines:
        yield " ".join(lines)


def messages(module: Path) -> Iterator[str]:
    """Yield the string literals of a module that have several words, with its docstrings."""
    for node in _nodes(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
