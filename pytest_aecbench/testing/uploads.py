"""The tests of files that go into a sandbox."""
# ruff: noqa: D102  (a test's name states its requirement)

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pytest_aecbench.errors import BackendError, TransferError
from pytest_aecbench.testing.sandbox import RunningSandbox, write

__all__ = ["UploadConformance"]


class UploadConformance:
    """An upload replaces what was there, and follows no link."""

    def test_an_uploaded_directory_replaces_what_was_there(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        write(tmp_path / "up/test.sh", "cat /tests/data/a\n", 0o755)
        write(tmp_path / "up/data/a", "A")
        sandbox.output(
            "mkdir -p /tests/old/deep; touch /tests/old/deep/x /tests/test.sh /tests/.hidden;"
            "ln -s /etc /tests/data; chmod 555 /tests/old/deep"
        )
        uploads = {"/tests": tmp_path / "up"}
        shown = sandbox.output("bash /tests/test.sh; ls -A /tests", uploads=uploads, exclusive=True)
        assert shown == "Adata\ntest.sh\n"

    def test_an_uploaded_empty_directory_empties_its_target(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        (tmp_path / "empty").mkdir()
        sandbox.output("echo 1 > /logs/verifier/reward.txt")
        uploads = {"/logs/verifier": tmp_path / "empty"}
        assert sandbox.output("ls -A /logs/verifier", uploads=uploads) == ""

    def test_a_file_is_uploaded_into_a_directory_that_is_uploaded_before_it(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        write(tmp_path / "up/own", "own ")
        write(tmp_path / "up/both", "from the directory")
        (tmp_path / "up").chmod(0o555)
        added = write(tmp_path / "added", "added ")
        sandbox.output("mkdir -p /tests/both; ln -s /etc/passwd /tests/new; touch /tests/old")
        uploads = {"/tests": tmp_path / "up", "/tests/both": added, "/tests/new": added}
        shown = sandbox.output("cat /tests/*; ls /tests", uploads=uploads, exclusive=True)
        (tmp_path / "up").chmod(0o755)
        assert shown == "added added own both\nnew\nown\n"

    def test_an_uploaded_file_replaces_what_was_there(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        source = write(tmp_path / "source", "new")
        targets = {
            "/workspace/plain": "echo old > plain",
            "/workspace/read-only": "touch read-only; chmod 000 read-only",
            "/workspace/full": "mkdir -p full/sub; touch full/sub/x",
            "/workspace/link": "ln -s plain link",
            "/workspace/new/and/deep": "true",
            "/logs/agent/x": "rm -rf /logs/agent",
        }
        sandbox.output("; ".join(targets.values()))
        shown = sandbox.output(f"cat {' '.join(targets)}", uploads=dict.fromkeys(targets, source))
        assert shown == "new" * len(targets)
        assert sandbox.run("[ -L link ]").returncode == 1

    def test_an_upload_does_not_follow_planted_links(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        source = write(tmp_path / "up/x", "new").parent
        sandbox.output(
            "mkdir outside; ln -s /workspace/outside /workspace/d;"
            "rm -rf /logs/verifier; ln -s /workspace/outside /logs/verifier"
        )
        uploads = {"/workspace/d/sub": source, "/logs/verifier": source}
        shown = sandbox.output("cat d/sub/x /logs/verifier/x; ls -A outside", uploads=uploads)
        assert shown == "newnew"

    def test_uploads_keep_modes_and_bytes(self, sandbox: RunningSandbox, tmp_path: Path) -> None:
        data = bytes(range(256)) * 5_000
        write(tmp_path / "up/run.sh", "#!/bin/bash\necho ran\n", 0o755)
        write(tmp_path / "up/binary", data)
        uploads = {"/solution": tmp_path / "up"}
        shown = sandbox.output("/solution/run.sh; sha256sum /solution/binary", uploads=uploads)
        assert shown.split()[:2] == ["ran", hashlib.sha256(data).hexdigest()]

    def test_an_upload_of_what_is_not_there_is_a_transfer_error(
        self, sandbox: RunningSandbox, tmp_path: Path
    ) -> None:
        for target in ("/tests", "/workspace/x"):
            with pytest.raises(TransferError, match="none"):
                sandbox.run("true", uploads={target: tmp_path / "none"})
        with pytest.raises(BackendError, match=r"^sandbox path: 'x' is not absolute"):
            sandbox.run("true", uploads={"x": tmp_path})
