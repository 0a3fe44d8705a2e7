"""Tests the real binary with the official Python clients.

Usage: judge.py OBSERVE BINARY (see ../run). One line per check; exit code 1 if any failed.
"""

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
from mcp import MCPError

import backlog
import refusals
from clients import CONTENDERS, MODERN, Complaints, Connection, Contender
from expect import (
    Mismatch, expect, expect_answer, expect_match, expect_tool_error, version_of,
)
from servers import Listening

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32002

PARALLEL = 20
PATIENCE_SECONDS = 20

READING_HINTS = {"read_only_hint"}
WRITING_HINTS = {"destructive_hint", "open_world_hint"}
HINTS = READING_HINTS | WRITING_HINTS | {"idempotent_hint"}
TYPING = {"type", "enum", "anyOf"}
HERE = Path(__file__).resolve().parent
# The arguments of each tool, by its name.
ARGUMENTS: dict[str, set[str]] = {
    name: set(tool["arguments"])
    for name, tool in json.loads((HERE.parent / "arguments.json").read_text("utf-8")).items()
}
WRITING = {
    name
    for name in ARGUMENTS
    if re.match("apply|claim|import|(ixchel_)?(create|update)|(reqlix_)?delete|reqlix_set", name)
}
TEXT = 'Größe ≤ 3 µm, "quoted" \\ slashed, and a crab: 🦀.\n\n- one item\n- another one'


@dataclass(frozen=True)
class Session:
    """A connection of any client, as the checks use it."""

    contender: Contender
    connection: Connection
    project: Path
    complaints: list[str]

    @property
    def is_http(self) -> bool:
        return self.contender.start.is_http

    async def call(self, name: str, **arguments: str) -> Any:
        common = {"project_root": str(self.project), "operation_description": "Judge the server"}
        return await self.connection.call_tool(name, common | arguments)

    async def get(self, section: str) -> Any:
        return await self.call("reqlix_get_requirements", section=section)

    async def set(self, section: str, index: str, text: str) -> Any:
        return await self.call("reqlix_set_requirements", section=section, index=index, text=text)

    async def delete(self, section: str, index: str) -> Any:
        return await self.call("reqlix_delete_requirements", section=section, index=index)


# Checks, in the order of execution.

Check = Callable[[Session], Awaitable[None]]
CHECKS: list[tuple[str, Check]] = []


def check(title: str) -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        CHECKS.append((title, function))
        return function

    return register


@check("handshake negotiates the version and introduces the server")
async def handshake(session: Session) -> None:
    client = session.connection.client
    expect("protocol version", client.protocol_version, session.contender.version)
    if session.contender.discovers:
        expect("server", client.server_info.name, "reqlore")
        expect_match("server version", client.server_info.version, r"^\d+\.\d+\.\d+")
        expect_match("instructions", client.instructions, "reqlix_get_instructions")


@check("tools/list returns all tools, sorted and fully described")
async def tools(session: Session) -> None:
    listed = (await session.connection.ask("list_tools")).tools
    expect("names", [tool.name for tool in listed], sorted(ARGUMENTS))
    for tool in listed:
        expect_match(f"{tool.name}: title", tool.title, r"\S")
        expect_match(f"{tool.name}: description", tool.description, r"\S")
        arguments = tool.input_schema["properties"].keys()
        expect(f"{tool.name}: arguments", set(arguments), ARGUMENTS[tool.name])
        expect_typed(f"{tool.name}: inputSchema", tool.input_schema)
        expect_typed(f"{tool.name}: outputSchema", tool.output_schema)
        expect_hints(tool)


def expect_typed(where: str, schema: dict[str, Any]) -> None:
    expect(f"{where}: type", schema["type"], "object")
    for name, value in schema["properties"].items():
        expect(f"{where}: {name} says what it takes", bool(value.keys() & TYPING), True)
        # Some clients send the default of an omitted argument.
        if "default" in value:
            taken = jsonschema.Draft202012Validator(value).is_valid(value["default"])
            expect(f"{where}: {name} takes its default", taken, True)


def expect_hints(tool: Any) -> None:
    """Reading tools say only that they read; an absent idempotent hint means false."""
    reads = tool.name not in WRITING
    hints = {hint: getattr(tool.annotations, hint) for hint in HINTS}
    given = {hint for hint, value in hints.items() if isinstance(value, bool)}
    expect(f"{tool.name}: hints", given - {"idempotent_hint"}, READING_HINTS if reads else WRITING_HINTS)
    expect(f"{tool.name}: readOnlyHint", bool(hints["read_only_hint"]), reads)


@check("reqlix_get_instructions creates AGENTS.md and returns its text")
async def instructions(session: Session) -> None:
    result = await session.call("reqlix_get_instructions")
    stored = session.project / "docs/development/requirements/AGENTS.md"
    data = {"project": "default", "version": version_of(result)}
    expect_answer(result, stored.read_text(encoding="utf-8"), data)


@check("get of a missing section reports it")
async def missing_section(session: Session) -> None:
    place = {"project": "default", "section": "missing"}
    expect_no_requirements(await session.get("missing"), place)


def expect_no_requirements(result: Any, place: dict[str, str]) -> None:
    note = "This project has no sections yet."
    data = place | {"version": None, "count": 0, "notes": [note]}
    expect_answer(result, "No requirements in this section.", data, re.escape(note))


@check("set, get and delete agree on text and structured content")
async def round_trip(session: Session) -> None:
    place = {"project": "default", "section": "round_trip"}
    requirement = {"index": "1.2", "text": TEXT}
    stored = f"**1.2.** {TEXT}"

    result = await session.set("round_trip", **requirement)
    version = version_of(result)
    data = place | requirement | {"version": version, "reindexed": [], "warnings": []}
    expect_answer(result, stored, data)

    result = await session.get("round_trip")
    expect_answer(result, f"{stored}\n", place | {"version": version, "count": 1})

    result = await session.delete("round_trip", "1.2")
    expect_answer(result, stored, place | requirement | {"version": None})

    expect_no_requirements(await session.get("round_trip"), place)


