"""Packs binaries into archives, bundles for desktop clients and a registry entry.

Usage: pack.py OUT TARGET=BINARY...   (see .ci/release for the environment)

Writes one archive (.zip for Windows, else .tar.gz) and one wheel per binary, one .mcpb bundle per
binary for a desktop system, one container image of the static binaries, a formula for Homebrew, a
manifest for Scoop, and a server.json that lists the packages. The output does not depend on time,
user or directory order.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from stat import S_IFREG
from time import gmtime
from typing import Any

from ask import tools_of
from files import archive_of, digest_of, program_of, target_rows
from formula import ARCHITECTURES, BLOCKS, formula, scoop
from image import image, tar_of
from licences import licences
from wheel import wheel_files, wheel_name

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
    all_licences = {name: papers[name] for name in (*OWN_LICENCES, FOREIGN_LICENCES)}
    bundles, hashes, static, rows = [], {}, {}, target_rows()
    for target, path in binaries.items():
        stem, program, binary = f"reqlore-{VERSION}-{target}", program_of(target), path.read_bytes()
        if target not in rows:
            sys.exit(f"release/targets has no {target}")
        _, system, tag = rows[target]
        archived = out / f"{stem}{archive_of(target)}"
        archive(archived, stem, {program: binary} | extras)
        hashes[target] = digest_of(archived)
        wheel = wheel_files(program, binary, tag, VERSION, HOME, NAME, all_licences)
        zipped(out / wheel_name(VERSION, tag), wheel)
        if system != "-":
            bundles.append(out / f"{stem}.mcpb")
            content = {"manifest.json": as_json(manifest(about, tools, prompts, target))}
            bundle(bundles[-1], content | all_licences | {f"server/{program}": binary})
        if target.endswith("-musl"):
            static[target.split("-")[0]] = binary
    if static:
        labels = {"org.opencontainers.image.source": HOME, "io.modelcontextprotocol.server.name": NAME}
        extras = authorities() | {f"usr/share/doc/reqlore/{n}": t for n, t in all_licences.items()}
        packed = image(static, extras, labels, VERSION, EPOCH)
        (out / f"reqlore-{VERSION}-image.tar").write_bytes(packed)
    if set(BLOCKS) <= set(hashes):
        (out / "reqlore.rb").write_bytes(formula(HOME, VERSION, hashes))
    if set(ARCHITECTURES) <= set(hashes):
        (out / "reqlore.json").write_bytes(as_json(scoop(HOME, VERSION, hashes)))
    (out / "server.json").write_bytes(as_json(server(about, bundles, len(static) == 2)))


def authorities() -> dict[str, bytes]:
    """Returns the files of the image with certificate authorities and their license."""
    import certifi  # noqa: PLC0415, only installed where an image is packed

    about = distribution("certifi")
    (licence,) = [file for file in about.files or () if file.name == "LICENSE"]
    return {
        "etc/ssl/certs/ca-certificates.crt": Path(certifi.where()).read_bytes(),
        "usr/share/doc/certifi/LICENSE": Path(str(about.locate_file(licence))).read_bytes(),
    }


def shell_completions() -> dict[str, bytes]:
    """Returns the completion script of each shell that the binary supports."""
    made = {}
    for shell, name in COMPLETIONS.items():
        answer = subprocess.run([ASKED, "completions", shell], capture_output=True, check=False)
        if answer.returncode == 0:
            made[f"completions/{name}"] = answer.stdout
    return made


def mode_of(name: str) -> int:
    return 0o755 if Path(name).name in ("reqlore", "reqlore.exe") else 0o644


def archive(path: Path, stem: str, content: dict[str, bytes]) -> None:
    content = {f"{stem}/{name}": text for name, text in content.items()}
    if path.suffix == ".zip":
        zipped(path, content)
        return
    entries = {name: (text, mode_of(name), 0) for name, text in content.items()}
    path.write_bytes(gzip.compress(tar_of(entries, EPOCH), mtime=EPOCH))


def manifest(
    about: dict[str, Any], tools: list[dict[str, Any]], prompts: bool, target: str
) -> dict[str, Any]:
    server, system = f"server/{program_of(target)}", target_rows()[target][1]
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
            "entry_point": server,
            "mcp_config": {
                "command": f"${{__dirname}}/{server}",
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
        with zipfile.ZipFile(packed) as source:
            zipped(path, {name: source.read(name) for name in source.namelist()})


def zipped(path: Path, content: dict[str, bytes]) -> None:
    """Writes a zip file with sorted entries and the time of the release."""
    with zipfile.ZipFile(path, "w") as target:
        for name, text in sorted(content.items()):
            entry = zipfile.ZipInfo(name, gmtime(EPOCH)[:6])
            entry.create_system = 3
            entry.external_attr = (S_IFREG | mode_of(name)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, text, compresslevel=9)


def server(about: dict[str, Any], bundles: list[Path], has_image: bool) -> dict[str, Any]:
    """Returns the entry for the registry of MCP servers; a client chooses one of the packages."""
    root = {
        "type": "named",
        "name": "--root",
        "description": "The project's folder; the default is the working directory",
        "format": "filepath",
    }
    packages: list[dict[str, Any]] = [
        {
            "registryType": registry,
            "identifier": "reqlore",
            "version": VERSION,
            "runtimeHint": command,
            "transport": {"type": "stdio"},
            "packageArguments": [root],
        }
        for registry, command in (("npm", "npx"), ("pypi", "uvx"))
    ]
    packages += [
        {
            "registryType": "mcpb",
            "identifier": f"{HOME}/releases/download/v{VERSION}/{path.name}",
            "version": VERSION,
            "fileSha256": digest_of(path),
            "transport": {"type": "stdio"},
        }
        for path in bundles
    ]
    if has_image:
        packages.append(container())
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


def container() -> dict[str, Any]:
    """Returns the package of the image, which serves a mounted project over stdio."""
    project = {
        "description": "The project's folder",
        "format": "filepath",
        "isRequired": True,
    }
    mount = {
        "type": "named",
        "name": "--mount",
        "value": "type=bind,src={project},dst=/project",
        "variables": {"project": project},
    }
    user = {
        "description": "The user and group that own the folder, as `id -u` and `id -g` print them",
        "default": "1000:1000",
    }
    run_as = {"type": "named", "name": "--user", "value": "{user}", "variables": {"user": user}}
    return {
        "registryType": "oci",
        # Its tag is the version, so the registry wants no other one.
        "identifier": f"ghcr.io/{REPOSITORY.lower()}:{VERSION}",
        "runtimeHint": "docker",
        "transport": {"type": "stdio"},
        "runtimeArguments": [mount, run_as],
        "packageArguments": [
            {"type": "positional", "value": "serve"},
            {"type": "named", "name": "--storage", "value": "fs"},
            {"type": "named", "name": "--root", "value": "/project"},
        ],
    }


def as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


if __name__ == "__main__":
    pairs = dict(pair.split("=", 1) for pair in sys.argv[2:])
    main(Path(sys.argv[1]), {target: Path(path) for target, path in sorted(pairs.items())})
