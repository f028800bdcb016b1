"""The stand-in for a registry, as clients of the distribution interface see it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
import requests

from tests.standins.registry import RegistryServer

KIND = "application/vnd.oci.image.manifest.v1+json"
BLOB = b"layer"
DIGEST = f"sha256:{hashlib.sha256(BLOB).hexdigest()}"


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    server = RegistryServer()
    yield server
    server.close()


@pytest.fixture
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def push(client: requests.Session, registry: RegistryServer, digest: str = DIGEST) -> int:
    """Push a blob in two parts; return the status."""
    begun = client.post(f"{registry.url}/v2/project/x/blobs/uploads/")
    place = registry.url + begun.headers["Location"]
    grown = client.patch(place, data=BLOB[:2])
    assert grown.headers["Range"] == "0-1"
    return client.put(place, params={"digest": digest}, data=BLOB[2:]).status_code


def test_what_was_pushed_can_be_pulled(registry: RegistryServer, client: requests.Session) -> None:
    names = f"{registry.url}/v2/project/x"
    assert client.get(f"{registry.url}/v2/").status_code == 200
    assert client.head(f"{names}/blobs/{DIGEST}").status_code == 404
    assert push(client, registry) == 201
    assert client.head(f"{names}/blobs/{DIGEST}").status_code == 200
    assert client.get(f"{names}/blobs/{DIGEST}").content == BLOB
    assert client.head(f"{names}/manifests/1").status_code == 404
    put = client.put(f"{names}/manifests/1", data=b"{}", headers={"Content-Type": KIND})
    assert put.status_code == 201
    for reference in ("1", put.headers["Docker-Content-Digest"]):
        found = client.get(f"{names}/manifests/{reference}")
        assert (found.content, found.headers["Content-Type"]) == (b"{}", KIND)
    assert registry.reference("project/x:1").endswith("/project/x:1")
    assert len(registry.called(registry.PUSH)) == 1


def test_a_blob_that_is_not_what_it_says_is_refused(
    registry: RegistryServer, client: requests.Session
) -> None:
    assert push(client, registry, f"sha256:{'0' * 64}") == 400
    assert registry.blobs == {}


def test_only_the_password_opens_it(registry: RegistryServer, client: requests.Session) -> None:
    registry.password = "open"
    refused = client.get(f"{registry.url}/v2/")
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic ")
    wrong = client.get(f"{registry.url}/v2/", auth=("anyone", "wrong"))
    assert wrong.status_code == 401
    assert client.get(f"{registry.url}/v2/", auth=("anyone", "open")).status_code == 200
