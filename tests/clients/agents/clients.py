"""Coding clients: their programs, their configuration, and the text that they add to an answer."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocols import text_of

MODEL = "scripted-model"
KEY = "unused"
# Larger than all answers of a run together.
CONTEXT_TOKENS = 300_000


@dataclass(frozen=True)
class Surroundings:
    """The places of one run."""

    home: Path
    project: Path
    model_url: str
    server: list[str]
    program: str
    prompt: str

    @property
    def openai_url(self) -> str:
        return f"{self.model_url}/v1"

    @property
    def server_entry(self) -> dict[str, Any]:
        """The server in the form of `mcpServers` that most clients share."""
        return {"command": self.server[0], "args": self.server[1:]}


@dataclass(frozen=True)
class Start:
    """The start of a client: files below its home, variables, and commands."""

    command: list[str]
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    before: list[list[str]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Client:
    """A coding client. `program` is a pattern below the folder `set_name` of the installation."""

    name: str
    set_name: str
    program: str
    start: Callable[[Surroundings], Start]
    unwrap: Callable[[Any], str] = text_of
    shows_instructions: bool = True
    # The name of the client for `reqlore init`, which writes its session hook.
    hook: str = ""
    # True if the configuration above has the hook, for a client that init does not know.
    has_documented_hook: bool = False


def claude_code(place: Surroundings) -> Start:
    server = {"type": "stdio", **place.server_entry}
    config = place.home / "servers.json"
    options = ["--mcp-config", str(config), "--strict-mcp-config"]
    options += ["--allowedTools", "mcp__reqlore,ToolSearch"]
    options += ["--output-format", "stream-json", "--verbose"]
    return Start(
        [place.program, "-p", place.prompt, *options],
        files={"servers.json": json.dumps({"mcpServers": {"reqlore": server}})},
        environment={
            "ANTHROPIC_BASE_URL": place.model_url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )


def codex(model: str) -> Callable[[Surroundings], Start]:
    """Codex chooses the form of the tools by the name of the model."""

    def start(place: Surroundings) -> Start:
        # TOML reads the strings and lists of JSON.
        config = f"""
model = "{model}"
model_provider = "script"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.script]
name = "script"
base_url = {json.dumps(place.openai_url)}
wire_api = "responses"
env_key = "SCRIPT_KEY"
request_max_retries = 0
stream_max_retries = 0

[mcp_servers.reqlore]
command = {json.dumps(place.server[0])}
args = {json.dumps(place.server[1:])}

[projects.{json.dumps(str(place.project))}]
trust_level = "trusted"

[analytics]
enabled = false
"""
        return Start(
            [
                place.program,
                "exec",
                "--skip-git-repo-check",
                # In the place of /hooks, where users trust a hook.
                "--dangerously-bypass-hook-trust",
                "--json",
                place.prompt,
            ],
            files={".codex/config.toml": config},
            environment={"SCRIPT_KEY": KEY},
        )

    return start


def opencode(place: Surroundings) -> Start:
    limits = {"context": CONTEXT_TOKENS, "output": 8000}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "script",
        "options": {"baseURL": place.openai_url, "apiKey": KEY},
        "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": limits}},
    }
    config = {
        "model": f"script/{MODEL}",
        "small_model": f"script/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "provider": {"script": provider},
        "permission": {"*": "allow"},
        "mcp": {"reqlore": {"type": "local", "command": place.server}},
    }
    return Start(
        [place.program, "run", "--model", f"script/{MODEL}", place.prompt],
        files={".config/opencode/opencode.json": json.dumps(config)},
        environment={
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
    )


def gemini_cli(place: Surroundings) -> Start:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "mcpServers": {"reqlore": place.server_entry | {"trust": True}},
    }
    return Start(
        [place.program, "--yolo", "--model", "gemini-2.5-pro", "--prompt", place.prompt],
        files={".gemini/settings.json": json.dumps(settings)},
        environment={
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": place.model_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_SANDBOX": "false",
        },
    )


def qwen_code(place: Surroundings) -> Start:
    # As docs/context.md shows it.
    command = f"{place.server[-1]} hook session --client claude-code"
    hooks = [{"type": "command", "command": command, "timeout": 5000}]
    settings = {
        "hooks": {"SessionStart": [{"matcher": "startup", "hooks": hooks}]},
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False},
        "mcpServers": {"reqlore": place.server_entry | {"trust": True}},
    }
    return Start(
        [place.program, "--yolo", place.prompt],
        files={".qwen/settings.json": json.dumps(settings)},
        environment={
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": place.openai_url,
            "OPENAI_MODEL": MODEL,
        },
    )


def kimi_code(place: Surroundings) -> Start:
    config = f"""
default_model = "script"
telemetry = false

[providers.script]
type = "openai"
base_url = {json.dumps(place.openai_url)}
api_key = "{KEY}"

