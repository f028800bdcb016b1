"""Parameters recovered from a prompt and its files alone, as a solver must find them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_aecbench.suites.draws import recomputed
from pytest_aecbench.suites.prompt import GIVEN_HEAD
from pytest_aecbench.suites.template import PLAIN, looked_up, row_name

if TYPE_CHECKING:
    from pytest_aecbench.suites.schema import Value
    from pytest_aecbench.suites.template import Params, Template

__all__ = ["recovered"]

_ROW = re.compile(r"\| (.*?) \| (.*?) \| .* \|")


def recovered(
    template: Template, difficulty: str, visibility: str, prompt: str, files: Mapping[str, str]
) -> Params:
    """Return the parameters that the texts disclose.

    Raises:
        ValueError: a value is not there, or not in the form in which it should be.

    """
    level = template.levels[difficulty]
    rows = _rows(prompt)
    params: Params = {}
    for name in level.params:
        param = template.params[name]
        if name not in level.hides(visibility):
            text = rows.get(row_name(param))
            if text is None:
                raise ValueError(f"the prompt does not state {name}")
            params[name] = template.value(name, text)
            continue
        derive = param.derive
        assert derive is not None
        if derive.rule is not None:
            if derive.rule not in files.get(str(derive.document), ""):
                raise ValueError(f"no file states the rule for {name}")
            params[name] = recomputed(template, name, params)
        elif derive.archetype:
            params[name] = _of_scenario(template, difficulty, name, prompt)
        else:
            key = rows.get(row_name(template.params[str(derive.key)])) if not derive.row else None
            wanted = derive.row or str(key)
            params[name] = template.value(name, looked_up(files[str(derive.file)], derive, wanted))
    return params


def _rows(prompt: str) -> dict[str, str]:
    """Return the cells of the table of given values, by the names of its rows."""
    table = prompt.partition(GIVEN_HEAD)[2].partition("\n\n")[0]
    rows = map(_ROW.fullmatch, table.splitlines())
    return {row[1]: row[2] for row in rows if row}


def _of_scenario(template: Template, difficulty: str, name: str, prompt: str) -> Value:
    """Return the one value that the scenarios described in the prompt have."""
    told = {
        template.grids[difficulty, archetype][name].at(0)
        for archetype in template.levels[difficulty].archetypes
        if archetype != PLAIN and template.table.archetypes[archetype].description in prompt
    }
    if len(told) != 1:
        raise ValueError(f"the prompt describes {len(told)} scenarios that tell {name}")
    return told.pop()
