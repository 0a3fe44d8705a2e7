"""The official Python clients, and how they start the server and connect to it."""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastmcp
import mcp
from fastmcp.client.transports import StdioTransport

LEGACY = "2025-11-25"
MODERN = "2026-07-28"


@dataclass(frozen=True)
class Server:
    """How to start the server in a folder of its own, and how it ended there."""

    observe: str
    binary: str
    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def log(self) -> str:
        log = self.folder / "stderr"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def exit(self) -> str:
        return (self.folder / "exit").read_text().strip()

    @property
    def launch(self) -> dict[str, Any]:
        arguments = [str(self.folder), self.binary]
        return {"command": self.observe, "args": arguments, "cwd": str(self.project)}


@dataclass(frozen=True)
class Connection:
    """What the clients name differently."""

    client: mcp.Client | fastmcp.Client
    list_tools: Callable[[], Awaitable[Any]]
    call_tool: Callable[[str, dict[str, Any]], Awaitable[Any]]


@contextlib.asynccontextmanager
async def connect_mcp(server: Server, mode: str) -> AsyncIterator[Connection]:
    """The SDK itself holds structured content against the output schema, in every call."""
    transport = mcp.stdio_client(mcp.StdioServerParameters(**server.launch))
    async with mcp.Client(transport, mode=mode) as client:
        yield Connection(client, client.list_tools, client.call_tool)


@contextlib.asynccontextmanager
async def connect_fastmcp(server: Server, mode: str) -> AsyncIterator[Connection]:
    """FastMCP makes typed data of structured content besides, and logs an error where it cannot."""
    transport = StdioTransport(**server.launch, keep_alive=False)
    async with fastmcp.Client(transport, mode=mode) as client:
        call_tool = functools.partial(client.call_tool, raise_on_error=False)
        yield Connection(client, client.list_tools_mcp, call_tool)


@dataclass(frozen=True)
class Contender:
    """One client in one era."""

    name: str
    connect: Callable[[Server, str], contextlib.AbstractAsyncContextManager[Connection]]
    mode: str
    version: str
    discovers: bool = True


# In mode "auto" both send server/discover first and would fall back to initialize; that they did
# not is what the check of the negotiated version finds out. With a version for a mode the first
# line that the server sees is an ordinary request, and the client never learns the server's name.
CONTENDERS = [
    Contender("mcp legacy", connect_mcp, "legacy", LEGACY),
    Contender("mcp modern", connect_mcp, "auto", MODERN),
    Contender("mcp modern undiscovered", connect_mcp, MODERN, MODERN, discovers=False),
    Contender("fastmcp legacy", connect_fastmcp, "legacy", LEGACY),
    Contender("fastmcp modern", connect_fastmcp, "auto", MODERN),
]


class Complaints(logging.Handler):
    """What the SDKs log as warnings and errors: faults that they put up with."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[str]]:
        # FastMCP does not pass on to the root what it logs, but prints it.
        loggers = [logging.getLogger(), logging.getLogger("fastmcp")]
        before = [logger.handlers for logger in loggers]
        for logger in loggers:
            logger.handlers = [self]
        try:
            yield self.words
        finally:
            for logger, handlers in zip(loggers, before, strict=True):
                logger.handlers = handlers
