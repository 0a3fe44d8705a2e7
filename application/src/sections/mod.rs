//! Requirement sections: four tools over AGENTS.md and its sections.

pub(crate) mod delete_requirements;
pub(crate) mod get_instructions;
pub(crate) mod get_requirements;
pub(crate) mod rule_change;
pub(crate) mod set_requirements;

use bytes::Bytes;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::name_form::{compose, fold_name};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot, read_all};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::truncate_text;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::instructions::{
    self, NEW_INSTRUCTIONS, SectionListUpdate, SectionTitles,
};
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::untrusted_text::{encode_id, encode_line};

use crate::answers::shortened_text::text_borders;
use crate::ports::ApplicationPorts;
use crate::writes::transaction::{check_text_merged, commit_decision};

pub(crate) type ProjectRoot = BoundedString<1_000>;
pub(crate) type OperationDescription = BoundedString<10_000>;

async fn resolve_project(
    ports: &ApplicationPorts,
    caller: &Caller,
    root: &ProjectRoot,
) -> Result<ProjectKey> {
    ports.projects.resolve(caller, Some(root.as_str()), Toolset::Sections).await
}

/// Returns the stored section whose name is this one in another form of its letters, or else the
/// given one.
pub(crate) async fn stored_section(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    id: DocumentId,
) -> Result<DocumentId> {
    // ASCII letters have one form.
    if id.name.is_ascii() {
        return Ok(id);
    }
    let (sections, _) = read_all(&*ports.documents, project, DocumentKind::Section).await?;
    let is_exact = sections.iter().any(|meta| meta.id == id);
    let same = sections.iter().find(|meta| compose(&meta.id.name) == compose(&id.name));
    Ok(same.filter(|_| !is_exact).map_or(id, |meta| meta.id.clone()))
}

/// Replaces a key by that of the stored section, see [`stored_section`].
async fn use_stored_key(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    key: &mut SectionKey,
) -> Result<()> {
    let id = stored_section(ports, project, DocumentId::section(key.as_str())).await?;
    *key = SectionKey::try_from(id.name).map_err(|reason| section_error(&reason))?;
    Ok(())
}

/// Reads AGENTS.md and the section. Creates a missing AGENTS.md if the caller may write.
async fn read_documents(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    section: Option<&SectionKey>,
    write_context: WriteContext,
) -> Result<(Document, Option<Document>)> {
    let mut ids = vec![DocumentId::instructions()];
    ids.extend(section.map(|key| DocumentId::section(key.as_str())));
    let mut documents = ports.documents.get(project, &ids).await?.into_iter();
    let agents = match documents.next().flatten() {
        Some(agents) => agents,
        None if write_context.caller.is_allowed(Access::Write) => {
            create_instructions(ports, project, write_context).await?
        }
        // A caller who may only read gets the placeholder, too.
        None => Document::new(DocumentId::instructions(), NEW_INSTRUCTIONS.into()),
    };
    Ok((agents, documents.next().flatten()))
}

/// Writes the placeholder unless another call has just created the file.
async fn create_instructions(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    write_context: WriteContext,
) -> Result<Document> {
    let id = DocumentId::instructions();
    let read_set = ReadSet::of_documents(vec![id.clone()]);
    // The idempotency key belongs to the change that follows.
    let write_context = WriteContext { idempotency_key: None, ..write_context };
    let created = commit_decision(ports, project, read_set, write_context, move |snapshot| {
        // Another call may have created the file meanwhile.
        if let Some(Some(document)) = snapshot.documents.first() {
            return Ok((Vec::new(), document.clone()));
        }
        let document = Document::new(id.clone(), NEW_INSTRUCTIONS.into());
        let put = DocumentChange::Put { document: document.clone() };
        Ok((vec![put], document))
    });
    created.await.map(|(document, _)| document)
}

/// The read set of a section write: AGENTS.md, the section, and the list of sections.
fn write_read_set(key: &SectionKey) -> ReadSet {
    let documents = vec![DocumentId::instructions(), DocumentId::section(key.as_str())];
    ReadSet { documents, titles_of: Some(DocumentKind::Section), ..ReadSet::default() }
}

/// AGENTS.md and the section in a snapshot of [`write_read_set`].
fn snapshot_documents(snapshot: &Snapshot) -> (Option<&Document>, Option<&Document>) {
    match &snapshot.documents[..] {
        [agents, section, ..] => (agents.as_ref(), section.as_ref()),
        _ => (None, None),
    }
}

/// The change to the section list in AGENTS.md, and a note about it. `remains` is false if the
/// section is deleted.
pub(crate) fn section_list_change(
    snapshot: &Snapshot,
    key: &SectionKey,
    remains: bool,
) -> Result<(Option<DocumentChange>, Option<String>)> {
    let mut titles = snapshot.titles.clone();
    if remains {
        titles.entry(key.as_str().to_owned()).or_default();
    } else {
        titles.remove(key.as_str());
    }
    let (agents, _) = snapshot_documents(snapshot);
    let source = agents.map_or(Ok(NEW_INSTRUCTIONS), document_text)?;
    let SectionListUpdate { body, note } = instructions::update_section_list(source, &titles);
    let body = match (body, agents) {
        (Some(edited), _) => Bytes::from(edited),
        // A missing file is created even if its list would be empty.
        (None, None) => NEW_INSTRUCTIONS.into(),
        (None, Some(_)) => return Ok((None, note)),
    };
    Ok((Some(DocumentChange::put(DocumentId::instructions(), body)), note))
}

