"""Packs binaries for people, for desktop clients and for the registry of MCP servers.

Usage: pack.py OUT TARGET=BINARY...   (how it is called, and with which environment: .ci/release)

Writes a .tar.gz and, where a desktop client can use one, a .mcpb bundle of each binary, and one
server.json that names them. Nothing in there depends on the hour, the user or the order of a folder.
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
from time import gmtime
from typing import Any

from ask import tools_of

ROOT = Path(__file__).resolve().parent.parent
VERSION = os.environ["RELEASE_VERSION"]
REPOSITORY = os.environ["RELEASE_REPOSITORY"]
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
# The one of the binaries that runs on this machine, and so can be asked.
ASKED = Path(os.environ["RELEASE_ASKED"])
BUNDLER = Path(os.environ["RELEASE_BUNDLER"])

HOME = f"https://github.com/{REPOSITORY}"
NAME = f"io.github.{REPOSITORY}"
PAPERS = ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT")
COMPLETIONS = {"bash": "reqlore.bash", "zsh": "_reqlore", "fish": "reqlore.fish"}
# 0.4 exists for servers in Python alone, is experimental, and clients refuse it.
MANIFEST = "0.3"
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"


def main(out: Path, binaries: dict[str, Path]) -> None:
    about, tools, prompts = tools_of(ASKED)
    if about["serverInfo"]["version"] != VERSION:
        sys.exit(f"the binary is {about['serverInfo']['version']}, Cargo.toml says {VERSION}")
    completions = shell_completions()
    bundles = []
    for target, binary in binaries.items():
        stem = f"reqlore-{VERSION}-{target}"
        archive(out / f"{stem}.tar.gz", stem, binary, completions)
        if (system := system_of(target)) != "-":
            bundles.append(out / f"{stem}.mcpb")
            bundle(bundles[-1], binary, manifest(about, tools, prompts, system))
    write_json(out / "server.json", server(about, bundles))


def system_of(target: str) -> str:
    """The desktop system whose clients install a bundle of this target."""
    for line in (ROOT / "release/targets").read_text().splitlines():
        if line.startswith(f"{target} "):
            return line.split()[2]
    sys.exit(f"release/targets has no {target}")


def shell_completions() -> dict[str, bytes]:
    """What the binary writes for each shell; nothing where it doesn't know the command."""
    made = {}
    for shell, name in COMPLETIONS.items():
        answer = subprocess.run([ASKED, "completions", shell], capture_output=True, check=False)
        if answer.returncode == 0:
            made[name] = answer.stdout
    return made


def archive(path: Path, stem: str, binary: Path, completions: dict[str, bytes]) -> None:
    members = {"reqlore": binary.read_bytes()}
    members |= {name: (ROOT / name).read_bytes() for name in PAPERS}
    members |= {f"completions/{name}": text for name, text in completions.items()}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(members.items()):
            member = tarfile.TarInfo(f"{stem}/{name}")
            member.size, member.mtime = len(content), EPOCH
            member.mode = 0o755 if name == "reqlore" else 0o644
            tar.addfile(member, io.BytesIO(content))
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
                "description": "The folder that holds the project's requirements and knowledge.",
                "required": True,
            }
        },
    }


def summary(tool: dict[str, Any]) -> str:
    """The first sentence of what the tool says of itself."""
    return re.split(r"(?<=\.)\s|\n", tool["description"].strip(), maxsplit=1)[0]


def bundle(path: Path, binary: Path, content: dict[str, Any]) -> None:
    """Lets the official tool validate and pack, then takes the hour out of what it packed."""
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder, "bundle")
        (staged / "server").mkdir(parents=True)
        write_json(staged / "manifest.json", content)
        program = staged / "server/reqlore"
        program.write_bytes(binary.read_bytes())
        program.chmod(0o755)
        for name in ("LICENSE-APACHE", "LICENSE-MIT"):
            (staged / name).write_bytes((ROOT / name).read_bytes())
            (staged / name).chmod(0o644)
        packed = Path(folder, "packed.mcpb")
        subprocess.run(["node", BUNDLER, "pack", staged, packed], check=True, capture_output=True)
        still(packed, path)


def still(packed: Path, path: Path) -> None:
    """The same zip with its entries in order and at the time of the release."""
    with zipfile.ZipFile(packed) as source, zipfile.ZipFile(path, "w") as target:
        for entry in sorted(source.infolist(), key=lambda entry: entry.filename):
            again = zipfile.ZipInfo(entry.filename, gmtime(EPOCH)[:6])
            again.create_system = 3
            again.external_attr = entry.external_attr
            again.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(again, source.read(entry), compresslevel=9)


def server(about: dict[str, Any], bundles: list[Path]) -> dict[str, Any]:
    """What the registry of MCP servers shows; a client chooses one of the packages."""
    root = {
        "type": "named",
        "name": "--root",
        "description": "The project's folder; by default the one the server is started in",
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


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    path.chmod(0o644)


if __name__ == "__main__":
    pairs = dict(pair.split("=", 1) for pair in sys.argv[2:])
    main(Path(sys.argv[1]), {target: Path(path) for target, path in sorted(pairs.items())})
