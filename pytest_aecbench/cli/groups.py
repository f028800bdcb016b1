"""Groups of options: one parameter of a command that stands for several options."""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["option", "option_group"]


def option(name: str, annotation: object, default: object = None) -> Parameter:
    """Return an option of a group; typer reads its annotation."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option_group(
    name: str, options: Sequence[Parameter], gather: Callable[[dict[str, Any]], object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put ``options`` in the place of a command's parameter ``name``.

    The command gets what ``gather`` returns for their values.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            values = {each.name: given.pop(each.name) for each in options}
            command(**given, **{name: gather(values)})

        parameters = list(_replaced(_parameters(command), name, options))
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


def _parameters(command: Callable[..., None]) -> Iterator[Parameter]:
    """Yield a command's parameters with their annotations evaluated."""
    # Not get_type_hints: with a default of None, Python 3.10 hides what is Annotated.
    for parameter in signature(command, eval_str=True).parameters.values():
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)


def _replaced(
    parameters: Iterable[Parameter], name: str, options: Sequence[Parameter]
) -> Iterator[Parameter]:
    for parameter in parameters:
        yield from options if parameter.name == name else (parameter,)
