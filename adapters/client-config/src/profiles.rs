//! The properties of each client, with the documentation that they come from.

use std::path::PathBuf;

use TemplateField::{
    Arguments, False, Headers, List, OptionalArguments, Program, ProgramAndArguments, Text,
    TokenVariable, Url,
};

use crate::edit::{ConfigFormat, EntrySlot};
use crate::environment::{ClientEnvironment, Platform};

/// In the order of [`Client`](crate::Client).
pub(crate) const PROFILES: [&ClientProfile; 10] = [
    &CLAUDE_CODE,
    &CLAUDE_DESKTOP,
    &CURSOR,
    &VS_CODE,
    &ZED,
    &CODEX,
    &GEMINI,
    &COPILOT,
    &KIRO,
    &OPEN_CODE,
];

/// The map of servers that most clients have.
const SERVERS: EntrySlot = EntrySlot { format: ConfigFormat::Json, path: &["mcpServers"] };

/// "Connect Claude Code to tools via MCP" and "Environment variables" (code.claude.com/docs):
/// - `~/.claude.json` also holds Claude's own state, and moves into `CLAUDE_CONFIG_DIR`.
/// - `${NAME}` and `${NAME:-default}` are replaced in `command`, `args`, `env`, `url` and
///   `headers`; `$NAME` is not.
/// - A server starts in the working directory of `claude`, which is the project.
/// - A project's servers start after the user has agreed to them once.
const CLAUDE_CODE: ClientProfile = ClientProfile {
    name: "claude-code",
    title: "Claude Code",
    programs: &["claude"],
    user_folder: |environment| environment.variable_or_home("CLAUDE_CONFIG_DIR", ""),
    user_files: &[".claude.json"],
    project_files: Ok(&[".mcp.json"]),
    user_paths: Some(|environment| {
        let file = environment.variable_or_home("CLAUDE_CONFIG_DIR", "").join(".claude.json");
        vec![environment.variable_or_home("CLAUDE_CONFIG_DIR", ".claude"), file]
    }),
    project_paths: &[".claude", ".mcp.json"],
    slot: SERVERS,
    new_file: "",
    working_directory: WorkingDirectory::Project,
    project_variable: None,
    variables: &["${"],
    has_shell: false,
    command: EntryTemplate {
        set: &[("type", Text("stdio")), ("command", Program), ("args", OptionalArguments)],
        drop: &["args", "url", "headers"],
    },
    remote: Ok(EntryTemplate {
        set: &[("type", Text("http")), ("url", Url), ("headers", Headers("${", "}"))],
        drop: &["command", "args"],
    }),
};

/// "Connect to local MCP servers" (modelcontextprotocol.io/docs) and "Getting started with custom
/// connectors using remote MCP" (support.claude.com):
/// - The file lists only servers that Claude Desktop starts itself. Remote ones are connectors,
///   which are added in the settings and called from Anthropic's machines.
/// - Nothing is replaced in values, and the directory of a server is undefined, so the entry has to
///   name the project.
/// - The file is read at start, as JSON without comments.
/// - On Windows a program from the store may see another `%APPDATA%`.
const CLAUDE_DESKTOP: ClientProfile = ClientProfile {
    name: "claude-desktop",
    title: "Claude Desktop",
    programs: &["claude-desktop"],
    user_folder: |environment| environment.application_data().join("Claude"),
    user_files: &["claude_desktop_config.json"],
    project_files: Err("Claude Desktop has no file for a project; use --scope user"),
    user_paths: None,
    project_paths: &[],
    working_directory: WorkingDirectory::Other,
    variables: &[],
    command: EntryTemplate {
        set: &[("command", Program), ("args", OptionalArguments)],
        drop: &["args", "type", "url", "headers"],
    },
    remote: Err(
        "Claude Desktop's file can't contain an HTTP server; use --transport stdio, or add \
                 the URL in its settings under Connectors",
    ),
    ..CLAUDE_CODE
};

/// "Model Context Protocol" and "Config interpolation" (cursor.com/docs):
/// - `${env:NAME}`, `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}` and
///   `${pathSeparator}` are replaced in `command`, `args`, `env`, `url` and `headers`.
/// - The directory of a server is not documented; for the user's file it was seen to be the home
///   folder. `${workspaceFolder}` is the project for both files.
const CURSOR: ClientProfile = ClientProfile {
    name: "cursor",
    title: "Cursor",
    programs: &["cursor", "cursor-agent"],
    user_folder: |environment| environment.home.join(".cursor"),
    user_files: &["mcp.json"],
    project_files: Ok(&[".cursor/mcp.json"]),
    user_paths: None,
    project_paths: &[".cursor"],
    working_directory: WorkingDirectory::Other,
    project_variable: Some("${workspaceFolder}"),
    command: EntryTemplate {
        set: &[("type", Text("stdio")), ("command", Program), ("args", OptionalArguments)],
        drop: &["args", "url", "headers", "auth"],
    },
    remote: Ok(EntryTemplate {
        set: &[("url", Url), ("headers", Headers("${env:", "}"))],
        drop: &["type", "command", "args", "envFile"],
    }),
    ..CLAUDE_CODE
};

