"""The datasets below a root, as ``<name>/<version>/manifest.json``: written once, never changed."""

from __future__ import annotations

import errno
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.datasets.names import NAME, DatasetRef, check_version, parse_ref, precedence
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_regular, shown_path

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_aecbench.datasets.manifest import Manifest

__all__ = ["MANIFEST_FILE", "Datasets"]

MANIFEST_FILE = "manifest.json"
_LISTED = 10
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


@dataclass(frozen=True, slots=True)
class Datasets:
    """The datasets below ``root``."""

    root: Path

    def refs(self) -> list[DatasetRef]:
        """Return all datasets, by name and then from the lowest version to the highest."""
        return [
            DatasetRef(name, version)
            for name in _directories(self.root)
            if re.fullmatch(NAME, name)
            for version in self.versions(name)
        ]

    def versions(self, name: str) -> list[str]:
        """Return the dataset's versions, the highest last."""
        found = []
        for version in _directories(self.root / name):
            with suppress(SettingsError):
                found.append(check_version(version, name))
        return sorted(found, key=precedence)

    def find(self, text: str, where: str) -> DatasetRef:
        """Return the dataset that ``text`` means, with its version.

        Raises:
            SettingsError: there is no such dataset; the message names the existing ones.

        """
        ref = parse_ref(text, where)
        versions = self.versions(ref.name)
        if ref.version is None and versions:
            return DatasetRef(ref.name, versions[-1])
        if ref.version in versions:
            return ref
        known = [DatasetRef(ref.name, version) for version in versions] or self.refs()
        names = ", ".join(map(str, known[-_LISTED:]))
        there_are = f"there are {names}" if names else "make one with 'aec-bench dataset create'"
        raise SettingsError(
            f"{where}: dataset {text!r} not found in {shown_path(self.root)}; {there_are}"
        )

    def path(self, ref: DatasetRef) -> Path:
        """Return the path of the dataset's manifest."""
        return self.root / ref.name / str(ref.version) / MANIFEST_FILE

    def read(self, ref: DatasetRef) -> bytes:
        """Return the manifest as stored bytes."""
        from pytest_aecbench.datasets.manifest import MAX_MANIFEST_BYTES

        path = self.path(ref)
        try:
            return read_regular(path, MAX_MANIFEST_BYTES)
        except OSError as error:
            raise SettingsError(f"{shown_path(path)}: cannot be read, {error.strerror}") from None

    def load(self, ref: DatasetRef) -> Manifest:
        """Return the dataset's manifest, checked."""
        from pytest_aecbench.datasets.manifest import Manifest

        path = self.path(ref)
        manifest = Manifest.from_json(self.read(ref), shown_path(path))
        if manifest.ref != str(ref):
            raise SettingsError(
                f"{shown_path(path)}: belongs to {manifest.ref}; "
                f"move it to {manifest.ref}'s directory"
            )
        return manifest

    def add(self, manifest: Manifest, data: bytes | None = None) -> Path:
        """Store the manifest, as the bytes ``data`` if given, unless its version exists."""
        directory = self.root / manifest.name / manifest.version
        staged = directory.with_name(f".{os.urandom(8).hex()}.tmp")
        try:
            staged.mkdir(parents=True)
            with (staged / MANIFEST_FILE).open("xb") as file:
                file.write(manifest.to_json() if data is None else data)
                file.flush()
                os.fsync(file.fileno())
            # Renaming a directory can only replace an empty one.
            staged.rename(directory)
        except OSError as error:
            if error.errno in _TAKEN and os.path.lexists(directory):
                raise SettingsError(
                    f"{manifest.ref}: exists already and never changes; use another version"
                ) from None
            where = shown_path(directory)
            raise SettingsError(f"{where}: cannot be written, {error.strerror}") from None
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return directory / MANIFEST_FILE


def _directories(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SettingsError(f"{shown_path(root)}: cannot be read, {error.strerror}") from None
