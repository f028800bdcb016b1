"""Who may ask the viewer: only the user's own browser, with the token, at a host that is ours."""

from __future__ import annotations

import contextlib
import hmac
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.settings.layers import settings_at
from pytest_aecbench.view import access, server
from pytest_aecbench.view.serving import viewer
from tests.viewers import Client, make_project, parsed, serving

DATA = "/api/e/nightly/columns"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    root = tmp_path_factory.mktemp("project")
    make_project(root)
    with serving(root) as made:
        yield made


def test_with_the_token_the_data_is_given(client: Client) -> None:
    reply = client.ask(DATA)
    assert reply.status == 200
    assert reply.json["n"] == 30


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("127.0.0.1@evil.example", "localhost.", "0.0.0.0", "127.1", "2130706433", "[::2]", ""),
        *("127.0.0.1:8765:1", "[::1", "localhost/../", None),
    ],
)
@pytest.mark.parametrize("target", ["/", DATA, "/assets/app.js"])
def test_another_host_is_not_served(client: Client, host: str | None, target: str) -> None:
    reply = client.ask(target, Host=host)
    assert reply.status == 421
    assert b"nightly" not in reply.body


def test_two_hosts_are_not_served(client: Client) -> None:
    request = f"GET / HTTP/1.1\r\nHost: {client.host}\r\nHost: evil.example\r\n\r\n"
    assert parsed(client.send(request.encode())).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost:4000", "[::1]:9"])
def test_local_hosts_are_served_at_any_port_as_through_a_tunnel(client: Client, host: str) -> None:
    assert client.ask(DATA, Host=host).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "CROSS-SITE", "same-origin, none"])
def test_another_site_may_not_ask_even_with_the_token(client: Client, site: str) -> None:
    assert client.ask(DATA, Sec_Fetch_Site=site).status == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_page_itself_may_ask(client: Client, site: str) -> None:
    assert client.ask(DATA, Sec_Fetch_Site=site, Origin=f"http://{client.host}").status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://{host}", ""]
)
def test_another_origin_may_not_ask_even_with_the_token(client: Client, origin: str) -> None:
    reply = client.ask(DATA, Origin=origin.format(host=client.host))
    assert reply.status == 403
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"]
)
@pytest.mark.parametrize("target", ["/", DATA])
def test_nothing_but_reading_is_possible(client: Client, method: str, target: str) -> None:
    reply = client.ask(target, method)
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_head_has_the_headers_and_nothing_else(client: Client) -> None:
    reply = client.ask(DATA, "HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["Content-Length"]) > 1000


def wrong_tokens(token: str) -> list[str | None]:
    basic = f"Basic {token}"
    shorter, longer = f"Bearer {token[:-1]}", f"Bearer {token}x"
    return [None, "", "Bearer", "Bearer ", shorter, longer, basic, token, "Bearer \xff\xfe"]


@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize(
    "target",
    [DATA, "/api/ping", "/api/experiments", "/api/nothing", "/api/e/../e", "/api/f/a/b/c", "/api"],
)
def test_without_the_token_there_is_no_data(client: Client, number: int, target: str) -> None:
    given = wrong_tokens(client.viewer.lease.token)[number]
    reply = client.ask(target, Authorization=given)
    assert reply.status == 401
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert b"nightly" not in reply.body


def test_a_token_in_the_address_or_in_a_cookie_does_not_count(client: Client) -> None:
    token = client.viewer.lease.token
    target = f"{DATA}?token={token}"
    assert client.ask(target, Authorization=None, Cookie=f"token={token}").status == 401


def test_tokens_are_compared_in_constant_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bytes] = []
    real = hmac.compare_digest

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append(given)
        return real(given, wanted)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for given in ("Bearer a", "Bearer", f"Basic {client.viewer.lease.token}"):
        client.ask(DATA, Authorization=given)
    assert compared == [b"a", b"", client.viewer.lease.token.encode()]


