"""The backend ``docker``: run trials in containers of a Docker engine."""

from pytest_aecbench.backends.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
