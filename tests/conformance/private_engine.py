"""An engine of a test's own, which may be stopped and whose disk may be filled."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.stopping import wait_until

# Enough for the image, what an engine must have free, and a little to fill.
_DISK = "1500m"


class PrivateEngine:
    """A dockerd whose files are on a small disk in memory; its containers have no network."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.host = f"unix://{home}/socket"
        self._daemon: subprocess.Popen[bytes] | None = None
        (home / "data").mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(home / "data"))

    def start(self) -> None:
        # In a network of its own, or it would take the other engine's bridge away.
        argv = ["unshare", "--net", "dockerd", "--bridge=none", "--iptables=false"]
        argv += ["--host", self.host, "--data-root", f"{self.home}/data"]
        argv += ["--exec-root", f"{self.home}/exec", "--pidfile", f"{self.home}/pid"]
        with (self.home / "log").open("ab") as log:
            self._daemon = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._daemon is not None
        assert self._daemon.poll() is None, (self.home / "log").read_text()[-3000:]
        argv = ["docker", "--host", self.host, "info"]
        return subprocess.run(argv, capture_output=True).returncode == 0

    def stop(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(60)
            self._daemon = None

    def take_image(self, name: str) -> None:
        """Get an image from the engine that all tests use."""
        with subprocess.Popen(["docker", "save", name], stdout=subprocess.PIPE) as saved:
            _run("docker", "--host", self.host, "load", "--quiet", stdin=saved.stdout)
        assert saved.returncode == 0

    def client(self) -> Any:
        import docker

        return docker.APIClient(base_url=self.host)

    def close(self) -> None:
        self.stop()
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.home}/"):
                _run("umount", "--lazy", mount)


def _run(*argv: str, stdin: Any = None) -> None:
    done = subprocess.run(argv, stdin=stdin, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
