"""Sends the list of tools through the converters of SDKs and compares the schemas before and after.

Usage: judge.py NODE CONVERT BINARY (see ../run; CONVERT is convert.mjs as installed). One line per
converter; exit code 1 if any failed. A converter must keep types, allowed values, names and
descriptions. It may drop a limit such as `maxLength`, which the server checks itself, and the type
of a map's values, which Gemini cannot express.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agents.mcp import MCPServerStdio, MCPUtil
from agents.models.chatcmpl_converter import Converter
from google.genai._mcp_utils import mcp_to_gemini_tool

TIMEOUT_SECONDS = 60
MAX_SHOWN = 3
Schema = dict[str, Any]


def google(tool: Any, _: MCPServerStdio) -> Schema:
    declarations = mcp_to_gemini_tool(tool).function_declarations
    return declarations[0].parameters.model_dump(mode="json", exclude_none=True, by_alias=True)


def openai(tool: Any, server: MCPServerStdio) -> Schema:
    function = MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=False)
    return Converter.tool_to_openai(function)["function"]["parameters"]


CONVERTERS: dict[str, Callable[[Any, MCPServerStdio], Schema]] = {
    "google-genai": google,
    "openai-agents": openai,
}


def differences(path: str, before: Schema, after: Schema) -> Iterator[str]:
    """Changes of meaning by a conversion, and allowed values without a type."""
    if "enum" in after and "type" not in after:
        yield f"{path}: enum without type"
    # Google's types are in capitals.
    if str(before.get("type")).lower() != str(after.get("type")).lower():
        yield f"{path}: type {before.get('type')} became {after.get('type')}"
    for key in ["enum", "description"]:
        if before.get(key) != after.get(key):
            yield f"{path}: {key} changed"
    if sorted(before.get("required", [])) != sorted(after.get("required", [])):
        yield f"{path}: required arguments changed"
    converted = parts(after)
    for name, schema in parts(before).items():
        if name in converted:
            yield from differences(f"{path}.{name}", schema, converted[name])
        else:
            yield f"{path}.{name}: dropped"


def parts(schema: Schema) -> dict[str, Schema]:
    """The schemas inside a schema: properties by name, elements and options."""
    found = dict(schema.get("properties", {}))
    if "items" in schema:
        found["[]"] = schema["items"]
    for position, option in enumerate(schema.get("anyOf", [])):
        found[f"option {position}"] = option
    return found


async def convert(binary: str, root: str) -> tuple[dict[str, Schema], dict[str, dict[str, Any]]]:
    """The schemas of the server, and those of each converter. A refusal is a text."""
    server = MCPServerStdio({"command": binary, "args": ["--root", root], "env": {"HOME": root}})
    async with server:
        tools = await server.list_tools()
        converted: dict[str, dict[str, Any]] = {}
        for name, converter in CONVERTERS.items():
            converted[name] = {}
            for tool in tools:
                try:
                    converted[name][tool.name] = converter(tool, server)
                except Exception as error:
                    converted[name][tool.name] = f"{type(error).__name__}: {error}"
    return {tool.name: tool.input_schema for tool in tools}, converted


def convert_with_node(node: str, program: str, binary: str, root: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [node, program, binary, "--root", root],
        env={"HOME": root},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=TIMEOUT_SECONDS,
    )
    converted: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return converted


def problems(before: dict[str, Schema], after: dict[str, Any]) -> Iterator[str]:
    for name, schema in before.items():
        converted = after.get(name, "not sent")
        if isinstance(converted, str):
            yield f"{name} is refused: {' '.join(converted.split())[:200]}"
        else:
            yield from differences(name, schema, converted)


def main(node: str, program: str, binary: str) -> int:
    failures = 0
    with tempfile.TemporaryDirectory(prefix="reqlore-judge-") as root:
        schemas, converted = asyncio.run(convert(binary, str(Path(root).resolve())))
        converted |= convert_with_node(node, program, binary, root)
    for name, after in converted.items():
        found = list(problems(schemas, after))
        title = f"schemas {name}: all {len(schemas)} tools keep their meaning"
        if found:
            failures += 1
            tools = {problem.split(".")[0].split(":")[0].split(" ")[0] for problem in found}
            count = f"{len(found)} problems in {len(tools)} tools"
            print(f"FAILED {title}: {count}: {'; '.join(found[:MAX_SHOWN])}", flush=True)
        else:
            print(f"ok {title}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
