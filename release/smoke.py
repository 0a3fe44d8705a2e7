"""Runs a binary on this machine, and prints `run=HOW tests=N skipped=N`.

Usage: smoke.py TARGET BINARY

HOW is native, qemu (user-mode emulation), wine or no. Exits with 1 at the first failed test.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

from ask import served

CARGO = Path(__file__).resolve().parent.parent / "Cargo.toml"
VERSION = tomllib.loads(CARGO.read_text())["workspace"]["package"]["version"]
STORAGES = ("fs", "sqlite", "sled")
TITLES = [f"Epic {number}" for number in range(1, 6)]
RUNNERS = {"native": [], "qemu": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"], "wine": ["wine"]}
# A DLL that the standard library needs and wine 8 lacks.
SHIM = Path(__file__).parent / "wine" / "bcryptprimitives.c"


def version(command: list[str]) -> None:
    said = subprocess.check_output([*command, "--version"], text=True)
    if said != f"reqlore {VERSION}\n":
        sys.exit(f"FAILED --version prints {said!r}")


def demo(command: list[str]) -> None:
    subprocess.run([*command, "demo"], check=True, stdout=subprocess.DEVNULL)


def keeps(storage: str) -> Callable[[list[str]], None]:
    """Returns a test: acknowledged writes survive `kill -9`."""

    def test(command: list[str]) -> None:
        with tempfile.TemporaryDirectory() as project:
            command = [*command, "--root", project, "--storage", storage]
            with served(command) as (server, _):
                for title in TITLES:
                    arguments = {"title": title, "priority": 1}
                    answer = server.ask("tools/call", name="create_epic", arguments=arguments)
                    if answer.get("isError"):
                        sys.exit(f"FAILED a write to {storage}: {answer}")
                server.kill()
            with served(command) as (server, _):
                answer = server.ask("tools/call", name="list_epics", arguments={})
                lost = [title for title in TITLES if title not in str(answer)]
            if lost:
                sys.exit(f"FAILED {storage} lost {lost}: {answer}")

    return test


def http(command: list[str]) -> None:
    """A server over HTTP answers the holder of a token."""
    with tempfile.TemporaryDirectory() as project:
        command = [*command, "--root", project, "--storage", "sqlite"]
        add_user = ["user", "add", "ann", "--role", "administrator"]
        subprocess.run([*command, *add_user], check=True, stdout=subprocess.DEVNULL)
        create_token = ["token", "create", "--user", "ann"]
        said = subprocess.check_output([*command, *create_token], text=True)
        (token,) = re.findall(r"reqlore_pat_\w+", said)
        listen = ["--transport", "http", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen([*command, *listen], stderr=subprocess.PIPE, text=True)
        try:
            (url,) = re.findall(r"http://\S+", server.stderr.readline())
            call = {"name": "list_epics", "arguments": {}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            headers = {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            }
            request = Request(url, json.dumps(body).encode(), headers)
            with urlopen(request, timeout=30) as answer:
                said = answer.read().decode()
        finally:
            server.kill()
            server.wait()
        if '"result"' not in said:
            sys.exit(f"FAILED http: {said}")


TESTS = {"version": version, "demo": demo, "http": http}
TESTS |= {storage: keeps(storage) for storage in STORAGES}
# The skipped tests and their reasons.
SKIPPED = {
    "native": {},
    "qemu": {"demo": "it starts its own program, which the kernel then runs without qemu"},
    "wine": {
        "sled": "it is not supported on Windows",
    },
    "no": dict.fromkeys(TESTS, "only macOS runs programs for macOS"),
}


def how(target: str) -> str:
    if "-windows-" in target:
        return "wine"
    if "-linux-" not in target:
        return "no"
    return "native" if target.startswith("x86_64-") else "qemu"


def prepare_wine() -> None:
    """Compiles the DLL, and creates projects in the profile of wine's user."""
    prefix = Path(os.environ.setdefault("WINEPREFIX", str(Path.home() / ".wine")))
    os.environ["WINEDEBUG"] = "-all"
    subprocess.run(["wineboot"], check=True, stderr=subprocess.DEVNULL)
    system = prefix / "drive_c/windows/system32"
    compiler = ["x86_64-w64-mingw32-gcc", "-shared", "-O2", SHIM, "-ladvapi32"]
    subprocess.run([*compiler, "-o", system / "bcryptprimitives.dll"], check=True)
    (profile,) = (prefix / "drive_c/users").glob(os.environ.get("USER", "root"))
    tempfile.tempdir = str(profile)


if __name__ == "__main__":
    run, program = how(sys.argv[1]), Path(sys.argv[2]).resolve()
    if run == "wine":
        prepare_wine()
    for name, test in TESTS.items():
        if name not in SKIPPED[run]:
            test([*RUNNERS[run], str(program)])
    skipped = len(SKIPPED[run])
    print(f"run={run} tests={len(TESTS) - skipped} skipped={skipped}")
