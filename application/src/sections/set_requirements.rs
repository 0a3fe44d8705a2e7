//! `reqlix_set_requirements`: adds or changes one rule and updates the list of sections.

use async_trait::async_trait;
use reqlore_domain::bounded_types::{BoundedString, deserialize_text};
use reqlore_domain::document::{Document, DocumentId, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, Snapshot};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::applied_changes::RenumberedRule;
use reqlore_domain::records::answers::sections::{IndexChange, SetRule};
use reqlore_domain::sections::mentions::requirement_title;
use reqlore_domain::sections::requirement_index::{RequirementIndex, SectionKey};
use reqlore_domain::sections::upsert::SetOutcome;
use reqlore_domain::sections::{MAX_REQUIREMENT_CHARS, Section};
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{OperationDescription, ProjectRoot};
use crate::answers::answer::{ToolAnswer, body_answer};
use crate::tools::tool::{Tool, ToolRequest, write_tool};
use crate::writes::transaction::commit_decision;
use crate::writes::write_guard::CallGuard;

pub(crate) struct SetRequirements;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path to the project root directory. Used to locate requirements and project source code.
    project_root: ProjectRoot,
    /// Brief description of the operation that LLM intends to perform.
    /// Used to provide relevant instructions.
    operation_description: OperationDescription,
    /// Section key (e.g., "general", "testing", "code_quality").
    section: SectionKey,
    /// Requirement index (e.g., "1", "2.1", "3").
    #[schemars(with = "RequirementIndex")]
    index: IndexArgument,
    /// Requirement text.
    text: BoundedString<MAX_REQUIREMENT_CHARS>,
    /// With index "new": inserts in front of this rule; without it, "new" appends.
    before: Option<RequirementIndex>,
    /// Expected section version.
    if_version: Option<VersionPrefix>,
}

enum IndexArgument {
    /// `new`, which is not an index.
    New,
    At(RequirementIndex),
}

impl<'de> Deserialize<'de> for IndexArgument {
    fn deserialize<D: Deserializer<'de>>(source: D) -> std::result::Result<Self, D::Error> {
        let text = deserialize_text(source)?;
        if text.trim().eq_ignore_ascii_case("new") {
            return Ok(Self::New);
        }
        RequirementIndex::try_from(text).map(Self::At).map_err(D::Error::custom)
    }
}

#[async_trait]
impl Tool for SetRequirements {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            is_whole: true,
            ..write_tool::<Arguments, SetRule>(
                "reqlix_set_requirements",
                "Add or change a rule",
                "\
Modifies a requirement in a section. To add a new requirement, specify a new index number.
Returns the added/modified requirement (text or index may be adjusted according to policies).",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let mut arguments: Arguments = request.decode()?;
        let (caller, ports) = (&request.call.caller, &request.context.ports);
        if let (IndexArgument::At(_), Some(before)) = (&arguments.index, &arguments.before) {
            let message = format!(
                "before: it needs index \"new\"; pass index: \"new\" to insert a rule in front of \
                 {before}"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).field("before"));
        }
        let project = super::resolve_project(ports, caller, &arguments.project_root).await?;
        super::use_stored_key(ports, &project, &mut arguments.section).await?;
        let write = request.write_context(arguments.operation_description.as_str());
        let key = arguments.section.clone();
        let columns = ports.settings.wrap_columns;
        let read_set = super::write_read_set(&key);
        let guard = request.context.call_guard(caller, &project);
        let shown = guard.clone();
        let decide = move |snapshot: &Snapshot| arguments.decide(snapshot, columns, &shown);
        let ((set, version, note, replaced), committed) =
            commit_decision(ports, &project, read_set, write, decide).await?;
        let label = super::section_label(&project, key.as_str());
        let change_note = render_change(&set, &label, version);
        let (mut reindexed, mut moved) = (Vec::new(), Vec::new());
        for change in set.renumbered {
            let [from, to] = [&change.from, &change.to].map(|index| format!("{key}:{index}"));
            moved.push(RenumberedRule { from, to });
            reindexed.push(IndexChange { from: change.from, to: change.to });
        }
        guard.move_rules(&moved);
        let address = format!("{key}:{}", set.index);
        guard.note_rule(&address, set.text.clone());
        if !committed.versions.is_empty() {
            guard.note_write(&DocumentId::section(key.as_str()), version, request.spec.name);
        }
        let result = SetRule {
            project: project.to_string(),
            section: key.as_str().to_owned(),
            index: set.index,
            text: set.text,
            version: version.to_string(),
            added: set.replaced.is_none(),
            reindexed,
            warnings: set.warnings,
        };
        let mut answer = body_answer(set.requirement, &result)?;
        answer.add_notes([change_note]);
        answer.add_notes(render_index_changes(&result.reindexed));
        answer.add_notes(result.warnings);
        answer.add_notes(note);
        answer.add_notes(replaced);
        Ok(answer)
    }
}

