"""The logs of tasks that failed: what Batch says of them, and what they wrote to the bucket."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.gcp.cloud import NotThere
from pytest_aecbench.errors import AecBenchError, BackendError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from google.cloud import batch_v1

    from pytest_aecbench.backends.gcp.cloud import Cloud

__all__ = ["LOG_NAME", "explained"]

LOG_NAME = "gcp.log"
_MOST_BYTES = 16 * 1024**2  # many times more than the scripts write
_PHASES = ("agent", "verify")


def explained(
    error: AecBenchError,
    cloud: Cloud,
    directory: Path,
    *,
    where: tuple[str, int] | None = None,
    events: Iterable[batch_v1.StatusEvent] = (),
    uid: str = "",
) -> AecBenchError:
    """Return the error with the places of the logs, after writing them to a trial's directory.

    ``where`` is the directory of the bucket and the index of the task, if it has run; ``uid`` is
    the job's, by which Cloud Logging finds what the machines said. Errors that are not those of a
    backend have nothing to do with a task.
    """
    if not isinstance(error, BackendError):
        return error
    parts = [str(error)]
    lines = [f"{_time(event)} Batch: {event.description}\n" for event in events]
    if where is not None:
        lines += [_of_phase(cloud, f"{where[0]}{phase}-{where[1]}.log") for phase in _PHASES]
    path = directory / LOG_NAME
    if text := "".join(lines):
        with suppress(OSError):  # which is told where the trial's own files cannot be written
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
            parts.append(f"its log is in {path}")
    if uid:
        parts.append(f"all that its machine said is at {cloud.log_link(uid)}")
    return type(error)("; ".join(parts))


def _of_phase(cloud: Cloud, name: str) -> str:
    """Return what a runnable has written; nothing if it never began, or cannot be read now."""
    file = BytesIO()
    try:
        cloud.bucket.read(name, file, most=_MOST_BYTES)
    except NotThere:
        return ""
    except AecBenchError as error:
        return f"{name}: {error}\n"
    return file.getvalue().decode(errors="replace")


def _time(event: Any) -> str:
    return f"{event.event_time:%Y-%m-%dT%H:%M:%SZ}"
