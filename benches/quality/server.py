"""A reqlore process and its only MCP client, over a pipe."""

import json
import queue
import subprocess
import sys
import threading
import time

RESPONSE_TIMEOUT_SECONDS = 120
# MiniLM embeds about 20 texts per second; no collection has more than 5,000.
EMBEDDING_TIMEOUT_SECONDS = 1800


class Server:
    """The server process of a project, and its only client."""

    def __init__(self, binary, project, environment):
        self.process = subprocess.Popen(
            [binary, "--root", project, "--log", "warn", "--answers", "both"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.lines = queue.Queue()
        threading.Thread(target=self.listen, daemon=True).start()
        self.number = 0
        parameters = {"protocolVersion": "2025-11-25", "capabilities": {},
                      "clientInfo": {"name": "quality", "version": "1"}}
        self.call("initialize", parameters)

    def listen(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def call(self, method, parameters):
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            line = self.lines.get(timeout=RESPONSE_TIMEOUT_SECONDS)
            if not line:
                sys.exit("the server ended")
            response = json.loads(line)
            if response.get("id") == self.number:
                return response

    def call_tool(self, name, **arguments):
        response = self.call("tools/call", {"name": name, "arguments": arguments})
        result = response.get("result", {})
        if result.get("isError", True):
            sys.exit(f"the server returned {response}")
        return result["structuredContent"]

    def wait_for_embedding(self):
        """Polls slowly, because each call delays the embedding."""
        end = time.monotonic() + EMBEDDING_TIMEOUT_SECONDS
        while (pending := self.call_tool("search_global", query="anything", limit=1)["pending"]) > 0:
            if time.monotonic() > end:
                sys.exit(f"timeout: {pending} texts are not embedded yet")
            time.sleep(0.5)

    def end(self):
        self.process.stdin.close()
        if self.process.wait(timeout=RESPONSE_TIMEOUT_SECONDS) != 0:
            sys.exit("the server failed at its end")
