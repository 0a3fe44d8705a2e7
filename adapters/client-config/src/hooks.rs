//! The hooks of clients: commands whose output a client adds to a conversation.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::{Client, ConfigScope};
use crate::environment::ClientEnvironment;
use crate::error::ConfigError;

/// The event that runs a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// A conversation begins.
    Session,
    /// The user has sent a prompt, which the hook reads from standard input.
    Prompt,
}

impl HookEvent {
    pub const ALL: [Self; 2] = [Self::Session, Self::Prompt];

    /// As in the hook's command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Prompt => "prompt",
        }
    }
}

/// A hook for an event. Only clients whose hook is known to work have one.
#[derive(Debug)]
pub struct ClientHook {
    pub client: Client,
    pub event: HookEvent,
    /// The file of the project that only its user has. Without one, all hooks are in `user_file`.
    project_file: Option<&'static str>,
    /// In the client's folder.
    user_file: &'static str,
    /// The path of the list of hooks in the file. It ends with the client's name of the event.
    pub path: &'static [&'static str],
    /// The kinds of sessions, one entry for each, and an empty text for all; no text if the client
    /// has no such entries. Resumed sessions contain the text already.
    matchers: &'static [&'static str],
    command_key: &'static str,
    /// The client's time limit, in its unit. The hook ends earlier by itself.
    timeout: (&'static str, u32),
    answer: HookAnswer,
    /// The text of a new file.
    pub new_file: &'static str,
    /// A client whose hook is also run by this client.
    pub also_runs: Option<Client>,
    /// Advice for the user after the hook is written.
    pub advice: &'static str,
}

/// The JSON that a client reads from its hook.
#[derive(Debug, Clone, Copy)]
enum HookAnswer {
    /// `hookSpecificOutput`, in Claude Code's format.
    Nested,
    /// A single key.
    Key(&'static str),
}

/// "Hooks reference" (code.claude.com/docs): the file `settings.local.json` is the user's own.
/// Top-level keys of an answer are ignored, and plain text would reach VS Code as an error.
const CLAUDE_CODE: ClientHook = ClientHook {
    client: Client::ClaudeCode,
    event: HookEvent::Session,
    project_file: Some(".claude/settings.local.json"),
    user_file: "settings.json",
    path: &["hooks", "SessionStart"],
    matchers: &["startup|clear|compact"],
    command_key: "command",
    timeout: ("timeout", 5),
    answer: HookAnswer::Nested,
    new_file: "",
    also_runs: None,
    advice: "",
};

/// "Hooks" (developers.openai.com/codex): `hooks.json` may have no other keys than `hooks` and
/// `description`. An answer must not have unknown keys.
const CODEX: ClientHook = ClientHook {
    client: Client::Codex,
    project_file: None,
    user_file: "hooks.json",
    advice: "Codex skips the hook until you trust it: run /hooks in Codex and trust it there, also \
             after each change of the hook",
    ..CLAUDE_CODE
};

/// "Hooks reference" (geminicli.com/docs): a matcher of a session is compared as a whole, and
/// timeouts are in milliseconds.
const GEMINI: ClientHook = ClientHook {
    client: Client::Gemini,
    project_file: None,
    matchers: &["startup", "clear"],
    timeout: ("timeout", 5_000),
    ..CLAUDE_CODE
};

/// "GitHub Copilot CLI hooks reference" (docs.github.com/copilot). In trusted folders it also runs
/// the hooks of Claude Code, but version 1.0.102 ignores their nested answer.
const COPILOT: ClientHook = ClientHook {
    client: Client::Copilot,
    project_file: None,
    user_file: "hooks/reqlore.json",
    path: &["hooks", "sessionStart"],
    matchers: &[],
    command_key: "bash",
    timeout: ("timeoutSec", 5),
    answer: HookAnswer::Key("additionalContext"),
    new_file: VERSION_FILE,
    ..CLAUDE_CODE
};

/// "Hooks" and "Third party hooks" (cursor.com/docs): with third-party configuration turned on, it
/// also runs the hooks of Claude Code.
const CURSOR: ClientHook = ClientHook {
    client: Client::Cursor,
    project_file: None,
    user_file: "hooks.json",
    path: &["hooks", "sessionStart"],
    matchers: &[],
    answer: HookAnswer::Key("additional_context"),
    new_file: VERSION_FILE,
    also_runs: Some(Client::ClaudeCode),
    ..CLAUDE_CODE
};

/// Prompts have no kinds. `additionalContext` is added to the prompt.
const CLAUDE_CODE_PROMPT: ClientHook = CLAUDE_CODE.at_prompts(&["hooks", "UserPromptSubmit"]);
const CODEX_PROMPT: ClientHook = CODEX.at_prompts(CLAUDE_CODE_PROMPT.path);
const GEMINI_PROMPT: ClientHook = GEMINI.at_prompts(&["hooks", "BeforeAgent"]);

/// All hooks that are known to work.
pub const HOOKS: &[ClientHook] =
    &[CLAUDE_CODE, CLAUDE_CODE_PROMPT, CODEX, CODEX_PROMPT, GEMINI, GEMINI_PROMPT, COPILOT, CURSOR];

const VERSION_FILE: &str = "{\n  \"version\": 1\n}\n";

impl Client {
    /// `None` if no hook of the client is known to work.
    pub fn hook(self, event: HookEvent) -> Option<&'static ClientHook> {
        HOOKS.iter().find(|hook| hook.client == self && hook.event == event)
    }
}

impl ClientHook {
    const fn at_prompts(self, path: &'static [&'static str]) -> Self {
        Self { event: HookEvent::Prompt, path, matchers: &[""], ..self }
    }

    /// The file of the hook and its scope. A file of the project is its user's own too.
    pub fn location(
        &self,
        scope: ConfigScope,
        environment: &ClientEnvironment,
    ) -> (ConfigScope, PathBuf) {
        match self.project_file {
            Some(file) if scope == ConfigScope::Project => (scope, environment.project.join(file)),
            _ => (ConfigScope::User, self.client.hook_folder(environment).join(self.user_file)),
        }
    }

    /// The entries that run a command, for [`crate::edit::put_hook`].
    pub fn entries(&self, command: &str) -> Result<Vec<Value>, ConfigError> {
        self.client.check_hook_command(command)?;
        let (timeout, limit) = self.timeout;
        let hook = json!({ "type": "command", self.command_key: command, timeout: limit });
        if self.matchers.is_empty() {
            return Ok(vec![hook]);
        }
        let entry = |matcher: &&str| match *matcher {
            "" => json!({ "hooks": [hook] }),
            matcher => json!({ "matcher": matcher, "hooks": [hook] }),
        };
        Ok(self.matchers.iter().map(entry).collect())
    }

    /// The answer that adds a text to the conversation.
    pub fn answer(&self, text: &str) -> Value {
        match self.answer {
            HookAnswer::Nested => json!({
                "hookSpecificOutput": {
                    "hookEventName": self.path.last(),
                    "additionalContext": text,
                }
            }),
            HookAnswer::Key(key) => json!({ key: text }),
        }
    }

    /// The text in an [`answer`](Self::answer).
    pub fn text_of<'a>(&self, answer: &'a Value) -> Option<&'a str> {
        match self.answer {
            HookAnswer::Nested => answer["hookSpecificOutput"]["additionalContext"].as_str(),
            HookAnswer::Key(key) => answer[key].as_str(),
        }
    }
}
