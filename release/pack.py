"""Packs binaries into archives, bundles for desktop clients and a registry entry.

Usage: pack.py OUT TARGET=BINARY...   (see .ci/release for the environment)

Writes one .tar.gz per binary, one .mcpb bundle per binary for a desktop system, and a server.json
that lists them. The output does not depend on time, user or directory order.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from stat import S_IFREG
from time import gmtime
from typing import Any

from ask import tools_of
from licences import licences

ROOT = Path(__file__).resolve().parent.parent
VERSION = os.environ["RELEASE_VERSION"]
REPOSITORY = os.environ["RELEASE_REPOSITORY"]
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
# The binary that runs on this machine and can be queried.
ASKED = Path(os.environ["RELEASE_ASKED"])
BUNDLER = Path(os.environ["RELEASE_BUNDLER"])

HOME = f"https://github.com/{REPOSITORY}"
# The registry lets the GitHub owner publish names with this prefix.
NAME = f"io.github.{REPOSITORY.split('/')[0]}/reqlore"
OWN_LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
PAPERS = ("README.md", "CHANGELOG.md", *OWN_LICENCES)
FOREIGN_LICENCES = "THIRD-PARTY-LICENSES"
COMPLETIONS = {"bash": "reqlore.bash", "zsh": "_reqlore", "fish": "reqlore.fish"}
# 0.4 only adds servers in Python, is experimental, and clients reject it.
MANIFEST = "0.3"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def main(out: Path, binaries: dict[str, Path]) -> None:
    about, tools, prompts = tools_of(ASKED)
    if about["serverInfo"]["version"] != VERSION:
        sys.exit(f"the binary is {about['serverInfo']['version']}, Cargo.toml says {VERSION}")
    papers = {name: (ROOT / name).read_bytes() for name in PAPERS}
    papers[FOREIGN_LICENCES] = licences().encode()
    extras = papers | shell_completions()
    bundles = []
    for target, binary in binaries.items():
        stem = f"reqlore-{VERSION}-{target}"
        archive(out / f"{stem}.tar.gz", stem, {"reqlore": binary.read_bytes()} | extras)
        if (system := system_of(target)) != "-":
            bundles.append(out / f"{stem}.mcpb")
            content = {"manifest.json": as_json(manifest(about, tools, prompts, system))}
            content |= {name: papers[name] for name in (*OWN_LICENCES, FOREIGN_LICENCES)}
            bundle(bundles[-1], content | {"server/reqlore": binary.read_bytes()})
    (out / "server.json").write_bytes(as_json(server(about, bundles)))


def system_of(target: str) -> str:
    """Returns the desktop system of a target's bundle, or "-"."""
    for line in (ROOT / "release/targets").read_text().splitlines():
        if line.startswith(f"{target} "):
            return line.split()[2]
    sys.exit(f"release/targets has no {target}")


def shell_completions() -> dict[str, bytes]:
    """Returns the completion script of each shell that the binary supports."""
    made = {}
    for shell, name in COMPLETIONS.items():
        answer = subprocess.run([ASKED, "completions", shell], capture_output=True, check=False)
        if answer.returncode == 0:
            made[f"completions/{name}"] = answer.stdout
    return made


def mode_of(name: str) -> int:
    return 0o755 if Path(name).name == "reqlore" else 0o644


def archive(path: Path, stem: str, content: dict[str, bytes]) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(content.items()):
            member = tarfile.TarInfo(f"{stem}/{name}")
            member.size, member.mtime, member.mode = len(text), EPOCH, mode_of(name)
            tar.addfile(member, io.BytesIO(text))
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=EPOCH))


def manifest(
    about: dict[str, Any], tools: list[dict[str, Any]], prompts: bool, system: str
) -> dict[str, Any]:
    return {
        "manifest_version": MANIFEST,
        "name": "reqlore",
        "display_name": about["serverInfo"]["title"],
        "version": VERSION,
        "description": about["serverInfo"]["description"],
        "author": {"name": "The Reqlore authors", "url": HOME},
        "repository": {"type": "git", "url": f"{HOME}.git"},
        "homepage": HOME,
        "documentation": f"{HOME}#readme",
        "support": f"{HOME}/issues",
        "server": {
            "type": "binary",
            "entry_point": "server/reqlore",
            "mcp_config": {
                "command": "${__dirname}/server/reqlore",
                "args": ["--root", "${user_config.project}"],
            },
        },
        "tools": [{"name": tool["name"], "description": summary(tool)} for tool in tools],
        "prompts_generated": prompts,
        "keywords": ["requirements", "backlog", "knowledge", "documentation", "markdown"],
        "license": "MIT OR Apache-2.0",
        "compatibility": {"platforms": [system]},
        "user_config": {
            "project": {
                "type": "directory",
                "title": "Project folder",
                "description": "The folder with the project's requirements and knowledge.",
                "required": True,
            }
        },
    }


def summary(tool: dict[str, Any]) -> str:
    """Returns the first sentence of the tool's description."""
    return re.split(r"(?<=\.)\s|\n", tool["description"].strip(), maxsplit=1)[0]


def bundle(path: Path, content: dict[str, bytes]) -> None:
    """Validates and packs with the official tool, then normalizes the timestamps."""
    with tempfile.TemporaryDirectory() as folder:
        staged, packed = Path(folder, "bundle"), Path(folder, "packed.mcpb")
        for name, text in content.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            (staged / name).write_bytes(text)
            (staged / name).chmod(mode_of(name))
        subprocess.run(["node", BUNDLER, "pack", staged, packed], check=True, capture_output=True)
        still(packed, path)


def still(packed: Path, path: Path) -> None:
    """Rewrites a zip file with sorted entries and the time of the release."""
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(path, "w") as target:
        for entry in sorted(source.infolist(), key=lambda entry: entry.filename):
            again = zipfile.ZipInfo(entry.filename, gmtime(EPOCH)[:6])
            again.create_system = 3
            again.external_attr = (S_IFREG | mode_of(entry.filename)) << 16
            again.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(again, source.read(entry), compresslevel=9)


def server(about: dict[str, Any], bundles: list[Path]) -> dict[str, Any]:
    """Returns the entry for the registry of MCP servers; a client chooses one of the packages."""
    root = {
        "type": "named",
        "name": "--root",
        "description": "The project's folder; the default is the working directory",
        "format": "filepath",
    }
    packages: list[dict[str, Any]] = [
        {
            "registryType": "npm",
            "identifier": "reqlore",
            "version": VERSION,
            "runtimeHint": "npx",
            "transport": {"type": "stdio"},
            "packageArguments": [root],
        }
    ]
    packages += [
        {
            "registryType": "mcpb",
            "identifier": f"{HOME}/releases/download/v{VERSION}/{path.name}",
            "version": VERSION,
            "fileSha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "transport": {"type": "stdio"},
        }
        for path in bundles
    ]
    return {
        "$schema": SERVER_SCHEMA,
        "name": NAME,
        "title": about["serverInfo"]["title"],
        "description": about["serverInfo"]["description"],
        "version": VERSION,
        "websiteUrl": HOME,
        "repository": {"url": HOME, "source": "github"},
        "packages": packages,
    }


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    pairs = dict(pair.split("=", 1) for pair in sys.argv[2:])
    main(Path(sys.argv[1]), {target: Path(path) for target, path in sorted(pairs.items())})
