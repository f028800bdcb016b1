"""``aec-bench images``: list and remove the images that trials have built on a Docker engine."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pytest_aecbench.cli.console import AsJson, print_json
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.backends.docker.images import BuiltImage

__all__ = ["images"]

images = typer.Typer(
    help="The images that were built for tasks on the Docker engine.", no_args_is_help=True
)


@images.command("list")
def list_images(as_json: AsJson = False) -> None:
    """List the images with task, size, age, and whether a container uses them.

    Example: aec-bench images list
    """
    with _engine() as (_, found):
        pass
    if as_json:
        print_json([_as_data(image) for image in found])
        return
    for image in found:
        typer.echo(_as_line(image))
    typer.echo(counted(len(found), "image"))


@images.command()
def prune(
    older_than: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS", min=0.0, help="Only images that were built more than DAYS ago."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed; remove nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the images that no container uses; they are built again when a task needs them.

    Only images that were built for tasks are removed. Run it while no trials run.

    Example: aec-bench images prune --older-than 30
    """
    removed = []
    with _engine() as (api, found):
        for image in found:
            old = older_than is None or image.age_days > older_than
            if old and not image.in_use and (dry_run or _remove(api, image)):
                removed.append(image)
    if as_json:
        print_json({"dry_run": dry_run, "removed": [_as_data(image) for image in removed]})
        return
    for image in removed:
        typer.echo(_as_line(image))
    would = "would be removed" if dry_run else "removed"
    typer.echo(f"{len(removed)} of {len(found)} {would}")


@contextmanager
def _engine() -> Iterator[tuple[Any, list[BuiltImage]]]:
    """Yield a client of the engine, and the images."""
    try:
        from pytest_aecbench.backends.docker.engine import connect
        from pytest_aecbench.backends.docker.images import find_images
    except ModuleNotFoundError:
        raise SettingsError(
            "images: docker is not installed; pip install 'pytest-aecbench[docker]'"
        ) from None
    with closing(connect()) as api:
        yield api, find_images(api)


def _remove(api: Any, image: BuiltImage) -> bool:
    from pytest_aecbench.backends.docker.images import remove_image

    return remove_image(api, image)


def _as_data(image: BuiltImage) -> dict[str, object]:
    return {
        "id": image.image_id,
        "tags": list(image.tags),
        "tasks": list(image.tasks),
        "size_bytes": image.size,
        "age_days": round(image.age_days, 2),
        "in_use": image.in_use,
    }


def _as_line(image: BuiltImage) -> str:
    names = ", ".join(image.tags) or f"{image.image_id[7:19]} (superseded)"
    used = "  in use" if image.in_use else ""
    return f"{image.size / 1e6:8.0f} MB  {image.age_days:6.1f} days  {names}{used}"