/// `section checkout`, with the project if it is not the server's own.
fn section_label(project: &ProjectKey, key: &str) -> String {
    format!("section {}{}", encode_id(key), project_label(project))
}

fn project_label(project: &ProjectKey) -> String {
    if project.is_default() {
        return String::new();
    }
    format!(" of project {}", encode_line(project.as_str()))
}

/// The first digits of a version, as sentences show them.
fn short_version(version: &str) -> &str {
    version.get(..8).unwrap_or(version)
}

/// Says that a section or an index does not exist, and lists the existing ones.
/// `existing` may be the first ones of `count`.
pub(crate) fn existing_values(
    value: &str,
    plural_noun: &str,
    existing: &[&str],
    count: usize,
) -> String {
    const MAX_LISTED: usize = 50;
    let list = existing[..existing.len().min(MAX_LISTED)].join(", ");
    match count {
        0 => format!("{value:?} does not exist; there are no {plural_noun} yet"),
        _ if count > MAX_LISTED => {
            format!(
                "{value:?} does not exist; the first {MAX_LISTED} of {count} {plural_noun}: {list}"
            )
        }
        _ => format!("{value:?} does not exist; the {plural_noun} are: {list}"),
    }
}

/// A document's text, or an error that names it.
fn document_text(document: &Document) -> Result<&str> {
    document.text().map_err(|problem| unreadable_error(&document.id, &problem))
}

/// The text of a document to be changed.
pub(crate) fn editable_text(document: &Document) -> Result<&str> {
    let text = document_text(document)?;
    check_text_merged(&document.id, text)?;
    Ok(text)
}

/// Returns the text without copying it.
fn into_document_text(document: Document) -> Result<String> {
    document_text(&document)?;
    let Document { id, body, .. } = document;
    // Checked above, so this does not fail.
    String::from_utf8(body.into()).map_err(|error| unreadable_error(&id, &error.to_string()))
}

fn section_error(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("section: {reason}.")).field("section")
}

fn unreadable_error(id: &DocumentId, problem: &str) -> Error {
    let message = format!("{id}: {problem} and try again");
    Error::new(ErrorKind::Unreadable, message).reference(id.name.clone())
}

/// Checks that a section may have this key, among the existing sections.
fn check_new_section(key: &SectionKey, titles: &SectionTitles) -> Result<()> {
    key.check_new().map_err(|reason| section_error(&reason))?;
    // Some file systems do not distinguish such names.
    let folded = fold_name(key.as_str());
    for existing in titles.keys() {
        if fold_name(existing) == folded {
            return Err(section_error(&format!(
                "{:?} differs only in case from the section {existing:?}; use that key",
                key.as_str()
            )));
        }
    }
    Ok(())
}

/// Returns a conflict with the current rule if the section is not at the expected version. `index`
/// is `None` for a new rule.
fn check_version(
    expected: Option<VersionPrefix>,
    section: Option<&Document>,
    key: &SectionKey,
    index: Option<&str>,
) -> Result<()> {
    let Some(expected) = expected else { return Ok(()) };
    if section.is_some_and(|document| expected.matches(document.version)) {
        return Ok(());
    }
    let message = match section {
        None => format!(
            "Conflict: section {key} does not exist (if_version {expected}). Nothing was changed."
        ),
        Some(document) => {
            let current = current_rule(&Section::parse(document_text(document)?), index);
            format!(
                "Conflict: section {key} changed since version {expected}; it is now at version \
                 {}. Nothing was changed. {current}",
                document.version
            )
        }
    };
    Err(Error::new(ErrorKind::Conflict, message).field("if_version").reference(key.as_str()))
}

fn current_rule(section: &Section<'_>, index: Option<&str>) -> String {
    /// Leaves room for the rest of the message in the client with the tightest limit.
    const MAX_SHOWN_BYTES: usize = 6_000;
    let requirement = match index {
        None => return format!("It has {}.", count_rules(section.requirements().len())),
        Some(index) => match section.find(index) {
            None => return format!("It has no rule {index}."),
            Some(requirement) => requirement,
        },
    };
    let stored = section.stored_text(requirement);
    if stored.len() <= MAX_SHOWN_BYTES {
        return format!("Current text:\n{stored}");
    }
    let borders = text_borders(stored).into_iter();
    let end = borders.take_while(|end| *end <= MAX_SHOWN_BYTES).last();
    let shown = truncate_text(stored, end.unwrap_or(MAX_SHOWN_BYTES)).trim_end();
    format!(
        "Current text:\n{shown}\n\nNote: cut after {} of {} characters; reqlix_get_requirements \
         with indices \"{}\" returns all",
        shown.chars().count(),
        stored.chars().count(),
        requirement.index
    )
}

fn count_rules(count: usize) -> String {
    format!("{count} {}", if count == 1 { "rule" } else { "rules" })
}
