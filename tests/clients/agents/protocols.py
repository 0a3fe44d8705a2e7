"""The four protocols between a coding client and a model: offered tools, results and replies."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

USAGE_TOKENS = {"input": 10, "output": 5, "total": 15}


@dataclass(frozen=True)
class OfferedTool:
    """A tool that a request offers to the model."""

    name: str
    definition: dict[str, Any]
    namespace: str | None = None

    @property
    def kind(self) -> str | None:
        return self.definition.get("type")


@dataclass(frozen=True)
class ToolCall:
    """A call by the model. A tool for source text takes `source` instead of `arguments`."""

    call_id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    namespace: str | None = None
    kind: str | None = None
    source: str | None = None


Reply = ToolCall | str


@dataclass(frozen=True)
class ModelRequest:
    """A request of a client. Requests are numbered from 1."""

    number: int
    path: str
    body: dict[str, Any]

    @property
    def model(self) -> Any:
        return self.body.get("model")

    @property
    def is_stream(self) -> bool:
        return bool(self.body.get("stream")) or ":stream" in self.path


@dataclass(frozen=True)
class Response:
    """The body of an HTTP response, and whether it is a stream of events."""

    body: bytes
    is_stream: bool = False

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.is_stream else "application/json"


def json_response(value: Any) -> Response:
    return Response(json.dumps(value).encode())


def event_stream(values: list[Any], names_events: bool, end: str = "") -> Response:
    """Server-sent events. `names_events` repeats the type of each value as the event's name."""
    lines = []
    for value in values:
        if names_events:
            lines.append(f"event: {value['type']}\n")
        lines.append(f"data: {json.dumps(value)}\n\n")
    return Response(("".join(lines) + end).encode(), is_stream=True)