[models.script]
provider = "script"
model = "{MODEL}"
max_context_size = {CONTEXT_TOKENS}
"""
    servers = {"mcpServers": {"reqlore": place.server_entry}}
    return Start(
        [place.program, "-p", place.prompt],
        files={".kimi-code/config.toml": config, ".kimi-code/mcp.json": json.dumps(servers)},
        environment={
            "KIMI_CODE_HOME": str(place.home / ".kimi-code"),
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        },
    )


def continue_cli(place: Surroundings) -> Start:
    model = {
        "name": MODEL,
        "provider": "openai",
        "model": MODEL,
        "apiBase": f"{place.openai_url}/",
        "apiKey": KEY,
        "capabilities": ["tool_use"],
        "roles": ["chat"],
        "defaultCompletionOptions": {"contextLength": CONTEXT_TOKENS, "maxTokens": 8000},
    }
    config = {
        "name": "script",
        "version": "1.0.0",
        "schema": "v1",
        "models": [model],
        "mcpServers": [{"name": "reqlore", **place.server_entry}],
    }
    # JSON is YAML, too.
    file = place.home / "config.yaml"
    return Start(
        [place.program, "--config", str(file), "--auto", "-p", place.prompt],
        files={"config.yaml": json.dumps(config)},
        environment={"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_METRICS_ENABLED": "0"},
    )


def copilot_cli(place: Surroundings) -> Start:
    server = place.server_entry | {"type": "stdio", "tools": ["*"]}
    options = ["--allow-all-tools", "--allow-all-paths"]
    options += ["--disable-builtin-mcps", "--no-auto-update"]
    return Start(
        [place.program, "-p", place.prompt, *options],
        files={".copilot/mcp-config.json": json.dumps({"mcpServers": {"reqlore": server}})},
        environment={
            "COPILOT_PROVIDER_BASE_URL": place.openai_url,
            "COPILOT_PROVIDER_API_KEY": KEY,
            "COPILOT_MODEL": MODEL,
            "COPILOT_OFFLINE": "true",
        },
    )


def cline(place: Surroundings) -> Start:
    provider = ["-P", "openai", "-m", MODEL]
    sign_in = [place.program, "auth", "-p", "openai", "-m", MODEL]
    sign_in += ["-k", KEY, "-b", place.openai_url]
    return Start(
        [place.program, "--auto-approve", "true", *provider, "-t", "100", place.prompt],
        environment={
            "CLINE_NO_AUTO_UPDATE": "1",
            "CLINE_TELEMETRY_DISABLED": "1",
            "DO_NOT_TRACK": "1",
        },
        before=[sign_in, [place.program, "mcp", "add", "reqlore", "--yes", "--", *place.server]],
        # It leaves a process of its own behind.
        after=[[place.program, "hub", "stop"]],
    )


# Removal of the text that a client adds to an answer. A part that it delivers twice stays twice.


def without_codex_header(content: Any) -> str:
    header = r"\A(Script completed\n)?Wall time:? [\d.]+ seconds\nOutput:\n"
    return texts_of_result(re.sub(header, "", text_of(content)))


def without_gemini_tags(content: Any) -> str:
    text = content.get("output", content.get("error")) if isinstance(content, dict) else None
    if not isinstance(text, str):
        return text_of(content)
    return re.sub(r"\A<untrusted_context>\n|\n</untrusted_context>\Z", "", text)


def without_kimi_header(content: Any) -> str:
    return re.sub(r"\AWall time: [\d.]+ seconds\n", "", text_of(content))


def texts_of_result(content: Any) -> str:
    """The texts of a whole result, or of its list of blocks, that was delivered as JSON."""
    text = text_of(content)
    try:
        result = json.loads(text)
    except ValueError:
        return text
    if isinstance(result, list):
        return text_of(result)
    if not isinstance(result, dict) or "content" not in result:
        return text
    structured = result.get("structuredContent")
    parts = [result["content"], structured] if structured else [result["content"]]
    return "\n".join(text_of(part) for part in parts)


CODEX_PROGRAM = "@openai/codex-*/vendor/*/bin/codex"
CLIENTS = [
    Client(
        "claude-code", "gate", "@anthropic-ai/claude-code-*/claude", claude_code, hook="claude-code"
    ),
    Client("codex", "gate", CODEX_PROGRAM, codex("gpt-5.5"), without_codex_header, hook="codex"),
    Client(
        "codex-code-mode",
        "gate",
        CODEX_PROGRAM,
        codex("gpt-6.2-sol"),
        without_codex_header,
        hook="codex",
    ),
    Client("opencode", "gate", "opencode-*/bin/opencode", opencode),
    Client("gemini-cli", "more", ".bin/gemini", gemini_cli, without_gemini_tags, hook="gemini"),
    Client("qwen-code", "more", ".bin/qwen", qwen_code, has_documented_hook=True),
    Client("kimi-code", "more", ".bin/kimi", kimi_code, without_kimi_header, False),
    Client("continue", "more", ".bin/cn", continue_cli, texts_of_result, False),
    Client(
        "copilot-cli", "more", ".bin/copilot", copilot_cli, shows_instructions=False, hook="copilot"
    ),
    Client("cline", "more", "@cline/cli-*/bin/cline", cline, texts_of_result, False),
]


if __name__ == "__main__":
    # For the installation: each client and the set of packages that has it.
    for known in CLIENTS:
        print(known.name, known.set_name)
