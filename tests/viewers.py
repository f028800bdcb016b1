"""A viewer of a made-up project, asked through real sockets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_aecbench.ledger.record import TrialRecord
from pytest_aecbench.settings.layers import settings_at
from pytest_aecbench.view.serving import Viewer, viewer
from tests.ledgers import records, write_files


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks a viewer; what it sends is not tidied up on the way."""

    def __init__(self, made: Viewer) -> None:
        self.viewer = made
        self.port = int(made.server.server_address[1])
        self.host = f"127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, data: bytes) -> bytes:
        """Send these bytes and return everything that comes back."""
        with self.connect() as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def ask(self, target: str, method: str = "GET", **headers: str | None) -> Reply:
        """Send a request with the token; a header of None is left out."""
        given = {
            "Host": self.host,
            "Authorization": f"Bearer {self.viewer.lease.token}",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""])
        return parsed(self.send(head.encode("latin-1")))


def parsed(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(first.split()[1]), headers, body)


@contextmanager
def serving(root: Path, **options: Any) -> Iterator[Client]:
    """Serve a project at a free port until the end."""
    with viewer(settings_at(root), port=0, **options) as made:
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        try:
            yield Client(made)
        finally:
            made.stop()
            thread.join()


def make_project(root: Path, trials: int = 30, experiment: str = "nightly") -> list[TrialRecord]:
    """Write records of so many trials with their files, and return them."""
    made = list(records(trials, experiment=experiment))
    directory = root / "artefacts/ledger" / experiment
    directory.mkdir(parents=True)
    for number, record in enumerate(made):
        (directory / f"{record.trial_id}.json").write_bytes(record.to_json())
        write_files(root / "jobs", record, number // 15)
    return made
