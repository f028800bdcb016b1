"""Task environments with an agent: the task's own Dockerfile, continued by one script.

The script is part of the Dockerfile and not a file of the build context. So neither a
``.dockerignore`` nor a ``COPY . .`` of the task has to do with it, and every builder that can run a
command can run it.
"""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench.errors import BuildError
from pytest_aecbench.tasks.digest import is_ignored
from pytest_aecbench.tasks.dockerfile import read_dockerfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_aecbench.tasks.schema import EnvironmentConfig
    from pytest_aecbench.tasks.task import Task

__all__ = ["write_layered"]

_COMPOSE = "docker-compose.yaml"
_MAIN = "main"
_LAYERED = "Dockerfile.aecbench-agent"
_SCRIPT = "/tmp/aecbench-install.sh"  # noqa: S108  (in an image that is being built)
_KEYS = ("build_timeout_sec", "cpus", "memory_mb", "storage_mb", "workdir", "env")


def write_layered(task: Task, directory: Path, script: str, user: str | None = None) -> None:
    """Write a task directory whose image is the task's, with ``script`` run in it as root.

    The image's user, working directory and command stay those of the task's image. ``user`` is the
    one of that image, if it is known; else the Dockerfile says.
    """
    environment = directory / "environment"
    source = task.path / "environment"
    if source.is_dir():
        shutil.copytree(source, environment, symlinks=True, ignore=_ignored, dirs_exist_ok=True)
    environment.mkdir(parents=True, exist_ok=True)
    config = task.config.environment
    (directory / "task.toml").write_text(_environment_table(config), encoding="utf-8")
    if (environment / _COMPOSE).is_file():
        _layer_composed(environment, config, script, user)
        return
    base = f"FROM {config.docker_image}\n" if config.docker_image else _read(environment)
    _write(environment / "Dockerfile", base, script, user)


def _ignored(_: str, names: Iterable[str]) -> set[str]:
    return {name for name in names if is_ignored(name)}


def _environment_table(config: EnvironmentConfig) -> str:
    """Return what a build reads of ``task.toml``; ``docker_image`` has become a Dockerfile."""
    given = {key: value for key in _KEYS if (value := getattr(config, key)) is not None}
    env = given.pop("env")
    lines = [f"{key} = {_literal(value)}" for key, value in given.items()]
    table = [f"{name} = {_literal(value)}" for name, value in env.items()]
    return "\n".join(("[environment]", *lines, "[environment.env]", *table, ""))


def _literal(value: object) -> str:
    # JSON's strings and numbers are also TOML's, except for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(environment: Path, name: str = "Dockerfile") -> str:
    path = environment / name
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise BuildError(
            f"{environment.name}/{name}: cannot be read; an agent is installed on the image of a "
            "Dockerfile, or on docker_image in [environment] of task.toml"
        ) from None


def _write(path: Path, base: str, script: str, user: str | None) -> None:
    """Write a Dockerfile that continues ``base``."""
    path.write_text(base, encoding="utf-8")
    user = read_dockerfile(path).user if user is None else user
    # A continued last line would take ours for its own.
    text = base.rstrip().removesuffix("\\").rstrip()
    encoded = base64.b64encode(script.encode()).decode()
    lines = (
        "",
        "# The agent, by pytest-aecbench.",
        "USER root",
        f"RUN echo {encoded} | base64 -d > {_SCRIPT} && bash -e {_SCRIPT} && rm {_SCRIPT}",
        *([f"USER {user}"] if user else []),
        "",
    )
    path.write_text(text + "\n".join(lines), encoding="utf-8")


def _layer_composed(
    environment: Path, config: EnvironmentConfig, script: str, user: str | None
) -> None:
    """Let the service that the agent works in be built from a Dockerfile with the agent."""
    import yaml

    path = environment / _COMPOSE
    try:
        model = yaml.safe_load(path.read_bytes()) or {}
        main = dict((model.get("services") or {}).get(_MAIN) or {})
    except (OSError, ValueError, AttributeError, TypeError, yaml.YAMLError):
        return  # the backend reports the problem
    build = main.get("build") if not config.docker_image else None
    build = {"context": build} if isinstance(build, str) else dict(build or {})
    context = _context(environment, build)
    base = _base(context, main, build, config)
    _write(context / _LAYERED, base, script, user)
    build.pop("target", None)
    main["build"] = {"context": ".", **build, "dockerfile": _LAYERED}
    main.pop("image", None)
    model["services"] = {**(model.get("services") or {}), _MAIN: main}
    path.write_text(yaml.safe_dump(model, sort_keys=False), encoding="utf-8")


def _context(environment: Path, build: Mapping[str, Any]) -> Path:
    given = str(build.get("context", "."))
    for variable in ("${CONTEXT_DIR}", "$CONTEXT_DIR"):
        given = given.replace(variable, str(environment))
    context = (environment / given).resolve()
    if not context.is_dir() or not context.is_relative_to(environment.resolve()):
        raise BuildError(
            f"environment/{_COMPOSE}: services.main.build.context: {given!r} is not a directory in "
            "environment/; an agent can be installed only on such a build"
        )
    return context


def _base(
    context: Path, main: Mapping[str, Any], build: Mapping[str, Any], config: EnvironmentConfig
) -> str:
    """Return the Dockerfile of the service's image as it would be without an agent."""
    image = config.docker_image
    if not image and not build and (named := str(main.get("image", ""))):
        image = named if "MAIN_IMAGE_NAME" not in named else None
    if image:
        return f"FROM {image}\n"
    text = _read(context, str(build.get("dockerfile", "Dockerfile")))
    target = build.get("target")
    return f"{text.rstrip()}\nFROM {target}\n" if target else text