/// The set requirement, the section's new version, and two notes.
type SectionSet = (SetOutcome, Version, Option<String>, Option<String>);

impl Arguments {
    fn decide(
        &self,
        snapshot: &Snapshot,
        columns: usize,
        guard: &CallGuard,
    ) -> Result<(Vec<DocumentChange>, SectionSet)> {
        let (_, section) = super::snapshot_documents(snapshot);
        let key = &self.section;
        let index = match &self.index {
            IndexArgument::At(index) => Some(index),
            IndexArgument::New => self.before.as_ref(),
        };
        let index = index.map(RequirementIndex::as_str);
        super::check_version(self.if_version, section, key, index)?;
        // An existing section keeps its key, even if new ones may not be named like it.
        if section.is_none() {
            super::check_new_section(key, &snapshot.titles)?;
        }
        let source = section.map_or(Ok(""), super::editable_text)?;
        let mut set = self.edit(&Section::parse(source), columns)?;
        let replaced = match (&self.index, self.if_version) {
            (IndexArgument::At(index), None) => {
                guard.check_rule((key, section), index.as_str(), Some(&set.text))?
            }
            _ => None,
        };
        let id = DocumentId::section(key.as_str());
        let mut changes = Vec::new();
        // The body is moved, because a section may be large.
        let document = Document::new(id, std::mem::take(&mut set.body).into());
        let version = document.version;
        // An unchanged section keeps its file and its modification time.
        if section.is_none_or(|section| section.version != version) {
            changes.push(DocumentChange::Put { document });
        }
        let (list, note) = super::section_list_change(snapshot, key, true)?;
        changes.extend(list);
        Ok((changes, (set, version, note, replaced)))
    }

    fn edit(&self, section: &Section<'_>, columns: usize) -> Result<SetOutcome> {
        let text = self.text.as_str();
        let before = match &self.index {
            IndexArgument::At(index) => return section.set(index, text, columns),
            IndexArgument::New => self.before.as_ref(),
        };
        if let Some(added) = section.add(before, text, columns)? {
            return Ok(added);
        }
        let before = before.map_or("", RequirementIndex::as_str);
        let all: Vec<&str> = section.requirements().iter().map(|rule| rule.index).collect();
        let reason = super::existing_values(before, "rules", &all, all.len());
        let error = Error::new(ErrorKind::NotFound, format!("before: {reason}"));
        Err(error.field("before").reference(before))
    }
}

/// A note that says whether a rule was added or replaced.
fn render_change(set: &SetOutcome, label: &str, version: Version) -> String {
    let version = version.to_string();
    let (index, version) = (&set.index, super::short_version(&version));
    match &set.replaced {
        None => format!("added rule {index} to {label}, version {version}."),
        Some(old) if *old == set.text => {
            format!("rule {index} of {label} already has this text, version {version}.")
        }
        Some(old) => {
            let old = requirement_title(old);
            format!("replaced rule {index}, which was: \"{old}\"; {label} is at version {version}.")
        }
    }
}

