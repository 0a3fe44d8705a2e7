"""Assertions on answers, with messages for failed checks."""

import re
from collections.abc import Awaitable
from typing import Any

from mcp import MCPError


class Mismatch(Exception):
    """The server's answer differs from the expected one."""


def expect(what: str, actual: Any, wanted: Any) -> None:
    if actual != wanted:
        raise Mismatch(f"{what}: got {actual!r}, expected {wanted!r}")


def expect_match(what: str, actual: Any, pattern: str) -> None:
    if not isinstance(actual, str) or not re.search(pattern, actual):
        raise Mismatch(f"{what}: got {actual!r}, expected a text like {pattern!r}")


def text_of(result: Any) -> str:
    """The text of the only block."""
    expect("types of content", [block.type for block in result.content], ["text"])
    return result.content[0].text


def expect_answer(
    result: Any, text: str, data: dict[str, Any], hint: str | None = None
) -> None:
    """Compares the text before the notes, and these keys of the data. A note must match `hint`."""
    expect("isError", result.is_error, False)
    body, _, notes = text_of(result).partition("\n\nNote: ")
    expect("text", body, text)
    if hint is not None:
        expect_match("notes", notes, hint)
    found = result.structured_content
    expect("structuredContent", {key: found.get(key) for key in data}, data)


def expect_tool_error(
    result: Any, pattern: str, kind: str, code: int, field: str, hint: str | None = None
) -> None:
    expect("isError", result.is_error, True)
    text = text_of(result)
    if hint is not None:
        text, _, advice = text.rpartition("\n")
        expect_match("hint", advice, hint)
    expect_match("text", text, pattern)
    expect("structuredContent", result.structured_content, None)
    error = result.meta["reqlore/error"]
    named = {"kind": kind, "code": code, "field": field, "message": text}
    expect("reqlore/error", {key: error.get(key) for key in named}, named)


def version_of(result: Any) -> str:
    version = result.structured_content["version"]
    expect_match("version", version, r"^[0-9a-f]{16}$")
    return version


async def refused(asking: Awaitable[Any]) -> MCPError:
    """Returns the protocol error, also if the client wraps it in a group."""
    try:
        answer = await asking
    except (MCPError, BaseExceptionGroup) as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, MCPError):
            return error
        raise
    raise Mismatch(f"no error but {answer!r}")
