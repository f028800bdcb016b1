"""The backend ``gcp``: run trials as array jobs of Google Cloud Batch."""

from pytest_aecbench.backends.gcp.backend import GCPBatchBackend

__all__ = ["GCPBatchBackend"]
