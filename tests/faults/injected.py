"""The faults themselves. Each is done to one run, which it waits for."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.arena import Arena

__all__ = ["FAULTS"]

_LIMIT_SEC = 180
_CLOCK = Path(__file__).with_name("clock.c")
_IN_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def _begin(arena: Arena, rng: random.Random, **options: object) -> subprocess.Popen[bytes]:
    """Start a run and wait until some moment in which trials are under way."""
    run = arena.start(**options)  # type: ignore[arg-type]
    arena.wait_for_trials(run)
    time.sleep(rng.uniform(0, 1.5))
    return run


def _end(run: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a run, which must come by itself."""
    try:
        run.wait(_LIMIT_SEC)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        raise AssertionError(f"the run did not end within {_LIMIT_SEC} s") from None


def _kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill_workers(arena: Arena, rng: random.Random) -> None:
    run = _begin(arena, rng)
    for _ in range(3):
        for worker in arena.workers()[:1]:
            _kill(worker)
        time.sleep(rng.uniform(0.2, 1))
    _end(run)


def _kill_controller(arena: Arena, rng: random.Random) -> None:
    run = _begin(arena, rng)
    _kill(run.pid)
    _end(run)


def _kill_everything(arena: Arena, rng: random.Random) -> None:
    run = _begin(arena, rng)
    with suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    _end(run)


def _signal(number: signal.Signals, times: int = 1) -> Callable[[Arena, random.Random], None]:
    def send(arena: Arena, rng: random.Random) -> None:
        run = _begin(arena, rng)
        for _ in range(times):
            _kill(run.pid, number)
            time.sleep(rng.uniform(0.05, 0.3))
        _end(run)

    return send


def _full_disk(arena: Arena, rng: random.Random) -> None:
    """Fill the ledger's disk in mid-run; there is space again when the run is over."""
    with _small_disk(arena.home / "artefacts") as disk:
        run = _begin(arena, rng)
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        _end(run)
        filler.unlink()


@contextmanager
def _small_disk(path: Path) -> Iterator[Path]:
    """Put a small disk at a path; its files stay there when the disk is gone."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", path], check=True)
    kept = path.with_name(f"{path.name}-kept")
    try:
        yield path
        shutil.copytree(path, kept)
    finally:
        subprocess.run(["umount", "-l", path], check=True)
    path.rmdir()
    kept.rename(path)


def _clock(seconds: int) -> Callable[[Arena, random.Random], None]:
    def turn(arena: Arena, rng: random.Random) -> None:
        library, clock = arena.home / "clock.so", arena.home / "clock"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, _CLOCK], check=True)
        clock.write_text("0")
        run = _begin(arena, rng, env={"LD_PRELOAD": str(library), "AEC_CLOCK": str(clock)})
        clock.write_text(str(seconds))
        _end(run)

    return turn


def _other_namespace(arena: Arena, rng: random.Random) -> None:
    """Reap, and run other trials, from a pid namespace in which the run cannot be seen."""
    run = _begin(arena, rng)
    reap = [*_IN_NAMESPACE, sys.executable, "-m", "pytest_aecbench", "reap"]
    arena.run([*reap, "--backend", arena.place.name]).wait(_LIMIT_SEC)
    _end(run)


def _several_at_once(arena: Arena, rng: random.Random) -> None:
    """Kill a run, and resume it four times at once."""
    _kill_everything(arena, rng)
    for run in [arena.start() for _ in range(4)]:
        _end(run)


def _few_descriptors(arena: Arena, rng: random.Random) -> None:
    limit = rng.choice([40, 60, 80])
    _end(_begin(arena, rng, before=("prlimit", f"--nofile={limit}", "--")))


def _storm(arena: Arena, rng: random.Random) -> None:
    run = _begin(arena, rng)
    arena.place.storm(arena.temporary, rng)
    _end(run)


FAULTS: dict[str, Callable[[Arena, random.Random], None]] = {
    "workers killed": _kill_workers,
    "controller killed": _kill_controller,
    "everything killed": _kill_everything,
    "SIGINT": _signal(signal.SIGINT),
    "SIGINT twice": _signal(signal.SIGINT, 2),
    "SIGTERM": _signal(signal.SIGTERM),
    "SIGHUP": _signal(signal.SIGHUP),
    "ledger's disk full": _full_disk,
    "clock set back": _clock(-3600),
    "clock set forward": _clock(3600),
    "reaped from another namespace": _other_namespace,
    "resumed four times at once": _several_at_once,
    "few descriptors": _few_descriptors,
    "storm": _storm,
}
