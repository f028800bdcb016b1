"""The tests of files that come out of a sandbox."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_aecbench.testing.sandbox import Launch, RunningSandbox, write

if TYPE_CHECKING:
    from pytest_aecbench.backends import CollectedArtifacts

__all__ = ["OutputConformance"]


class OutputConformance:
    """Files that are safe to read are collected as they are; the others are named."""

    def test_the_workspace_and_the_logs_are_collected(self, launch: Launch) -> None:
        sandbox = launch({"given": "g", "removed": "r"})
        sandbox.output("rm removed; mkdir -p sub; echo made > sub/made; echo 1 > /logs/verifier/r")
        artifacts = sandbox.collect()
        assert artifacts.skipped == ()
        names = {path.relative_to(artifacts.workspace).as_posix() for path in _below(artifacts)}
        assert names == {"given", "sub", "sub/made"}
        assert (artifacts.workspace / "sub/made").read_text() == "made\n"
        assert (artifacts.logs / "verifier/r").read_text() == "1\n"

    def test_what_comes_back_is_what_was_sent_byte_for_byte(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        data = os.urandom(3_000_000)
        source = write(tmp_path / "source", data)
        sandbox.output("true", uploads={"/workspace/data": source})
        assert (sandbox.collect().workspace / "data").read_bytes() == data

    def test_odd_names_go_in_and_come_out(self, sandbox: RunningSandbox, tmp_path: Path) -> None:
        names = ["a b", "é", "new\nline", "-dash", "'quote\"", "x" * 200]
        for name in names:
            write(tmp_path / "up" / name, name)
        sandbox.output("true", uploads={"/workspace/odd": tmp_path / "up"})
        found = sandbox.collect().workspace / "odd"
        assert {path.name: path.read_text() for path in found.iterdir()} == {
            name: name for name in names
        }

    def test_only_what_is_safe_to_read_is_collected(self, sandbox: RunningSandbox) -> None:
        sandbox.output(
            "mkdir -p sub/deep; echo x > sub/file; ln -s file sub/inside; ln sub/file hard;"
            "mkfifo sub/fifo; ln -s /etc/passwd absolute; ln -s ../../outside sub/outside;"
            "mkfifo /logs/agent/fifo"
        )
        artifacts = sandbox.collect()
        assert sorted(artifacts.skipped) == [
            "logs/agent/fifo (FIFO)",
            "workspace/absolute (absolute link)",
            "workspace/sub/fifo (FIFO)",
            "workspace/sub/outside (link that leads outside)",
        ]
        kept = {path.relative_to(artifacts.workspace).as_posix() for path in _below(artifacts)}
        assert kept == {"hard", "sub", "sub/deep", "sub/file", "sub/inside"}
        assert (artifacts.workspace / "hard").read_text() == "x\n"

    def test_holes_take_no_room_on_the_host(self, sandbox: RunningSandbox) -> None:
        for path in ("/logs/verifier/holes", "/workspace/holes"):
            sandbox.output(f"truncate -s 64M {path}; echo end >> {path}")
        artifacts = sandbox.collect()
        for file in (artifacts.logs / "verifier/holes", artifacts.workspace / "holes"):
            status = file.stat()
            assert status.st_size == (64 << 20) + 4
            assert status.st_blocks * 512 < 1 << 20
            assert file.read_bytes()[-5:] == b"\0end\n"

    def test_what_was_locked_is_collected(self, sandbox: RunningSandbox) -> None:
        sandbox.output(
            "mkdir -p locked/inner; echo x > locked/inner/x; chmod 000 locked/inner/x locked/inner"
        )
        assert (sandbox.collect().workspace / "locked/inner/x").read_text() == "x\n"

    def test_a_removed_workspace_is_collected_as_an_empty_one(self, launch: Launch) -> None:
        sandbox = launch({"given": "x"})
        sandbox.output("cd /; rm -rf /workspace/* /workspace /logs/agent; true")
        assert list(sandbox.collect().workspace.iterdir()) == []
        shown = sandbox.output("touch /workspace/x; ls; touch /logs/verifier/r", exclusive=True)
        assert shown == "x\n"

    def test_what_can_be_collected_can_be_collected_again(self, sandbox: RunningSandbox) -> None:
        sandbox.output("echo 1 > x")
        assert (sandbox.collect().workspace / "x").read_text() == "1\n"
        sandbox.output("echo 2 > x")
        assert (sandbox.collect().workspace / "x").read_text() == "2\n"


def _below(artifacts: CollectedArtifacts) -> list[Path]:
    return list(artifacts.workspace.rglob("*"))
