"""Plain modules ← what plugs in ← plugin modules ← plugin.py: nothing points the other way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest_aecbench
from pytest_aecbench import plugin

PACKAGE = Path(pytest_aecbench.__file__).parent
PLUGIN_MODULES = {name.partition(".")[2] for name in plugin.pytest_plugins}


def imports(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, without those for types alone."""
    found = set()
    for node in ast.walk(_without_type_checking(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pytest_aecbench"):
            base = (node.module or "").partition(".")[2]
            found |= {base} if base else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.partition(".")[2]
                for alias in node.names
                if alias.name.startswith("pytest_aecbench.")
            }
    return found


def _without_type_checking(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return tree


def modules() -> dict[str, Path]:
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__") or "__init__"] = path
    return names


def test_only_the_table_of_contents_names_plugin_modules() -> None:
    assert len(PLUGIN_MODULES) == 12
    for name, path in modules().items():
        assert not imports(path) & PLUGIN_MODULES, name


def test_values_and_rules_do_not_import_what_plugs_in() -> None:
    plain = {
        "agentspec",
        "documents",
        "comparison",
        "comparison_text",
        "datasets.archives",
        "datasets.building",
        "datasets.changes",
        "datasets.importing",
        "datasets.inuse",
        "datasets.manifest",
        "datasets.names",
        "datasets.paths",
        "datasets.store",
        "commandline",
        "checks",
        "checks.ledger",
        "errors",
        "experiment",
        "gates",
        "homes",
        "leases",
        "leaderboard",
        "ledger",
        "machine",
        "markdown",
        "problems",
        "ownership",
        "query",
        "record",
        "region",
        "reward",
        "runconfig",
        "schemas",
        "scaffolding",
        "scrubbing",
        "selection",
        "slots",
        "spending",
        "standing",
        "statistics",
        "summary",
        "task",
        "taskconfig",
        "variables",
        "verify",
    }
    for name in plain:
        used = imports(modules()[name])
        assert not {one for one in used if one.startswith(("backends.", "agents."))}, name
        assert used - {"__version__"} <= plain, name


def test_backends_and_agents_know_nothing_of_pytest() -> None:
    for name, path in modules().items():
        if name.startswith(("backends", "agents")):
            tree = _without_type_checking(ast.parse(path.read_text(encoding="utf-8")))
            names = {
                alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            assert "pytest" not in names, name
            assert "settings" not in imports(path), name


def test_only_the_models_import_pydantic() -> None:
    users = {
        name
        for name, path in modules().items()
        if any(
            isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pydantic")
            for node in ast.walk(_without_type_checking(ast.parse(path.read_text())))
        )
    }
    assert users == {"datasets.manifest", "record", "runconfig", "taskconfig"}
