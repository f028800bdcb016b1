"""Serve a ledger: find a port, say the address, open a browser, and go on until told to stop."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import sys
import threading
import urllib.request
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.view.access import Access
from pytest_aecbench.view.lease import Lease, find_viewer, viewers_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_aecbench.settings.model import Settings
    from pytest_aecbench.view.content import Content
    from pytest_aecbench.view.server import Server

__all__ = ["PORT", "Viewer", "has_display", "open_browser", "running_viewer", "viewer"]

PORT = 8765
_TRIED_PORTS = 100
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Viewer:
    """A viewer that can be asked."""

    lease: Lease
    server: Server
    content: Content

    def serve(self) -> None:
        """Answer requests until ``stop`` is called in another thread, or for ever."""
        self.server.serve_forever(poll_interval=0.25)

    def stop(self) -> None:
        """Let ``serve`` return."""
        self.server.shutdown()


@contextlib.contextmanager
def viewer(
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allowed: Sequence[str] = (),
    holdout: bool = False,
    mounted: bool = False,
) -> Iterator[Viewer]:
    """Make a viewer of the project's ledger, with a new token; it can be asked once it serves.

    Raises:
        SettingsError: the address cannot be used.

    """
    from pytest_aecbench.view.answers import Answers
    from pytest_aecbench.view.content import Content

    if host not in _LOOPBACK and not allowed:
        raise SettingsError(
            f"--host: {host!r} can be reached by others; name the host that they use "
            "with --allow-host"
        )
    content = Content(settings, holdout=holdout, mounted=mounted)
    token = secrets.token_urlsafe(32)
    answers = Answers(content, Access(token, frozenset(name.lower() for name in allowed)))
    try:
        server = _bound(host, port, answers)
        with contextlib.ExitStack() as stack:
            stack.callback(server.server_close)
            shown = allowed[0] if host not in _LOOPBACK else f"[{host}]" if ":" in host else host
            lease = Lease(settings.ledger_root, f"http://{shown}:{server.server_address[1]}", token)
            stack.callback(lease.write().unlink, missing_ok=True)
            yield Viewer(lease, server, content)
    finally:
        content.library.close()


def _bound(host: str, port: int | None, answers: object) -> Server:
    """Return a server at the port, or without one at the next that is free."""
    from pytest_aecbench.view.server import Server

    ports = range(PORT, PORT + _TRIED_PORTS) if port is None else (port,)
    for number in ports:
        try:
            return Server((host, number), answers.answer)  # type: ignore[attr-defined]
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port is not None:
                reason = error.strerror or str(error)
                raise SettingsError(
                    f"--port: {host}:{number} cannot be used, {reason[:1].lower()}{reason[1:]}; "
                    "leave --port out or name another"
                ) from None
    raise SettingsError(f"--port: no port from {PORT} on is free; name one")


def running_viewer(ledger_root: Path) -> Lease | None:
    """Return a viewer of this ledger that answers; None without one."""
    lease = find_viewer(ledger_root)
    if lease is None:
        return None
    # Not by way of a proxy, which would get to know the token.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(  # noqa: S310  (the address of a viewer)
        f"{lease.address}/api/ping", headers={"Authorization": f"Bearer {lease.token}"}
    )
    with contextlib.suppress(OSError, ValueError), opener.open(request, timeout=2) as answer:
        json.load(answer)
        return lease
    return None


def has_display() -> bool:
    """Return whether a browser that is opened here would be seen by the user."""
    if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return False
    if sys.platform == "darwin":
        return True
    is_wsl = shutil.which("wslview") is not None
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or is_wsl)


def open_browser(address: str) -> None:
    """Open an address that holds a token, which must not be on a command line for all to see."""
    import webbrowser

    path = viewers_directory() / f"open-{secrets.token_hex(8)}.html"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(
            '<!doctype html><meta charset="utf-8"><title>aec-bench</title>'
            f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
        )
    # The browser has read it by then; if not, the printed address still works.
    timer = threading.Timer(30, path.unlink, kwargs={"missing_ok": True})
    timer.daemon = True
    timer.start()
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(path.as_uri())
