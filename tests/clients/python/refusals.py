"""Errors that clients get when a server over HTTP refuses them."""

from collections.abc import Awaitable, Callable
from typing import Any

from clients import Contender
from expect import expect, expect_match, refused
from servers import Listening

UNAUTHENTICATED = -32010
FORBIDDEN = -32011


async def wrong_token(contender: Contender, server: Listening) -> None:
    """A revoked token gets the same error as an unknown one."""
    shown = server.with_token(server.user("eve", "user"))
    server.run("user", "disable", "eve")

    async def work() -> Any:
        async with contender.connect(shown, contender.mode) as connection:
            return await connection.ask("list_tools")

    error = await refused(work())
    expect("code", error.code, UNAUTHENTICATED)
    expect_match("message", error.message, "token")


async def reader_writes(contender: Contender, server: Listening) -> None:
    shown = server.with_token(server.user("bob", "commenter"))
    async with contender.connect(shown, contender.mode) as connection:
        listed = (await connection.ask("list_tools")).tools
        expect("is there any tool", bool(listed), True)
        writing = [tool.name for tool in listed if not tool.annotations.read_only_hint]
        expect("tools that write", writing, [])
        given = {"title": "Not allowed", "priority": 1}
        error = await refused(connection.call_tool("create_epic", given))
        expect("code", error.code, FORBIDDEN)
        expect_match("message", error.message, "create_epic is a write operation; bob has read access only")


CHECKS: list[tuple[str, Callable[[Contender, Listening], Awaitable[None]]]] = [
    ("an invalid token is refused with a message", wrong_token),
    ("a reader sees no writing tool and cannot call one", reader_writes),
]
