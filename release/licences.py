"""The licences of everything that is linked into the binary, as those licences ask for.

Usage: licences.py   (prints them)

They are taken from the sources of the crates, which Cargo has fetched or fetches.
Crates with the same text share it. One whose package holds no text stands with the name of its
licence and its authors.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from bill import linked, metadata

TEXTS = re.compile(r"(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)
HEAD = """\
Reqlore is made of its own parts and of the crates below, each with its licence. SQLite, which the
crate libsqlite3-sys brings, is in the public domain.
"""


def texts_of(package: dict[str, Any]) -> list[str]:
    """The licences and notices that the package's folder holds, as they are."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    found = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    if found:
        return ["\n".join(line.rstrip() for line in text.strip().splitlines()) for text in found]
    authors = "".join(f"\n{author}" for author in package["authors"])
    return [f"{package['license'] or 'See the package'}, with no text in the package{authors}"]


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
