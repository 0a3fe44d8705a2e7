"""Tests the real binary with third-party programs: the official inspector, also with the files that
`reqlore init` writes, a prober that calls every tool, and an audit of the tool list.

Usage: judge.py NODE INSPECTOR OBSERVE BINARY (see ../run). One line per check; exit code 1 if any
failed. Each check has its own server and project with a small backlog.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 60

EPIC = '{"title": "Another", "priority": 4}'
# Inspector calls for each protocol revision. The exit code is not 0 for errors, error results and,
# with --strict, schemas that some clients cannot use.
QUESTIONS = [
    ["--method", "tools/list", "--strict"],
    ["--method", "resources/list"],
    ["--method", "resources/templates/list"],
    ["--method", "prompts/list"],
    ["--method", "tools/call", "--tool-name", "get_item", "--tool-arg", "reference=REQ-001"],
    ["--method", "tools/call", "--tool-name", "create_epic", "--tool-args-json", EPIC],
    ["--method", "resources/read", "--uri", "epic://EP-001/hierarchy"],
    ["--method", "prompts/get", "--prompt-name", "decompose_epic", "--prompt-args", "epic=EP-001"],
]
# Clients whose files the inspector can read. Other clients use a different map of servers or
# variables that only they expand.
CONFIGURED = {
    "claude-code": ".mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "gemini": ".gemini/settings.json",
    "copilot": ".github/mcp.json",
    "kiro": ".kiro/settings/mcp.json",
}
# Files of the project apart from its backlog.
FILES = json.loads((HERE / "files.json").read_text("utf-8"))


class Failure(Exception):
    """A probe reported a problem."""


class Project:
    """A project with one document of each kind, and the command of its server."""

    def __init__(self, folder: Path, observe: str, binary: str) -> None:
        self.folder = folder
        self.root = folder / "project"
        self.server = [observe, str(folder), binary, "--root", str(self.root)]
        for path, text in FILES.items():
            file = self.root / path
            file.parent.mkdir(parents=True)
            file.write_text(text, "utf-8")
        self.run([*self.server, "import", str(HERE / "backlog.json")])

    def install(self) -> Path:
        """Creates a folder for the PATH whose `reqlore` is the observed binary."""
        folder = self.folder / "bin"
        folder.mkdir()
        program = folder / "reqlore"
        words = shlex.join(self.server[:3])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        program.chmod(0o755)
        return folder

    def run(self, command: list[str], given: str = "", path: Path | None = None) -> str:
        """Returns the output of a command. The command and its server must succeed. With `path`, a
        folder for the PATH, it runs in the project."""
        search = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
        done = subprocess.run(
            command,
            input=given,
            cwd=self.root if path else None,
            env={**os.environ, "HOME": str(self.folder), "PATH": search},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
        )
        if done.returncode:
            words = f"{done.stdout}\n{done.stderr}".strip()
            raise Failure(f"exit code {done.returncode}: {words}")
        code = (self.folder / "exit").read_text().strip()
        if code != "0":
            raise Failure(f"the server's exit code, none if it was killed: {code!r}")
        return done.stdout


Check = Callable[[Project], None]


def inspector(node: str, program: str, era: str, question: list[str]) -> Check:
    """The inspector needs a home folder for its settings."""

    def check(project: Project) -> None:
        options = ["--format", "json", "--protocol-era", era, *question]
        project.run([node, program, "--cli", *options, "--", *project.server])

    return check


def configured(node: str, program: str, client: str) -> Check:
    """The files that init writes for a client start a server for the project."""

    def check(project: Project) -> None:
        path = project.install()
        project.run(["reqlore", "init", "--yes", "--client", client], path=path)
        file = CONFIGURED[client]
        place = project.folder if file.startswith(".config/") else project.root
        config = ["--config", str(place / file), "--server", "reqlore"]
        question = ["--method", "tools/call", "--tool-name", "get_item"]
        question += ["--tool-arg", "reference=REQ-001"]
        project.run([node, program, "--cli", "--format", "json", *config, *question], path=path)

    return check


def prober(project: Project, *options: str) -> str:
    command = [sys.executable, "-m", "amagi_mcp_probe", "--allow-destructive", *options]
    return project.run([*command, "--", *project.server])


def fitting_calls(project: Project) -> None:
    """With references to existing items, every tool must succeed."""
    arguments = (HERE.parent / "arguments.json").read_text("utf-8")
    tools = json.loads(arguments.replace("{project}", str(project.root)))
    file = project.folder / "examples.json"
    examples = {name: tool["examples"] for name, tool in tools.items()}
    file.write_text(json.dumps(examples), "utf-8")
    report = prober(project, "--strict", "--args", str(file))
    if not re.search(r"^(\d+) tools: \1 passed\b", report, re.MULTILINE):
        raise Failure(f"not every tool was called: {report}")


def generated_calls(project: Project) -> None:
    """Valid arguments that refer to nothing cause no crash, hang, protocol error or schema error."""
    report = prober(project, "--include-optional")
    # Schemas do not publish the form of these; the error shows it.
    unpublished = r"Invalid arguments\. (if_version|version|compare_with|show|index|indices|before|kinds): "
    refused = [
        line for line in report.splitlines()
        if "Invalid arguments" in line and not re.search(unpublished, line)
    ]
    if refused:
        raise Failure(f"what fits the schema is refused: {refused}")


def audit(project: Project) -> None:
    client = {"name": "reqlore-judge", "version": "1.0.0"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    answers = project.run(project.server, "".join(f"{json.dumps(one)}\n" for one in requests))
    sent = [{"direction": "request", **request} for request in requests]
    got = [{"direction": "response", **json.loads(answer)} for answer in answers.splitlines()]
    recording = project.folder / "recording.jsonl"
    recording.write_text("".join(f"{json.dumps(one)}\n" for one in [*sent, *got]), "utf-8")
    report = project.run([sys.executable, "-m", "mcp_schema_audit", str(recording)])
    if len(got) != len(sent) or "ALL CLEAR" not in report:
        raise Failure(report)


def words(question: list[str]) -> str:
    return " ".join(word for word in question if not word.startswith(("-", "{")))


def checks(node: str, program: str) -> list[tuple[str, Check]]:
    eras = ["legacy", "modern"]
    return [
        (f"inspector {era}: {words(question)}", inspector(node, program, era, question))
        for era in eras
        for question in QUESTIONS
    ] + [
        (f"inspector: as init configures {client}", configured(node, program, client))
        for client in CONFIGURED
    ] + [
        ("prober: every tool succeeds and matches its schemas", fitting_calls),
        ("prober: all arguments that match the schemas are answered", generated_calls),
        ("audit: every client can use every tool", audit),
    ]


def main(node: str, program: str, observe: str, binary: str) -> int:
    failures = 0
    for title, check in checks(node, program):
        with tempfile.TemporaryDirectory(prefix="reqlore-judge-") as folder:
            try:
                check(Project(Path(folder), observe, binary))
            except (Failure, OSError, subprocess.TimeoutExpired) as error:
                failures += 1
                print(f"FAILED probes {title}: {' '.join(str(error).split())}", flush=True)
            else:
                print(f"ok probes {title}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
