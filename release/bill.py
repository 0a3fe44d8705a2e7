"""Prints the software bill of materials: every crate that is linked for any target, as CycloneDX.

Usage: bill.py   (see .ci/release for the environment)

Descriptions and licenses come from `cargo metadata`, checksums from Cargo.lock. The metadata also
include test dependencies, so `cargo tree` selects the linked crates.
"""

import functools
import json
import os
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
METADATA = ["cargo", "metadata", "--locked", "--format-version", "1"]
TREE = ["cargo", "tree", "--locked", "--package", "reqlore", "--target", "all"]
TREE += ["--edges", "normal", "--prefix", "none", "--format", "{p}"]


@functools.cache
def metadata() -> dict[str, Any]:
    return json.loads(subprocess.check_output(METADATA, text=True, cwd=ROOT))


@functools.cache
def linked() -> set[tuple[str, str]]:
    """Returns name and version of every crate that is linked for any target."""
    lines = subprocess.check_output(TREE, text=True, cwd=ROOT).splitlines()
    pairs = (line.split()[:2] for line in lines if line)
    return {(name, version.removeprefix("v")) for name, version in pairs}


def purl(package: dict[str, Any]) -> str:
    # A version may contain a plus sign, which means a space in URLs.
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    about = {
        "type": "application" if package["name"] == "reqlore" else "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "description": package["description"] or "",
        # In old manifests a slash means "or".
        "licenses": [{"expression": (package["license"] or "").replace("/", " OR ")}],
        "purl": purl(package),
    }
    if not package["license"]:
        about["licenses"] = [{"license": {"name": "See the file in the package"}}]
    if checksum := checksums.get((package["name"], package["version"])):
        about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        about["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return about


def edges(packages: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the dependencies of each package without build and test dependencies."""
    found = []
    for node in metadata()["resolve"]["nodes"]:
        if node["id"] in packages:
            normal = {
                purl(packages[other["pkg"]])
                for other in node["deps"]
                if other["pkg"] in packages
                and any(kind["kind"] is None for kind in other["dep_kinds"])
            }
            found.append({"ref": purl(packages[node["id"]]), "dependsOn": sorted(normal)})
    return sorted(found, key=lambda edge: edge["ref"])


def bill() -> dict[str, Any]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(part["name"], part["version"]): part.get("checksum", "") for part in lock}
    packages = {
        package["id"]: package
        for package in metadata()["packages"]
        if (package["name"], package["version"]) in linked()
    }
    parts = [component(package, checksums) for package in packages.values()]
    parts.sort(key=lambda part: (part["name"], part["version"]))
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": next(part for part in parts if part["name"] == "reqlore"),
        },
        "components": [part for part in parts if part["name"] != "reqlore"],
        "dependencies": edges(packages),
    }


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2, ensure_ascii=False))
