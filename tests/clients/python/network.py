"""Tests the real binary over HTTP with third-party programs: a checker of the newest revision and a
prober that calls every tool.

Usage: network.py PROBES OBSERVE BINARY (see ../run), where PROBES is the interpreter with the
prober. One line per check; exit code 1 if any failed. Each check has its own server.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from servers import Listening

PROBES = Path(__file__).resolve().parent.parent / "probes"
PROBER = sys.argv[1]
PATIENCE_SECONDS = 120


class Failure(Exception):
    """A probe reported a problem."""


def run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    if done.returncode:
        words = " ".join(f"{done.stdout}\n{done.stderr}".split())
        raise Failure(f"exit code {done.returncode}: {words}")
    return done.stdout


def checker(server: Listening, *options: str) -> None:
    """Warnings and skipped checks are failures."""
    program = str(Path(sys.executable).with_name("mcpcheck"))
    report = json.loads(run(program, server.url, "--token", server.token, *options))
    passed = [check["name"] for check in report["checks"] if check["status"] == "pass"]
    if len(passed) != 8:
        raise Failure(f"only these passed: {passed}")


def strict(server: Listening) -> None:
    checker(server, "--strict", "--json", "--legacy-probes", "--probe", "all", "--max-tools", "50")


def prober(server: Listening, *options: str) -> str:
    header = f"Authorization: Bearer {server.token}"
    command = [PROBER, "-m", "amagi_mcp_probe", "--allow-destructive", *options]
    return run(*command, "--url", server.url, "--header", header)


def fitting_calls(server: Listening) -> None:
    """With references to existing items, every tool must succeed."""
    for path, text in json.loads((PROBES / "files.json").read_text("utf-8")).items():
        file = server.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    fill = [server.binary, "--root", str(server.project), "import"]
    run(*fill, str(PROBES / "backlog.json"), env=server.common["env"])
    # An assignee in the arguments.
    server.user("bob", "commenter")
    arguments = (PROBES.parent / "arguments.json").read_text("utf-8")
    tools = json.loads(arguments.replace("{project}", str(server.project)))
    file = server.folder / "examples.json"
    examples = {name: tool["examples"] for name, tool in tools.items()}
    file.write_text(json.dumps(examples), "utf-8")
    report = prober(server, "--strict", "--args", str(file))
    if not re.search(r"^(\d+) tools: \1 passed\b", report, re.MULTILINE):
        raise Failure(f"not every tool was called: {report}")


def generated_calls(server: Listening) -> None:
    """Valid arguments that refer to nothing cause no crash, hang or protocol error."""
    report = prober(server, "--include-optional")
    # Schemas do not publish the form of these; the error shows it.
    unpublished = r"Invalid arguments\. (if_version|version|compare_with|show|index|indices|before|kinds): "
    refused = [
        line for line in report.splitlines()
        if "Invalid arguments" in line and not re.search(unpublished, line)
    ]
    if refused:
        raise Failure(f"what fits the schema is refused: {refused}")


CHECKS: list[tuple[str, Callable[[Listening], None]]] = [
    ("checker: strict check of the newest revision", strict),
    ("prober: every tool succeeds and matches its schemas", fitting_calls),
    ("prober: all arguments that match the schemas are answered", generated_calls),
]


def main(observe: str, binary: str) -> int:
    failures = 0
    for title, check in CHECKS:
        with tempfile.TemporaryDirectory(prefix="reqlore-judge-") as folder:
            server = Listening(observe, binary, Path(folder))
            try:
                check(server)
            except (Failure, OSError, ValueError, subprocess.TimeoutExpired) as error:
                failures += 1
                print(f"FAILED network {title}: {' '.join(str(error).split())}", flush=True)
            else:
                print(f"ok network {title}", flush=True)
            finally:
                server.end()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[2:]))
