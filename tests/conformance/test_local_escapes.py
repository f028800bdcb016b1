"""No way leads from a sandbox of the local backend to the host by accident."""

from __future__ import annotations

from tests.conformance.boxes import Box, Workshop, in_namespaces

# Stops every new process again and again, and looks through it for a file of the host.
STOP_AND_LOOK = """
import os, signal, sys

secret, seen = sys.argv[1:]
open(seen, "w").close()
while True:
    for pid in {int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, os.getpid()}:
        try:
            os.kill(pid, signal.SIGSTOP)
            try:
                with open(f"/proc/{pid}/root{secret}") as found, open(seen, "a") as told:
                    told.write(found.read())
            finally:
                os.kill(pid, signal.SIGCONT)
        except OSError:
            pass
"""


@in_namespaces
def test_a_command_that_is_stopped_on_its_way_in_does_not_show_the_host(
    workshop: Workshop, box: Box
) -> None:
    secret = workshop.write("secret", "of the host")
    workshop.write("attack/attack.py", STOP_AND_LOOK)
    box.output(
        f"setsid python3 /tests/attack.py {secret} seen </dev/null >/dev/null 2>&1 &"
        " until [ -e seen ]; do :; done",
        uploads={"/tests": workshop.directory / "attack"},
    )
    for _ in range(40):
        box.run("true", timeout_sec=1)
        assert (box.workspace_dir / "seen").read_text() == ""