/// "MCP configuration reference" and "Variables reference" (code.visualstudio.com/docs), and
/// `mainThreadMcp.ts` of the source for the directory:
/// - The map is `servers`; each entry has a `type`.
/// - All predefined variables are replaced, `${env:NAME}` and `${workspaceFolder}` among them; the
///   latter is an error in the user's file. One report says that headers are left out (issue
///   336232). `${input:…}` would prompt for the token, and needs a second entry next to
///   `servers`.
/// - A server of a project's file is started in the project, one of the user's file in the home
///   folder.
/// - The folder is the stable release's default profile; other profiles have files of their own.
const VS_CODE: ClientProfile = ClientProfile {
    name: "vscode",
    title: "VS Code",
    programs: &["code"],
    user_folder: |environment| environment.application_data().join("Code").join("User"),
    user_files: &["mcp.json"],
    project_files: Ok(&[".vscode/mcp.json"]),
    user_paths: Some(|environment| {
        vec![
            environment.home.join(".vscode"),
            environment.application_data().join("Code").join("User"),
        ]
    }),
    project_paths: &[".vscode"],
    slot: EntrySlot { format: ConfigFormat::Json, path: &["servers"] },
    working_directory: WorkingDirectory::ProjectForProjectFile,
    command: EntryTemplate {
        set: &[("type", Text("stdio")), ("command", Program), ("args", OptionalArguments)],
        drop: &["args", "url", "headers", "oauth"],
    },
    remote: Ok(EntryTemplate {
        set: &[("type", Text("http")), ("url", Url), ("headers", Headers("${env:", "}"))],
        drop: &["command", "args", "cwd", "env", "envFile"],
    }),
    ..CLAUDE_CODE
};

/// "Model Context Protocol" and "Configuring Zed" (zed.dev/docs):
/// - The files have comments and trailing commas.
/// - Nothing is replaced in headers, so the token would have to be in the file.
/// - The user's shell starts a server (`shell_builder.rs` of the source): arguments are quoted, a
///   program without arguments is not, and some shells' variables are replaced before.
/// - A server is started in the project's first folder, whichever file names it; versions from
///   before August 2026 may start it before there is a folder.
/// - A project's settings apply after the user has trusted it.
/// - On macOS the folder is `~/.config/zed` as well.
const ZED: ClientProfile = ClientProfile {
    name: "zed",
    title: "Zed",
    // Distributions name it `zeditor`, since ZFS has a `zed`.
    programs: &["zed", "zeditor"],
    user_folder: |environment| match environment.platform {
        Platform::Linux => environment.config_home().join("zed"),
        Platform::MacOs => environment.home.join(".config/zed"),
        Platform::Windows => environment.application_data().join("Zed"),
    },
    user_files: &["settings.json"],
    project_files: Ok(&[".zed/settings.json"]),
    user_paths: None,
    project_paths: &[".zed"],
    slot: EntrySlot { format: ConfigFormat::Json, path: &["context_servers"] },
    variables: &["${", "$"],
    has_shell: true,
    // Earlier versions reject an entry without `args`.
    command: EntryTemplate {
        set: &[("command", Program), ("args", Arguments)],
        drop: &["url", "headers"],
    },
    remote: Err("Zed can't read a token from its environment, and the file must not contain it; \
                 use --transport stdio"),
    ..CLAUDE_CODE
};

/// "Model Context Protocol" and "Config basics" (developers.openai.com/codex):
/// - A project's file applies after the user has trusted the project.
/// - `CODEX_HOME` is the folder `~/.codex` itself.
/// - Nothing is replaced in values; `bearer_token_env_var` names the token's variable. A
///   `bearer_token` or a key of the other kind of server makes the whole file invalid.
/// - A server is started in the directory of `codex`, which is the project, and with few variables
///   of the environment (`env_vars` adds some).
const CODEX: ClientProfile = ClientProfile {
    name: "codex",
    title: "Codex CLI",
    programs: &["codex"],
    user_folder: |environment| environment.variable_or_home("CODEX_HOME", ".codex"),
    user_files: &["config.toml"],
    project_files: Ok(&[".codex/config.toml"]),
    user_paths: None,
    project_paths: &[".codex"],
    slot: EntrySlot { format: ConfigFormat::Toml, path: &["mcp_servers"] },
    variables: &[],
    command: EntryTemplate {
        set: &[("command", Program), ("args", OptionalArguments)],
        drop: &[
            "args",
            "url",
            "bearer_token_env_var",
            "bearer_token",
            "http_headers",
            "env_http_headers",
            "scopes",
            "oauth_resource",
        ],
    },
    remote: Ok(EntryTemplate {
        set: &[("url", Url), ("bearer_token_env_var", TokenVariable)],
        drop: &["command", "args", "env", "env_vars", "cwd", "bearer_token"],
    }),
    ..CLAUDE_CODE
};

