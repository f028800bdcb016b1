"""Composing the report from its sections, in the order of the template."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.agents.lambda_rlm.writing import SectionResult

__all__ = ["compose", "sections_json"]

_OWN_HEADING = re.compile(r"\A\s*#{1,2}[ \t]+[^\n]*\n+")


def compose(sections: Mapping[str, SectionResult]) -> str:
    """Return the report; a section that was not written says so."""
    parts = []
    for number, section in enumerate(sections.values(), 1):
        text = _OWN_HEADING.sub("", f"{section.content.strip()}\n").strip()
        text = text or f"[Not written: {section.failure or 'empty'}]"
        parts.append(f"# {number}. {section.title}\n\n{text}\n")
    return "\n".join(parts)


def sections_json(sections: Mapping[str, SectionResult]) -> str:
    """Return the sections with what is missing in them, as JSON."""
    data = {name: section.to_json() for name, section in sections.items()}
    return f"{json.dumps(data, ensure_ascii=False, indent=2)}\n"
