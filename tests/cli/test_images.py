"""aec-bench images: ours are listed and removed, and nobody else's."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

BASE = "FROM python:3.11-slim\nWORKDIR /workspace\n"


@pytest.fixture
def engine() -> Iterator[Any]:
    import docker

    api = docker.from_env().api
    yield api
    api.close()


@pytest.fixture
def built(tmp_path: Path, engine: Any) -> Iterator[str]:
    """An image of a task of its own name."""
    from pytest_aecbench.backends.docker import DockerBackend

    task_dir = tmp_path / f"pruned-{secrets.token_hex(6)}"
    (task_dir / "environment").mkdir(parents=True)
    (task_dir / "environment/Dockerfile").write_text(f"{BASE}ENV MARK={task_dir.name}\n")
    backend = DockerBackend()
    tag = backend.build_environment(task_dir=task_dir)
    backend.close()
    yield tag
    for one in engine.images(filters={"label": "aecbench.digest"}):
        if tag in (one["RepoTags"] or ()):
            engine.remove_image(tag, force=True)


def task_of(tag: str) -> str:
    return tag.removeprefix("aecbench/").partition(":")[0]


def listed(aec_bench: Run, tag: str) -> Any:
    ended = aec_bench("images", "list", "--json")
    assert ended.code == 0
    (image,) = [image for image in ended.json() if tag in image["tags"]]
    return image


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_an_image_is_listed_with_task_size_age_and_use(
    aec_bench: Run, engine: Any, built: str
) -> None:
    image = listed(aec_bench, built)
    assert image["tasks"] == [task_of(built)]
    assert image["size_bytes"] > 10**7
    assert 0 <= image["age_days"] < 1
    assert image["in_use"] is False
    container = engine.create_container(built)["Id"]
    try:
        assert listed(aec_bench, built)["in_use"] is True
        (line,) = [line for line in aec_bench("images", "list").out.splitlines() if built in line]
        assert line.split()[1:4:2] == ["MB", "days"]
        assert line.endswith("in use")
    finally:
        engine.remove_container(container)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_only_what_is_ours_old_and_unused_is_pruned(
    aec_bench: Run, engine: Any, built: str, tmp_path: Path
) -> None:
    def would_be_removed(*arguments: str) -> bool:
        ended = aec_bench("images", "prune", "--dry-run", "--json", *arguments)
        assert ended.code == 0
        return any(built in image["tags"] for image in ended.json()["removed"])

    theirs = f"theirs-{secrets.token_hex(6)}"
    (tmp_path / "Dockerfile").write_text(f"FROM {built}\nENV OTHER=1\n")
    for _ in engine.build(path=str(tmp_path), tag=theirs, rm=True):
        pass
    try:
        ended = aec_bench("images", "list", "--json")
        assert not any(f"{theirs}:latest" in image["tags"] for image in ended.json())
        assert would_be_removed()
        assert would_be_removed("--older-than=0")
        assert not would_be_removed("--older-than=1")
        container = engine.create_container(built)["Id"]
        try:
            assert not would_be_removed()
        finally:
            engine.remove_container(container)
        assert engine.inspect_image(built)
    finally:
        engine.remove_image(theirs)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_an_image_is_gone_once_removed_unless_others_named_it(engine: Any, built: str) -> None:
    from docker.errors import ImageNotFound

    from pytest_aecbench.backends.docker.images import find_images, remove_image

    # Not by the command: the engine may have images that other tests need.
    (image,) = [image for image in find_images(engine) if built in image.tags]
    engine.tag(built, "theirs-too")
    try:
        assert remove_image(engine, image)
        assert engine.inspect_image("theirs-too")["RepoTags"] == ["theirs-too:latest"]
        assert not any(built in image.tags for image in find_images(engine))
    finally:
        engine.remove_image("theirs-too")
    with pytest.raises(ImageNotFound):
        engine.inspect_image(image.image_id)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # docker-py leaves a socket open
def test_an_engine_that_does_not_answer_is_one_line(
    aec_bench: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    for command in (["list"], ["prune"]):
        ended = aec_bench("images", *command)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("aec-bench: docker: no engine answers at unix://")
        assert ended.err.count("\n") == 1
    gc.collect()


def test_a_negative_age_is_refused(aec_bench: Run) -> None:
    assert aec_bench("images", "prune", "--older-than=-1").code == 2
