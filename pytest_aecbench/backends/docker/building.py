"""Images: built once per machine for each content of a task's environment directory."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound
from filelock import FileLock

from pytest_aecbench.backends.docker.engine import TROUBLE, connect, one_line, translated
from pytest_aecbench.backends.local.unbuilt import digest_of, read_environment
from pytest_aecbench.errors import BuildError
from pytest_aecbench.machine import shared_directory
from pytest_aecbench.ownership import LABEL_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Builder"]

_DIGEST_LABEL = f"{LABEL_PREFIX}digest"
_RUN_LABEL = f"{LABEL_PREFIX}run"
_SHOWN_LINES = 12
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What only BuildKit understands.
_BUILDKIT = re.compile(
    r"^\s*#\s*syntax\s*=|^\s*(?:RUN|COPY|ADD)\s(?:.*\s)?(?:--mount|--network|--security|--link"
    r"|--chmod|--parents|--exclude)\b|^\s*(?:RUN|COPY|ADD)\s.*<<-?[\"']?\w",
    re.IGNORECASE | re.MULTILINE,
)


class Builder:
    """Builds images on the engine of ``api``; ``force`` builds each anew, once in a run."""

    def __init__(self, api: Callable[[], Any], *, force: bool = False, run_id: str = "") -> None:
        self._api = api
        self._force = force
        self._run_id = run_id

    def build(self, task_dir: Path) -> str:
        """Return the reference of the task's image, which exists then."""
        config = read_environment(task_dir)
        context = task_dir / "environment"
        if (context / "docker-compose.yaml").exists():
            raise BuildError(
                f"{context}/docker-compose.yaml: not supported; use a Dockerfile for one container"
            )
        if config.docker_image:
            self._find_or_pull(config.docker_image)
            return self._moved(config.docker_image, config.workdir)
        if not (context / "Dockerfile").is_file():
            raise BuildError(
                f"{task_dir}: nothing to build; add environment/Dockerfile, "
                "or set docker_image in [environment] of task.toml"
            )
        try:
            digest = digest_of(context)
        except OSError as error:
            raise BuildError(f"{error.filename}: cannot be read; {error.strerror}") from None
        tag = f"aecbench/{_slug(task_dir.name)}:{digest[:12]}"
        api = self._api()
        if not self._is_there(api, tag):
            with _locked(api, digest):
                if not self._is_there(api, tag) and not self._tag_another(api, digest, tag):
                    build = _Build(task_dir, tag, self._labels(digest), config.build_timeout_sec)
                    build.run(self._force)
        return self._moved(tag, config.workdir)

    def _moved(self, image: str, workdir: str | None) -> str:
        """Return the image, or one like it that works in ``workdir``."""
        if workdir is None:
            return image
        api = self._api()
        with translated(BuildError, f"looking for {image}"):
            found = api.inspect_image(image)
        if found["Config"].get("WorkingDir") == workdir:
            return image
        digest = sha256(f"{found['Id']}\0{workdir}".encode()).hexdigest()
        tag = f"aecbench/workdir:{digest[:12]}"
        with _locked(api, digest):
            if not self._is_there(api, tag):
                escaped = re.sub(r"([\\$])", r"\\\1", workdir)
                dockerfile = BytesIO(f"FROM {image}\nWORKDIR {escaped}\n".encode())
                with translated(BuildError, f"moving {image} to {workdir}"):
                    for said in api.build(
                        fileobj=dockerfile,
                        tag=tag,
                        labels=self._labels(digest),
                        rm=True,
                        decode=True,
                    ):
                        if "error" in said:
                            raise BuildError(f"docker: workdir {workdir!r}: {said['error']}")
        return tag

    def _labels(self, digest: str) -> dict[str, str]:
        return {_DIGEST_LABEL: digest, _RUN_LABEL: self._run_id}

    def _is_there(self, api: Any, tag: str) -> bool:
        with translated(BuildError, f"looking for {tag}"):
            try:
                found = api.inspect_image(tag)
            except ImageNotFound:
                return False
        labels = found["Config"].get("Labels") or {}
        return not self._force or labels.get(_RUN_LABEL) == self._run_id

    def _tag_another(self, api: Any, digest: str, tag: str) -> bool:
        """Give the tag to an image of another task that was built from the same content."""
        labels = [f"{_DIGEST_LABEL}={digest}"]
        if self._force:
            labels.append(f"{_RUN_LABEL}={self._run_id}")
        with translated(BuildError, f"looking for {tag}"):
            found = api.images(filters={"label": labels}, quiet=True)
            return bool(found) and bool(api.tag(found[0], tag))

    def _find_or_pull(self, image: str) -> None:
        api = self._api()
        with translated(BuildError, f"looking for {image}"):
            try:
                api.inspect_image(image)
                return
            except ImageNotFound:
                pass
        name, colon, tag = image.rpartition(":")
        if not colon or "/" in tag or "@" in image:
            name, tag = image, ("" if "@" in image else "latest")
        try:
            for said in api.pull(name, tag=tag or None, stream=True, decode=True):
                if "error" in said:
                    raise BuildError(f"docker: {image} cannot be pulled; {said['error']}")
        except TROUBLE as error:
            raise BuildError(f"docker: {image} cannot be pulled; {one_line(error)}") from None


