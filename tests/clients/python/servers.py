"""Servers for the clients: over pipes, or over HTTP with a token."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PATIENCE_SECONDS = 20
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S+")


class Piped:
    """Starts the server in its own folder and records how it ended."""

    is_http = False

    def __init__(self, observe: str, binary: str, folder: Path) -> None:
        self.observe = observe
        self.binary = binary
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()

    @property
    def log(self) -> str:
        log = self.folder / "stderr"
        return log.read_text(errors="replace") if log.exists() else ""

    def end(self) -> str:
        """Returns the exit code; empty if the server was killed."""
        return (self.folder / "exit").read_text().strip()

    @property
    def launch(self) -> dict[str, Any]:
        arguments = [str(self.folder), self.binary]
        return {"command": self.observe, "args": arguments, "cwd": str(self.project)}

    def for_mcp(self) -> Any:
        return mcp.stdio_client(mcp.StdioServerParameters(**self.launch))

    def for_fastmcp(self) -> Any:
        return StdioTransport(**self.launch, keep_alive=False)


class Listening(Piped):
    """A server that starts before its clients and ends after them."""

    is_http = True

    def __init__(self, observe: str, binary: str, folder: Path) -> None:
        super().__init__(observe, binary, folder)
        self.token = self.user("ann", "user")
        self.process = self.start()
        self.url = self.address()

    @property
    def common(self) -> dict[str, Any]:
        # A separate home folder keeps the user's own settings out of the tests.
        own = {"HOME": str(self.folder), "REQLORE_ANSWERS": "both"}
        return {"cwd": self.project, "env": {**os.environ, **own}}

    def user(self, name: str, role: str) -> str:
        """Creates a user with this role and returns a token."""
        self.run("user", "add", name, "--role", role)
        return self.run("token", "create", "--user", name)

    def run(self, *words: str) -> str:
        command = [self.binary, *words]
        done = subprocess.run(command, **self.common, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def start(self) -> subprocess.Popen[bytes]:
        command = [self.binary, "--transport", "http", "--listen", "127.0.0.1:0"]
        with (self.folder / "stderr").open("wb") as log:
            return subprocess.Popen(command, **self.common, stderr=log)

    def address(self) -> str:
        late = time.monotonic() + PATIENCE_SECONDS
        while (found := ADDRESS.search(self.log)) is None:
            if self.process.poll() is not None or time.monotonic() > late:
                raise OSError(f"it does not serve: {self.log}")
            time.sleep(0.02)
        return found[0]

    def end(self) -> str:
        self.process.terminate()
        return str(self.process.wait(PATIENCE_SECONDS))

    def with_token(self, token: str) -> "Shown":
        return Shown(self, token)

    def for_mcp(self) -> Any:
        return self.with_token(self.token).for_mcp()

    def for_fastmcp(self) -> Any:
        return self.with_token(self.token).for_fastmcp()


@dataclass(frozen=True)
class Shown:
    """A server that receives another user's token."""

    server: Listening
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @contextlib.asynccontextmanager
    async def for_mcp(self) -> AsyncIterator[Any]:
        async with (
            create_mcp_http_client(headers=self.headers) as client,
            streamable_http_client(self.server.url, http_client=client) as streams,
        ):
            yield streams

    def for_fastmcp(self) -> Any:
        return StreamableHttpTransport(self.server.url, headers=self.headers)
