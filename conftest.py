"""What every test of this repository may use."""

pytest_plugins = ["pytester"]