def test_a_token_has_256_bits_and_is_new_at_each_start(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        first = one.viewer.lease.token
    with serving(tmp_path) as one:
        assert one.viewer.lease.token != first
    assert len(first) >= 43


@pytest.mark.parametrize("target", ["/", "/e/nightly", "/t/01234567", "/history", "/nowhere"])
def test_the_page_has_no_data_and_lets_no_other_script_run(client: Client, target: str) -> None:
    reply = client.ask(target, Authorization=None)
    assert reply.status == (404 if target == "/nowhere" else 200)
    assert b"nightly" not in reply.body
    assert client.viewer.lease.token.encode() not in reply.body
    policy = reply.headers["Content-Security-Policy"]
    assert policy == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    assert b"<style" not in reply.body
    assert b"<script>" not in reply.body
    assert b" style=" not in reply.body


@pytest.mark.parametrize(
    ("target", "token"), [("/", True), (DATA, True), (DATA, False), ("/assets/view.js", True)]
)
def test_every_answer_has_the_headers_that_keep_others_out(
    client: Client, target: str, token: bool
) -> None:
    reply = client.ask(target) if token else client.ask(target, Authorization=None)
    found = {name: reply.headers.get(name) for name in access.HEADERS}
    assert found["Cache-Control"] == "no-store"
    assert found["X-Content-Type-Options"] == "nosniff"
    assert found["Referrer-Policy"] == "no-referrer"
    assert found["Cross-Origin-Opener-Policy"] == "same-origin"
    assert found["Cross-Origin-Resource-Policy"] == "same-origin"
    assert found["X-Frame-Options"] == "DENY"
    policy = found["Content-Security-Policy"] or ""
    assert "frame-ancestors 'none'" in policy
    assert policy.startswith("default-src 'none'" if target == "/" else "sandbox; default-src")
    assert "Set-Cookie" not in reply.headers
    assert "Python" not in str(reply.headers)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 421),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 421),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET //evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET /%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET /e/%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999\r\n\r\nxx", 200),
        (b"GET /" + b"a" * 8200 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: 1\r\n" * 90 + b"\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: 1\r\n" * 900 + b"\r\n", 431),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_odd_requests_are_answered_and_nothing_of_them_is_repeated(
    client: Client, data: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    reply = parsed(client.send(data))
    assert reply.status == status
    assert b"evil" not in reply.body
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert client.ask(DATA).status == 200
    assert capfd.readouterr() == ("", "")


def test_a_request_that_drips_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SEND_SEC", 0.4)
    with client.connect() as slow:
        slow.settimeout(10)
        began = time.monotonic()
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        over = threading.Event()

        def drip() -> None:
            while not over.wait(0.05):
                try:
                    slow.sendall(b"a")
                except OSError:
                    return

        threading.Thread(target=drip, daemon=True).start()
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(100) == b""
        over.set()
    assert time.monotonic() - began < 5


def test_a_thousand_idle_connections_keep_nobody_out(client: Client) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    idle: list[socket.socket] = []
    try:
        for _ in range(1000):
            idle.append(client.connect())
        began = time.monotonic()
        assert client.ask(DATA).status == 200
        assert time.monotonic() - began < 8
        names = [one.name for one in threading.enumerate()]
        assert sum("process_request_thread" in name for name in names) <= 300
    finally:
        for one in idle:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert client.ask(DATA).status == 200


def test_no_more_than_32_requests_are_worked_on_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, go = threading.Lock(), threading.Event()
    now, most = 0, 0
    real = client.viewer.server.answer

    def slow(*asked: object) -> object:
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        go.wait(10)
        with lock:
            now -= 1
        return real(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(client.viewer.server, "answer", slow)
    threads = [threading.Thread(target=client.ask, args=("/",)) for _ in range(60)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while most < 32 and time.monotonic() < deadline:
        time.sleep(0.01)
    go.set()
    for thread in threads:
        thread.join()
    assert most == 32


def test_other_hosts_need_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--host: '0\.0\.0\.0' can be reached by others; name"):
        viewer(settings_at(tmp_path), host="0.0.0.0").__enter__()
    with serving(tmp_path, host="0.0.0.0", allowed=["bench.example"]) as made:
        assert made.ask("/api/ping", Host="bench.example:80").status == 200
        assert made.ask("/api/ping", Host="other.example").status == 421
        assert made.viewer.lease.address.startswith("http://bench.example:")


def test_a_taken_port_is_a_problem_only_if_it_was_asked_for(tmp_path: Path) -> None:
    with viewer(settings_at(tmp_path)) as first, viewer(settings_at(tmp_path)) as second:
        ports = [int(one.server.server_address[1]) for one in (first, second)]
        assert ports[1] > ports[0] >= 8765
        with pytest.raises(SettingsError, match=r"--port: .* cannot be used, address already in"):
            viewer(settings_at(tmp_path), port=ports[0]).__enter__()
