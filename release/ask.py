"""Queries a binary over standard input and output, as an MCP client does.

The result is used to write a bundle's list of tools and to verify it.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROTOCOL = "2025-11-25"


class Server:
    """A running server and the pipe to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._ids = itertools.count(1)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        for line in self._process.stdout or ():
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    sys.exit(f"FAILED {method}: {message['error']['message']}")
                return message["result"]
        sys.exit(f"FAILED the server ended before it answered {method}")

    def notify(self, method: str) -> None:
        self._send({"method": method})

    def all(self, method: str, key: str) -> list[dict[str, Any]]:
        """Returns all items of a paginated list."""
        page = self.ask(method)
        items = list(page[key])
        while cursor := page.get("nextCursor"):
            page = self.ask(method, cursor=cursor)
            items += page[key]
        return items

    def kill(self) -> None:
        self._process.kill()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        self._process.stdin.flush()


@contextmanager
def served(command: list[str]) -> Iterator[tuple[Server, dict[str, Any]]]:
    """Starts a server with `command`; yields it and its response to `initialize`."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"REQLORE_LOG": "warn"},
    )
    try:
        with process:
            server = Server(process)
            about = server.ask(
                "initialize",
                protocolVersion=PROTOCOL,
                capabilities={},
                clientInfo={"name": "release", "version": "1"},
            )
            server.notify("notifications/initialized")
            yield server, about
    except BrokenPipeError:
        sys.exit(f"FAILED {' '.join(command)} ended early")


def tools_of(binary: Path) -> tuple[dict[str, Any], list[dict[str, Any]], bool]:
    """Returns the response to `initialize`, the tools, and whether the server has prompts."""
    with (
        tempfile.TemporaryDirectory() as project,
        served([str(binary), "--root", project]) as (server, about),
    ):
        prompts = "prompts" in about["capabilities"]
        return about, server.all("tools/list", "tools"), prompts
