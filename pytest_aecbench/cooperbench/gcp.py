"""CooperBench's own class for sandboxes on Google Cloud Batch."""

from __future__ import annotations

from pathlib import Path

from pytest_aecbench.backends.gcp import GCPBatchBackend as _Backend
from pytest_aecbench.cooperbench import EvalBackend
from pytest_aecbench.settings.layers import settings_at

__all__ = ["GCPBatchBackend"]


class GCPBatchBackend(EvalBackend):
    """Makes sandboxes whose commands are single jobs.

    The project's and the user's settings and the environment's variables say the rest.
    """

    def __init__(
        self,
        project_id: str | None = None,
        region: str | None = None,
        machine_type: str | None = None,
    ) -> None:
        options = settings_at(Path.cwd()).options_of("gcp")
        super().__init__(
            _Backend(options, project_id=project_id, region=region, machine_type=machine_type)
        )
