"""The provider ``bedrock``: Converse at Amazon Bedrock, with AWS credentials or a bearer token."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from pytest_aecbench.errors import AuthFailed, ProviderError, RequestRejected, SettingsError
from pytest_aecbench.providers import faults
from pytest_aecbench.providers.converse import body_of, reply, with_bytes, without_bytes
from pytest_aecbench.providers.sdks import reading, shared

if TYPE_CHECKING:
    from pytest_aecbench.providers import ModelReply, ModelRequest
    from pytest_aecbench.providers.routing import Route

__all__ = ["BedrockModel"]

# botocore's clients have their timeout for life, so there is one for each of these seconds.
_TIMEOUTS = (1, 3, 10, 30, 60, 90, 120, 180, 240, 300, 450, 600)
_CONNECT_SEC = 30.0
_Answered: TypeAlias = "tuple[Any, Any]"  # data and the request's id


class BedrockModel:
    """A model at Bedrock.

    A bearer token is sent with a plain POST, because botocore takes one only over https and from
    one variable. Without a token boto3 finds credentials as it always does.
    """

    def __init__(self, route: Route) -> None:
        self.route = route

    @staticmethod
    def check(route: Route, where: str) -> None:
        """Raise SettingsError where the region or the credentials are missing."""
        import botocore.exceptions

        model = BedrockModel(route)
        try:
            if not model._region() and not (model._token() and model._endpoint()):
                raise SettingsError(
                    f"{where}: {route.model!r} is asked at bedrock, but AWS_REGION is not set; "
                    "set it in the environment or in .env"
                )
            found = model._token() or model._has_credentials()
        except botocore.exceptions.BotoCoreError as error:
            raise SettingsError(f"{where}: {route.model!r} is asked at bedrock: {error}") from None
        if not found:
            raise SettingsError(
                f"{where}: {route.model!r} is asked at bedrock, but there are no AWS credentials; "
                "set AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID or AWS_PROFILE"
            )

    def complete(self, request: ModelRequest, *, timeout_sec: float) -> ModelReply:
        """Ask once and return the answer."""
        body = body_of(self.route.model, request)
        ask = self._post if self._token() else self._converse
        outcome = ask(body, timeout_sec)
        if isinstance(outcome, ProviderError):
            raise outcome  # from here, where no variable holds what the provider said
        data, request_id = outcome
        return reading(self.route, lambda: reply(data, request_id))

    def _token(self) -> str | None:
        given = self.route.variable("AWS_BEARER_TOKEN_BEDROCK", "bearer_token")
        return given or self.route.variable("AWS_BEARER_TOKEN")

    def _endpoint(self) -> str | None:
        return self.route.variable("AWS_BEDROCK_ENDPOINT", "endpoint")

    def _profile(self) -> str | None:
        return self.route.settings.get("profile")

    def _region(self) -> str | None:
        named = self.route.variable("AWS_REGION", "region")
        named = named or self.route.variable("AWS_DEFAULT_REGION")
        return named or _session(self._profile()).get_config_variable("region")

    def _has_credentials(self) -> bool:
        """Return whether there are credentials, without asking the network for a machine's role."""
        session = _session(self._profile())
        session.get_component("credential_provider").remove("iam-role")
        return session.get_credentials() is not None or _may_have_a_role()

    def _post(self, body: dict[str, Any], timeout_sec: float) -> _Answered | ProviderError:
        from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
        from urllib3.exceptions import TimeoutError as UrllibTimeoutError

        try:
            status, headers, text = self._posted(body, timeout_sec)
        except (ConnectTimeoutError, NewConnectionError) as error:  # which are timeouts, too
            return faults.broken(self.route, error)
        except (UrllibTimeoutError, TimeoutError):
            return faults.timed_out(self.route, timeout_sec)
        except HTTPError as error:
            return faults.broken(self.route, error)
        if status != 200:
            return faults.from_answer(self.route, _answer(status, headers, text))
        return reading(self.route, lambda: json.loads(text)), headers.get("x-amzn-requestid")

    def _posted(
        self, body: dict[str, Any], timeout_sec: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return the answer; the token stays in this frame, which no error of ours shows."""
        import urllib3

        deadline = time.monotonic() + timeout_sec
        endpoint = self._endpoint() or f"https://bedrock-runtime.{self._region()}.amazonaws.com"
        response = shared(_make_pool).request(
            "POST",
            f"{endpoint.rstrip('/')}/model/{quote(self.route.model, safe='')}/converse",
            body=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token()}",
                "Content-Type": "application/json",
            },
            timeout=urllib3.Timeout(connect=min(timeout_sec, _CONNECT_SEC), read=timeout_sec),
            retries=False,
            preload_content=False,
        )
        return response.status, response.headers, _read(response, deadline)

    def _converse(self, body: dict[str, Any], timeout_sec: float) -> _Answered | ProviderError:
        import botocore.exceptions
        import botocore.parsers

        limit = next((known for known in _TIMEOUTS if known >= timeout_sec), _TIMEOUTS[-1])
        try:
            client = shared(_make_client, self._profile(), self._region(), self._endpoint(), limit)
            data = client.converse(modelId=self.route.model, **with_bytes(body))
        except botocore.exceptions.ClientError as error:
            return faults.from_answer(self.route, _client_answer(error))
        except botocore.exceptions.ReadTimeoutError:
            return faults.timed_out(self.route, timeout_sec)
        except (botocore.exceptions.BotoCoreError, botocore.parsers.ResponseParserError) as error:
            return _boto_fault(self.route, error)
        return without_bytes(data), data.pop("ResponseMetadata", {}).get("RequestId")


def _boto_fault(route: Route, error: Exception) -> ProviderError:
    import botocore.exceptions as boto

    unknown = (boto.NoCredentialsError, boto.PartialCredentialsError, boto.NoRegionError)
    stale = (boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.SSOError)
    if isinstance(error, (*unknown, *stale, boto.ProfileNotFound)):
        return AuthFailed(faults.masked(route, f"bedrock: {error}"))
    if isinstance(error, boto.ParamValidationError):
        return RequestRejected(faults.masked(route, f"bedrock: {error}"))
    return faults.broken(route, error)


def _session(profile: str | None) -> Any:
    import botocore.session

    return botocore.session.Session(profile=profile)


def _may_have_a_role() -> bool:
    """Return whether this is a machine of EC2, which may have a role of its own."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return False
    try:
        return "amazon" in Path("/sys/class/dmi/id/sys_vendor").read_text(encoding="utf-8").lower()
    except OSError:
        return False


def _make_client(
    profile: str | None, region: str | None, endpoint: str | None, timeout_sec: int
) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.session.Session(profile_name=profile, region_name=region)
    config = Config(
        read_timeout=timeout_sec,
        connect_timeout=min(timeout_sec, _CONNECT_SEC),
        retries={"total_max_attempts": 1},
        max_pool_connections=64,
    )
    return session.client("bedrock-runtime", endpoint_url=endpoint, config=config)


def _make_pool() -> Any:
    import urllib3

    pool: Any = urllib3.PoolManager(maxsize=64)
    pool.close = pool.clear
    return pool


def _read(response: Any, deadline: float) -> bytes:
    """Return the whole body of a response, and its connection to the pool if that is sound."""
    parts = []
    try:
        while part := response.read1():
            parts.append(part)
            if time.monotonic() > deadline:
                raise TimeoutError
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return b"".join(parts)


def _answer(status: int, headers: Mapping[str, str], text: bytes) -> faults.Answer:
    try:
        body = json.loads(text)
    except ValueError:
        body = text.decode("utf-8", "replace")
    answer = faults.Answer.read(status, body, headers)
    kind = headers.get("x-amzn-errortype", "").partition(":")[0]
    return answer._replace(codes=(kind, *answer.codes)) if kind else answer


def _client_answer(error: Any) -> faults.Answer:
    said, metadata = error.response["Error"], error.response.get("ResponseMetadata", {})
    return faults.Answer.read(
        metadata.get("HTTPStatusCode"),
        {"code": said.get("Code"), "message": said.get("Message") or ""},
        metadata.get("HTTPHeaders", {}),
    )
