"""Reads the list of targets and the hashes of files, for packing and for its checks."""

import hashlib
from pathlib import Path

TARGETS = Path(__file__).resolve().parent / "targets"


def target_rows() -> dict[str, list[str]]:
    """Returns the further columns of release/targets by target."""
    lines = TARGETS.read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {target: columns for target, *columns in rows}


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
