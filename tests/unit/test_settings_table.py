"""Every setting is in all the places that its row of the table names."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from pydantic import BaseModel

from pytest_aecbench.settings.model import Settings
from pytest_aecbench.settings.schema import ExperimentConfig, ProjectConfig
from pytest_aecbench.settings.table import TABLE, Setting
from pytest_aecbench.settings.values import CHECKS
from pytest_aecbench.tasks.selection import Selection

NOT_SETTINGS = {"experiment", "show_config"}
# Of no row: they follow from others, or from where and when the run is made.
DERIVED = {"root", "selection", "backend_options", "run_id", "given", "secret_names", "notes"}


def test_rows_and_settings_are_the_same_things() -> None:
    names = {field.name for model in (Settings, Selection) for field in fields(model)}
    rows = [row.name for row in TABLE]
    assert len(set(rows)) == len(rows)
    assert set(rows) - NOT_SETTINGS == names - DERIVED


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_is_complete(row: Setting) -> None:
    assert row.help
    assert not row.help.endswith(".")
    assert row.check in {None, "choice", "existing", "mounts", "path", *CHECKS}
    assert bool(row.choices) == (row.check == "choice")
    assert row.default in row.choices or not row.choices
    assert any((row.option, row.ini, row.project, row.experiment, row.user))
    if row.option:
        assert row.option.startswith("--aec-")


def keys_of(schema: dict[str, object], definitions: dict[str, object], prefix: str) -> set[str]:
    """Return the dotted keys of a JSON schema, those of the tables in it included."""
    found = set()
    for name, about in schema.get("properties", {}).items():  # type: ignore[attr-defined]
        found.add(f"{prefix}{name}")
        refs = [part.partition('"')[0] for part in json.dumps(about).split('"#/$defs/')[1:]]
        for ref in refs:
            found |= keys_of(definitions[ref], definitions, f"{prefix}{name}.")  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("model", "attribute"), [(ExperimentConfig, "experiment"), (ProjectConfig, "project")]
)
def test_a_key_of_a_row_is_one_of_the_file(model: type[BaseModel], attribute: str) -> None:
    schema = model.model_json_schema()
    keys = keys_of(schema, schema.get("$defs", {}), "")
    asked = {getattr(row, attribute) for row in TABLE if getattr(row, attribute)}
    assert asked
    assert asked <= keys