/// "MCP servers with the Gemini CLI" and "Gemini CLI configuration" (geminicli.com/docs):
/// - `httpUrl` is a server over http for every version. New ones prefer `url` with a `type`;
///   earlier ones take any `url` for the older protocol with SSE. An entry with `url` or `httpUrl`
///   is never started, with any `command`.
/// - `$NAME`, `${NAME}` and `${NAME:-default}` are replaced in all values; an unset variable leaves
///   the text as it is.
/// - `GEMINI_CLI_HOME` is the folder that contains `.gemini`.
/// - A server is started in the directory of `gemini`, which is the project.
/// - In a folder that the user does not trust, project settings are ignored and no server starts.
const GEMINI: ClientProfile = ClientProfile {
    name: "gemini",
    title: "Gemini CLI",
    programs: &["gemini"],
    user_folder: |environment| environment.variable_or_home("GEMINI_CLI_HOME", "").join(".gemini"),
    user_files: &["settings.json"],
    project_files: Ok(&[".gemini/settings.json"]),
    // Other Google programs use the folder as well.
    user_paths: Some(|environment| vec![(GEMINI.user_folder)(environment).join("settings.json")]),
    project_paths: &[".gemini"],
    variables: &["${", "$"],
    command: EntryTemplate {
        set: &[("command", Program), ("args", OptionalArguments)],
        drop: &["args", "type", "url", "httpUrl", "headers", "oauth"],
    },
    remote: Ok(EntryTemplate {
        set: &[("httpUrl", Url), ("headers", Headers("${", "}"))],
        drop: &["command", "args", "cwd", "type", "url"],
    }),
    ..CLAUDE_CODE
};

/// "Adding MCP servers for GitHub Copilot CLI" and "GitHub Copilot CLI configuration directory"
/// (docs.github.com/copilot):
/// - In a project it also reads Claude Code's `.mcp.json`; `.github/mcp.json` is its own, so each
///   entry can be removed without the other. It does not read `.vscode/mcp.json` any more.
/// - `COPILOT_HOME` is the folder `~/.copilot` itself.
/// - `args` and `tools` are required; `["*"]` allows all tools.
/// - `"stdio"` means the same as its own `"local"`, and other clients that read its file know it.
/// - `$NAME`, `${NAME}` and `${NAME:-default}` are replaced in `command`, `args`, `env`, `url` and
///   `headers`.
/// - A server is started in the directory of `copilot`, which is the project.
/// - A project's file applies after the user has trusted the folder.
const COPILOT: ClientProfile = ClientProfile {
    name: "copilot",
    title: "Copilot CLI",
    programs: &["copilot"],
    user_folder: |environment| environment.variable_or_home("COPILOT_HOME", ".copilot"),
    user_files: &["mcp-config.json"],
    project_files: Ok(&[".github/mcp.json"]),
    // The folder alone may be VS Code's, which keeps servers there as well.
    user_paths: Some(|environment| vec![(COPILOT.user_folder)(environment).join("config.json")]),
    project_paths: &[".github/mcp.json", ".github/copilot"],
    variables: &["${", "$"],
    command: EntryTemplate {
        set: &[
            ("type", Text("stdio")),
            ("command", Program),
            ("args", Arguments),
            ("tools", List("*")),
        ],
        drop: &["url", "headers"],
    },
    remote: Ok(EntryTemplate {
        set: &[
            ("type", Text("http")),
            ("url", Url),
            ("headers", Headers("${", "}")),
            ("tools", List("*")),
        ],
        drop: &["command", "args", "cwd", "env"],
    }),
    ..CLAUDE_CODE
};

/// "Configuration" and "Security" of the MCP chapter (kiro.dev/docs), for its editor and its CLI:
/// - `${NAME}` is replaced in values, only for variables that the user has approved ("Mcp Approved
///   Env Vars"); it asks for those that it finds.
/// - A server of a project's file is started in the project. The editor starts one of the user's
///   file in the folder where Kiro is installed (issue 10486).
/// - `args` is required. A URL must use https, unless its host is localhost.
/// - `KIRO_HOME` moves only some of its files, so it is ignored here.
const KIRO: ClientProfile = ClientProfile {
    name: "kiro",
    title: "Kiro",
    programs: &["kiro", "kiro-cli"],
    user_folder: |environment| environment.home.join(".kiro"),
    user_files: &["settings/mcp.json"],
    project_files: Ok(&[".kiro/settings/mcp.json"]),
    user_paths: None,
    project_paths: &[".kiro"],
    working_directory: WorkingDirectory::ProjectForProjectFile,
    command: EntryTemplate {
        set: &[("command", Program), ("args", Arguments)],
        drop: &["type", "url", "headers", "oauth", "oauthScopes"],
    },
    remote: Ok(EntryTemplate {
        set: &[("url", Url), ("headers", Headers("${", "}"))],
        drop: &["command", "args", "type"],
    }),
    ..CLAUDE_CODE
};

