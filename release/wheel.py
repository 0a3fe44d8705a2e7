"""Packs a binary as a Python wheel, which `uvx`, `pipx` and `pip` install.

The format is that of the Python Packaging User Guide ("Binary distribution format"). An installer
copies `.data/scripts` to the folder of commands, so no Python code runs.
"""

import base64
import hashlib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def wheel_name(version: str, tags: str) -> str:
    return f"reqlore-{version}-py3-none-{tags}.whl"


def wheel_files(
    program: str,
    binary: bytes,
    tags: str,
    version: str,
    home: str,
    name: str,
    licences: dict[str, bytes],
) -> dict[str, bytes]:
    """Returns the content of a wheel. `name` is that in the registry of MCP servers."""
    about = f"reqlore-{version}.dist-info"
    files = {
        f"reqlore-{version}.data/scripts/{program}": binary,
        f"{about}/METADATA": metadata(version, home, name, sorted(licences)),
        f"{about}/WHEEL": "".join(
            ["Wheel-Version: 1.0\nGenerator: reqlore\nRoot-Is-Purelib: false\n"]
            + [f"Tag: py3-none-{tag}\n" for tag in tags.split(".")]
        ).encode(),
    }
    files |= {f"{about}/licenses/{file}": text for file, text in licences.items()}
    lines = [f"{path},sha256={digest(text)},{len(text)}\n" for path, text in files.items()]
    return files | {f"{about}/RECORD": "".join([*lines, f"{about}/RECORD,,\n"]).encode()}


def digest(text: bytes) -> str:
    """Returns a hash as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()


def metadata(version: str, home: str, name: str, licences: list[str]) -> bytes:
    readme = (ROOT / "release/wheel.md").read_text()
    fields = [
        "Metadata-Version: 2.4",
        "Name: reqlore",
        f"Version: {version}",
        "Summary: One place for a project's requirements and knowledge, for AI assistants and people",
        f"Project-URL: Homepage, {home}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {file}" for file in licences),
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    # The registry of MCP servers finds the owner of a package by this line.
    return ("\n".join(fields) + f"\n\n{readme}\n<!-- mcp-name: {name} -->\n").encode()


def check_wheel(path: Path, program: str) -> bytes:
    """Compares each file with RECORD and returns the binary; raises an error if one differs."""
    with zipfile.ZipFile(path) as wheel:
        version = path.name.split("-")[1]
        record = wheel.read(f"reqlore-{version}.dist-info/RECORD").decode().splitlines()
        listed = {line.split(",")[0]: line.split(",")[1] for line in record}
        if set(listed) != set(wheel.namelist()):
            raise ValueError("RECORD does not list every file")
        for file, expected in listed.items():
            if expected and expected != f"sha256={digest(wheel.read(file))}":
                raise ValueError(f"{file} differs from RECORD")
        return wheel.read(f"reqlore-{version}.data/scripts/{program}")