@check("an invalid section is a tool error that names it")
async def bad_section(session: Session) -> None:
    result = await session.get("../x")
    expect_tool_error(result, r'section: "\.\./x" ', "invalid_argument", INVALID_PARAMS, "section")


@check("answers of knowledge and docset tools match their schemas")
async def knowledge(session: Session) -> None:
    entity = session.project / ".ixchel/decisions/dec-1d2c8f.md"
    entity.parent.mkdir(parents=True, exist_ok=True)
    entity.write_text("---\nid: dec-1d2c8f\ntags: [storage]\n---\nFiles first.\n", encoding="utf-8")
    config = session.project / ".knowledge/config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("docsets: {react: {version: 18.2}}\n", encoding="utf-8")
    call = session.connection.call_tool
    found = (await call("ixchel_search", {"query": "files first"})).structured_content
    expect("hits", [hit["id"] for hit in found["hits"]], ["dec-1d2c8f"])
    tags = (await call("ixchel_tags", {})).structured_content
    expect("tags", tags, {"total": 1, "tags": [{"tag": "storage", "count": 1}]})
    listed = (await call("list_docsets", {})).structured_content
    expect("docsets", [docset["name"] for docset in listed["docsets"]], ["react"])


@check("delete of a missing requirement reports it")
async def missing_requirement(session: Session) -> None:
    await session.set("sparse", "1", "The only one.")
    result = await session.delete("sparse", "2")
    words, hint = r"\ARequirement not found\.\Z", r"the rules are: 1\Z"
    expect_tool_error(result, words, "not_found", NOT_FOUND, "index", hint)


@check("an unknown tool is the JSON-RPC error of its revision and transport")
async def unknown_tool(session: Session) -> None:
    modern = session.contender.version == MODERN
    # Since 2026-07-28, -32601 is HTTP status 404, which this client reports as a missing server.
    code = INVALID_PARAMS if modern and session.is_http else METHOD_NOT_FOUND
    try:
        result = await session.call("reqlix_no_such_tool")
    except MCPError as error:
        expect("code", error.code, code)
        expect_match("message", error.message, "reqlix_no_such_tool")
    else:
        raise Mismatch(f"no error but {result!r}")


@check(f"{PARALLEL} parallel gets are all answered")
async def parallel_gets(session: Session) -> None:
    version = version_of(await session.set("read", "1", "Read me."))
    data = {"project": "default", "section": "read", "version": version, "count": 1}
    for result in await asyncio.gather(*(session.get("read") for _ in range(PARALLEL))):
        expect_answer(result, "**1.** Read me.\n", data)


@check(f"{PARALLEL} parallel sets all land")
async def parallel_sets(session: Session) -> None:
    indices = [str(number) for number in range(1, PARALLEL + 1)]
    shuffled = indices[::2] + indices[1::2][::-1]
    setting = (session.set("written", index, f"Number {index}.") for index in shuffled)
    for index, result in zip(shuffled, await asyncio.gather(*setting), strict=True):
        expect_answer(result, f"**{index}.** Number {index}.", {"index": index})

    result = await session.get("written")
    stored = "\n\n".join(f"**{index}.** Number {index}." for index in indices)
    data = {"project": "default", "section": "written", "version": version_of(result)}
    expect_answer(result, f"{stored}\n", data | {"count": PARALLEL})


CHECKS.extend(backlog.CHECKS)


@check("the SDK logs no warnings or errors")
async def complaints(session: Session) -> None:
    expect("logged", session.complaints, [])


# Results.


class Verdicts:
    """Prints one line per check and counts the failures."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.failures = 0

    @contextlib.contextmanager
    def reporting(self, title: str, silent: bool = False) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failures += 1
            print(f"FAILED {self.client}: {title}: {describe(error)}", flush=True)
        else:
            if not silent:
                print(f"ok {self.client}: {title}", flush=True)


def describe(error: BaseException) -> str:
    """Returns the reason of a failure in one line. Of a group it takes the first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer within {PATIENCE_SECONDS} s"
    words = " ".join(str(error).split())
    return words if isinstance(error, Mismatch) else f"{type(error).__name__}: {words}"


async def run_checks(session: Session, verdicts: Verdicts) -> None:
    for title, function in CHECKS:
        with verdicts.reporting(title):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await function(session)


async def judge(contender: Contender, observe: str, binary: str) -> int:
    verdicts = Verdicts(f"python {contender.name}")
    with tempfile.TemporaryDirectory(prefix="reqlore-judge-") as folder:
        server = contender.start(observe, binary, Path(folder))
        with verdicts.reporting("connection", silent=True):
            async with contextlib.AsyncExitStack() as stack:
                complaints = stack.enter_context(Complaints().listening())
                async with asyncio.timeout(PATIENCE_SECONDS):
                    connecting = contender.connect(server, contender.mode)
                    connection = await stack.enter_async_context(connecting)
                session = Session(contender, connection, server.project, complaints)
                await run_checks(session, verdicts)
        if isinstance(server, Listening):
            for title, function in refusals.CHECKS:
                with verdicts.reporting(title):
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await function(contender, server)
        with verdicts.reporting("the server ends by itself with exit code 0"):
            expect("exit code, none if it was killed", server.end(), "0")
        if verdicts.failures:
            print(server.log, file=sys.stderr, end="")
    return verdicts.failures


async def main(observe: str, binary: str) -> int:
    failures = [await judge(contender, observe, binary) for contender in CONTENDERS]
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
