"""A scripted model on 127.0.0.1, which calls the tools of a script and keeps the requests to it."""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from protocols import PROTOCOLS, ModelRequest, OfferedTool, Reply, ToolCall, strings_in

SERVER_NAME = "reqlore"
# Tools of clients that load the definitions of hidden tools, by exact name and by words.
SELECT_TOOL = "ToolSearch"
SEARCH_TOOL = "tool_search"
# A tool of a client that calls hidden tools by name.
CALL_BRIDGE = "tool_call"
# A tool of a client that runs JavaScript, in which other tools are functions.
CODE_TOOL = "exec"
# A client that does not return a result within this number of requests has lost it.
MAX_REQUESTS_WITHOUT_RESULT = 3
# Shorter matches are chance.
MIN_SHOWN = 20
SIDE_ANSWER = "A scripted title"
LAST_ANSWER = "The script is done."


@dataclass(frozen=True)
class Step:
    """A call of the script."""

    title: str
    tool: str
    arguments: dict[str, Any]


@dataclass
class Script:
    """Decides each reply of the model and collects the results of its calls."""

    steps: list[Step]
    results: dict[str, Any] = field(default_factory=dict)
    first_body: dict[str, Any] | None = None
    first_tools: list[OfferedTool] = field(default_factory=list)
    is_done: bool = False
    searched: set[str] = field(default_factory=set)
    pending: tuple[str, str] | None = None
    requests_without_result: int = 0
    calls: int = 0

    def reply(
        self, tools: list[OfferedTool], results: dict[str, Any], body: dict[str, Any]
    ) -> Reply:
        """The next call, or a text for a request without these tools, such as for a title."""
        if not self._can_call(tools):
            return SIDE_ANSWER
        if self.first_body is None:
            self.first_body = body
            self.first_tools = tools
        self._collect(results)
        for step in self.steps:
            if step.title not in self.results:
                return self._call(step, tools)
        self.is_done = True
        return LAST_ANSWER

    def _can_call(self, tools: list[OfferedTool]) -> bool:
        names = [SELECT_TOOL, SEARCH_TOOL, CODE_TOOL, *(step.tool for step in self.steps)]
        return any(find_tool(tools, name) for name in names)

    def _collect(self, results: dict[str, Any]) -> None:
        if self.pending is None:
            return
        call_id, title = self.pending
        if call_id in results:
            self.results[title] = results[call_id]
        elif self.requests_without_result < MAX_REQUESTS_WITHOUT_RESULT:
            self.requests_without_result += 1
            return
        else:
            self.results[title] = None
        self.pending = None
        self.requests_without_result = 0

    def _call(self, step: Step, tools: list[OfferedTool]) -> ToolCall:
        hidden_name = f"mcp__{SERVER_NAME}__{step.tool}"
        tool = find_tool(tools, step.tool)
        search = find_tool(tools, SELECT_TOOL) or find_tool(tools, SEARCH_TOOL)
        code = find_tool(tools, CODE_TOOL)
        bridge = find_tool(tools, CALL_BRIDGE)
        self.calls += 1
        call_id = f"call_{self.calls}"
        if tool is None and search is not None and step.tool not in self.searched:
            self.searched.add(step.tool)
            self.pending = (call_id, f"search for {step.title}")
            arguments: dict[str, Any] = {"query": step.tool, "limit": 5}
            if search.name == SELECT_TOOL:
                arguments = {"query": f"select:{hidden_name}", "max_results": 5}
            return ToolCall(call_id, search.name, arguments, search.namespace, search.kind)
        self.pending = (call_id, step.title)
        if tool is not None:
            return ToolCall(call_id, tool.name, step.arguments, tool.namespace)
        if code is not None and code.kind == "custom":
            call = f"tools.{hidden_name}({json.dumps(step.arguments)})"
            return ToolCall(call_id, code.name, source=f"text(await {call});")
        if bridge is not None:
            return ToolCall(
                call_id, bridge.name, {"name": hidden_name, "arguments": step.arguments}
            )
        if search is not None and search.kind == "tool_search":
            return ToolCall(call_id, step.tool, step.arguments, f"mcp__{SERVER_NAME}")
        return ToolCall(call_id, hidden_name, step.arguments)


def find_tool(tools: list[OfferedTool], name: str) -> OfferedTool | None:
    """The tool with this name, or with the name of its server before it."""
    pattern = re.compile(rf"(.*[_./-])?{re.escape(name)}")
    exact = (tool for tool in tools if tool.name == name)
    prefixed = (tool for tool in tools if pattern.fullmatch(tool.name))
    return next(exact, None) or next(prefixed, None)


class ScriptedModel:
    """Listens until the end of the `with` block. Each request becomes a file of `folder`."""

    def __init__(self, script: Script, folder: Path) -> None:
        self.script = script
        self.folder = folder
        self.requests = 0
        self.lock = threading.Lock()
        handler = type("Handler", (ModelHandler,), {"model": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[str, bytes]:
        """The type and body of the response to a request with a body."""
        protocol = next((one for one in PROTOCOLS if one.accepts(path)), None)
        if protocol is None:
            # Clients also send telemetry and ask for the number of tokens.
            counts = {"input_tokens": 1, "totalTokens": 1}
            return "application/json", json.dumps(counts).encode()
        with self.lock:
            self.requests += 1
            request = ModelRequest(self.requests, path, body)
            tools = protocol.offered_tools(body)
            reply = self.script.reply(tools, protocol.results(body), body)
        response = protocol.response(reply, request)
        self._keep(request, protocol.name, reply)
        return response.content_type, response.body

    def _keep(self, request: ModelRequest, protocol: str, reply: Reply) -> None:
        said = reply if isinstance(reply, str) else vars(reply)
        kept = {"path": request.path, "protocol": protocol, "body": request.body, "reply": said}
        file = self.folder / f"request-{request.number:03}.json"
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False), "utf-8")


class ModelHandler(BaseHTTPRequestHandler):
    """Reads requests of clients. Subclasses have the model."""

    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Prints nothing: the requests are kept in files."""

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        """Every GET is answered with the list of models."""
        model = {"id": "scripted-model", "object": "model", "created": 0, "owned_by": "script"}
        listed = {"object": "list", "data": [model], "models": [model | {"name": model["id"]}]}
        self._send("application/json", json.dumps(listed).encode())

    def do_POST(self) -> None:
        body = self._read_body()
        try:
            parsed = json.loads(body or b"{}")
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            self._send("application/json", b"{}")
            return
        self._send(*self.model.answer(self.path.split("?")[0], parsed))

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def shown_prefix(text: str, body: dict[str, Any]) -> int:
    """The number of characters from the start of `text` that a request shows in one piece."""
    longest = MIN_SHOWN - 1
    for string in strings_in(body):
        while longest < len(text) and text[: longest + 1] in string:
            longest += 1
    return longest if longest >= MIN_SHOWN else 0
