"""The official Python clients and their connections to the server."""

import asyncio
import contextlib
import functools
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import fastmcp
import mcp
from mcp import MCPDeprecationWarning
from mcp.client.subscriptions import ResourceUpdated, Subscription, listen
from mcp_types import ResourceListChangedNotification, ResourceUpdatedNotification

from servers import Listening, Piped, Shown

# The 2025 way of subscribing is deprecated in the SDK but tested here.
warnings.filterwarnings("ignore", category=MCPDeprecationWarning)

LEGACY = "2025-11-25"
MODERN = "2026-07-28"


@dataclass(frozen=True)
class Connection:
    """A uniform interface to both clients."""

    client: mcp.Client | fastmcp.Client
    call_tool: Callable[[str, dict[str, Any]], Awaitable[Any]]
    heard: asyncio.Queue[Any]
    suffix: str = ""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Returns the answer of the protocol, not the type that the client converts it to."""
        return await getattr(self.client, method + self.suffix)(*arguments)

    @contextlib.asynccontextmanager
    async def watching(self, uri: str) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Yields a function that waits for the next notification and returns its URI, or "list"."""
        session = self.client.session
        if self.client.protocol_version == MODERN:
            wanted = {"resources_list_changed": True, "resource_subscriptions": [uri]}
            async with listen(session, **wanted) as stream:
                yield lambda: next_event(stream)
        else:
            await self.ask("list_resources")
            await session.subscribe_resource(uri)
            yield lambda: next_message(self.heard)
            await session.unsubscribe_resource(uri)


async def next_event(stream: Subscription) -> str:
    event = await anext(stream)
    return event.uri if isinstance(event, ResourceUpdated) else "list"


async def next_message(heard: asyncio.Queue[Any]) -> str:
    """Queues notifications that arrive outside of a stream, except progress."""
    while True:
        match await heard.get():
            case ResourceUpdatedNotification() as message:
                return str(message.params.uri)
            case ResourceListChangedNotification():
                return "list"


@contextlib.asynccontextmanager
async def connect_mcp(server: Piped | Shown, mode: str) -> AsyncIterator[Connection]:
    """The SDK validates structured content against the output schema in every call."""
    heard = asyncio.Queue()
    async with mcp.Client(server.for_mcp(), mode=mode, message_handler=heard.put) as client:
        yield Connection(client, client.call_tool, heard)


@contextlib.asynccontextmanager
async def connect_fastmcp(server: Piped | Shown, mode: str) -> AsyncIterator[Connection]:
    """FastMCP also converts structured content to typed data and logs an error on failure."""
    heard = asyncio.Queue()
    async with fastmcp.Client(server.for_fastmcp(), mode=mode, message_handler=heard.put) as client:
        call_tool = functools.partial(client.call_tool, raise_on_error=False)
        yield Connection(client, call_tool, heard, suffix="_mcp")


@dataclass(frozen=True)
class Contender:
    """One client with one protocol revision on one transport."""

    name: str
    connect: Callable[[Piped | Shown, str], contextlib.AbstractAsyncContextManager[Connection]]
    mode: str
    version: str
    discovers: bool = True
    start: type[Piped] = Piped

    def over_http(self) -> "Contender":
        return replace(self, name=f"{self.name} http", start=Listening)


# In mode "auto" both clients send server/discover first and may fall back to initialize. The check
# of the negotiated version detects a fallback. With a version as mode, the first message is an
# ordinary request, and the client never learns the server's name.
PIPED = [
    Contender("mcp legacy", connect_mcp, "legacy", LEGACY),
    Contender("mcp modern", connect_mcp, "auto", MODERN),
    Contender("mcp modern undiscovered", connect_mcp, MODERN, MODERN, discovers=False),
    Contender("fastmcp legacy", connect_fastmcp, "legacy", LEGACY),
    Contender("fastmcp modern", connect_fastmcp, "auto", MODERN),
]
CONTENDERS = [*PIPED, *(contender.over_http() for contender in PIPED)]


class Complaints(logging.Handler):
    """Collects warnings and errors that the SDKs log instead of raising them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[str]]:
        # FastMCP prints its log and does not propagate it to the root logger.
        loggers = [logging.getLogger(), logging.getLogger("fastmcp")]
        before = [logger.handlers for logger in loggers]
        for logger in loggers:
            logger.handlers = [self]
        try:
            yield self.words
        finally:
            for logger, handlers in zip(loggers, before, strict=True):
                logger.handlers = handlers
