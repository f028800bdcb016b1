"""What the tests of the gcp backend work with: a project whose runs lead to the stand-ins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project
from tests.standins.batch import BatchServer
from tests.standins.buckets import Buckets

__all__ = ["BUCKET", "IMAGE", "Cloud"]

BUCKET = "project-1-aecbench"
IMAGE = "python:3.11-slim"


class Cloud:
    """Both stand-ins, and a project that uses them; ``options`` are those of ``compute.gcp``."""

    def __init__(
        self, server: BatchServer, buckets: Buckets, project: Project, env: Mapping[str, str]
    ) -> None:
        self.server = server
        self.buckets = buckets
        self.project = project
        self.env = dict(env)
        self.configure()

    @property
    def options(self) -> dict[str, Any]:
        return {"endpoint": self.server.url, "hide_bucket": False, "poll_sec": 0.2}

    def configure(self, **options: Any) -> None:
        """Write the project's file."""
        lines = ["[compute]", 'backend = "gcp"', "[compute.gcp]"]
        given = {**self.options, **options}
        lines += [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        (self.project.path / "aec-bench.toml").write_text("\n".join(lines) + "\n")

    def task(self, task_id: str = "electrical/ohms-law", toml: str = "", **parts: Any) -> Path:
        """Write a task that runs in an image of the registry, verified apart by default."""
        environment = f'[environment]\ndocker_image = "{IMAGE}"\n'
        if "[verifier]" not in toml:
            toml += '[verifier]\nenvironment_mode = "separate"\n'
        return self.project.task(task_id, toml=environment + toml, **parts)

    def run(self, *args: str) -> pytest.RunResult:
        """Run the project's trials."""
        with self.environment():
            return self.project.run(*args)

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Lead the clients to the stand-ins."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env.items():
                patch.setenv(name, value)
            yield

    def popen(self, *args: str, **more: Any) -> Any:
        """Start a run of its own process."""
        return self.project.pytester.popen(
            ["python", "-m", "pytest", "tasks", *args], env={**os.environ, **self.env}, **more
        )

    def left(self) -> tuple[list[str], list[str]]:
        """Return the jobs and objects that there are."""
        try:
            names = self.buckets.names(BUCKET)
        except KeyError:
            names = []
        return sorted(self.server.jobs), sorted(names)

    def created(self) -> int:
        """Return how many jobs were created."""
        return len(self.server.called(self.server.CREATE))
