"""Serve models until standard input ends."""

import json
import sys
from pathlib import Path

from tests.standins.models import ModelServer

server = ModelServer()
for path in sys.argv[1:]:
    server.take(json.loads(Path(path).read_text(encoding="utf-8")))
print(server.url, flush=True)
sys.stdin.read()
server.close()
