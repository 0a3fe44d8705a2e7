"""Prints the licenses of all linked crates, which must be distributed with the binary.

Usage: licences.py

The texts come from the sources of the crates, which Cargo downloads if necessary. Crates with the
same text share it. A crate without a text is listed with the name of its license and its authors.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from bill import linked, metadata

TEXTS = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)
HEAD = """\
Reqlore contains the crates below, each with its license. SQLite, which is part of the crate
libsqlite3-sys, is in the public domain.
"""


def texts_of(package: dict[str, Any]) -> list[str]:
    """Returns the license and notice texts in the package's folder."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    found = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    if found:
        return ["\n".join(line.rstrip() for line in text.strip().splitlines()) for text in found]
    authors = "".join(f"\n{author}" for author in package["authors"])
    return [f"{package['license'] or 'See the package'}, without a text in the package{authors}"]


def by_version(package: dict[str, Any]) -> tuple[str, str]:
    return package["name"], package["version"]


def licences() -> str:
    texts = defaultdict(list)
    for package in sorted(metadata()["packages"], key=by_version):
        foreign = package["source"] is not None
        if foreign and by_version(package) in linked():
            for text in texts_of(package):
                texts[text].append(f"{package['name']} {package['version']}")
    rule, line = "=" * 80, "-" * 80
    blocks = sorted((names, text) for text, names in texts.items())
    return HEAD + "".join(
        f"\n{rule}\n{', '.join(names)}\n{line}\n{text}\n" for names, text in blocks
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(licences().encode())
