"""What is said of an engine is what is known of it."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from docker.errors import APIError
from requests.exceptions import ConnectionError as NoConnection

from pytest_aecbench.backends.docker.engine import can_limit_storage, translated
from pytest_aecbench.errors import BackendError, BuildError, TransferError, classify


def info(driver: str, backing: str | None = None, root: str = "/var/lib/docker") -> dict[str, Any]:
    status = [["Backing Filesystem", backing]] if backing else None
    return {"Driver": driver, "DriverStatus": status, "DockerRootDir": root}


@pytest.mark.parametrize(
    ("engine", "limited"),
    [
        (info("btrfs"), True),
        (info("zfs"), True),
        (info("overlay2", "extfs"), False),
        (info("overlayfs"), False),
        (info("vfs", "xfs"), False),
    ],
)
def test_a_driver_limits_storage_or_does_not(engine: dict[str, Any], limited: bool) -> None:
    assert can_limit_storage(engine) is limited


def test_nothing_is_claimed_of_a_disk_that_cannot_be_seen_from_here() -> None:
    # /proc is no xfs, so that an engine which says it is there must be elsewhere.
    assert can_limit_storage(info("overlay2", "xfs", "/proc/1")) is None


@pytest.mark.parametrize(("options", "limited"), [("rw,noquota", False), ("rw,prjquota", True)])
def test_xfs_limits_storage_with_quotas_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, limited: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\n/dev/b /var/lib xfs {options} 0 0\n")
    monkeypatch.setattr("pytest_aecbench.backends.docker.engine.MOUNTS", mounts)
    assert can_limit_storage(info("overlay2", "xfs")) is limited


@pytest.mark.parametrize(
    ("error", "retried"), [(NoConnection("gone"), True), (APIError("invalid reference"), False)]
)
def test_an_engine_that_is_away_is_asked_again_about_an_image(
    error: Exception, retried: bool
) -> None:
    with pytest.raises(BackendError) as raised, translated(BuildError, "looking for an image"):
        raise error
    assert classify(raised.value).retry is retried


def test_an_answer_that_stalls_is_not_a_lost_engine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(TransferError), translated(TransferError, "fetching"):
            requests.get(url, stream=True, timeout=0.2)

        def answer() -> socket.socket:
            connection, _ = server.accept()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")
            return connection

        server.accept()[0].close()  # that of the first call
        with ThreadPoolExecutor(1) as thread, requests.Session() as session:
            answering = thread.submit(answer)
            with pytest.raises(TransferError), translated(TransferError, "fetching"):
                session.get(url, timeout=0.2)
            answering.result().close()
