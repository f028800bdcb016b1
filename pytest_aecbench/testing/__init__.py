"""`BackendConformance`: the contract of a backend as tests; subclass it and give it a backend.

::

    class TestMyBackend(BackendConformance):
        @pytest.fixture
        def backend(self):
            return MyBackend()
"""

from pytest_aecbench.testing.conformance import BackendConformance
from pytest_aecbench.testing.sandbox import RunningSandbox

__all__ = ["BackendConformance", "RunningSandbox"]
