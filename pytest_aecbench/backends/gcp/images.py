"""Images in a registry: named by their content, built on this machine and pushed if missing."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.gcp.cloud import is_loopback, translated
from pytest_aecbench.backends.remote.build import BuildLog, built_once
from pytest_aecbench.backends.remote.calls import Busy
from pytest_aecbench.errors import BuildError, SettingsError
from pytest_aecbench.tasks.digest import context_digest
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_aecbench.backends.gcp.cloud import Cloud
    from pytest_aecbench.backends.remote.environment import Environment

__all__ = ["Registry"]

_ASK_SEC = 30.0
_PLATFORM = "linux/amd64"  # that of most machine types, whatever this machine is
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "docker.distribution.manifest.v2",
        "docker.distribution.manifest.list.v2",
        "oci.image.manifest.v1",
        "oci.image.index.v1",
    )
)


class Registry:
    """The repository of ``compute.gcp.repository``."""

    def __init__(self, cloud: Cloud, options: Mapping[str, Any]) -> None:
        self._cloud = cloud
        self._repository: str = options.get("repository", "").rstrip("/")
        self._found: set[str] = set()

    def check(self, environment: Environment) -> None:
        """Raise SettingsError if an image is to be built, and there is no place for it."""
        if environment.docker_image or self._repository:
            return
        raise SettingsError(
            f"{environment.task_dir}: its image has to be built, and compute.gcp.repository is not "
            "set; name a repository there, such as us-central1-docker.pkg.dev/PROJECT/aecbench, or "
            "set docker_image in [environment] of task.toml"
        )

    def reference(self, environment: Environment) -> str:
        """Return the name of the environment's image, which depends on its content alone."""
        if environment.docker_image:
            return environment.docker_image
        self.check(environment)
        name = re.sub(r"[^a-z0-9]+", "-", environment.task_dir.name.lower()).strip("-") or "task"
        return f"{self._repository}/{name}:{context_digest(environment.context)[:16]}"

    def build(self, environment: Environment) -> str:
        """Build and push the environment's image unless the registry has it; return its name."""
        reference = self.reference(environment)
        if environment.docker_image or reference in self._found:
            return reference

        def build(log: BuildLog) -> None:
            self._build(reference, environment, log)

        lock = re.sub(r"[^a-z0-9.-]+", "-", reference)[-100:]
        built_once("gcp", lock, environment, lambda: self._exists(reference), build)
        self._found.add(reference)
        return reference

    def _exists(self, reference: str) -> bool:
        """Ask the registry itself, which needs no engine."""
        from google.auth.transport.requests import AuthorizedSession

        host, _, rest = reference.partition("/")
        path, _, tag = rest.rpartition(":")
        scheme = "http" if is_loopback(host) else "https"
        url = f"{scheme}://{host}/v2/{path}/manifests/{tag}"
        what = f"looking for {reference}"
        session: Any = AuthorizedSession(self._cloud.credentials)  # type: ignore[no-untyped-call]
        with translated(what), session:
            answer = session.head(url, headers={"Accept": _MANIFESTS}, timeout=_ASK_SEC)
        if answer.status_code in (401, 403):
            raise SettingsError(
                f"gcp: {what}: not allowed; give your account the role artifactregistry.writer, "
                "and create the repository"
            )
        if answer.status_code >= 500 or answer.status_code == 429:
            raise Busy(f"gcp: {what}: status {answer.status_code}")
        return bool(answer.status_code == 200)

    def _build(self, reference: str, environment: Environment, log: BuildLog) -> None:
        try:
            import docker
        except ImportError:
            raise SettingsError(
                f"gcp: {reference} has to be built; pip install 'pytest-aecbench[docker]'"
            ) from None
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            with closing(docker.from_env(timeout=int(environment.build_timeout_sec))) as client:
                self._build_with(client.api, reference, environment, log)
        except APIError as error:
            raise log.failed(error.explanation or str(error)) from None
        except (DockerException, RequestException, OSError) as error:
            raise BuildError(
                f"{environment.context}: no Docker engine to build the image with; "
                f"{one_line(error)}; start one, or set docker_image in [environment] of task.toml"
            ) from None

    def _build_with(
        self, engine: Any, reference: str, environment: Environment, log: BuildLog
    ) -> None:
        said = engine.build(
            path=str(environment.context),
            tag=reference,
            rm=True,
            forcerm=True,
            decode=True,
            platform=_PLATFORM,
        )
        if problem := _follow(said, log):
            raise log.failed(problem)
        pushed = engine.push(reference, stream=True, decode=True, auth_config=self._auth())
        if problem := _follow(pushed, log):
            raise BuildError(
                f"{reference}: the push failed; {' '.join(problem.split())}; give your account "
                "the role artifactregistry.writer, and create the repository"
            )

    def _auth(self) -> dict[str, str]:
        from google.auth.transport.requests import Request

        credentials = self._cloud.credentials
        with translated("the credentials"):
            if not credentials.valid:
                credentials.refresh(Request())
        return {"username": "oauth2accesstoken", "password": str(credentials.token)}


def _follow(said: Any, log: BuildLog) -> str:
    """Keep what the engine says, and return why it failed, if it did."""
    problem = ""
    for part in said:
        if text := str(part.get("stream") or part.get("status") or "").strip():
            log.add(text)
        if "error" in part:
            problem = str(part["error"])
    return problem
