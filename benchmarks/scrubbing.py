"""Time the removal of secrets from a large file against one pass of ``bytes.replace`` over it.

Run ``python benchmarks/scrubbing.py [--megabytes N] [--secrets N]``. The floor is measured in the
same run: read the file, and replace one value as it is written. Processor time is measured, so that
a busy machine gives the same figures.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import tempfile
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from pytest_aecbench.host.secrets import Scrubber

if TYPE_CHECKING:
    from collections.abc import Callable

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKEN = f"{LETTERS}{LETTERS.upper()}0123456789-_"
SAMPLE = 1_000_000


def secrets(number: int) -> dict[str, str]:
    return {
        f"VENDOR_{n}_API_KEY": f"sk-{''.join(random.choices(TOKEN, k=40))}" for n in range(number)
    }


def samples(key: str) -> dict[str, bytes]:
    """Return some of each content, which is repeated to the size that is wanted."""
    words = ["".join(random.choices(LETTERS, k=random.randint(2, 9))) for _ in range(5000)]
    prose = " ".join(random.choices(words, k=SAMPLE // 6))
    line = json.dumps({"role": "tool", "content": f"{prose[:200]}\n\t{prose[200:400]}\n"})
    return {
        "prose": prose.encode(),
        "JSON lines": f"{line}\n".encode() * (SAMPLE // len(line)),
        "base64": base64.encodebytes(random.randbytes(SAMPLE)),
        "binary": random.randbytes(SAMPLE),
        "a secret in each kB": (prose[:1000].encode() + key.encode()) * (SAMPLE // 1000),
        "nothing but secrets": f"{key}\n".encode() * (SAMPLE // len(key)),
        "nothing but cuts": f"{key[:4]}\n[1 bytes left out]\n".encode() * (SAMPLE // 25),
    }


def seconds(action: Callable[[Path], object], path: Path) -> float:
    started = process_time()
    action(path)
    return process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the removal of secrets from a file.")
    parser.add_argument("--megabytes", type=int, default=20, metavar="N")
    parser.add_argument("--secrets", type=int, default=10, metavar="N")
    options = parser.parse_args()
    random.seed(1)
    known = secrets(options.secrets)
    scrubber, key = Scrubber(known), next(iter(known.values()))
    size = options.megabytes * 1_000_000
    print(f"{options.megabytes} MB, {options.secrets} secrets")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "file")
        for name, sample in samples(key).items():
            path.write_bytes((sample * (size // len(sample) + 1))[:size])
            floor = seconds(lambda file: file.read_bytes().replace(key.encode(), b"<KEY>"), path)
            ours = seconds(scrubber.file, path)
            print(
                f"{name:20} scrub {ours:6.2f} s ({ours / size * 1e8:5.1f} s for 100 MB)  "
                f"floor {floor:6.3f} s  ratio {ours / floor:.0f}"
            )


if __name__ == "__main__":
    main()
