"""``aec-bench config gcp``: set this user's defaults for Google Cloud, after trying them."""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pytest_aecbench.cli.config import store
from pytest_aecbench.cli.console import AsJson, project_settings
from pytest_aecbench.errors import AecBenchError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["gcp"]

_LIBRARIES = ("google.cloud.batch_v1", "google.cloud.storage")
_ANSWER_SEC = 60.0
_GCLOUD_SEC = 30.0
_LOGIN = ("gcloud", "auth", "application-default", "login")


@dataclass(frozen=True)
class _Question:
    """A value to ask for; ``pattern`` and ``right`` say which are valid."""

    key: str
    text: str
    pattern: str
    right: str

    def check(self, value: str) -> str:
        """Return the value without spaces around it.

        Raises:
            SettingsError: it is not valid.

        """
        value = value.strip()
        if not re.fullmatch(self.pattern, value):
            raise SettingsError(f"--{self.key}: {value!r} is not valid; {self.right}")
        return value


_PROJECT = _Question(
    "project",
    "Project id",
    r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
    "use a project's id, of 6 to 30 lower-case letters, digits and hyphens, such as my-project-1",
)
_REGION = _Question(
    "region", "Region", r"[a-z]+(?:-[a-z]+)+[0-9]+", "use a region such as us-central1"
)
_BUCKET = _Question(
    "bucket",
    "Bucket for the files of trials; made if it does not exist",
    r"(?!goog)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
    "use 3 to 63 lower-case letters, digits, hyphens, dots and underscores",
)


def gcp(
    project: Annotated[str | None, typer.Option(help="The project's id.")] = None,
    region: Annotated[str | None, typer.Option(help="Where jobs run.")] = None,
    zone: Annotated[
        str | None, typer.Option(help="The only zone of the region where jobs run; '' for any.")
    ] = None,
    bucket: Annotated[str | None, typer.Option(help="Where the files of trials go.")] = None,
    skip_tests: Annotated[
        bool, typer.Option("--skip-tests", help="Store the values without trying them.")
    ] = False,
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="Ask nothing; use options and defaults.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Set this user's defaults for the gcp backend: project, region, zone and bucket.

    It looks for gcloud, the client libraries and credentials, asks for the values, and tries Cloud
    Batch and Cloud Storage with them. It stores nothing before everything has worked.

    Example: aec-bench config gcp --project my-project-1 --non-interactive
    """
    wizard = _Wizard(asks=not non_interactive, say=partial(typer.echo, err=as_json))
    wizard.check_tools()
    known = _known_options()
    values = {"project": wizard.value(_PROJECT, project, known.get("project") or wizard.project())}
    values["region"] = wizard.value(_REGION, region, known["region"])
    values["zone"] = wizard.value(_zone_of(values["region"]), zone, known.get("zone") or "")
    made_up = f"{values['project'].replace(':', '-').replace('.', '-')}-aecbench"
    values["bucket"] = wizard.value(_BUCKET, bucket, known.get("bucket") or made_up)
    if not skip_tests:
        wizard.try_access({**known, **{key: value for key, value in values.items() if value}})
    changes = {f"compute.gcp.{key}": value or None for key, value in values.items()}
    store(changes, as_json=as_json)


def _known_options() -> Mapping[str, Any]:
    """Return what the configuration and the environment say already."""
    from pytest_aecbench.backends.gcp.options import read

    return read(project_settings().options_of("gcp"))


def _zone_of(region: str) -> _Question:
    return _Question(
        "zone",
        "Zone; empty for any of the region",
        rf"(?:{re.escape(region)}-[a-z])?",
        f"use a zone of the region, such as {region}-a, or '' for any",
    )


@dataclass
class _Wizard:
    """Looks, asks and tries; ``say`` prints a line."""

    asks: bool
    say: Callable[[str], object]

    def check_tools(self) -> None:
        """Raise SettingsError if the client libraries or credentials are missing."""
        self._found("gcloud", shutil.which("gcloud") or "not installed; it is needed to log in")
        missing = [name for name in _LIBRARIES if not _is_installed(name)]
        if missing:
            raise SettingsError(
                f"config gcp: {' and '.join(missing)} not installed; "
                "pip install 'pytest-aecbench[gcp]'"
            )
        self._found("libraries", "installed")
        try:
            self._found("credentials", _credentials())
        except SettingsError:
            if not (self.asks and shutil.which("gcloud")):
                raise
            if not typer.confirm("There are no credentials. Log in now?", default=True, err=True):
                raise
            subprocess.run(_LOGIN, check=False)
            self._found("credentials", _credentials())

    def project(self) -> str:
        """Return the project that the credentials or gcloud are set to, if any."""
        import google.auth

        _, found = google.auth.default()
        if found or not shutil.which("gcloud"):
            return found or ""
        try:
            told = subprocess.run(
                ("gcloud", "config", "get-value", "project"),
                capture_output=True,
                text=True,
                timeout=_GCLOUD_SEC,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return told.stdout.strip().removeprefix("(unset)")

    def value(self, question: _Question, given: str | None, default: str) -> str:
        """Return the option's value, else what the user answers, else the default."""
        if given is not None:
            return question.check(given)
        if self.asks:
            return str(
                typer.prompt(
                    question.text, default=default, value_proc=_prompted(question), err=True
                )
            )
        if not default and question.key == "project":
            raise SettingsError("--project: is not given; name it, or set GOOGLE_CLOUD_PROJECT")
        return question.check(default)

    def try_access(self, options: Mapping[str, Any]) -> None:
        """Raise an error if Cloud Batch or Cloud Storage cannot be used with these values."""
        from pytest_aecbench.backends.gcp.cloud import Cloud
        from pytest_aecbench.backends.remote.calls import bounded

        cloud = Cloud(options)
        for name, attempt in (("Batch", _try_batch), ("Storage", _try_storage)):
            try:
                detail = bounded(partial(attempt, cloud), _ANSWER_SEC, f"Cloud {name}")
            except AecBenchError as error:
                raise SettingsError(
                    f"config gcp: Cloud {name} cannot be used, so nothing is stored; "
                    f"{str(error).removeprefix('gcp: ')}"
                ) from None
            self._found(f"Cloud {name}", detail)

    def _found(self, name: str, detail: str) -> None:
        self.say(f"{name:<14} {detail}")


def _prompted(question: _Question) -> Callable[[str], str]:
    """Return what checks an answer, for which the question is repeated if it is wrong."""

    def check(answer: str) -> str:
        try:
            return question.check(answer)
        except SettingsError as error:
            raise typer.BadParameter(str(error).partition(": ")[2]) from None

    return check


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package above it
        return False


def _credentials() -> str:
    from pytest_aecbench.backends.gcp.cloud import Cloud

    found = Cloud({}).credentials
    return str(getattr(found, "service_account_email", "") or type(found).__module__)


def _try_batch(cloud: Any) -> str:
    cloud.jobs("labels.aecbench-check=none")
    return f"answers for {cloud.parent}"


def _try_storage(cloud: Any) -> str:
    name, content = f"aecbench-check/{secrets.token_hex(8)}", BytesIO(b"aecbench")
    cloud.bucket.write(name, content)
    back = BytesIO()
    cloud.bucket.read(name, back, most=len(content.getvalue()))
    cloud.bucket.remove([name])
    if back.getvalue() != content.getvalue():
        raise SettingsError(f"gs://{cloud.bucket.name}: an object came back changed")
    return f"gs://{cloud.bucket.name} can be written and read"
