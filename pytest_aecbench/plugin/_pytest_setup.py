"""Names of pytest that it does not promise to keep: set-up of items that run side by side.

pytest keeps one stack of nodes that are set up, and one value in each fixture definition. Here the
stack is a tree, and each item has definitions of its own, or shares them with the items below the
same node.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.fixtures import get_scope_node, get_scope_package
from _pytest.outcomes import OutcomeException
from _pytest.runner import SetupState
from _pytest.scope import Scope

from pytest_aecbench.host.lanes import Mutex

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from _pytest.nodes import Node

    Definition = pytest.FixtureDef[Any]

__all__ = ["OwnDefinitions", "OwnFixtures", "SetupTree", "shared_parameters"]


class SetupTree(SetupState):
    """The nodes that are set up, for items that run side by side.

    An item that ends tears down the nodes that no other item needs, so that an error there is in
    its report. ``running`` returns the item that has the floor.
    """

    def __init__(
        self,
        items: Iterable[pytest.Item],
        running: Callable[[], pytest.Item | None],
        on_torn_down: Callable[[Node], object],
    ) -> None:
        super().__init__()
        self.late_errors: list[BaseException] = []  # of items that were interrupted
        self._running = running
        self._on_torn_down = on_torn_down
        self._expected: dict[Node, set[pytest.Item]] = {}  # the items below it that have not ended
        self._turns: dict[Node, Mutex] = {}
        for item in items:
            self._expect(item)

    def _expect(self, item: pytest.Item) -> None:
        for node in item.listchain()[:-1]:
            self._expected.setdefault(node, set()).add(item)

    def setup(self, item: pytest.Item) -> None:
        """Set up the item and the nodes above it, unless others have done so."""
        self._expect(item)  # it may be run again
        for node in item.listchain():
            with self._turn(node):
                if node not in self.stack:
                    self._set_up(node)
                elif error := self.stack[node][1]:
                    raise error[0].with_traceback(error[1])

    def _set_up(self, node: Node) -> None:
        self.stack[node] = ([node.teardown], None)
        try:
            node.setup()
        except (OutcomeException, Exception) as error:
            self.stack[node] = (self.stack[node][0], (error, error.__traceback__))
            raise

    def teardown_exact(self, nextitem: pytest.Item | None) -> None:
        """Tear down the item that runs, and what it was the last to need; all, if none runs."""
        item = self._running()
        if item is not None:
            self.tear_down(item)
            return
        for node in sorted(self.stack, key=lambda node: -len(node.listchain())):
            self._end(node, self.late_errors)
        _raise(self.late_errors)

    def tear_down(self, item: pytest.Item) -> None:
        """Tear down an item, and the nodes above it that no other needs."""
        errors: list[BaseException] = []
        self._end(item, errors)
        for node in reversed(item.listchain()[:-1]):
            with self._turn(node):
                expected = self._expected.get(node, set())
                expected.discard(item)
                if expected:
                    break
                self._end(node, errors)
                self._expected.pop(node, None)
                self._turns.pop(node, None)
        _raise(errors)

    def forget(self, items: Iterable[pytest.Item]) -> None:
        """Expect these items no longer."""
        for item in items:
            for node in item.listchain()[:-1]:
                self._expected.get(node, set()).discard(item)

    def _turn(self, node: Node) -> Mutex:
        if isinstance(node, pytest.Item):
            return Mutex()
        return self._turns.setdefault(node, Mutex())

    def _end(self, node: Node, errors: list[BaseException]) -> None:
        """Run a node's finalizers as pytest does."""
        finalizers, _ = self.stack.pop(node, ([], None))
        raised: list[BaseException] = []
        while finalizers:
            try:
                finalizers.pop()()
            except (OutcomeException, Exception) as error:  # noqa: BLE001  (shown in a report)
                raised.append(error)
        self._on_torn_down(node)
        if len(raised) > 1:
            raised = [_group(f"errors while tearing down {node!r}", raised[::-1])]
        errors.extend(raised)


