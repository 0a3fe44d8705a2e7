//! `get_context`: the texts that an assistant needs for a task, items or changed files.

use async_trait::async_trait;
use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::context::{ContextData, EntryData};
use reqlore_domain::records::answers::document_label::SECTION_REQUIREMENT;
use reqlore_domain::task_context::words::path_words;
use reqlore_domain::task_context::{ContextCandidates, ShownEntry, TaskContext, choose_entries};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::always_rules::{AlwaysRules, always_rules};
use super::found_texts::{FoundTexts, TextSearch};
use super::linked_texts::NamedTexts;
use crate::addresses::address::{Address, AddressSpace};
use crate::addresses::links::LinkReader;
use crate::answers::answer::{Answer, BYTES_PER_TOKEN, ToolAnswer, serialization_error};
use crate::answers::empty_answer::add_reason;
use crate::backlog::search_global::{EntityType, parse_entity_types, query_kinds};
use crate::tools::tool::{Tool, ToolRequest, whole_tool};

pub(crate) struct GetContext;

const DEFAULT_TOKENS: usize = 1_500;
const MAX_ITEMS: usize = 50;
const MAX_FILES: usize = 1_000;
const MAX_KINDS: usize = 20;
/// A search returns one candidate for this number of tokens, within the limits below.
const TOKENS_PER_CANDIDATE: usize = 20;
const MIN_CANDIDATES: usize = 50;
const MAX_CANDIDATES: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// In words.
    task: Option<BoundedString<10_000>>,
    /// IDs.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    items: Vec<BoundedString<1_000>>,
    /// Changed paths.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    files: Vec<BoundedString<4_096>>,
    /// Such as decision.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    kinds: Vec<BoundedString<100>>,
    /// 200 to 20000, default 1500.
    max_tokens: Option<BoundedInt<200, 20_000>>,
}

impl Arguments {
    /// `None` for a blank one.
    fn task(&self) -> Option<&str> {
        self.task.as_ref().map(BoundedString::as_str).filter(|task| !task.trim().is_empty())
    }
}

