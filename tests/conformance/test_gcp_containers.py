"""Tasks of Cloud Batch in containers of a real engine, where the bucket can be hidden."""

from __future__ import annotations

import pytest

from tests.conformance.gcp import Cloud

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.needs("docker")]

BUCKET = "/mnt/disks/aecbench"
# What a command may try in order to see the bucket. Each line that succeeds prints what it found.
# The archive that the inner script is going to write is the trial's own.
ATTEMPTS = f"""
    ls -A {BUCKET} 2>/dev/null
    umount {BUCKET} 2>/dev/null && ls -A {BUCKET}
    umount -l {BUCKET} 2>/dev/null && ls -A {BUCKET}
    mount --bind {BUCKET} /mnt 2>/dev/null && ls -A /mnt
    unshare --mount umount {BUCKET} 2>/dev/null && echo unshared
    for one in /proc/[0-9]*; do
      ls -A $one/root{BUCKET} 2>/dev/null
      for fd in $one/fd/*; do
        case $(readlink $fd) in */agent-0.tar | */verify-0.tar) ;; {BUCKET}*) echo $fd;; esac
      done
      nsenter --mount=$one/ns/mnt ls -A {BUCKET} 2>/dev/null
    done
    true
"""


class TestHiddenBucket:
    in_containers = True

    @pytest.mark.parametrize("mode", ["separate", "shared"])
    def test_agent_and_verifier_cannot_see_it(self, cloud: Cloud, mode: str) -> None:
        cloud.configure(hide_bucket=True)
        cloud.task(
            toml=f'[verifier]\nenvironment_mode = "{mode}"\n',
            verify=None,
            test_sh=f"({ATTEMPTS}) > /logs/verifier/seen\necho 1 > /logs/verifier/reward.txt\n",
        )
        cloud.run(f"--aec-agent=spy=command:({ATTEMPTS}) > /tmp/x; mv /tmp/x seen; id -u > me")
        record = cloud.project.record()
        assert record["evaluation"]["reward"] == 1, record
        (trial,) = (path.parent for path in (cloud.project.path / "jobs").glob("*/*/workspace"))
        assert (trial / "workspace/me").read_text() == "0\n"  # root, and yet
        assert (trial / "workspace/seen").read_text() == ""
        assert (trial / "logs/verifier/seen").read_text() == ""
        (runnable, *_) = cloud.server.called(cloud.server.CREATE)[0].body["taskGroups"][0][
            "taskSpec"
        ]["runnables"]
        assert "--cap-add=SYS_ADMIN" in runnable["container"]["options"]

    def test_it_is_seen_where_it_is_not_hidden(self, cloud: Cloud) -> None:
        """Show that the attempts would find something."""
        cloud.task(verify=None, test_sh="echo 1 > /logs/verifier/reward.txt")
        cloud.run(f"--aec-agent=spy=command:({ATTEMPTS}) > /tmp/x; mv /tmp/x seen")
        (seen,) = (cloud.project.path / "jobs").glob("*/*/workspace/seen")
        assert "in-0.tar" in seen.read_text()

    def test_a_machine_that_cannot_hide_it_fails_the_task(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tests.standins.batch_boxes._Privileged", _unprivileged)
        cloud.configure(hide_bucket=True)
        cloud.task()
        result = cloud.run()
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*BackendError: gcp: job *, task 0: failed; *its log is in *"])
        log = next((cloud.project.path / "jobs").glob("*/*/gcp.log"))
        assert "the bucket cannot be hidden from the agent" in log.read_text()


def _unprivileged(api: object, privileges: object) -> object:
    return api
