"""Calls through the SDKs of Anthropic and OpenAI, which are made by the same generator."""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_aecbench.errors import Refused
from pytest_aecbench.providers import faults

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_aecbench.errors import ProviderError
    from pytest_aecbench.providers.routing import Route

__all__ = ["ask", "body_of", "headers_of", "reading", "shared", "timeout"]

_CONNECT_SEC = 30.0
# Errors that code raises, ours or an SDK's, where a reply is not what it should be.
_ODD = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_Made = TypeVar("_Made")
_MAKING = threading.Lock()


def shared(make: Callable[..., _Made], *arguments: Hashable) -> _Made:
    """Return what ``make`` makes of the arguments: one client for all threads of this process."""
    with _MAKING:  # boto3 can make one client at a time
        made: _Made = _made(make, *arguments)
        return made


@functools.cache
def _made(make: Callable[..., Any], *arguments: Hashable) -> Any:
    client = make(*arguments)
    atexit.register(_forget, client)
    return client


def _forget(client: Any) -> None:
    """Close a client and let go of it, because it complains if it outlives its own module."""
    client.close()
    _made.cache_clear()


def headers_of(route: Route) -> tuple[tuple[str, str], ...]:
    """Return the further headers that the client sends, as arguments for ``shared``."""
    given: Mapping[str, Any] = route.settings.get("headers") or {}
    return tuple(sorted((str(name), str(value)) for name, value in given.items()))


def timeout(sdk: ModuleType, timeout_sec: float) -> Any:
    """Return the SDK's timeouts for one call."""
    return sdk.Timeout(timeout_sec, connect=min(timeout_sec, _CONNECT_SEC))


def body_of(response: Any, deadline: float) -> bytes:
    """Return the whole body of a response, or raise TimeoutError where it drips in too slowly."""
    parts = []
    for part in response.iter_bytes():
        parts.append(part)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)


def ask(sdk: ModuleType, route: Route, timeout_sec: float, call: Callable[[], _Made]) -> _Made:
    """Return what ``call`` returns, with the SDK's errors as ours.

    Errors of an SDK hold the request with its key, so ours do not keep them as their context.
    """
    import httpx2

    fault: ProviderError
    try:
        return call()
    except sdk.APIStatusError as error:
        fault = faults.from_answer(
            route, faults.Answer.read(error.status_code, error.body, error.response.headers)
        )
    except (sdk.APITimeoutError, httpx2.TimeoutException, TimeoutError) as error:
        cause = error.__cause__ or error
        if isinstance(cause, httpx2.ConnectTimeout):
            fault = faults.broken(route, "no connection in time")
        else:
            fault = faults.timed_out(route, timeout_sec)
    except (sdk.APIError, httpx2.HTTPError, httpx2.StreamError) as error:
        fault = faults.broken(route, error.__cause__ or error)
    raise fault


def reading(route: Route, read: Callable[[], _Made]) -> _Made:
    """Return what ``read`` finds in a reply; a torn or odd one is a failed connection."""
    error: ProviderError
    try:
        return read()
    except RecursionError:  # brackets are the model's own doing
        error = Refused(f"{route.provider}: the reply is nested too deep to be read")
    except _ODD as odd:
        problem = f"the reply cannot be read: {type(odd).__name__}: {odd}"
        error = faults.broken(route, problem)
    raise error
