"""The tests of agents that break their sandbox: they must not get an error for a score."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.errors import BackendError, BackendLost, BuildError, LaunchError
from pytest_aecbench.host.homes import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_aecbench.testing.sandbox import Launch, RunningSandbox

__all__ = ["ATTACKS", "FILLER", "STOPPER", "HostilityConformance", "withstand"]

_PATIENCE_SEC = 30.0
# Each breaks something that comes after the agent: stopping it, collecting its files.
ATTACKS = {
    "logs-a-file": "rm -rf /logs/* /logs; echo x > /logs",
    "logs-a-loop": "rm -rf /logs/* /logs; ln -s /logs /logs",
    "workspace-a-file": "cd /; rm -rf /workspace/* /workspace; echo x > /workspace",
    "workspace-a-loop": "cd /; rm -rf /workspace/* /workspace; ln -s /workspace /workspace",
    "links-in-circles": "ln -s b a; ln -s a b; ln -s c c; mkdir d; ln -s ../d d/d",
    "odd-names": r"""
        printf x > $'\n'; printf x > $'\xff\xfe'; printf x > ' '; printf x > '\'; mkdir -- -rf;
        printf x > $'\e[31m'; printf x > "$(printf 'y%.0s' {1..255})"
    """,
    "deep-names": r"""
        name=$(printf 'z%.0s' {1..250}); for i in {1..40}; do mkdir $name && cd $name; done
    """,
    "huge-sparse-file": "truncate -s 900G huge",
    "locked": "mkdir -p x/y; echo z > x/y/z; chmod 000 x/y/z x/y x .",
}
# These break the sandbox's programs or processes, and must not run beside the host's own.
_ALONE = "(($(ls -d /proc/[0-9]* | wc -l) < 50)) || exit 99; "
_PROGRAMS = {
    "no-shell": "rm -f /bin/bash /usr/bin/bash /bin/sh /usr/bin/sh",
    "no-programs": "rm -rf /usr/bin /usr/local/bin",
    "false-programs": r"""
        mkdir /tmp/false
        for name in base64 cat env head mkdir rm stat tar; do
          printf '#!/bin/bash\nexit 1\n' > /tmp/false/$name
        done
        chmod 755 /tmp/false/*
        for dir in /usr/local/sbin /usr/local/bin /usr/bin; do /bin/cp -f /tmp/false/* $dir; done
    """,
}
# Stops every new process, as fast as it can.
STOPPER = (
    _ALONE
    + r"""
setsid bash -c 'while :; do for entry in /proc/[0-9]*; do pid=${entry#/proc/}
  ((pid == 1 || pid == $$)) || kill -STOP $pid; done; done' </dev/null >/dev/null 2>&1 &
sleep 1
"""
)
# Fills every disk of the sandbox that a test can fill, which its workspace's has to be.
FILLER = r"""
small() { read -r blocks size <<<"$(stat -f -c '%b %S' $1)"; ((blocks * size < 2 << 30)); }
small /workspace || exit 98
for dir in /workspace /logs/agent /tmp; do ! small $dir || cat /dev/zero > $dir/zeros; done
exit 0
"""
_EATER = "python3 -c 'x = [bytearray(10**7) for i in range(10**5)]'"


class HostilityConformance:
    """An agent can break its own sandbox, and nothing else."""

    enforces_memory = False

    @pytest.mark.parametrize("attack", ATTACKS)
    def test_broken_files_are_not_an_error_of_the_backend(
        self, launch: Launch, attack: str
    ) -> None:
        withstand(launch(), ATTACKS[attack])
        assert launch().output("echo sound") == "sound\n"

    @pytest.mark.parametrize("attack", _PROGRAMS)
    def test_broken_programs_are_not_an_error_of_the_backend(
        self, launch: Launch, attack: str
    ) -> None:
        withstand(launch(), _ALONE + _PROGRAMS[attack])
        assert launch().output("echo sound") == "sound\n"

    def test_a_process_that_stops_all_others_is_ended(self, launch: Launch) -> None:
        sandbox = launch()
        sandbox.output("echo x > kept")
        withstand(sandbox, STOPPER, 5)
        assert (sandbox.workspace_dir / "kept").read_text() == "x\n"

    def test_a_command_that_runs_out_of_memory_is_a_result(self, launch: Launch) -> None:
        if self.enforces_memory:
            sandbox, limit = launch(limits=Limits(memory_mb=64)), ""
        else:
            sandbox, limit = launch(), "ulimit -v 200000; "
        result = sandbox.run(limit + _EATER)
        assert result.returncode not in (0, None)
        assert "memory" in result.stderr.lower()
        sandbox.output("echo alive")

    def test_a_disk_that_an_agent_fills_is_not_an_error_of_the_backend(
        self, launch_on_small_disk: Launch
    ) -> None:
        sandbox = launch_on_small_disk()
        withstand(sandbox, FILLER)
        sandbox.teardown()
        remove_tree(sandbox.workspace_dir)
        assert launch_on_small_disk().output("echo sound") == "sound\n"


def withstand(sandbox: RunningSandbox, command: str, timeout_sec: float = _PATIENCE_SEC) -> None:
    """Run an attack, then end and collect the sandbox as after any agent."""
    with _not_blamed_on_the_backend():
        result = sandbox.run(command, timeout_sec=timeout_sec)
        assert result.returncode != 99, "the sandbox shows the host's processes"
        assert result.returncode != 98, "the disk is too large; override launch_on_small_disk"
    ended = Sandbox(sandbox.backend, sandbox.handle)
    with _not_blamed_on_the_backend():
        ended.stop(_PATIENCE_SEC)
    with _not_blamed_on_the_backend():
        artifacts = ended.collect()
        assert artifacts.workspace.is_dir()
        assert artifacts.logs.is_dir()


@contextmanager
def _not_blamed_on_the_backend() -> Iterator[None]:
    """Accept an error that says or leaves open that the sandbox was broken from within."""
    try:
        yield
    except (BackendLost, BuildError, LaunchError):
        raise
    except BackendError:
        return