#[async_trait]
impl Tool for GetContext {
    fn spec(&self) -> ToolSpec {
        whole_tool::<Arguments, ContextData>(
            "get_context",
            "Get context",
            "Returns the requirements, rules and decisions that a task, items or changed files \
             must respect. Call it before you start work.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let (caller, project) = (&call.caller, &call.caller.project);
        check_arguments(&arguments)?;
        let task = arguments.task();
        let Arguments { items, files, kinds, max_tokens, .. } = &arguments;
        let max_tokens = max_tokens.map_or(DEFAULT_TOKENS, BoundedInt::get);
        let max_bytes = max_tokens * BYTES_PER_TOKEN;
        let types = parse_entity_types(kinds)?;
        let is_wanted = |kind: &str| types.is_empty() || is_of_types(kind, &types);
        let space = AddressSpace::of_caller(context, caller).await?;
        let mut addresses: Vec<Address> = Vec::new();
        for item in items {
            let address = space.resolve_folded(item.as_str(), "items").await?;
            if !addresses.iter().any(|other| other.target.id() == address.target.id()) {
                addresses.push(address);
            }
        }
        let mut named = NamedTexts::read(context, &addresses, max_bytes, &is_wanted).await?;
        let mut enabled = LinkReader { ports: &context.ports, project }.kinds();
        let (wanted, item_kinds) = query_kinds(&types);
        enabled.retain(|kind| wanted.is_empty() || wanted.contains(kind));
        let search = TextSearch {
            context,
            project,
            progress: &*call.progress_sink,
            document_kinds: enabled,
            item_kinds,
            limit: (max_tokens / TOKENS_PER_CANDIDATE).clamp(MIN_CANDIDATES, MAX_CANDIDATES),
            max_bytes,
        };
        let mut known = std::mem::take(&mut named.ids);
        let AlwaysRules { entries: mut rules, problems } =
            always_rules(&context.ports, project, max_bytes).await?;
        rules.retain(|rule| is_wanted(&rule.label.kind) && known.insert(rule.label.id.clone()));
        let path_words = path_words(files.iter().map(BoundedString::as_str));
        let found = search.find(task, path_words.as_deref(), &known).await?;
        let FoundTexts { entries: mut found, is_weak, pending_note } = found;
        found.retain(|entry| is_wanted(&entry.label.kind));
        let is_story = matches!(&addresses[..], [one] if one.target.kind() == "user_story");
        let NamedTexts { named, linked, ended, .. } = named;
        let candidates =
            ContextCandidates { named, linked, rules, found, ended, is_story, is_weak };
        let mut notes: Vec<String> = pending_note.into_iter().collect();
        notes.extend(problem_note(&problems));
        // With the separator and the word before a note.
        let note_bytes: usize = notes.iter().map(|note| note.len() + 8).sum();
        let chosen = choose_entries(candidates, max_bytes.saturating_sub(note_bytes));
        let is_empty = chosen.entries.is_empty();
        let mut answer = ToolAnswer::new(ContextAnswer(chosen));
        answer.add_notes(notes);
        if is_empty {
            let kinds = &search.document_kinds;
            // The text says already that none fits.
            add_reason(&mut answer, &context.ports, caller, project, kinds, "").await?;
        }
        Ok(answer)
    }
}

fn check_arguments(arguments: &Arguments) -> Result<()> {
    let Arguments { items, files, kinds, .. } = arguments;
    let fail = |field: &str, problem: String| {
        let message = format!("Invalid arguments. {field}: {problem}.");
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    };
    if arguments.task().is_none() && items.is_empty() && files.is_empty() {
        return fail("task", "missing; pass task, items or files".to_owned());
    }
    for (field, count, limit) in [
        ("items", items.len(), MAX_ITEMS),
        ("files", files.len(), MAX_FILES),
        ("kinds", kinds.len(), MAX_KINDS),
    ] {
        if count > limit {
            return fail(field, format!("has {count} entries; send at most {limit}"));
        }
    }
    Ok(())
}

/// The first problem of the sections whose rules always hold.
fn problem_note(problems: &[String]) -> Option<String> {
    let (first, rest) = problems.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        count => format!("; {count} more, see `reqlore check`"),
    };
    Some(format!("{first}{more}."))
}

fn is_of_types(kind: &str, types: &[EntityType]) -> bool {
    types.iter().any(|one| match one.name() {
        "section" => [SECTION_REQUIREMENT, "section"].contains(&kind),
        "knowledge" => EntityType::DOCUMENTS.iter().all(|other| other.name() != kind),
        name => name == kind,
    })
}

struct ContextAnswer(TaskContext);

impl Answer for ContextAnswer {
    fn part_count(&self) -> usize {
        self.0.entries.len()
    }

    fn text(&self, parts: usize) -> String {
        self.0.text(parts)
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let shown = self.0.entries.iter().take(parts);
        let cut = shown.clone().filter_map(cut_report).collect();
        let entries = shown.map(|one| EntryData {
            label: one.entry.label.clone(),
            reason: one.entry.reason.name().into(),
            relation: one.entry.relation.clone(),
            claim: one.entry.claim.clone(),
            version: one.entry.version.clone(),
            text: one.text().to_owned(),
        });
        let data = ContextData {
            entries: entries.collect(),
            omitted: self.0.omitted_after(parts),
            uncertain: self.0.is_uncertain,
            cut,
        };
        serde_json::to_value(data).map_err(serialization_error)
    }
}

/// Names the part of a text that is shown, if the text is not whole.
fn cut_report(shown: &ShownEntry) -> Option<String> {
    let id = &shown.entry.label.id;
    let count = shown.text().chars().count();
    match (shown.is_cut(), count) {
        (false, _) => None,
        (true, 0) => Some(format!("{id}: no text")),
        (true, _) => Some(format!("{id}: the first {count} characters")),
    }
}
