//! The hooks that `reqlore init` writes, run by the documented rules of each client.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use reqlore_client_config::{Client, ConfigScope, HookEvent};
use serde_json::{Value, json};

use crate::init::{Place, output};

/// Above it, Claude Code shows a preview and Codex cuts the text.
const MAX_CONTEXT_CHARS: usize = 10_000;

/// The documented rules of a client's hooks.
struct HookRules {
    client: Client,
    /// Its names of the events; the second is absent if prompts get no context.
    events: [Option<&'static str>; 2],
    /// A matcher is one name, not several with `|`.
    has_exact_matchers: bool,
    /// The key of a limit, and its units in a second.
    timeout: (&'static str, u64),
    /// The key of the text in the answer; `None` for `hookSpecificOutput`.
    answer_key: Option<&'static str>,
    /// Clients whose files it reads, also its own.
    reads: &'static [Client],
}

const NESTED: HookRules = HookRules {
    client: Client::ClaudeCode,
    events: [Some("SessionStart"), Some("UserPromptSubmit")],
    has_exact_matchers: false,
    timeout: ("timeout", 1),
    answer_key: None,
    reads: &[Client::ClaudeCode],
};

const RULES: [HookRules; 5] = [
    NESTED,
    HookRules { client: Client::Codex, reads: &[Client::Codex], ..NESTED },
    HookRules {
        client: Client::Gemini,
        events: [Some("SessionStart"), Some("BeforeAgent")],
        has_exact_matchers: true,
        timeout: ("timeout", 1_000),
        reads: &[Client::Gemini],
        ..NESTED
    },
    HookRules {
        client: Client::Copilot,
        events: [Some("sessionStart"), None],
        timeout: ("timeoutSec", 1),
        answer_key: Some("additionalContext"),
        reads: &[Client::Copilot],
        ..NESTED
    },
    // With third-party configuration turned on.
    HookRules {
        client: Client::Cursor,
        events: [Some("sessionStart"), None],
        answer_key: Some("additional_context"),
        reads: &[Client::ClaudeCode, Client::Cursor],
        ..NESTED
    },
];

impl HookRules {
    /// The texts that the hooks add to a conversation. `source` is the kind of session.
    fn added_texts(
        &self,
        place: &Place,
        event: HookEvent,
        source: &str,
        input: &Value,
    ) -> Vec<String> {
        let mut texts = Vec::new();
        let has_event = self.events[event as usize].is_some();
        for owner in self.reads.iter().filter(|_| has_event) {
            let rules = RULES.iter().find(|rules| rules.client == *owner).unwrap();
            let Some(name) = rules.events[event as usize] else { continue };
            let mut files: Vec<PathBuf> = ConfigScope::ALL
                .map(|scope| {
                    owner.hook(HookEvent::Session).unwrap().location(scope, &place.environment()).1
                })
                .into();
            files.dedup();
            for file in files {
                let Ok(text) = fs::read_to_string(file) else { continue };
                let settings: Value = serde_json::from_str(&text).unwrap();
                for entry in settings["hooks"][name].as_array().into_iter().flatten() {
                    texts.extend(rules.run_entry(place, entry, name, source, input));
                }
            }
        }
        texts
    }

    fn run_entry(
        &self,
        place: &Place,
        entry: &Value,
        name: &str,
        source: &str,
        input: &Value,
    ) -> Option<String> {
        let matcher = entry["matcher"].as_str().unwrap_or_default();
        let is_match = if self.has_exact_matchers {
            matcher == source
        } else {
            matcher.split('|').any(|one| one == source)
        };
        if !matcher.is_empty() && !is_match {
            return None;
        }
        let hook = match entry["hooks"].as_array() {
            Some(hooks) => hooks.first().unwrap(),
            None => entry,
        };
        assert_eq!(hook["type"], "command");
        let (key, units) = self.timeout;
        assert!((units..=10 * units).contains(&hook[key].as_u64().unwrap()), "{hook}");
        let command = hook["command"].as_str().or(hook["bash"].as_str()).unwrap();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env_clear().env("HOME", place.at("home"));
        shell.env("REQLORE_CACHE", "off").current_dir(place.at("project"));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = shell.spawn().unwrap();
        let _ = running.stdin.take().unwrap().write_all(input.to_string().as_bytes());
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut keys = answer.as_object().unwrap().keys();
        if keys.len() == 0 {
            return None;
        }
        let text = if let Some(key) = self.answer_key {
            &answer[key]
        } else {
            let output = &answer["hookSpecificOutput"];
            assert_eq!(output["hookEventName"], name, "{answer}");
            assert_eq!(output.as_object().unwrap().len(), 2, "no unknown keys: {answer}");
            &output["additionalContext"]
        };
        assert!(keys.next().is_some() && keys.next().is_none(), "no unknown keys: {answer}");
        let text = text.as_str().unwrap().to_owned();
        assert!(text.chars().count() <= MAX_CONTEXT_CHARS);
        Some(text)
    }
}

#[test]
fn hooks_add_their_text_once_by_the_rules_of_each_client() {
    let place = Place::new();
    let mut init = vec!["--hooks", "prompt", "--yes"];
    for rules in &RULES {
        init.extend(["--client", rules.client.name()]);
    }
    place.ok(&init);
    let mut add = place.command();
    add.args(["add", "decision", "Refunds go back to the same card", "--status", "accepted"]);
    assert_eq!(output(&mut add).0, 0);
    for rules in &RULES {
        let client = rules.client;
        let start = |source| {
            let input = json!({ "hook_event_name": "SessionStart", "source": source });
            rules.added_texts(&place, HookEvent::Session, source, &input)
        };
        let [text] = &start("startup")[..] else { panic!("{client}: {:?}", start("startup")) };
        assert!(text.len() <= 1_600 && text.contains("Refunds go back"), "{client}: {text}");
        let has_sources = rules.answer_key.is_none();
        assert_eq!(start("clear").len(), 1, "{client}");
        // A resumed session contains the text already.
        assert_eq!(start("resume").is_empty(), has_sources || client == Client::Cursor, "{client}");
        let ask = |prompt: &str| {
            let input = json!({ "prompt": prompt, "cwd": place.at("project") });
            rules.added_texts(&place, HookEvent::Prompt, "", &input)
        };
        let count = usize::from(rules.events[1].is_some());
        let texts = ask("Where do refunds go, back to the card?");
        assert_eq!(texts.len(), count, "{client}: {texts:?}");
        assert!(texts.iter().all(|text| text.len() <= 1_200 && text.contains("Refunds go back")));
        assert_eq!(ask("$(touch owned); `id` \u{1b}[2J").len(), 0, "{client}");
        assert!(!place.at("project/owned").try_exists().unwrap());
    }
}
