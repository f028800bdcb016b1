"""List and remove the Docker images that were built for tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, NotFound

from pytest_aecbench.backends.docker.build import DIGEST_LABEL
from pytest_aecbench.backends.docker.engine import translated
from pytest_aecbench.errors import BackendError
from pytest_aecbench.host.owner import LABEL_PREFIX

__all__ = ["BuiltImage", "find_images", "remove_image"]

_OURS = "aecbench/"
_DAY_SEC = 86_400


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that we built; its size includes layers that it shares with others."""

    image_id: str
    tags: tuple[str, ...]
    size: int
    created: int
    in_use: bool

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it was built for; none if a newer image has replaced it."""
        return tuple(tag.removeprefix(_OURS).partition(":")[0] for tag in self.tags)

    @property
    def age_days(self) -> float:
        """The days since it was built."""
        return max(0.0, time.time() - self.created) / _DAY_SEC


def find_images(api: Any) -> list[BuiltImage]:
    """Return the images that we built, the oldest first."""
    with translated(BackendError, "listing images"):
        # An image made from one of ours has its label too, so the name decides.
        listed = api.images(filters={"label": DIGEST_LABEL})
        used = {one["ImageID"] for one in api.containers(all=True)}
        found = []
        for one in listed:
            tags = [tag for tag in one["RepoTags"] or () if tag != "<none>:<none>"]
            ours = tuple(sorted(tag for tag in tags if tag.startswith(_OURS)))
            if ours or (not tags and _is_superseded(api, one["Id"])):
                in_use = one["Id"] in used
                found.append(BuiltImage(one["Id"], ours, one["Size"], one["Created"], in_use))
    return sorted(found, key=lambda image: (image.created, image.tags))


def _is_superseded(api: Any, image_id: str) -> bool:
    """Return whether an image without a name is ours: its last step sets our labels."""
    try:
        history = api.history(image_id)
    except NotFound:
        return False
    return bool(history) and f"LABEL {LABEL_PREFIX}" in history[0]["CreatedBy"]


def remove_image(api: Any, image: BuiltImage) -> bool:
    """Remove the image, or only our names if others need it; return False if that fails."""
    removed = True
    for name in image.tags or (image.image_id,):
        with translated(BackendError, f"removing {name}"):
            try:
                api.remove_image(name)
            except NotFound:
                pass
            except APIError as error:
                if error.status_code != 409:
                    raise
                removed = False  # a container or another image now needs it
    return removed
