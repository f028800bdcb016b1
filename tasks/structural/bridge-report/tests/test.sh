#!/usr/bin/env bash
# -E and -s keep the agent's Python settings out, -B keeps this directory as it was uploaded.
set -u
exec python3 -EsB /tests/verify.py
