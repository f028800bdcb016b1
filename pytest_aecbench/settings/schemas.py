"""JSON schemas of the files that users write, for editors and other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["NAMES", "json_schema"]

# name -> the file it is for
NAMES = {"task": "task.toml", "experiment": "experiment.yaml", "project": "aec-bench.toml"}


def json_schema(name: str) -> dict[str, Any]:
    """Return the schema of that name, made from the model that reads the file."""
    from pytest_aecbench.settings.schema import ExperimentConfig, ProjectConfig
    from pytest_aecbench.tasks.schema import TaskConfig

    models: dict[str, type[BaseModel]] = {
        "task": TaskConfig,
        "experiment": ExperimentConfig,
        "project": ProjectConfig,
    }
    schema = models[name].model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": NAMES[name],
    }
