"""Access to the viewer: hosts, origins, methods and the token; and the headers of every answer.

Loopback is reached by other users of the machine, by containers on its network, and by any web page
that a browser has open. So a request must name a host that is ours (against DNS rebinding), must
not come from another site, and must bring the token, which is in no address that is sent.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message

__all__ = ["HEADERS", "PAGE_POLICY", "Access", "RefusalError"]

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_METHODS = ("GET", "HEAD")

PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src blob:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
# Whatever is not the page is never a document: it may load nothing and run nothing.
_DATA_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _DATA_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class RefusalError(Exception):
    """A request that is not answered, with a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Access:
    """The rules for one server; ``hosts`` are names that are allowed besides the local ones."""

    token: str
    hosts: frozenset[str] = frozenset()

    def check(self, method: str, headers: Message, *, is_data: bool) -> None:
        """Raise RefusalError unless the request may be answered; the page itself has no data."""
        self._check_host(headers.get_all("Host", []))
        if method not in _METHODS:
            raise RefusalError(405, "nothing can be changed here; use GET or HEAD")
        if not is_data:
            return
        self._check_origin(headers)
        if not self._has_token(headers.get_all("Authorization", [])):
            raise RefusalError(401, "the token is missing or is not that of this viewer")

    def _check_host(self, given: Iterable[str]) -> None:
        found = [_HOST.fullmatch(value.strip()) for value in given]
        names = [one[1].lower() if one else "" for one in found]
        if len(names) != 1 or (names[0] not in _LOCAL and names[0] not in self.hosts):
            raise RefusalError(421, "this host is not served; --allow-host allows another name")

    def _check_origin(self, headers: Message) -> None:
        # Another port of this host is the same site, but not the same origin.
        if any(
            value.strip() not in ("same-origin", "none")
            for value in headers.get_all("Sec-Fetch-Site", [])
        ):
            raise RefusalError(403, "another page may not ask")
        own = f"http://{headers.get('Host', '').strip()}".lower()
        if any(value.strip().lower() != own for value in headers.get_all("Origin", [])):
            raise RefusalError(403, "another origin may not ask")

    def _has_token(self, given: list[str]) -> bool:
        if len(given) != 1:
            return False
        scheme, _, token = given[0].strip().partition(" ")
        is_right = hmac.compare_digest(token.strip().encode(), self.token.encode())
        return scheme.lower() == "bearer" and is_right
