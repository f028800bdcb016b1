"""``LocalBackend``: the life of a sandbox on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    BackendExecutionResult,
    CollectedArtifacts,
    Limits,
    Mount,
    TrialHandle,
)
from pytest_aecbench.backends.local.image import UnbuiltImage
from pytest_aecbench.backends.local.kill import kill_marked, marked
from pytest_aecbench.backends.local.launcher import Launcher
from pytest_aecbench.backends.local.layout import Layout
from pytest_aecbench.backends.local.namespaces import Kind, NamespaceSandbox, probe
from pytest_aecbench.backends.local.rerun import rerun_script, verifies
from pytest_aecbench.backends.local.rewriting import RewritingSandbox
from pytest_aecbench.backends.local.view import View
from pytest_aecbench.backends.shared.archives import tidy
from pytest_aecbench.backends.shared.environment import read_environment
from pytest_aecbench.backends.shared.launch import check_workspace, missing_image
from pytest_aecbench.backends.shared.sandboxes import Sandboxes
from pytest_aecbench.backends.shared.shell import check_request, find_tool
from pytest_aecbench.errors import BuildError, LaunchError, SettingsError
from pytest_aecbench.host.files import shared_directory
from pytest_aecbench.host.homes import find_homes, is_maker_dead, keep, remove_tree, stored_bytes
from pytest_aecbench.host.limits import exhausted_limit, too_few_processes
from pytest_aecbench.host.repositories import repositories
from pytest_aecbench.host.slots import cores
from pytest_aecbench.tasks.digest import context_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_aecbench.settings.model import Settings

__all__ = ["LocalBackend", "Mode"]

Mode = Literal["auto", "namespaces", "rewriting"]


class _Running(NamedTuple):
    sandbox: NamespaceSandbox | RewritingSandbox
    image: UnbuiltImage
    workspace_dir: Path


class LocalBackend:
    """Runs trials as subprocesses on this machine.

    ``mode`` says how a sandbox gets its own ``/workspace``, ``/tests``, ``/logs`` and
    ``/solution``: in Linux namespaces, or by rewriting these paths in commands and scripts;
    ``auto`` uses namespaces if they are available. Namespaces also hide the ``hidden`` paths with
    the repositories that contain them, and users' homes, but not the ``shown`` paths in them.
    """

    name = "local"
    thread_safe = True
    takes_mounts = True

    def __init__(
        self,
        mode: Mode = "auto",
        hidden: Sequence[Path] = (),
        shown: Sequence[Path] = (),
        mounts: Sequence[Mount] = (),
    ) -> None:
        if mode not in get_args(Mode):
            valid = ", ".join(map(repr, sorted(get_args(Mode))))
            raise SettingsError(f"local: mode {mode!r} is not valid; use one of {valid}")
        self._asked: Mode = mode
        self._hidden = _with_repositories(hidden)
        self._shown = tuple(shown)
        self._mounts = tuple(mounts)
        self._views: dict[frozenset[Path], View] = {}
        self._launcher = Launcher()
        self._images: dict[str, UnbuiltImage] = {}
        self._running: Sandboxes[_Running] = Sandboxes(self.name)
        self._last: dict[str, BackendExecutionRequest] = {}  # the last request of each sandbox
        self._kept: set[str] = set()
        self._lock = threading.Lock()
        self.left_alone: list[str] = []  # by the last ``reap``

    @classmethod
    def from_settings(cls, settings: Settings) -> LocalBackend:
        """Return the backend for a run's settings, with the whole project hidden."""
        hidden = [settings.root, settings.tasks_root, settings.ledger_root, settings.jobs_root]
        hidden += [settings.datasets_root, settings.templates_root, settings.seeds_root]
        hidden += [settings.feedback_root, *filter(None, [settings.cache_calls])]
        mode = cast("Mode", settings.local_mode)
        return cls(mode, hidden, settings.local_show, settings.mounts)

    @property
    def mode(self) -> Literal["namespaces", "rewriting"]:
        """The way in which sandboxes are made here."""
        if self._asked == "auto":
            return "rewriting" if isinstance(probe(self._launcher), str) else "namespaces"
        return self._asked

    @property
    def starts_ahead(self) -> bool:
        """True where an idle sandbox costs next to nothing and has the usual paths."""
        return self.mode == "namespaces"

    def describe(self) -> str:
        """Return one line about the mode and the limits that are not enforced."""
        if self.mode == "namespaces":
            return "local (namespaces; no limits on cpus, memory, storage)"
        return "local (rewriting; no limits on cpus, memory, storage, network)"

    def preflight(self) -> None:
        """Raise LaunchError if no sandbox can be started."""
        if not find_tool("bash"):
            raise LaunchError("local: bash is not installed; install it to run any command")
        if exhausted := too_few_processes():
            raise LaunchError(f"local: {exhausted}")
        if self._asked == "namespaces" and isinstance(why := probe(self._launcher), str):
            raise SettingsError(
                f"local: mode 'namespaces' is not available here ({why}); use 'auto' or 'rewriting'"
            )

        for mount in self._mounts:
            if self.mode != "namespaces":
                raise SettingsError("--aec-mount: needs namespaces on local; use docker")
            if not mount.source.is_dir():
                raise SettingsError(
                    f"--aec-mount: {str(mount.source)!r} is a file; local mounts directories only"
                )

    def build_environment(self, *, task_dir: Path) -> str:
        """Read the task's Dockerfile, if it has one; nothing is built."""
        context = task_dir / "environment"
        workdir = read_environment(task_dir).workdir
        try:
            image = UnbuiltImage.read(context, {"HOME": "/root", "PATH": _search_path()}, workdir)
            image_ref = f"local:sha256-{context_digest(context)[:16]}{workdir or ''}"
        except OSError as error:
            raise BuildError(f"{error.filename}: cannot be read; {error.strerror}") from None
        with self._lock:
            image = self._images.setdefault(image_ref, image)
            task_dir = task_dir.resolve()
            # Most are in a directory that is hidden already, and there may be thousands of them.
            if not any(task_dir.is_relative_to(path) for path in self._hidden):
                image.private.update(_with_repositories([task_dir]))
        return image_ref

    def find_program(self, name: str) -> str | None:
        """Return where sandboxes find a program, because no image can be made that has it."""
        found = shutil.which(name, path=_search_path())
        if found is None or self.mode != "namespaces":
            return found
        real = Path(found).resolve()
        if not self._view().shows(str(real)):
            raise SettingsError(
                f"local: {real} is hidden from trials; add --aec-local-show={real.parent}"
            )
        return found

    def notes(self, image_ref: str) -> tuple[str, ...]:
        """Return the parts of the task's Dockerfile that have no effect here, one line each."""
        return self._image(image_ref).notes

    def _image(self, image_ref: str) -> UnbuiltImage:
        try:
            return self._images[image_ref]
        except KeyError:
            raise missing_image(self.name, image_ref) from None

    def launch_trial(
        self, *, image_ref: str, workspace_dir: Path, limits: Limits | None = None
    ) -> TrialHandle:
        """Start a sandbox whose ``/workspace`` is ``workspace_dir`` itself."""
        image = self._image(image_ref)
        self.preflight()
        check_workspace(self.name, workspace_dir)
        try:
            with ExitStack() as undo:
                layout = Layout.make(workspace_dir.resolve(), image.workdir)
                undo.callback(layout.remove)
                sandbox = self._start(layout, image, limits or Limits())
                undo.callback(sandbox.close)
                image.stage(layout, sandbox.rewrite)
                undo.pop_all()
        except OSError as error:
            reason = exhausted_limit(error) or error
            raise LaunchError(f"local: no sandbox could be started; {reason}") from None
        with self._lock:
            self._running[layout.home.name] = _Running(sandbox, image, workspace_dir)
        return TrialHandle(self.name, layout.home.name)

    def _start(
        self, layout: Layout, image: UnbuiltImage, limits: Limits
    ) -> NamespaceSandbox | RewritingSandbox:
        kind = probe(self._launcher) if self.mode == "namespaces" else None
        if not isinstance(kind, Kind):
            return RewritingSandbox(layout)
        return NamespaceSandbox(
            layout,
            kind,
            self._view(image.private),
            self._launcher,
            network=limits.network,
            mounts=self._mounts,
        )

    def _view(self, private: Iterable[Path] = ()) -> View:
        """Return what sandboxes see; it is the same for most of them."""
        hidden = frozenset((*self._hidden, *private))
        if hidden not in self._views:
            self._views[hidden] = View(hidden, self._shown)
        return self._views[hidden]

    def execute_trial(
        self, *, handle: TrialHandle, request: BackendExecutionRequest
    ) -> BackendExecutionResult:
        """Run one command to completion in the sandbox."""
        sandbox, image, _ = self._running[handle.handle_id]
        sandbox.check_alive()
        env = {
            "HOME": sandbox.default_home(request.user),
            "LANG": "C.UTF-8",
            "PATH": _search_path(),
            **image.env,
            **request.env,
        }
        check_request(request, env)
        request = self._last[handle.handle_id] = replace(request, env=env)
        if request.exclusive:
            sandbox.kill_all()
        for target, source in request.uploads.items():
            sandbox.place(target, source)
        return sandbox.execute(request)

    def stop(self, handle: TrialHandle) -> None:
        """Kill all processes of the sandbox; its files can still be collected."""
        self._running[handle.handle_id].sandbox.close()

    def collect_outputs(self, *, handle: TrialHandle) -> CollectedArtifacts:
        """Return the sandbox's own directories, without entries that are unsafe to read."""
        sandbox, _, workspace_dir = self._running[handle.handle_id]
        sandbox.check_directories()
        logs = sandbox.layout.logs
        skipped = [f"workspace/{what}" for what in tidy(sandbox.layout.workspace)]
        skipped += [f"logs/{what}" for what in tidy(logs)]
        return CollectedArtifacts(workspace_dir, logs, tuple(skipped))

    def stored_bytes(self, handle: TrialHandle) -> int:
        """Return how much of this machine's disks the sandbox's directories take up."""
        layout = self._running[handle.handle_id].sandbox.layout
        return stored_bytes(layout.home, layout.workspace)

    def keep(self, handle: TrialHandle) -> str:
        """Keep the sandbox's directories after its teardown; return how to use them."""
        sandbox, _, workspace_dir = self._running[handle.handle_id]
        home = sandbox.layout.home
        script = home / "rerun"
        request = self._last.get(handle.handle_id)
        text = rerun_script(sandbox, request)
        script.write_text(text, encoding="utf-8", errors="surrogateescape")
        keep(home)
        self._kept.add(handle.handle_id)
        what = "verifier" if verifies(request) else "last command"
        return "\n".join(
            (
                f"tests and logs are in {home}, the workspace is {workspace_dir}",
                f"run the {what} again: bash {script}",
                f"look around: bash {script} bash",
                f"remove it: rm -rf {home}",
            )
        )

    def teardown(self, *, handle: TrialHandle) -> None:
        """Kill all processes of the sandbox and remove its directories, but not its workspace.

        A kept sandbox loses only its processes.
        """
        running = self._running.get(handle.handle_id)
        if running is not None:
            running.sandbox.close()
            if handle.handle_id in self._kept:
                running.sandbox.layout.held.release()
            else:
                running.sandbox.layout.remove()
            self._running.pop(handle.handle_id, None)
            self._last.pop(handle.handle_id, None)

    def close(self) -> None:
        """End the process that starts commands; it is started again if it is needed."""
        self._launcher.close()

    def concurrency(self) -> int:
        """Return how many trials at once are sensible here."""
        return cores()

    def reap(self, *, dry_run: bool = False) -> list[str]:
        """Remove the sandboxes of dead runs with all their processes; return their names."""
        homes = find_homes(self.name)
        self.left_alone = [home.name for home in homes.out_of_sight]
        for home in [] if dry_run else homes.abandoned:
            kill_marked(home.name)
            remove_tree(home)
        removed = [home.name for home in homes.abandoned]
        # Their homes were removed from where their processes cannot be seen, as in a container.
        marks = marked(shared_directory("homes")) - {*removed}
        strays = sorted(name for name in marks if is_maker_dead(name))
        for name in [] if dry_run else strays:
            kill_marked(name)
        return [*removed, *strays]


def _with_repositories(paths: Iterable[Path]) -> tuple[Path, ...]:
    real = [path.resolve() for path in paths]
    found = {*real, *(place for path in real for place in repositories(path))}
    return tuple(sorted(found))


def _search_path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
