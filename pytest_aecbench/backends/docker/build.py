"""Docker images of tasks: built once per machine for each content of the environment directory."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import ImageNotFound
from filelock import FileLock

from pytest_aecbench.backends.docker._internals import cut_off
from pytest_aecbench.backends.docker.engine import TROUBLE, answers, connect, is_lost, translated
from pytest_aecbench.backends.shared.environment import read_environment
from pytest_aecbench.errors import BackendError, BuildError
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.owner import LABEL_PREFIX
from pytest_aecbench.tasks.digest import context_digest
from pytest_aecbench.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


__all__ = ["DIGEST_LABEL", "Builder", "Recipe", "slug"]

DIGEST_LABEL = f"{LABEL_PREFIX}digest"
_RUN_LABEL = f"{LABEL_PREFIX}run"
_SHOWN_LINES = 12
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Syntax that only BuildKit supports.
_BUILDKIT = re.compile(
    r"^\s*#\s*syntax\s*=|^\s*FROM\s+--platform=\S*\$|^\s*(?:RUN|COPY|ADD)\s(?:.*\s)?(?:--mount|--network|--security|--link"
    r"|--chmod|--parents|--exclude)\b|^\s*(?:RUN|COPY|ADD)\s.*<<-?[\"']?\w",
    re.IGNORECASE | re.MULTILINE,
)

# How buildx ends without a connection to the engine.
_LOST = re.compile(
    r"^ERROR: .*\b(?:Unavailable|Canceled|error reading from server|transport is closing"
    r"|connection (?:refused|reset)|Cannot connect to the Docker daemon)\b"
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The source of an image; ``name`` is that of the task, with its service if it has several."""

    context: Path
    name: str
    timeout_sec: float
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    platform: str | None = None

    def digest(self) -> str:
        """Return a digest of the content."""
        try:
            content = context_digest(self.context)
        except OSError as error:
            raise BuildError(f"{error.filename}: cannot be read; {error.strerror}") from None
        more = [self.dockerfile, dict(self.args), self.target, self.platform]
        if more == ["Dockerfile", {}, None, None]:
            return content
        return hashlib.sha256(json.dumps([content, *more], sort_keys=True).encode()).hexdigest()


class Builder:
    """Builds images on the engine of ``api``; ``force`` rebuilds each one once per run."""

    def __init__(self, api: Callable[[], Any], *, force: bool = False, run_id: str = "") -> None:
        self._api = api
        self._force = force
        self._run_id = run_id
        self.seen: dict[str, dict[str, Any]] = {}  # the engine's data of existing images

    def build_task(self, task_dir: Path) -> str:
        """Build the task's one image unless it exists; return its reference."""
        config = read_environment(task_dir)
        if config.docker_image:
            return self._moved(self.find_or_pull(config.docker_image), config.workdir)
        recipe = Recipe(task_dir / "environment", slug(task_dir.name), config.build_timeout_sec)
        if not (recipe.context / recipe.dockerfile).is_file():
            raise BuildError(
                f"{task_dir}: nothing to build; add environment/Dockerfile, "
                "or set docker_image in [environment] of task.toml"
            )
        return self._moved(self.build(recipe), config.workdir)

    def build(self, recipe: Recipe) -> str:
        """Build the recipe's image unless it exists; return its reference."""
        digest = recipe.digest()
        tag = f"aecbench/{recipe.name}:{digest[:12]}"
        api = self._api()
        if not self._exists(api, tag):
            with _locked(api, digest):
                if not self._exists(api, tag) and not self._tag_another(api, digest, tag):
                    _Build(recipe, tag, self._labels(digest)).run(self._force)
        return tag

    def _moved(self, image: str, workdir: str | None) -> str:
        """Return the image, or a copy of it whose working directory is ``workdir``."""
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
            if not self._exists(api, tag):
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
        return {DIGEST_LABEL: digest, _RUN_LABEL: self._run_id}

    def _exists(self, api: Any, tag: str) -> bool:
        with translated(BuildError, f"looking for {tag}"):
            try:
                found = api.inspect_image(tag)
            except ImageNotFound:
                return False
        labels = found["Config"].get("Labels") or {}
        if self._force and labels.get(_RUN_LABEL) != self._run_id:
            return False
        self.seen[tag] = found["Config"]
        return True

    def _tag_another(self, api: Any, digest: str, tag: str) -> bool:
        """Tag another task's image that has the same content; return whether there is one."""
        labels = [f"{DIGEST_LABEL}={digest}"]
        if self._force:
            labels.append(f"{_RUN_LABEL}={self._run_id}")
        with translated(BuildError, f"looking for {tag}"):
            found = api.images(filters={"label": labels}, quiet=True)
            return bool(found) and bool(api.tag(found[0], tag))

    def find_or_pull(self, image: str) -> str:
        """Pull an image unless it exists; return its reference."""
        api = self._api()
        with translated(BuildError, f"looking for {image}"):
            try:
                api.inspect_image(image)
                return image
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
            kind = BackendError if is_lost(error) else BuildError
            raise kind(f"docker: {image} cannot be pulled; {one_line(error)}") from None
        return image