def _raise(errors: Sequence[BaseException]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise _group("errors during test teardown", errors[::-1])


def _group(message: str, errors: Sequence[BaseException]) -> BaseException:
    from _pytest import runner

    # Python 3.10 has none, and pytest gets one from a library.
    group: BaseException = runner.BaseExceptionGroup(message, errors)  # type: ignore[attr-defined]
    return group


class OwnFixtures:
    """Gives items their own fixture definitions, because each definition holds one value."""

    def __init__(self) -> None:
        self._shared: defaultdict[Node, dict[Definition, Definition]] = defaultdict(dict)

    def give(self, item: pytest.Item) -> None:
        """Let an item have its own definitions from now on."""
        if not isinstance(item, pytest.Function):
            return
        info = item._fixtureinfo
        copies = OwnDefinitions(item, info.name2fixturedefs, self)
        item._fixtureinfo = replace(info, name2fixturedefs=copies)
        item._initrequest()

    def take_back(self, item: pytest.Item) -> None:
        """Let an item that is over have the definitions of all, and free its own."""
        if isinstance(item, pytest.Function):
            copies = item._fixtureinfo.name2fixturedefs
            assert isinstance(copies, OwnDefinitions)
            item._fixtureinfo = replace(item._fixtureinfo, name2fixturedefs=copies.originals)

    def forget(self, node: Node) -> None:
        """Free the definitions that items below a node have shared."""
        self._shared.pop(node, None)

    def own(self, item: pytest.Function, definition: Definition) -> Definition:
        """Return the item's own definition for that of all."""
        node = _scope_node(item, definition)
        if node is item:
            return _copied(definition)
        shared = self._shared[node]
        if definition not in shared:
            shared[definition] = made = _copied(definition)
            # Items that need the same value at the same time make it once.
            turn, execute = Mutex(), made.execute
            made.execute = partial(_in_turn, turn, execute)  # type: ignore[method-assign]
        return shared[definition]


class OwnDefinitions(dict[str, "Sequence[Definition]"]):
    """The fixture definitions of one item by name, each copied when it is asked for."""

    def __init__(
        self,
        item: pytest.Function,
        originals: dict[str, Sequence[Definition]],
        fixtures: OwnFixtures,
    ) -> None:
        super().__init__()
        self.originals = originals
        self._item = item
        self._fixtures = fixtures

    def copy(self) -> OwnDefinitions:
        """Return this very mapping, which pytest 9.0 copies for each request."""
        return self

    def get(self, name: str, default: Any = None) -> Any:
        """Return the item's own definitions of that name, also those of a later request."""
        if name not in self:
            found = self.originals.get(name)
            if found is None:
                found = self._item.session._fixturemanager.getfixturedefs(name, self._item)
            if found is None:
                return default
            self[name] = [self._fixtures.own(self._item, one) for one in found]
        return self[name]


def _copied(definition: Definition) -> Definition:
    copied = copy.copy(definition)
    copied.cached_result = None
    copied._finalizers = []  # type: ignore[misc]
    return copied


def _in_turn(turn: Mutex, execute: Callable[..., object], request: object) -> object:
    with turn:
        return execute(request)


def _scope_node(item: pytest.Function, definition: Definition) -> Node:
    """Return the node below which all items share the fixture's value."""
    scope = definition._scope
    callspec = getattr(item, "callspec", None)
    if callspec is not None and definition.argname in callspec.params:
        scope = callspec._arg2scope[definition.argname]
    if scope is Scope.Package:
        return get_scope_package(item, definition) or item
    return get_scope_node(item, scope) or item


def shared_parameters(item: pytest.Item) -> dict[Hashable, int]:
    """Return the parameters of fixtures whose value the item shares with others.

    Such a fixture has one value at a time, so items that differ in one of these cannot run side by
    side.
    """
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    return {
        (name, get_scope_node(item, scope)): callspec.indices[name]
        for name, scope in callspec._arg2scope.items()
        if scope is not Scope.Function
    }
