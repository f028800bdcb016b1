"""Tasks of several services: resolved and started by the compose command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.docker.build import Builder, Recipe, slug
from pytest_aecbench.backends.docker.compose_file import MAIN, Composition
from pytest_aecbench.backends.shared.environment import read_environment
from pytest_aecbench.backends.shared.processes import run
from pytest_aecbench.errors import BuildError, LaunchError
from pytest_aecbench.tasks.digest import context_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_aecbench.backends import BackendExecutionResult
    from pytest_aecbench.tasks.schema import EnvironmentConfig

__all__ = ["ComposedImage", "compose_file", "find_compose"]

INSTALL = "install the docker CLI with compose, or docker-compose"
_PLUGIN = '{{range .ClientInfo.Plugins}}{{if eq .Name "compose"}}{{.Path}}{{end}}{{end}}'
_SHOWN_LINES = 6
_RESOLVE_SEC = 60.0
_MAIN_IMAGE = "MAIN_IMAGE_NAME"
# The only variables of the host that the compose command gets.
_PASSED_ON = ("HOME", "PATH", "SSH_AUTH_SOCK", "TMPDIR", "XDG_RUNTIME_DIR")


def compose_file(task_dir: Path) -> Path:
    """Return the path of a task's compose file."""
    return task_dir / "environment/docker-compose.yaml"


def find_compose() -> str | None:
    """Return the compose command of this machine, or None."""
    return _find_compose(os.environ.get("PATH"), os.environ.get("DOCKER_CONFIG"))


@lru_cache(maxsize=1)
def _find_compose(path: str | None, docker_config: str | None) -> str | None:
    with suppress(OSError):
        argv = ["docker", "info", "--format", _PLUGIN]
        found = subprocess.run(argv, capture_output=True, check=False, text=True).stdout.strip()
        # Called directly, because it would survive the docker command when that is killed.
        if found and subprocess.run([found, "version"], capture_output=True).returncode == 0:
            return found
    return shutil.which("docker-compose")


@dataclass(frozen=True)
class ComposedImage:
    """The images of a task of several services."""

    ref: str
    composition: Composition
    images: Mapping[str, str]
    variables: Mapping[str, str]
    timeout_sec: float

    @classmethod
    def make(cls, task_dir: Path, builder: Builder, engine: Mapping[str, Any]) -> ComposedImage:
        """Resolve the task's file with the compose command, and build or pull every image."""
        path = compose_file(task_dir)
        config = read_environment(task_dir)
        name = slug(task_dir.name)
        variables = _variables(path, config, name, engine)
        composition = Composition.read(path, _resolve(path, variables))
        images = {}
        for service in composition.services:
            image = composition.image_of(service, name, config.build_timeout_sec)
            if image is None or (service == MAIN and config.docker_image):
                images[service] = builder.build_task(task_dir)
            elif isinstance(image, Recipe):
                images[service] = builder.build(image)
            else:
                images[service] = builder.find_or_pull(image)
        ref = f"compose:{name}-{context_digest(path.parent)[:12]}"
        return cls(ref, composition, images, variables, config.build_timeout_sec)

    @property
    def main(self) -> dict[str, Any]:
        """The service in which the agent works, as the file describes it."""
        return self.composition.services[MAIN]

    def start(
        self,
        project: str,
        home: Path,
        labels: Mapping[str, str],
        options: Mapping[str, Any],
        *,
        network: bool,
    ) -> None:
        """Start the services as ``project``, whose file is written in ``home``."""
        path = home / "docker-compose.json"
        text = self.composition.rendered(self.images, labels, options, network=network)
        path.write_text(text, "utf-8")
        argv = ["--project-name", project, "up", "--detach", "--no-build"]
        done = _run([path], self.composition.path.parent, argv, self.variables, self.timeout_sec)
        if done is None:
            raise LaunchError(f"docker: services cannot be started; {INSTALL}")
        if done.returncode != 0:
            raise LaunchError(f"{self.composition.path}: the services did not start; {_why(done)}")


def _variables(
    path: Path, config: EnvironmentConfig, name: str, engine: Mapping[str, Any]
) -> dict[str, str]:
    """Return the variables of a compose file: the task's own, and Harbor's."""
    from pytest_aecbench.documents.variables import expand

    variables = {}
    for key, value in config.env.items():
        try:
            variables[key] = expand(value, os.environ)
        except ValueError as error:
            raise BuildError(f"{path}: environment.env.{key}: {error}") from None
    memory_mb = config.memory_mb or int(engine["MemTotal"]) >> 20
    return {
        **variables,
        "CONTEXT_DIR": str(path.parent.resolve()),
        "CPUS": f"{config.cpus or engine['NCPU']:g}",
        "ENV_AGENT_LOGS_PATH": "/logs/agent",
        "ENV_ARTIFACTS_PATH": "/logs/artifacts",
        "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
        # Mounts below /logs are left out, so these only have to look like paths.
        "HOST_AGENT_LOGS_PATH": "/logs/agent",
        "HOST_ARTIFACTS_PATH": "/logs/artifacts",
        "HOST_VERIFIER_LOGS_PATH": "/logs/verifier",
        _MAIN_IMAGE: f"aecbench/{name}",
        "MEMORY": f"{memory_mb}M",
        "TEST_DIR": "/tests",
    }


def _resolve(path: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the task's file as the compose command resolves it, with a main service added."""
    import yaml

    with tempfile.TemporaryDirectory(prefix="aecbench-compose-") as scratch:
        base = Path(scratch, "main.json")
        service = {"image": variables[_MAIN_IMAGE]}
        base.write_text(json.dumps({**_version(path), "services": {MAIN: service}}))
        done = _run([base, path], path.parent, ["config"], variables, _RESOLVE_SEC)
    if done is None:
        raise BuildError(f"{path}: needs compose; {INSTALL}")
    if done.returncode != 0:
        raise BuildError(f"{path}: is not valid; {_why(done)}")
    model = yaml.safe_load(done.stdout)
    assert isinstance(model, dict)
    main = model["services"][MAIN]
    if main.get("image") == service["image"]:
        del main["image"]
    return model


def _version(path: Path) -> dict[str, Any]:
    """Return the file's version, because the old command requires the same in all files."""
    import yaml

    try:
        given = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return {}  # the compose command reports the problem
    return {key: given[key] for key in ("version",) if isinstance(given, dict) and key in given}


def _run(
    files: Sequence[Path],
    directory: Path,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    timeout_sec: float,
) -> BackendExecutionResult | None:
    compose = find_compose()
    if compose is None:
        return None
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith("DOCKER_")
    }
    argv = [*_killed_with_parent(), compose, *(f"--file={path}" for path in files)]
    return run(
        [*argv, f"--project-directory={directory.resolve()}", *arguments],
        env={**passed_on, **variables},
        kill=_kill,
        timeout_sec=timeout_sec,
    )


def _killed_with_parent() -> tuple[str, ...]:
    """Return the command prefix that kills a command when this process dies."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _why(done: BackendExecutionResult) -> str:
    """Return the last lines of the compose command's output, on one line."""
    if done.timed_out:
        return "it took too long"
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return " ".join(lines[-_SHOWN_LINES:]) or f"exit code {done.returncode}"
