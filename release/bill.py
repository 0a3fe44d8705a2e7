"""Makes a bill of materials say what is in the product, and nothing of the machine it was made on.

Usage: bill.py BILL FOLDER   (FOLDER: the copy of the project that cargo-cyclonedx ran in)

That tool lists what any member of the workspace may need, tests too; Cargo's tree tells what is
linked. Prints the bill.
"""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TREE = ["cargo", "tree", "--locked", "--package", "reqlore", "--target", "all"]
TREE += ["--edges", "normal", "--prefix", "none", "--format", "{p}"]


@functools.cache
def linked(folder: Path) -> set[tuple[str, str]]:
    """Name and version of every crate that some target's binary is made of."""
    lines = subprocess.check_output(TREE, text=True, cwd=folder).splitlines()
    pairs = (line.split()[:2] for line in lines if line)
    return {(name, version.removeprefix("v")) for name, version in pairs}


def pruned(bill: dict[str, Any], parts: set[tuple[str, str]]) -> dict[str, Any]:
    bill["components"] = [
        part for part in bill["components"] if (part["name"], part["version"]) in parts
    ]
    kept = {part["bom-ref"] for part in [*bill["components"], bill["metadata"]["component"]]}
    bill["dependencies"] = [
        entry | {"dependsOn": [ref for ref in entry.get("dependsOn", []) if ref in kept]}
        for entry in bill["dependencies"]
        if entry["ref"] in kept
    ]
    return bill


def main(path: Path, folder: Path) -> None:
    text = path.read_text().replace(f"path+file://{folder}/", "path+file:///")
    # Where a crate of ours lies beside another is no address for anyone.
    text = re.sub(r"\?download_url=file:[^\"#]*", "", text)
    bill = pruned(json.loads(text), linked(folder))
    print(json.dumps(bill, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