def text_of(content: Any) -> str:
    """The text that a model reads of a result. Blocks of other types are shown as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False)
    texts = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) else None
        texts.append(text if isinstance(text, str) else text_of([block]))
    return "\n".join(texts)


class AnthropicMessages:
    """`POST /v1/messages`."""

    name = "anthropic"

    def accepts(self, path: str) -> bool:
        return path.endswith("/messages")

    def offered_tools(self, body: dict[str, Any]) -> list[OfferedTool]:
        return [OfferedTool(tool["name"], tool) for tool in body.get("tools") or []]

    def results(self, body: dict[str, Any]) -> dict[str, Any]:
        blocks = []
        for message in body.get("messages") or []:
            if isinstance(message["content"], list):
                blocks.extend(message["content"])
        return {
            block["tool_use_id"]: block.get("content")
            for block in blocks
            if block.get("type") == "tool_result"
        }

    def response(self, reply: Reply, request: ModelRequest) -> Response:
        if isinstance(reply, str):
            stop_reason = "end_turn"
            block = {"type": "text", "text": reply}
            opening = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": reply}
        else:
            stop_reason = "tool_use"
            opening = {"type": "tool_use", "id": reply.call_id, "name": reply.name, "input": {}}
            block = opening | {"input": reply.arguments}
            delta = {
                "type": "input_json_delta", "partial_json": json.dumps(reply.arguments)
            }
        message = {
            "id": f"msg_{request.number}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": [block],
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": USAGE_TOKENS["input"], "output_tokens": USAGE_TOKENS["output"]
            },
        }
        if not request.is_stream:
            return json_response(message)
        stop = {"stop_reason": stop_reason, "stop_sequence": None}
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": opening},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": message["usage"]},
            {"type": "message_stop"},
        ]
        return event_stream(events, names_events=True)


class OpenAiResponses:
    """`POST /v1/responses`, with namespaces, deferred tools and tools for source text."""

    name = "responses"

    def accepts(self, path: str) -> bool:
        return path.endswith("/responses")

    def offered_tools(self, body: dict[str, Any]) -> list[OfferedTool]:
        definitions = list(body.get("tools") or [])
        for item in input_items(body):
            if item.get("type") == "additional_tools":
                definitions.extend(item["tools"])
        tools = []
        for definition in definitions:
            if definition.get("type") == "namespace":
                for member in definition["tools"]:
                    tools.append(OfferedTool(member["name"], member, definition["name"]))
            else:
                name = definition.get("name") or definition["type"]
                tools.append(OfferedTool(name, definition))
        return tools

    def results(self, body: dict[str, Any]) -> dict[str, Any]:
        results = {}
        for item in input_items(body):
            if str(item.get("type")).endswith("_output"):
                # The result of a tool search is a list of definitions.
                results[item.get("call_id")] = item.get("output", item.get("tools"))
        return results

    def response(self, reply: Reply, request: ModelRequest) -> Response:
        item = self._output_item(reply, request.number)
        usage = {
            "input_tokens": USAGE_TOKENS["input"],
            "output_tokens": USAGE_TOKENS["output"],
            "total_tokens": USAGE_TOKENS["total"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response = {
            "id": f"resp_{request.number}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": request.model,
            "output": [item],
            "usage": usage,
        }
        if not request.is_stream:
            return json_response(response)
        started = response | {"status": "in_progress", "output": []}
        events = [
            {"type": "response.created", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
        ]
        if isinstance(reply, str):
            events.append({
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": 0,
                "content_index": 0,
                "delta": reply,
            })
        events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        events.append({"type": "response.completed", "response": response})
        for position, event in enumerate(events):
            event["sequence_number"] = position
        return event_stream(events, names_events=True)

    def _output_item(self, reply: Reply, number: int) -> dict[str, Any]:
        item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
        if isinstance(reply, str):
            content = {"type": "output_text", "text": reply, "annotations": []}
            return item | {"type": "message", "role": "assistant", "content": [content]}
        item["call_id"] = reply.call_id
        if reply.kind == "tool_search":
            search = {"execution": "client", "arguments": reply.arguments}
            return item | {"type": "tool_search_call"} | search
        item["name"] = reply.name
        if reply.namespace:
            item["namespace"] = reply.namespace
        if reply.source is not None:
            return item | {"type": "custom_tool_call", "input": reply.source}
        return item | {"type": "function_call", "arguments": json.dumps(reply.arguments)}


def input_items(body: dict[str, Any]) -> list[dict[str, Any]]:
    items = body.get("input")
    return items if isinstance(items, list) else []


class OpenAiChat:
    """`POST /v1/chat/completions`."""

    name = "chat"

    def accepts(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def offered_tools(self, body: dict[str, Any]) -> list[OfferedTool]:
        functions = [tool["function"] for tool in body.get("tools") or []]
        return [OfferedTool(function["name"], function) for function in functions]

    def results(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            message["tool_call_id"]: message.get("content")
            for message in body.get("messages") or []
            if message["role"] == "tool"
        }

    def response(self, reply: Reply, request: ModelRequest) -> Response:
        message: dict[str, Any] = {"role": "assistant", "content": reply}
        finish_reason = "stop"
        if isinstance(reply, ToolCall):
            function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
            call = {"index": 0, "id": reply.call_id, "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [call]}
            finish_reason = "tool_calls"
        completion = {
            "id": f"completion_{request.number}",
            "object": "chat.completion",
            "created": 0,
            "model": request.model,
        }
        usage = {
            "prompt_tokens": USAGE_TOKENS["input"],
            "completion_tokens": USAGE_TOKENS["output"],
            "total_tokens": USAGE_TOKENS["total"],
        }
        if not request.is_stream:
            choice = {"index": 0, "message": message, "finish_reason": finish_reason}
            return json_response(completion | {"choices": [choice], "usage": usage})
        chunk = completion | {"object": "chat.completion.chunk"}
        first = {"index": 0, "delta": message, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": finish_reason}
        chunks = [chunk | {"choices": [first]}, chunk | {"choices": [last], "usage": usage}]
        return event_stream(chunks, names_events=False, end="data: [DONE]\n\n")


class Gemini:
    """`POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    name = "gemini"

    def accepts(self, path: str) -> bool:
        return path.endswith("enerateContent")

    def offered_tools(self, body: dict[str, Any]) -> list[OfferedTool]:
        return [
            OfferedTool(declaration["name"], declaration)
            for group in body.get("tools") or []
            for declaration in group.get("functionDeclarations") or []
        ]

    def results(self, body: dict[str, Any]) -> dict[str, Any]:
        results = {}
        for content in body.get("contents") or []:
            for part in content.get("parts") or []:
                answer = part.get("functionResponse")
                if answer:
                    results[answer.get("id")] = answer.get("response")
        return results

    def response(self, reply: Reply, request: ModelRequest) -> Response:
        if isinstance(reply, str):
            part: dict[str, Any] = {"text": reply}
        else:
            call = {"id": reply.call_id, "name": reply.name, "args": reply.arguments}
            part = {"functionCall": call}
        candidate = {
            "index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"
        }
        answer = {
            "responseId": f"response_{request.number}",
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": USAGE_TOKENS["input"],
                "candidatesTokenCount": USAGE_TOKENS["output"],
                "totalTokenCount": USAGE_TOKENS["total"],
            },
        }
        if request.is_stream:
            return event_stream([answer], names_events=False)
        return json_response(answer)


PROTOCOLS = [AnthropicMessages(), OpenAiResponses(), OpenAiChat(), Gemini()]


def strings_in(value: Any) -> Iterator[str]:
    """All strings of a JSON value, without its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from strings_in(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from strings_in(element)