class _Build:
    """One build, with what it printed."""

    def __init__(
        self, task_dir: Path, tag: str, labels: Mapping[str, str], timeout_sec: float
    ) -> None:
        self._task_dir = task_dir
        self._context = task_dir / "environment"
        self._tag = tag
        self._labels = labels
        self._timeout_sec = timeout_sec
        self._log = shared_directory() / f"{tag.replace('/', '-').replace(':', '-')}.log"
        self._output: list[str] = []

    def run(self, force: bool) -> None:
        """Build the image."""
        text = (self._context / "Dockerfile").read_text("utf-8", "replace")
        try:
            if _BUILDKIT.search(text):
                self._run_buildx(force)
            else:
                self._run_engine(force)
        finally:
            with suppress(OSError):
                self._log.write_text("".join(self._output), "utf-8", "replace")

    def _failed(self, reason: str) -> BuildError:
        """Return the error: one line, then the last of what the build printed."""
        lines = _COLOUR.sub("", "".join(self._output)).splitlines()
        steps = [line for line in lines if re.match(r"Step \d+/\d+ :|#\d+ \[", line)]
        at = f" at {steps[-1]!r}" if steps else ""
        shown = "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])
        return BuildError(
            f"{self._context}/Dockerfile: the build failed{at}; {reason} (log: {self._log}){shown}"
        )

    def _run_engine(self, force: bool) -> None:
        api = connect()
        timed_out = threading.Event()
        responses: list[Any] = []
        # To close its connection is the one way to end a build before its time.
        api.hooks["response"].append(lambda response, **_: responses.append(response))

        def give_up() -> None:
            timed_out.set()
            for response in responses:
                with suppress(AttributeError, OSError):  # those that are done have none
                    socket = api._get_raw_response_socket(response)
                    getattr(socket, "_sock", socket).shutdown(SHUT_RDWR)

        timer = threading.Timer(self._timeout_sec, give_up)
        timer.daemon = True
        timer.start()
        try:
            for said in api.build(
                path=str(self._context),
                tag=self._tag,
                labels=dict(self._labels),
                rm=True,
                forcerm=True,
                nocache=force,
                decode=True,
                timeout=self._timeout_sec + 10,
            ):
                self._output.append(said.get("stream") or f"{said.get('status', '')}\n")
                if "error" in said:
                    raise self._failed(" ".join(str(said["error"]).split()))
        except TROUBLE as error:
            if not timed_out.is_set():
                raise self._failed(one_line(error)) from None
        finally:
            timer.cancel()
            for response in responses:
                response.close()
            api.close()
        if timed_out.is_set():
            raise self._failed(f"it took over build_timeout_sec = {self._timeout_sec:g}")

    def _run_buildx(self, force: bool) -> None:
        try:
            found = subprocess.run(
                ["docker", "buildx", "version"], capture_output=True, check=False
            )
        except OSError:
            found = None
        if found is None or found.returncode != 0:
            raise BuildError(
                f"{self._context}/Dockerfile: needs BuildKit; install the docker CLI with buildx, "
                "or do without RUN --mount, heredocs, COPY --chmod and # syntax"
            )
        argv = ["docker", "buildx", "build", "--load", "--progress=plain", "--tag", self._tag]
        argv += [f"--label={name}={value}" for name, value in self._labels.items()]
        argv += ["--no-cache"] if force else []
        try:
            done = subprocess.run(
                [*argv, str(self._context)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._timeout_sec,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            self._output.append((error.stdout or b"").decode(errors="replace"))
            raise self._failed(f"it took over build_timeout_sec = {self._timeout_sec:g}") from None
        self._output.append(done.stdout.decode(errors="replace"))
        if done.returncode != 0:
            raise self._failed(f"docker buildx ended with exit code {done.returncode}")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"


@contextmanager
def _locked(api: Any, digest: str) -> Iterator[None]:
    engine = re.sub(r"\W+", "-", os.environ.get("DOCKER_HOST", str(api.base_url)))
    with FileLock(shared_directory() / f"build-{engine}-{digest[:12]}.lock"):
        yield
