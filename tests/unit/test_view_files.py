"""Files of trials in the viewer: only those, as text, and no link leads anywhere else."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_aecbench.host.below import found_below, open_below, read_below, slice_below
from tests.viewers import Client, make_project, serving

SECRET = b"nobody may read this"
BAD_NAME = b"bad-\xff\xfe-name.txt"


class Project:
    def __init__(self, client: Client, root: Path, trial_id: str) -> None:
        self.client = client
        self.root = root
        self.trial_id = trial_id
        self.directory = root / "jobs/nightly" / trial_id
        self.address = f"/api/f/nightly/{trial_id}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("project")
    trial_id = make_project(root, 3)[0].trial_id
    (root / "secret.txt").write_bytes(SECRET)
    with serving(root) as client:
        yield Project(client, root, trial_id)


def test_a_file_is_read_in_slices(project: Project) -> None:
    data = os.urandom(600_000)
    (project.directory / "workspace/big.bin").write_bytes(data)
    found = b""
    while len(found) < len(data):
        reply = project.client.ask(f"{project.address}/workspace/big.bin?from={len(found)}")
        assert reply.status == 200
        assert 0 < len(reply.body) <= 256 * 1024
        assert reply.headers["Aec-Size"] == "600000"
        found += reply.body
    assert found == data


def test_two_gigabytes_of_nothing_cost_a_slice(project: Project) -> None:
    with (project.directory / "sparse").open("wb") as file:
        file.truncate(2 << 30)
        file.seek(2 << 30)
        file.write(b"end")
    began = time.monotonic()
    reply = project.client.ask(f"{project.address}/sparse?from={2 << 30}")
    assert (reply.body, reply.headers["Aec-Size"]) == (b"end", str((2 << 30) + 3))
    assert len(project.client.ask(f"{project.address}/sparse").body) == 256 * 1024
    assert project.client.ask(f"{project.address}/sparse?from=999999999999999999").body == b""
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("offset", ["-1", "x", "1e3", "9" * 19, "", "%00", "0x10"])
def test_an_offset_that_is_not_a_number_is_refused(project: Project, offset: str) -> None:
    reply = project.client.ask(f"{project.address}/workspace/output.jsonl?from={offset}")
    assert reply.status == (400 if offset else 200)


@pytest.mark.parametrize(
    "path",
    [
        *("../../../secret.txt", "workspace/../../../../secret.txt", "./workspace/output.jsonl"),
        *("%2e%2e/%2e%2e/%2e%2e/secret.txt", "..%2f..%2f..%2fsecret.txt", "%2e./secret.txt"),
        *("%252e%252e%252f%252e%252e%252fsecret.txt", "..%5c..%5csecret.txt", "..\\secret.txt"),
        *("workspace%2foutput.jsonl", "workspace//output.jsonl", "workspace/", "", "/"),
        *(
            "workspace/output.jsonl%00",
            "%00",
            "workspace/output.jsonl/x",
            "%zz",
            "%",
            "%c0%ae%c0%ae",
        ),
        *("/etc/passwd", "%2fetc%2fpasswd", "~root", "a" * 300, "a/" * 2000 + "a"),
    ],
)
def test_no_path_leads_out_of_the_trial(project: Project, path: str) -> None:
    reply = project.client.ask(f"{project.address}/{path}")
    assert reply.status == 404
    assert SECRET not in reply.body
    assert b"root:" not in reply.body


@pytest.mark.parametrize(
    "ids",
    [
        *("../nightly", "nightly/..", "nightly/%2e%2e", "nightly/instructions", "_checks/x"),
        *(".hidden/{id}", "nightly/{id}x", "nightly/{id}%0a", "nightly%0a/{id}", "nightly/{ID}"),
        *("%6eightl%79/../{id}", "x" * 129 + "/{id}", "nightly/{id}%2f..%2f.."),
    ],
)
def test_ids_are_matched_in_full(project: Project, ids: str) -> None:
    shown = ids.format(id=project.trial_id, ID=project.trial_id.upper())
    for kind in ("f", "t"):
        reply = project.client.ask(f"/api/{kind}/{shown}/workspace/output.jsonl")
        assert reply.status == 404
    assert project.client.ask(f"/api/t/{shown}").status == 404


def test_links_are_named_and_never_followed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/secret.txt").write_bytes(SECRET)
    (project.directory / "to-file").symlink_to(project.root / "secret.txt")
    (project.directory / "to-directory").symlink_to(tmp_path / "inner")
    (project.directory / "to-itself").symlink_to("to-itself")
    (project.directory / "to-proc").symlink_to("/proc/self/root")
    names = ["to-file", "to-directory/secret.txt", "to-itself", "to-proc/etc/passwd", "to-proc"]
    for name in names:
        assert project.client.ask(f"{project.address}/{name}").status == 404
    detail = project.client.ask(f"/api/t/nightly/{project.trial_id}").json
    listed = {name: target for name, _, _, target in detail["listed"]}
    assert listed["to-file"] == str(project.root / "secret.txt")
    assert listed["to-directory"] == str(tmp_path / "inner")
    assert not [name for name in listed if name.startswith("to-directory/")]
    assert SECRET.decode() not in str(detail)


def test_a_link_as_the_directory_of_a_trial_or_experiment_is_not_followed(
    project: Project, tmp_path: Path
) -> None:
    other = "00000000-0000-4000-8000-000000000000"
    (tmp_path / "elsewhere" / other).mkdir(parents=True)
    (tmp_path / "elsewhere" / other / "secret.txt").write_bytes(SECRET)
    (project.root / "jobs/nightly" / other).symlink_to(tmp_path / "elsewhere" / other)
    (project.root / "jobs/linked").symlink_to(tmp_path / "elsewhere")
    for place in (f"nightly/{other}", f"linked/{other}"):
        assert project.client.ask(f"/api/f/{place}/secret.txt").status == 404


def test_what_is_not_a_regular_file_is_not_opened(project: Project) -> None:
    os.mkfifo(project.directory / "fifo")
    with socket.socket(socket.AF_UNIX) as unix:
        place = Path.cwd()
        os.chdir(project.directory)  # a short path, as sockets need one
        try:
            unix.bind("socket")
        finally:
            os.chdir(place)
        names = ["fifo", "socket", "workspace"]
        if os.geteuid() == 0:
            os.mknod(project.directory / "zero", 0o20666, os.makedev(1, 5))
            names.append("zero")
        began = time.monotonic()
        for name in names:
            assert project.client.ask(f"{project.address}/{name}").status == 404
        assert project.client.ask(f"/api/t/nightly/{project.trial_id}").status == 200
        assert time.monotonic() - began < 5


def test_a_directory_that_becomes_a_link_during_the_read_leads_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "jobs", tmp_path / "outside"
    (root / "a/b").mkdir(parents=True)
    outside.mkdir()
    (root / "a/b/secret.txt").write_bytes(b"harmless")
    (outside / "secret.txt").write_bytes(SECRET)
    (tmp_path / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for source, target in (("jobs/a/b", "kept"), ("link", "jobs/a/b")):
                (tmp_path / source).rename(tmp_path / target)
            for source, target in (("jobs/a/b", "link"), ("kept", "jobs/a/b")):
                (tmp_path / source).rename(tmp_path / target)

    swapper = threading.Thread(target=swap)
    swapper.start()
    found = set()
    try:
        for _ in range(3000):
            try:
                found.add(read_below(root, "a/b/secret.txt", 100))
                found.add(slice_below(root, "a/b/secret.txt", 0, 100).data)
            except OSError:
                pass
            found |= {one.path.encode() for one in found_below(root, "a", 10)}
    finally:
        over.set()
        swapper.join()
    assert SECRET not in found
    assert b"harmless" in found


HOSTILE = {
    "page.html": b"<script>alert(1)</script>",
    "drawing.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "code.js": b"alert(1)",
    "paper.pdf": b"%PDF-1.4",
    "data.json": b"{}",
    "style.css": b"*{}",
    "x.wasm": b"\0asm",
    "no ending": b"<!doctype html><body onload=alert(1)>",
    "picture.png": b"<html>",
    "app.webmanifest": b"{}",
    "a%2fb?c#d&e=f.html": b"<html>",
    "new\nline\r\nX-Injected: 1": b"<html>",
    "-rf": b"x",
    "\u202egnp.html": b"<html>",
    "<img src=x onerror=alert(1)>": b"x",
}


def test_whatever_its_name_a_file_is_text_and_not_a_document(project: Project) -> None:
    for name, data in HOSTILE.items():
        (project.directory / "workspace" / name).write_bytes(data)
    (project.directory / "workspace" / os.fsdecode(BAD_NAME)).write_bytes(b"bytes")
    detail = project.client.ask(f"/api/t/nightly/{project.trial_id}").json
    addresses = {address for _, _, address, _ in detail["listed"]}
    for name, data in {**HOSTILE, os.fsdecode(BAD_NAME): b"bytes"}.items():
        address = quote(os.fsencode(f"workspace/{name}"))
        assert address in addresses
        reply = project.client.ask(f"{project.address}/{address}")
        assert (reply.status, reply.body) == (200, data)
        assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert "X-Injected" not in reply.headers
    shown = [name for name, _, _, _ in detail["listed"]]
    assert "workspace/\\u202egnp.html" in shown


def test_many_and_deep_directories_are_bearable(tmp_path: Path) -> None:
    deep = tmp_path / "jobs/trial"
    deep.mkdir(parents=True)
    descriptor = os.open(deep, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    for number in range(50):
        (deep / f"{number:02}").touch()
    assert [one.path for one in found_below(tmp_path / "jobs", "trial", 10)] == [
        f"{number:02}" for number in range(10)
    ]
    assert len(found_below(tmp_path / "jobs", "trial", 1000)) == 50


def test_a_file_below_a_directory_is_opened_by_its_own_path_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    with open_below(tmp_path, "a") as file:
        assert file.read() == b"a"
    for path in ("", ".", "..", "/a", "a/", "a/..", "../x", "b", "a\0"):
        with pytest.raises(OSError, match=r"No such file|Not a directory"):
            open_below(tmp_path, path)
    with pytest.raises(OSError, match="more than 0 bytes"):
        read_below(tmp_path, "a", 0)
