//! `reqlix_get_requirements`: returns a section byte for byte, or some of its rules.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{DocumentFilter, count_documents};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::sections::SectionDetails;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::sections::selection::{IndexSelection, MAX_LIST_CHARS};
use reqlore_domain::sections::{NO_REQUIREMENTS, Section};
use reqlore_domain::untrusted_text::encode_id;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{OperationDescription, ProjectRoot};
use crate::addresses::address::AddressSpace;
use crate::addresses::addressed_text::AddressedText;
use crate::answers::answer::{ToolAnswer, body_answer};
use crate::answers::empty_answer::add_reason;
use crate::context::ToolContext;
use crate::tools::tool::{Tool, ToolRequest, whole_tool};

#[derive(Default)]
pub(crate) struct GetRequirements {
    counts: CountCache,
}

/// Number of requirements by section version, so that an unchanged section is parsed once.
#[derive(Default)]
struct CountCache {
    counts: Mutex<HashMap<Version, usize>>,
}

impl CountCache {
    const MAX_ENTRIES: usize = 1_000;

    fn requirement_count(&self, version: Version, text: &str) -> usize {
        if let Some(count) = self.lock().get(&version) {
            return *count;
        }
        // Parse without the lock, so that other calls need not wait.
        let count = Section::parse(text).requirements().len();
        let mut counts = self.lock();
        // Any section may make room, because it is parsed in microseconds.
        if counts.len() >= Self::MAX_ENTRIES
            && let Some(other) = counts.keys().next().copied()
        {
            counts.remove(&other);
        }
        counts.insert(version, count);
        count
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Version, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path to the project root directory. Used to locate requirements and project source code.
    project_root: ProjectRoot,
    /// Brief description of the operation that LLM intends to perform.
    /// Used to provide relevant instructions.
    operation_description: OperationDescription,
    /// Section key (e.g., "general", "testing", "code_quality").
    #[schemars(with = "SectionKey")]
    section: BoundedString<100>,
    /// Only these rules, e.g. "3..7, 12, R.1..R.4".
    #[schemars(with = "String", length(max = MAX_LIST_CHARS))]
    #[serde(default)]
    indices: Option<IndexSelection>,
}

#[async_trait]
impl Tool for GetRequirements {
    fn spec(&self) -> ToolSpec {
        whole_tool::<Arguments, SectionDetails>(
            "reqlix_get_requirements",
            "Show the rules of a section",
            "Returns all requirements in the specified section.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let (caller, ports) = (&request.call.caller, &request.context.ports);
        let project = super::resolve_project(ports, caller, &arguments.project_root).await?;
        let write = request.write_context(arguments.operation_description.into_string());
        let key = arguments.section.into_string();
        let mut readable_key = parse_readable_key(&key)?;
        if let Some(key) = &mut readable_key {
            super::use_stored_key(ports, &project, key).await?;
        }
        let (_, section) =
            super::read_documents(ports, &project, readable_key.as_ref(), write).await?;
        let mut details = SectionDetails {
            project: project.to_string(),
            section: key,
            version: None,
            count: 0,
            total: None,
            missing: Vec::new(),
            text: String::new(),
        };
        let Some(section) = section else {
            return missing_section(request.context, caller, &project, readable_key, details).await;
        };
        let version = section.version;
        details.version = Some(version.to_string());
        details.text = super::into_document_text(section)?;
        match &arguments.indices {
            Some(indices) => select_rules(&mut details, indices)?,
            None => details.count = self.counts.requirement_count(version, &details.text),
        }
        let mut answer = body_answer(details.text.clone(), &details)?;
        answer.add_notes(section_notes(&details, &project));
        Ok(answer)
    }
}

/// Reduces the text to the rules with these indices.
fn select_rules(details: &mut SectionDetails, indices: &IndexSelection) -> Result<()> {
    let section = Section::parse(&details.text);
    let selected = section.select(indices);
    if selected.count == 0 {
        let all: Vec<&str> = section.requirements().iter().map(|rule| rule.index).collect();
        let missing = selected.missing.join(", ");
        let reason = super::existing_values(&missing, "rules", &all, all.len());
        let error = Error::new(ErrorKind::NotFound, format!("indices: {reason}"));
        return Err(error.field("indices").reference(missing));
    }
    details.total = Some(section.requirements().len());
    details.count = selected.count;
    details.missing = selected.missing;
    details.text = selected.text;
    Ok(())
}

fn section_notes(details: &SectionDetails, project: &ProjectKey) -> Vec<String> {
    let label = super::section_label(project, &details.section);
    let version = details.version.as_deref().map_or("", super::short_version);
    let rules = match details.total {
        Some(total) => format!("{} of {}", details.count, super::count_rules(total)),
        None => super::count_rules(details.count),
    };
    let mut notes = vec![format!("{label} at version {version}, {rules}.")];
    if !details.missing.is_empty() {
        notes.push(format!("no rule has these indices: {}.", details.missing.join(", ")));
    }
    notes
}

/// The answer for a section that does not exist.
async fn missing_section(
    context: &ToolContext,
    caller: &Caller,
    project: &ProjectKey,
    key: Option<SectionKey>,
    mut details: SectionDetails,
) -> Result<ToolAnswer> {
    // A key that cannot be created is missing like any other, unless it looks like a path.
    if let Some(key) = key.filter(|key| key.as_str().contains("..")) {
        key.check_new().map_err(|reason| super::section_error(&reason))?;
    }
    if let Some(other) = read_other_id(context, caller, project, &details.section).await? {
        details.text = other.body;
        let mut answer = body_answer(details.text.clone(), &details)?;
        let (id, version) = (encode_id(&other.id), super::short_version(&other.version));
        answer.add_notes([format!("text of {id} at version {version}.")]);
        return Ok(answer);
    }
    NO_REQUIREMENTS.clone_into(&mut details.text);
    let mut answer = body_answer(details.text.clone(), &details)?;
    let ports = &context.ports;
    let kinds = [DocumentKind::Section];
    let page = ports.documents.find(project, &DocumentFilter::of_kind(kinds[0])).await?;
    let keys: Vec<&str> = page.metadata.iter().map(|meta| meta.id.name.as_str()).collect();
    let count = match page.next_name {
        None => keys.len(),
        Some(_) => count_documents(&*ports.documents, project, kinds[0]).await?,
    };
    let excluded = super::existing_values(&details.section, "sections", &keys, count);
    add_reason(&mut answer, ports, caller, project, &kinds, &excluded).await?;
    Ok(answer)
}

/// A key that no file can have reads as missing (`None`), unless it looks like a path.
fn parse_readable_key(key: &str) -> Result<Option<SectionKey>> {
    match SectionKey::try_from(key.to_owned()) {
        Ok(readable_key) => Ok(Some(readable_key)),
        Err(reason) if key.contains(|c: char| c == '/' || c == '\\' || c.is_control()) => {
            Err(super::section_error(&reason))
        }
        Err(reason) if key.contains("..") => Err(super::section_error(&reason)),
        Err(_) => Ok(None),
    }
}

/// Reads an ID of another toolset, or of one rule, that was passed as a section.
async fn read_other_id(
    context: &ToolContext,
    caller: &Caller,
    project: &ProjectKey,
    key: &str,
) -> Result<Option<AddressedText>> {
    let space = AddressSpace::of_project(context, caller, project.clone());
    match space.find(key).await {
        // A docset, or an entity with a custom ID, may have the name of a missing section.
        Ok(Some(address)) if address.target.is_unmistakable() => {
            Ok(Some(address.read_text(context).await?))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use reqlore_domain::error::ErrorKind;
    use reqlore_domain::ports::documents::MockDocumentRepository;
    use serde_json::{Value, json};

    use crate::test_support::{TestApplication, references};

    const TOOL: &str = "reqlix_get_requirements";

    // S1: G.3.2, G.3.3
    #[tokio::test]
    async fn get_section_with_any_name_returns_all_bytes() {
        let testing = TestApplication::new();
        let body = "\u{feff}# Title\r\n\r\nprose\r\n\r\n**1.** one";
        testing.write(DocumentId::section("my notes"), body).await;
        let answer = testing.call(TOOL, json!({ "section": "my notes" })).await.unwrap();
        assert_eq!((&answer.data["text"], &answer.data["count"]), (&json!(body), &json!(1)));
        let version = &answer.data["version"].as_str().unwrap()[..8];
        let note = format!("Note: section \"my notes\" at version {version}, 1 rule.");
        assert_eq!(answer.text, format!("{body}\n\n{note}"));
    }

    // S1: G.3.3
    #[tokio::test]
    async fn get_indices_returns_these_rules_and_names_missing_ones() {
        let testing = TestApplication::new();
        let body = "# Checkout\n\n**1.** a\n\n**2.** b\n\n**3.** c\n\n**R.1.** r\n";
        testing.write(DocumentId::section("checkout"), body).await;
        let get = |indices: Value| json!({ "section": "checkout", "indices": indices });
        let answer = testing.call(TOOL, get(json!("R.1, 2..9, 12"))).await.unwrap();
        let text = "**2.** b\n\n**3.** c\n\n**R.1.** r";
        assert_eq!((&answer.data["text"], &answer.data["count"]), (&json!(text), &json!(3)));
        assert_eq!((&answer.data["total"], &answer.data["missing"]), (&json!(4), &json!(["12"])));
        assert!(answer.text.starts_with(&format!("{text}\n\nNote: section checkout at version ")));
        let note = ", 3 of 4 rules.\nNote: no rule has these indices: 12.";
        assert!(answer.text.ends_with(note), "{}", answer.text);
        assert_eq!(testing.data(TOOL, get(json!([1]))).await["text"], "**1.** a");

        let error = testing.error(TOOL, get(json!("7, 8"))).await;
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::NotFound, Some("indices")));
        let expected = "indices: \"7, 8\" does not exist; the rules are: 1, 2, 3, R.1";
        assert_eq!(error.message, expected);
        let error = testing.error(TOOL, get(json!("1..R.1"))).await;
        assert!(error.message.contains("indices: 1..R.1 spans two groups"), "{error}");
    }

    #[tokio::test]
    async fn text_outside_of_rules_is_found_and_read_as_the_section() {
        let testing = TestApplication::new();
        let body = "# Checkout\n\nBecause of chargebacks.\n\n**1.** Ask for a card.\n";
        testing.write(DocumentId::section("checkout"), body).await;
        let found = testing.data("search_global", json!({ "query": "chargebacks" })).await;
        assert_eq!(references(&found["results"]), ["checkout"]);
        let item = testing.data("get_item", json!({ "reference": "checkout" })).await;
        assert_eq!(item["item"]["text"], body);
    }

    // S1: G.3.4, C.1
    #[tokio::test]
    async fn get_missing_section_says_so_and_creates_agents_md() {
        let testing = TestApplication::new();
        let answer = testing.call(TOOL, json!({ "section": "general" })).await.unwrap();
        assert_eq!(answer.data["text"], "No requirements in this section.");
        let text = "No requirements in this section.\n\nNote: This project has no sections yet.";
        assert_eq!(answer.text, text);
        assert!(testing.body(DocumentId::instructions()).await.is_some());
    }

    // S1: G.3.4
    #[tokio::test]
    async fn get_missing_section_with_an_odd_name_reads_as_missing() {
        let testing = TestApplication::new();
        for section in ["имя", "a.b", "con", "my notes", "-x", "agents", "AGENTS", ".x", " x"] {
            let answer = testing.call(TOOL, json!({ "section": section })).await.unwrap();
            assert_eq!(answer.data["text"], "No requirements in this section.", "{section}");
            assert_eq!(answer.data["version"], json!(null), "{section}");
        }
        for section in ["a/b", "a\\b", "..", "a..b", "../a", "a\n"] {
            let error = testing.error(TOOL, json!({ "section": section })).await;
            assert_eq!(error.field.as_deref(), Some("section"), "{section}");
        }
    }

    // S1: P.2
    #[tokio::test]
    async fn get_with_invalid_arguments_does_not_reach_the_store() {
        let testing = TestApplication::on(MockDocumentRepository::new());
        for section in ["../x", "a/b", "", "a\0"] {
            let error = testing.error(TOOL, json!({ "section": section })).await;
            assert_eq!(error.field.as_deref(), Some("section"));
        }
    }

    // S1: G.3.3
    #[tokio::test]
    async fn section_is_found_in_each_form_of_its_letters() {
        let testing = TestApplication::new();
        for (stored, typed) in [
            ("u\u{308}bersicht", "\u{fc}bersicht"),
            ("\u{e9}tude", "e\u{301}tude"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("Vie\u{323}\u{302}t", "Vi\u{1ec7}t"),
            ("\u{212b}", "\u{c5}"),
            ("\u{438}\u{306}", "\u{439}"),
        ] {
            testing.write(DocumentId::section(stored), "**1.** One.\n").await;
            for key in [stored, typed] {
                let arguments = json!({ "section": key });
                let text = testing.text("reqlix_get_requirements", arguments).await;
                assert!(text.contains("One."), "{key}: {text}");
                let text =
                    testing.text("get_item", json!({ "reference": format!("{key}:1") })).await;
                assert!(text.contains("One."), "{key}: {text}");
            }
            let set = json!({ "section": typed, "index": 2, "text": "Two." });
            testing.call("reqlix_set_requirements", set).await.unwrap();
            let delete = json!({ "section": typed, "index": 1 });
            testing.call("reqlix_delete_requirements", delete).await.unwrap();
            let body = testing.body(DocumentId::section(stored)).await;
            assert_eq!(body.as_deref(), Some("**2.** Two.\n"), "{typed}");
        }
        let text =
            testing.text("reqlix_get_requirements", json!({ "section": "\u{fb01}le" })).await;
        assert!(text.starts_with("No requirements in this section."), "{text}");
    }
}
