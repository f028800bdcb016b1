"""The backend ``gcp``: run trials as array jobs of Google Cloud Batch."""

import warnings

# On an old Python, Google's libraries warn at import that they support it no longer, which would
# end a run with ``-W error``. The filter stays, as Modal's does.
warnings.filterwarnings("ignore", "You are using a .*Python version", FutureWarning)

from pytest_aecbench.backends.gcp.backend import GCPBatchBackend  # noqa: E402

__all__ = ["GCPBatchBackend"]