class _Build:
    """One build and its output."""

    def __init__(self, recipe: Recipe, tag: str, labels: Mapping[str, str]) -> None:
        self._recipe = recipe
        self._dockerfile = recipe.context / recipe.dockerfile
        self._tag = tag
        self._labels = labels
        self._log = shared_directory() / f"{tag.replace('/', '-').replace(':', '-')}.log"
        self._output: list[str] = []

    def run(self, force: bool) -> None:
        """Build the image."""
        try:
            text = self._dockerfile.read_text("utf-8", "replace")
        except OSError as error:
            raise BuildError(f"{self._dockerfile}: cannot be read; {error.strerror}") from None
        try:
            if _BUILDKIT.search(text):
                self._run_buildx(force)
            else:
                self._run_engine(force)
        finally:
            with suppress(OSError):
                self._log.write_text("".join(self._output), "utf-8", "replace")

    def _failed(self, reason: str, *, lost: bool = False) -> BackendError:
        """Return the error: one line, then the last lines of the build's output.

        An engine that is ``lost``, or gone by now, is to blame itself.
        """
        lines = _COLOUR.sub("", "".join(self._output)).splitlines()
        steps = [line for line in lines if re.match(r"Step \d+/\d+ :|#\d+ \[", line)]
        at = f" at {steps[-1]!r}" if steps else ""
        shown = "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])
        kind = BackendError if lost or not answers() else BuildError
        return kind(f"{self._dockerfile}: the build failed{at}; {reason} (log: {self._log}){shown}")

    def _run_engine(self, force: bool) -> None:
        api = connect()
        timed_out = threading.Event()
        responses: list[Any] = []
        # Only closing its connection ends a build early.
        api.hooks["response"].append(lambda response, **_: responses.append(response))

        def give_up() -> None:
            timed_out.set()
            for response in responses:
                cut_off(api, response)

        timer = threading.Timer(self._recipe.timeout_sec, give_up)
        timer.daemon = True
        timer.start()
        try:
            for said in api.build(
                path=str(self._recipe.context),
                dockerfile=self._recipe.dockerfile,
                buildargs=dict(self._recipe.args),
                target=self._recipe.target,
                platform=self._recipe.platform,
                tag=self._tag,
                labels=dict(self._labels),
                rm=True,
                forcerm=True,
                nocache=force,
                decode=True,
                timeout=self._recipe.timeout_sec + 10,
            ):
                self._output.append(said.get("stream") or f"{said.get('status', '')}\n")
                if "error" in said:
                    raise self._failed(" ".join(str(said["error"]).split()))
        except TROUBLE as error:
            if not timed_out.is_set():
                raise self._failed(one_line(error), lost=is_lost(error)) from None
        finally:
            timer.cancel()
            for response in responses:
                response.close()
            api.close()
        if timed_out.is_set():
            raise self._failed(f"it took over build_timeout_sec = {self._recipe.timeout_sec:g}")

    def _run_buildx(self, force: bool) -> None:
        try:
            found = subprocess.run(
                ["docker", "buildx", "version"], capture_output=True, check=False
            )
        except OSError:
            found = None
        if found is None or found.returncode != 0:
            raise BuildError(
                f"{self._dockerfile}: needs BuildKit; install the docker CLI with buildx, "
                "or avoid RUN --mount, heredocs, COPY --chmod and # syntax"
            )
        argv = ["docker", "buildx", "build", "--load", "--progress=plain", "--tag", self._tag]
        argv += [f"--label={name}={value}" for name, value in self._labels.items()]
        argv += [f"--build-arg={name}={value}" for name, value in self._recipe.args.items()]
        argv += [f"--target={self._recipe.target}"] if self._recipe.target else []
        argv += [f"--platform={self._recipe.platform}"] if self._recipe.platform else []
        argv += ["--no-cache"] if force else []
        try:
            done = subprocess.run(
                [*argv, f"--file={self._dockerfile}", str(self._recipe.context)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self._recipe.timeout_sec,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            self._output.append((error.stdout or b"").decode(errors="replace"))
            raise self._failed(
                f"it took over build_timeout_sec = {self._recipe.timeout_sec:g}"
            ) from None
        self._output.append(done.stdout.decode(errors="replace"))
        if done.returncode != 0:
            last = self._output[-1].rstrip().rpartition("\n")[2]
            reason = f"docker buildx ended with exit code {done.returncode}"
            raise self._failed(reason, lost=bool(_LOST.search(last)))


def slug(name: str) -> str:
    """Return the name with only characters that image names may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "task"


@contextmanager
def _locked(api: Any, digest: str) -> Iterator[None]:
    engine = re.sub(r"\W+", "-", os.environ.get("DOCKER_HOST", str(api.base_url)))
    with FileLock(shared_directory() / f"build-{engine}-{digest[:12]}.lock"):
        yield
