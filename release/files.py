"""Reads the list of targets and names and hashes files, for packing and for its checks."""

import hashlib
from pathlib import Path

TARGETS = Path(__file__).resolve().parent / "targets"


def target_rows() -> dict[str, list[str]]:
    """Returns the further columns of release/targets by target."""
    lines = TARGETS.read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {target: columns for target, *columns in rows}


def program_of(target: str) -> str:
    """Returns the file name of the binary."""
    return "reqlore.exe" if "-windows-" in target else "reqlore"


def archive_of(target: str) -> str:
    """Returns the suffix of an archive, of a kind that the system opens by itself."""
    return ".zip" if "-windows-" in target else ".tar.gz"


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