/// A note; `None` if no index changed.
fn render_index_changes(reindexed: &[IndexChange]) -> Option<String> {
    const MAX_LISTED: usize = 20;
    if reindexed.is_empty() {
        return None;
    }
    let mut changes = Vec::new();
    for change in reindexed.iter().take(MAX_LISTED) {
        changes.push(format!("{} is now {}", change.from, change.to));
    }
    if reindexed.len() > MAX_LISTED {
        changes.push(format!("and {} more", reindexed.len() - MAX_LISTED));
    }
    Some(format!("Indices were renumbered to keep the order: {}.", changes.join(", ")))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use reqlore_domain::error::ErrorKind;
    use serde_json::{Value, json};

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_set_requirements";

    fn set(section: &str, index: &str, text: &str) -> Value {
        json!({ "section": section, "index": index, "text": text })
    }

    // S1: S.3.4, S.3.6
    #[tokio::test]
    async fn set_that_renumbers_reports_the_changes_in_data_and_text() {
        let testing = TestApplication::new();
        let body = "**1.** a\n\n**3.** b\n\n**2.** c\n\n**2.** d\n\n**7.** e\n\n**8.** f\n";
        testing.write(DocumentId::section("general"), body).await;
        let answer = testing.call(TOOL, set("general", "8", "F")).await.unwrap();
        let version = &answer.data["version"].as_str().unwrap()[..8];
        let replaced =
            format!("replaced rule 8, which was: \"f\"; section general is at version {version}.");
        let words = "Indices were renumbered to keep the order: 2 is now 4, 2 is now 5.";
        assert!(answer.text.starts_with(&format!("**8.** F\n\nNote: {replaced}\nNote: {words}")));
        let moves = json!([{ "from": "2", "to": "4" }, { "from": "2", "to": "5" }]);
        assert_eq!(answer.data["reindexed"], moves);
    }

    // S1: R.1, R.2
    #[tokio::test]
    async fn set_warnings_are_in_the_text_as_well() {
        let testing = TestApplication::new();
        let long = format!("Глагол {}", "ж".repeat(200));
        let answer = testing.call(TOOL, set("general", "1", &long)).await.unwrap();
        let warnings = answer.data["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), 2);
        assert!(answer.text.contains("\n\nNote: added rule 1 to section general, version "));
        assert!(answer.text.contains("\nNote: R.2: line 2"), "{:?}", answer.text);
        assert!(answer.text.contains("\nNote: R.1: "), "{:?}", answer.text);
    }

    // S1: S.3.2, C.3
    #[tokio::test]
    async fn set_at_another_spelling_says_what_it_replaced() {
        let testing = TestApplication::new();
        let body = "**1.** One.\n\n**1.09.** Nine.\n";
        testing.write(DocumentId::section("general"), body).await;
        for (given, replaced) in [("01", "1"), ("1.9", "1.09")] {
            let answer = testing.call(TOOL, set("general", given, "New.")).await.unwrap();
            let warning = format!(
                "index: {given} names rule {replaced}, which this text replaced; use another index \
                 for a new rule"
            );
            assert_eq!(answer.data["warnings"], json!([warning]));
            assert_eq!(answer.data["index"], replaced);
            assert!(answer.text.contains(&format!("\nNote: {warning}")), "{}", answer.text);
        }
        let answer = testing.call(TOOL, set("general", "1", "One.")).await.unwrap();
        assert_eq!(answer.data["warnings"], json!([]));
        let expected =
            "**1.** One.\n\nNote: replaced rule 1, which was: \"New.\"; section general is at ";
        assert!(answer.text.starts_with(expected), "{}", answer.text);
        let text = testing.text(TOOL, set("general", "1", "One.")).await;
        assert!(
            text.contains("\nNote: rule 1 of section general already has this text, "),
            "{text}"
        );
    }

    // S1: S.3.3, S.3.4, S.3.6
    #[tokio::test]
    async fn set_new_appends_or_inserts_before_another_rule() {
        let testing = TestApplication::new();
        let first = testing.call(TOOL, set("general", "new", "One.")).await.unwrap();
        assert_eq!((&first.data["index"], &first.data["added"]), (&json!("1"), &json!(true)));
        testing.call(TOOL, set("general", "R.1", "Other group.")).await.unwrap();
        let second = testing.call(TOOL, set("general", "NEW", "Two.")).await.unwrap();
        let start = "**2.** Two.\n\nNote: added rule 2 to section general, version ";
        assert!(second.text.starts_with(start), "{}", second.text);

        let mut between = set("general", "new", "Between.");
        between["before"] = json!("2");
        let inserted = testing.call(TOOL, between.clone()).await.unwrap();
        assert_eq!(inserted.data["reindexed"], json!([{ "from": "2", "to": "3" }]));
        let end = "\nNote: Indices were renumbered to keep the order: 2 is now 3.";
        assert!(inserted.text.ends_with(end), "{}", inserted.text);
        let stored = "**1.** One.\n\n**2.** Between.\n\n**3.** Two.\n\n**R.1.** Other group.\n";
        let body = testing.body(DocumentId::section("general")).await;
        assert_eq!(body.as_deref(), Some(stored));

        between["before"] = json!("9");
        let error = testing.error(TOOL, between.clone()).await;
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::NotFound, Some("before")));
        let expected = "before: \"9\" does not exist; the rules are: 1, 2, 3, R.1";
        assert_eq!(error.message, expected);
        between["index"] = json!("7");
        let error = testing.error(TOOL, between).await;
        assert!(error.message.starts_with("before: it needs index \"new\""), "{error}");
        let body = testing.body(DocumentId::section("general")).await;
        assert_eq!(body.as_deref(), Some(stored));
    }

    // S1: S.3.5
    #[tokio::test]
    async fn set_with_a_correct_section_list_keeps_agents_md() {
        let testing = TestApplication::new();
        let agents = "## Sections\n\n- My own title (key: general)\n- Not there (key: gone)\n";
        testing.write(DocumentId::instructions(), agents).await;
        testing.call(TOOL, set("general", "1", "One.")).await.unwrap();
        let corrected = "## Sections\n\n- My own title (key: general)\n";
        assert_eq!(testing.body(DocumentId::instructions()).await.as_deref(), Some(corrected));
        let version =
            |answer: reqlore_domain::ports::service::RenderedAnswer| answer.data["version"].clone();
        let read = || testing.call("reqlix_get_instructions", json!({}));
        let before = version(read().await.unwrap());
        testing.call(TOOL, set("general", "2", "Two.")).await.unwrap();
        assert_eq!(version(read().await.unwrap()), before);
    }

    // S1: S.3.5, D.3.5
    #[tokio::test]
    async fn new_or_unreadable_section_list_is_named_in_the_answer() {
        let testing = TestApplication::new();
        let added = "\nNote: A list of all sections was added to AGENTS.md, below \"## Sections\".";
        let open = "\nNote: The list of sections in AGENTS.md cannot be updated: line 3 opens a ";
        let delete = "reqlix_delete_requirements";
        for (agents, note) in
            [("## Sections\n\n<ul></ul>\n", added), ("## Sections\n\n<!--\n", open)]
        {
            testing.write(DocumentId::instructions(), agents).await;
            let text = testing.text(TOOL, set("general", "1", "One.")).await;
            assert!(text.contains(note), "{text}");
            testing.write(DocumentId::instructions(), agents).await;
            let text = testing.text(delete, json!({ "section": "general", "index": "1" })).await;
            assert!(text.contains(note), "{text}");
            testing.write(DocumentId::instructions(), agents).await;
            let change = json!({ "create": "rule", "section": "general", "text": "One." });
            let text = testing.text("apply_changes", json!({ "changes": [change] })).await;
            assert!(text.contains(note.trim_start_matches("\nNote: ")), "{text}");
        }
    }

    #[tokio::test]
    async fn section_title_falls_back_to_heading_and_key() {
        let testing = TestApplication::new();
        testing.write(DocumentId::section("a"), "# Heading of A\n").await;
        testing.call(TOOL, set("b_and-c", "1", "x")).await.unwrap();
        let agents = testing.body(DocumentId::instructions()).await.unwrap();
        assert!(agents.contains("- Heading of A (key: a)\n- B And C (key: b_and-c)\n"), "{agents}");
    }

    #[tokio::test]
    async fn set_with_if_version_writes_only_at_that_version() {
        let testing = TestApplication::new();
        let first = testing.call(TOOL, set("general", "1", "One.")).await.unwrap();
        let mut again = set("general", "1", "Uno.");
        again["if_version"] = first.data["version"].clone();
        testing.call(TOOL, again.clone()).await.unwrap();
        let stale = testing.error(TOOL, again).await;
        assert_eq!(stale.kind, ErrorKind::Conflict);
        assert!(stale.message.contains("Current text:\n**1.** Uno."), "{stale}");
    }

    #[tokio::test]
    async fn conflict_shows_a_long_rule_in_part_and_names_the_rest() {
        let testing = TestApplication::new();
        let long = "One sentence of a long rule. ".repeat(340);
        testing.call(TOOL, set("general", "1", &long)).await.unwrap();
        let mut stale = set("general", "1", "New.");
        stale["if_version"] = json!("0123456789abcdef");
        let error = testing.error(TOOL, stale.clone()).await;
        assert!(error.message.len() < 6_500, "{}", error.message.len());
        assert!(error.message.contains("of a long rule.\n\nNote: cut after "), "{error}");
        assert!(error.message.ends_with("with indices \"1\" returns all"), "{error}");
        stale["index"] = json!("new");
        let error = testing.error(TOOL, stale).await;
        assert!(error.message.ends_with("Nothing was changed. It has 1 rule."), "{error}");
    }
}
