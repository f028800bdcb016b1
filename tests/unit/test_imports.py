"""Every module of the package can be imported first, whatever else is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import pytest_aecbench
from pytest_aecbench.backends import BACKENDS

PACKAGE = Path(pytest_aecbench.__file__).parent
# Imports each module in a fork of its own, which knows what we need of others but none of ours.
IMPORT_EACH = """
import importlib, os, sys, warnings
import filelock, pluggy, pydantic, pytest, typer, typer.main, xdist.scheduler, yaml

warnings.filterwarnings("ignore", ".*Python 3.10 is EOL and Modal")
warnings.filterwarnings("ignore", "You are using a .*Python version", FutureWarning)
for name in ("docker", "google.cloud.batch_v1", "google.cloud.storage"):  # of many modules
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        pass
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(name)
"""

SDKS = {"gcp": "google.cloud.batch_v1"}  # of extras that are not called what their SDK is called


def modules() -> list[str]:
    """Return the names of all modules, without what new projects start with."""
    paths = [path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py")]
    return sorted(
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if "starter" not in path.parts and path.name != "__main__.py"
    )


def missing() -> dict[str, str]:
    """Return the modules of backends whose SDK is not installed, with the name of that."""
    rows = ((dotted.rpartition(".")[0], extra) for dotted, extra in BACKENDS.values() if extra)
    sdks = {module: SDKS.get(extra, extra) for module, extra in rows}
    sdks["pytest_aecbench.cooperbench.gcp"] = SDKS["gcp"]
    return {module: sdk for module, sdk in sdks.items() if not is_installed(sdk)}


def is_installed(sdk: str) -> bool:
    try:
        return find_spec(sdk) is not None
    except ModuleNotFoundError:  # not even what it belongs to
        return False


def needs_what_is_missing(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in missing())


def import_each(*names: str) -> tuple[list[str], str]:
    """Return the modules that cannot be imported, and all that was said about it."""
    argv = [sys.executable, "-c", IMPORT_EACH, *names]
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.stdout.split(), done.stderr


@pytest.mark.nightly
def test_every_module_can_be_imported_first() -> None:
    names = [name for name in modules() if not needs_what_is_missing(name)]
    assert len(names) > 100
    assert import_each(*names) == ([], "")


def test_a_backend_without_its_sdk_lacks_nothing_else() -> None:
    for module, sdk in missing().items():
        failed, said = import_each(module)
        assert failed == [module]
        assert f"ModuleNotFoundError: No module named '{sdk.partition('.')[0]}" in said


def test_a_backend_whose_sdk_has_another_name_says_what_to_install() -> None:
    program = """if True:
        import sys
        sys.modules["google"] = None
        from pytest_aecbench.backends import make_backend
        make_backend("gcp", "--aec-backend")
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        "--aec-backend: gcp is not installed; pip install 'pytest-aecbench[gcp]'"
    )
