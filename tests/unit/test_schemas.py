"""The schemas for editors say what the readers do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_aecbench.documents.problems import load_toml
from pytest_aecbench.documents.strict import read_toml, read_yaml
from pytest_aecbench.settings.layers import DOCUMENTS
from pytest_aecbench.settings.schema import json_schema
from tests.unit.test_ladder import FULL

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs/configuration.md").read_text("utf-8")


def is_valid(name: str, data: Any) -> bool:
    return jsonschema.Draft202012Validator(json_schema(name)).is_valid(data)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema(name))
    assert json_schema(name)["title"] == DOCUMENTS[name]


@pytest.mark.parametrize("path", sorted((ROOT / "tasks").rglob("task.toml")), ids=str)
def test_shipped_tasks_are_valid(path: Path) -> None:
    assert is_valid("task", read_toml(path))


def test_documented_examples_are_valid(tmp_path: Path) -> None:
    (task,) = re.findall(r"<<'EOF'\n(version.*?)EOF", (ROOT / "docs/tasks.md").read_text(), re.S)
    assert is_valid("task", load_toml(task))
    (project,) = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.S)
    assert is_valid("project", load_toml(project))
    for text in (FULL, *re.findall(r"```yaml\n(.*?)```", CONFIGURATION, re.S)):
        (tmp_path / "x.yaml").write_text(text)
        assert is_valid("experiment", read_yaml(tmp_path / "x.yaml"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("task", {"metadata": {"difficulty": "eazy"}}),
        ("task", {"agent": {"timeout_sec": 0}}),
        ("experiment", {"repetitons": 1}),
        ("experiment", {"agents": [{"name": "a"}]}),
        ("experiment", {"agents": [{"harness": "a", "adapter": "a"}]}),
        ("experiment", {"compute": {"modal": 1}}),
        ("experiment", {"tasks": {"lifecycle": "dead"}}),
        ("project", {"paths": {"ledgr": "x"}}),
        ("project", {"paths": {"ledger": " "}}),
    ],
)
def test_what_is_refused_is_invalid(name: str, data: object) -> None:
    assert not is_valid(name, data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("task", {"agent": {"user": 1000}}),
        ("experiment", {"tasks": {"lifecycle": "active"}}),
        ("experiment", {"agents": [{"adapter": "a"}]}),
        ("project", {"compute": {"modal": {"timeout_sec": 1}}}),
    ],
)
def test_what_is_accepted_is_valid(name: str, data: object) -> None:
    assert is_valid(name, data)
