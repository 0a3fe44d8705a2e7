//! `reqlix_delete_requirements`: removes one rule and returns it.

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::document::{DocumentId, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, Snapshot};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::sections::DeletedRule;
use reqlore_domain::sections::requirement_index::{RequirementIndex, SectionKey};
use reqlore_domain::sections::{DeleteOutcome, REQUIREMENT_NOT_FOUND, SECTION_NOT_FOUND, Section};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{OperationDescription, ProjectRoot};
use crate::answers::answer::{ToolAnswer, body_answer};
use crate::tools::tool::{Tool, ToolRequest, write_tool};
use crate::writes::transaction::commit_decision;
use crate::writes::write_guard::CallGuard;

pub(crate) struct DeleteRequirements;

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
    /// Requirement index to delete (e.g., "1", "2.1", "3").
    index: RequirementIndex,
    /// Expected section version.
    if_version: Option<VersionPrefix>,
}

#[async_trait]
impl Tool for DeleteRequirements {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_destructive: true,
            is_whole: true,
            ..write_tool::<Arguments, DeletedRule>(
                "reqlix_delete_requirements",
                "Delete a rule",
                "\
Deletes a requirement with the specified index from a section.
Returns the deleted requirement text, or an error if not found.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let mut arguments: Arguments = request.decode()?;
        let (caller, ports) = (&request.call.caller, &request.context.ports);
        let project = super::resolve_project(ports, caller, &arguments.project_root).await?;
        super::use_stored_key(ports, &project, &mut arguments.section).await?;
        let write = request.write_context(arguments.operation_description.as_str());
        let key = arguments.section.clone();
        // Creates a missing AGENTS.md, even if there is nothing to delete.
        super::read_documents(ports, &project, None, write.clone()).await?;
        let read_set = super::write_read_set(&key);
        let guard = request.context.call_guard(caller, &project);
        let shown = guard.clone();
        let decide = move |snapshot: &Snapshot| arguments.decide(snapshot, &shown);
        let ((deleted, version, note), _) =
            commit_decision(ports, &project, read_set, write, decide).await?;
        guard.note_rule(&format!("{key}:{}", deleted.index), String::new());
        let details = DeletedRule {
            project: project.to_string(),
            section: key.as_str().to_owned(),
            index: deleted.index,
            text: deleted.text,
            version: version.map(|version| version.to_string()),
        };
        let mut answer = body_answer(deleted.requirement, &details)?;
        let label = super::section_label(&project, key.as_str());
        let index = &details.index;
        answer.add_notes([if let Some(version) = &details.version {
            let version = super::short_version(version);
            format!("deleted rule {index} from {label}, version {version}.")
        } else {
            format!("deleted rule {index}, the last text of {label}, with the section.")
        }]);
        answer.add_notes(note);
        Ok(answer)
    }
}

/// The deleted requirement, the section's version without it, and a note.
type SectionDeletion = (DeleteOutcome, Option<Version>, Option<String>);

impl Arguments {
    fn decide(
        &self,
        snapshot: &Snapshot,
        guard: &CallGuard,
    ) -> Result<(Vec<DocumentChange>, SectionDeletion)> {
        let (_, section) = super::snapshot_documents(snapshot);
        let key = &self.section;
        let index = self.index.as_str();
        super::check_version(self.if_version, section, key, Some(index))?;
        let Some(document) = section else {
            let keys: Vec<&str> = snapshot.titles.keys().map(String::as_str).collect();
            let message = SECTION_NOT_FOUND;
            return Err(not_found_error(message, "section", key.as_str(), "sections", &keys));
        };
        let section = Section::parse(super::editable_text(document)?);
        let Some(mut deleted) = section.delete(&self.index) else {
            let requirements = section.requirements();
            let indices: Vec<&str> =
                requirements.iter().map(|requirement| requirement.index).collect();
            let message = REQUIREMENT_NOT_FOUND;
            return Err(not_found_error(message, "index", index, "rules", &indices));
        };
        if self.if_version.is_none() {
            guard.check_rule((key, Some(document)), index, None)?;
        }
        let id = DocumentId::section(key.as_str());
        let body = deleted.body.take().map(Bytes::from);
        let remains = body.is_some();
        let change = match body {
            Some(body) => DocumentChange::put(id, body),
            // Nothing else was in the file, so the section ends with its last requirement.
            None => DocumentChange::Delete { id },
        };
        let version = change.version();
        let mut changes = vec![change];
        let (list, note) = super::section_list_change(snapshot, key, remains)?;
        changes.extend(list);
        Ok((changes, (deleted, version, note)))
    }
}

/// The message must match the specification, so the hint lists the existing values.
fn not_found_error(
    message: &str,
    field: &str,
    value: &str,
    plural_noun: &str,
    existing: &[&str],
) -> Error {
    let hint = super::existing_values(value, plural_noun, existing, existing.len());
    Error::new(ErrorKind::NotFound, message).field(field).reference(value).hint(hint)
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use serde_json::{Value, json};

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_delete_requirements";

    fn delete(section: &str, index: &str) -> Value {
        json!({ "section": section, "index": index })
    }

    // S1: D.3.3, D.3.4, D.3.5
    #[tokio::test]
    async fn delete_of_the_last_requirement_keeps_only_prose() {
        let testing = TestApplication::new();
        testing.write(DocumentId::section("a"), "**1.** only\n").await;
        testing.write(DocumentId::section("b"), "# Mine\n\n**1.** only\n").await;
        let a = testing.text(TOOL, delete("a", "1")).await;
        let note = "deleted rule 1, the last text of section a, with the section.";
        assert_eq!(a, format!("**1.** only\n\nNote: {note}"));
        let b = testing.call(TOOL, delete("b", "1")).await.unwrap();
        let version = &b.data["version"].as_str().unwrap()[..8];
        let note = format!("deleted rule 1 from section b, version {version}.");
        assert_eq!(b.text, format!("**1.** only\n\nNote: {note}"));
        assert_eq!(testing.body(DocumentId::section("a")).await, None);
        assert_eq!(testing.body(DocumentId::section("b")).await.as_deref(), Some("# Mine\n"));
        let agents = testing.body(DocumentId::instructions()).await.unwrap();
        assert!(agents.contains("\n- Mine (key: b)\n") && !agents.contains("(key: a)"), "{agents}");
    }
}