/// "Config", "MCP servers" and "Migrate from v1" (opencode.ai/docs):
/// - `command` is a list with the program first; a key of the other kind of server makes the whole
///   file invalid.
/// - `{env:NAME}` and `{file:PATH}` are replaced in the text of the file, before it is parsed.
/// - Version 2 has the servers in `mcp.servers` and reads this form as well; version 1 reads only
///   this one.
/// - It adds `$schema` to a file that has none.
/// - The folder is `~/.config/opencode` on Windows too, and `XDG_CONFIG_HOME` moves it everywhere.
///   `OPENCODE_CONFIG` and `OPENCODE_CONFIG_DIR` add files and move none.
/// - A server is started in the project's folder.
/// - Without `"oauth": false` it tries to log in at a server that rejects a token.
const OPEN_CODE: ClientProfile = ClientProfile {
    name: "opencode",
    title: "OpenCode",
    programs: &["opencode"],
    user_folder: |environment| environment.config_home().join("opencode"),
    user_files: &["opencode.json", "opencode.jsonc"],
    project_files: Ok(&[
        "opencode.json",
        "opencode.jsonc",
        ".opencode/opencode.json",
        ".opencode/opencode.jsonc",
    ]),
    user_paths: Some(|environment| {
        vec![(OPEN_CODE.user_folder)(environment), environment.home.join(".opencode")]
    }),
    project_paths: &["opencode.json", "opencode.jsonc", ".opencode"],
    slot: EntrySlot { format: ConfigFormat::Json, path: &["mcp"] },
    // OpenCode would write this line itself, and the file could not be restored to the byte.
    new_file: "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n",
    variables: &["{env:", "{file:"],
    command: EntryTemplate {
        set: &[("type", Text("local")), ("command", ProgramAndArguments)],
        drop: &["args", "env", "url", "headers", "oauth"],
    },
    remote: Ok(EntryTemplate {
        set: &[
            ("type", Text("remote")),
            ("url", Url),
            ("oauth", False),
            ("headers", Headers("{env:", "}")),
        ],
        drop: &["command", "args", "cwd", "env", "environment"],
    }),
    ..CLAUDE_CODE
};

/// The properties of one client. An `Err` names a missing feature and the alternative.
pub(crate) struct ClientProfile {
    pub name: &'static str,
    pub title: &'static str,
    pub programs: &'static [&'static str],
    pub user_folder: fn(&ClientEnvironment) -> PathBuf,
    /// In the user folder. The first that exists is used, else the first.
    pub user_files: &'static [&'static str],
    /// In the project, with the same rule.
    pub project_files: Result<&'static [&'static str], &'static str>,
    /// Files and folders that show that the user has the client, if not the user folder.
    pub user_paths: Option<fn(&ClientEnvironment) -> Vec<PathBuf>>,
    /// Files and folders that show that the project is used with the client.
    pub project_paths: &'static [&'static str],
    pub slot: EntrySlot,
    pub new_file: &'static str,
    pub working_directory: WorkingDirectory,
    pub project_variable: Option<&'static str>,
    /// Beginnings of variables that the client replaces in values. `$` is one only before a name.
    pub variables: &'static [&'static str],
    /// True if the client passes a program without arguments to a shell.
    pub has_shell: bool,
    pub command: EntryTemplate,
    pub remote: Result<EntryTemplate, &'static str>,
}

/// The directory in which a client starts a server.
#[derive(Clone, Copy)]
pub(crate) enum WorkingDirectory {
    Project,
    ProjectForProjectFile,
    Other,
}

/// An entry for one kind of server.
pub(crate) struct EntryTemplate {
    pub set: &'static [(&'static str, TemplateField)],
    /// Keys to remove because they belong to the other kind of server. `args`, if listed, is first
    /// and is removed only if it is not set.
    pub drop: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub(crate) enum TemplateField {
    Text(&'static str),
    False,
    /// A list of one string.
    List(&'static str),
    Program,
    Arguments,
    /// Omitted if there are none.
    OptionalArguments,
    ProgramAndArguments,
    Url,
    /// `Authorization` with the token's variable between these texts.
    Headers(&'static str, &'static str),
    TokenVariable,
}
