"""The project of the runs, and the answers of its server to the judge itself."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60
EPIC = "Members borrow without a deposit."
STORY = "As a member I want to borrow without a deposit."
REQUIREMENT = "Ask only for a phone number"
RULES = [
    "RULE-ONE: no step asks for a deposit.",
    "RULE-TWO: show the fee with its tax on each page.",
    "RULE-THREE: confirm a loan within two seconds.",
]
DECISION = """---
id: dec-7c31e9
title: No deposit before the third loan
status: accepted
---

Most new members left when we asked for money.
Lending comes first; we ask for a deposit afterwards.
"""
DOCSETS = 'docsets:\n  react:\n    version: "18.2"\n    local_path: vendor/react\n'
# Sections with many rules of one size, which match the search of the script.
LONG_SECTIONS = {"ledger": 300, "archive": 1200}
LONG_RULE = (
    "the desk must record every loan with its amount, currency, hour, member, tool and lender, "
    "and keep that record for ten years in a form that an outside auditor can read without help."
)


def build(project: Path, binary: str, home: Path) -> None:
    """Makes a Git repository with one item of each kind, rules, a decision and a docset."""

    def run(*command: str) -> None:
        subprocess.run(
            command,
            cwd=project,
            env=environment(home),
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )

    def write(path: str, text: str) -> None:
        file = project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    project.mkdir(parents=True)
    run("git", "init", "--quiet", ".")
    run("git", "config", "user.name", "Ann")
    run("git", "config", "user.email", "ann@example.org")
    run(binary, "add", "epic", "Lendings", "--priority", "high", "--description", EPIC)
    story = ["Borrow as a guest", "--in", "EP-001", "--priority", "critical"]
    run(binary, "add", "story", *story, "--description", STORY)
    run(binary, "add", "requirement", REQUIREMENT, "--in", "US-001", "--priority", "critical")
    for index, rule in enumerate(RULES, 1):
        run(binary, "add", "requirement", rule, "--in", f"lending:{index}")
    write(".ixchel/decisions/dec-7c31e9.md", DECISION)
    write(".knowledge/config.yaml", DOCSETS)
    write("vendor/react/hooks.md", "useState\n")
    rules = "docs/development/requirements"
    listed = ""
    for section, count in LONG_SECTIONS.items():
        texts = [f"**{number}.** LONGRULE-{number}: {LONG_RULE}" for number in range(1, count + 1)]
        write(f"{rules}/{section}.md", "\n\n".join(texts) + "\n")
        listed += f"- {section.capitalize()} (key: {section})\n"
    with (project / rules / "AGENTS.md").open("a", encoding="utf-8") as file:
        file.write(listed)
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "Begin")


def environment(home: Path) -> dict[str, str]:
    """The variables of a user without settings."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }


def ask(
    project: Path, binary: str, home: Path, requests: list[tuple[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The results of `initialize` and of these requests, with texts and structured data."""
    meta = {"reqlore/answers": "both"}
    start = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "judge", "version": "1.0.0"},
    }
    lines = []
    for number, (method, params) in enumerate([("initialize", start), *requests], 1):
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        lines.append(json.dumps(message | {"params": params | {"_meta": meta}}))
    done = subprocess.run(
        [binary],
        input="\n".join(lines) + "\n",
        cwd=project,
        env=environment(home),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    return [answers[number]["result"] for number in range(1, len(lines) + 1)]
