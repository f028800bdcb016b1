"""The options of ``compute.gcp``, with the environment variables that say the same."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from pytest_aecbench.backends.remote.options import read_options
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NAME", "OPTIONS", "check_zone", "read"]

NAME = "gcp"
OPTIONS: dict[str, type] = {
    "accelerator_count": int,
    "accelerator_type": str,
    "boot_disk_gb": int,
    "boot_disk_image": str,
    "bucket": str,
    "disks": list,
    "endpoint": str,
    "hide_bucket": bool,
    "machine_type": str,
    "max_retry_count": int,
    "network": str,
    "no_external_ip": bool,
    "parallelism": int,
    "poll_sec": float,
    "project": str,
    "region": str,
    "repository": str,
    "service_account": str,
    "single": bool,
    "spot": bool,
    "subnetwork": str,
    "zone": str,
}
_VARIABLES = {
    "project": "GOOGLE_CLOUD_PROJECT",
    "region": "GCP_REGION",
    "machine_type": "GCP_MACHINE_TYPE",
}
_DEFAULTS: dict[str, object] = {
    "region": "us-central1",
    "hide_bucket": True,
    "poll_sec": 5.0,
    "single": False,
}
_DISK = re.compile(r"(?P<type>[a-z][a-z0-9-]*):(?P<gb>[1-9][0-9]*):(?P<path>/mnt/disks/[\w.-]+)")


def read(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the options, checked: those that were given, else the environment's, else defaults."""
    told = {key: os.environ.get(name, "") for key, name in _VARIABLES.items()}
    options = {
        **_DEFAULTS,
        **{key: value for key, value in told.items() if value},
        **read_options(NAME, given, OPTIONS),
    }
    if "accelerator_count" in options and "accelerator_type" not in options:
        raise SettingsError(
            "compute.gcp.accelerator_count: has no type; set compute.gcp.accelerator_type, such as "
            "'nvidia-tesla-t4'"
        )
    for disk in options.get("disks", ()):
        parsed_disk(disk)
    return options


def check_zone(options: Mapping[str, Any]) -> None:
    """Raise SettingsError if the zone is not one of the region."""
    zone, region = options.get("zone", ""), options["region"]
    if zone and not zone.startswith(f"{region}-"):
        raise SettingsError(
            f"compute.gcp.zone: {zone!r} is not in region {region!r}; use a zone of it, such as "
            f"'{region}-a', or set compute.gcp.region"
        )


def parsed_disk(text: str) -> tuple[str, int, str]:
    """Return the type, the gigabytes and the mount path of a disk such as pd-ssd:100:/mnt/disks/x.

    Raises:
        SettingsError: it is not of that form.

    """
    found = _DISK.fullmatch(text)
    if found is None:
        raise SettingsError(
            f"compute.gcp.disks: {text!r} is not valid; write TYPE:GB:/mnt/disks/NAME, such as "
            "'pd-ssd:100:/mnt/disks/scratch'"
        )
    return found["type"], int(found["gb"]), found["path"]


def project_of(options: Mapping[str, Any]) -> str:
    """Return the project that jobs belong to.

    Raises:
        SettingsError: none is set.

    """
    project: str = options.get("project", "")
    if not project:
        raise SettingsError(
            "GOOGLE_CLOUD_PROJECT is not set; export it, or set compute.gcp.project"
        )
    return project
