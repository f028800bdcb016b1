"""The templates that exist: those of this package, and those of a project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.suites.loading import load_template
from pytest_aecbench.suites.template import PARAMS_FILE, Template
from pytest_aecbench.text import counted, nearest

__all__ = ["SHIPPED", "find_template", "find_templates", "matching"]

SHIPPED = Path(__file__).parents[1] / "templates"
_DEPTHS = ("*", "*/*", "*/*/*")


def find_templates(
    roots: Iterable[Path] = (), on_problem: Callable[[SettingsError], None] | None = None
) -> dict[str, Template]:
    """Return all templates by their logical path: the package's own, and those below the roots.

    A wrong template is left out if ``on_problem`` takes its error.

    Raises:
        SettingsError: a template is wrong, or two have the same path.

    """
    found: dict[str, Template] = {}
    for directory in _directories([SHIPPED, *roots]):
        try:
            template = load_template(directory)
            if other := found.get(template.id):
                where, there = shown_path(directory), shown_path(other.path)
                what = f"{template.id} is also in {there}"
                raise SettingsError(f"{where}: {what}; rename one of them")
        except SettingsError as error:
            if on_problem is None:
                raise
            on_problem(error)
            continue
        found[template.id] = template
    return dict(sorted(found.items()))


def _directories(roots: Iterable[Path]) -> list[Path]:
    files = {
        file.parent.resolve(): file.parent
        for root in roots
        for depth in _DEPTHS
        for file in sorted(root.glob(f"{depth}/{PARAMS_FILE}"))
        if not any(part.startswith(".") for part in file.relative_to(root).parts)
    }
    return list(files.values())


def find_template(name: str, templates: Mapping[str, Template]) -> Template:
    """Return the template of a name, with or without its discipline."""
    if name in templates:
        return templates[name]
    same = [template for template in templates.values() if template.table.meta.name == name]
    if len(same) == 1:
        return same[0]
    if same:
        ids = ", ".join(template.id for template in same)
        raise SettingsError(f"NAME: {name!r} could be {ids}; write its discipline too")
    names = [*templates, *(template.table.meta.name for template in templates.values())]
    near = nearest(name, names)
    listed = "'aec-bench generate list-templates' lists them"
    right = f"did you mean {near!r}?" if near else listed
    raise SettingsError(f"NAME: {name!r} is not a template; {right}")


def matching(patterns: Iterable[str], templates: Mapping[str, Template]) -> list[Template]:
    """Return the templates whose logical path matches one of the patterns."""
    patterns = list(patterns)
    chosen = [
        template
        for path, template in templates.items()
        if any(fnmatchcase(path, pattern) for pattern in patterns)
    ]
    if not chosen:
        disciplines = sorted({path.partition("/")[0] for path in templates})
        raise SettingsError(
            f"templates.include: {', '.join(map(repr, patterns))} matches none of "
            f"{counted(len(templates), 'template')}; use patterns such as "
            + ", ".join(repr(f"{name}/*") for name in disciplines)
        )
    return chosen
