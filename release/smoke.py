"""Runs a binary on this machine, and prints `run=HOW tests=N skipped=N`.

Usage: smoke.py TARGET BINARY

HOW is native, qemu (user-mode emulation) or no. Exits with 1 at the first failed test.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from ask import served

CARGO = Path(__file__).resolve().parent.parent / "Cargo.toml"
VERSION = tomllib.loads(CARGO.read_text())["workspace"]["package"]["version"]
STORAGES = ("fs", "sqlite", "sled")
TITLES = [f"Epic {number}" for number in range(1, 6)]
RUNNERS = {"native": [], "qemu": ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]}


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


TESTS = {"version": version, "demo": demo} | {storage: keeps(storage) for storage in STORAGES}
# The skipped tests and their reasons.
SKIPPED = {
    "native": {},
    "qemu": {"demo": "it starts its own program, which the kernel then runs without qemu"},
    "no": dict.fromkeys(TESTS, "only macOS runs programs for macOS"),
}


def how(target: str) -> str:
    if "-linux-" not in target:
        return "no"
    return "native" if target.startswith("x86_64-") else "qemu"


if __name__ == "__main__":
    run, program = how(sys.argv[1]), Path(sys.argv[2]).resolve()
    for name, test in TESTS.items():
        if name not in SKIPPED[run]:
            test([*RUNNERS[run], str(program)])
    skipped = len(SKIPPED[run])
    print(f"run={run} tests={len(TESTS) - skipped} skipped={skipped}")
