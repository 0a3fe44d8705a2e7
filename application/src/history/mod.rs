//! Earlier versions of documents in all toolsets: finding the document, its versions and texts.

mod changed_document;
pub(crate) mod get_history;
pub(crate) mod list_changes;
pub mod purge;
mod rule_undo;
#[cfg(test)]
mod tests;
pub(crate) mod undo;

use std::time::Instant;

use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::{EntityKind, is_entity_id};
use reqlore_domain::ports::history::{HistoryEntry, HistoryNote, HistoryQuery};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::word_diff::{TIME_LIMIT, compare_texts, difference_text};

use crate::addresses::address::{AddressSpace, AddressTarget, entity_words};
use crate::addresses::links::SECTION_PREFIX;
use crate::context::ToolContext;
use crate::ports::ApplicationPorts;

/// Entries that a search for a version reads at first, then at once, and altogether. Git walks all
/// commits for each page, so later pages are long.
const FIRST_PAGE: usize = 100;
const SEARCH_PAGE: usize = 2_000;
const MAX_SEARCHED: usize = 20_000;

/// A document that exists or once existed.
pub(crate) struct HistoryTarget {
    pub(crate) project: ProjectKey,
    pub(crate) id: DocumentId,
    /// The ID as answers print it.
    pub(crate) name: String,
    /// Differences between what was asked for and what has a history.
    pub(crate) notes: Vec<String>,
}

/// A version with its text.
pub(crate) struct VersionText {
    /// Position in the history; 0 is the newest version.
    age: usize,
    /// True if the document has this text.
    is_present: bool,
    version: Version,
    /// `None` if the storage has the text, but does not list it.
    entry: Option<HistoryEntry>,
    document: Document,
}

/// Finds the document that a text names, also after its deletion.
pub(crate) async fn find_target(
    context: &ToolContext,
    caller: &Caller,
    text: &str,
) -> Result<HistoryTarget> {
    let text = text.trim();
    if let Some(id) = DocumentId::from_settings_path(text) {
        let project = caller.project.clone();
        return Ok(HistoryTarget { project, id, name: text.to_owned(), notes: Vec::new() });
    }
    let space = AddressSpace::of_caller(context, caller).await?;
    let address = match space.resolve_folded(text, "reference").await {
        Ok(address) => address,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return find_deleted(context, caller, text).await?.ok_or(error);
        }
        Err(error) => return Err(error),
    };
    let mut notes = Vec::new();
    let name = address.target.id().into_owned();
    match &address.target {
        AddressTarget::Requirement { section, .. } => notes.push(format!(
            "{name} has no history of its own; this is the history of section {}.",
            section.id.name
        )),
        AddressTarget::Docset { .. } => notes.push(format!(
            "{name} has no history of its own; this is the history of the docset configuration."
        )),
        _ => {}
    }
    for other in &address.others {
        notes.push(format!("{text} is also the name of {other}."));
    }
    let id = address.target.document_id();
    Ok(HistoryTarget { project: address.project, id, name, notes })
}

/// Finds a document that was deleted, but has a history.
async fn find_deleted(
    context: &ToolContext,
    caller: &Caller,
    text: &str,
) -> Result<Option<HistoryTarget>> {
    let ports = &context.ports;
    let toolsets = &ports.settings.toolsets;
    let gone = format!("{text} no longer exists");
    // Projects, documents and the sections that replace a requirement.
    let mut candidates: Vec<(ProjectKey, DocumentId, Option<&str>)> = Vec::new();
    if toolsets.contains(&Toolset::Backlog)
        && let Some((reference, id)) = deleted_item(ports, &caller.project, text).await?
    {
        let (project, name) = (caller.project.clone(), reference.to_string());
        // Its tombstone proves that it existed, even if its history is not known.
        return Ok(Some(HistoryTarget { project, id, name, notes: vec![format!("{gone}.")] }));
    }
    if toolsets.contains(&Toolset::Knowledge) {
        let project = ports.projects.resolve(caller, None, Toolset::Knowledge).await?;
        let words = entity_words(text);
        let found = ports.documents.lookup(&project, DocumentKind::Deleted, &words).await?;
        let mut tombstones = found.iter().flatten();
        if let Some(name) = tombstones.find_map(|meta| meta.id.deleted_entity()) {
            let (id, name) = (DocumentId::entity(name), text.to_owned());
            return Ok(Some(HistoryTarget { project, id, name, notes: vec![format!("{gone}.")] }));
        }
        candidates.extend(entities_named(text).map(|id| (project.clone(), id, None)));
    }
    if toolsets.contains(&Toolset::Sections) {
        let name = text.strip_prefix(SECTION_PREFIX).unwrap_or(text);
        candidates.push((caller.project.clone(), DocumentId::section(name), None));
        // A requirement that its section no longer has.
        if let Some((key, _)) = name.rsplit_once(':') {
            candidates.push((caller.project.clone(), DocumentId::section(key), Some(key)));
        }
    }
    let query = HistoryQuery { after: None, limit: 1 };
    for (project, id, section) in candidates {
        // The text is untrusted.
        if id.check().is_err() {
            continue;
        }
        let page = ports.history.history(&project, &id, &query).await?;
        if !page.entries.is_empty() {
            let note = match section {
                Some(key) => format!("{gone}; this is the history of section {key}."),
                None => format!("{gone}."),
            };
            let name = text.to_owned();
            return Ok(Some(HistoryTarget { project, id, name, notes: vec![note] }));
        }
    }
    Ok(None)
}

/// The reference and the document of a deleted item, which has the name of its tombstone.
async fn deleted_item(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    text: &str,
) -> Result<Option<(Reference, DocumentId)>> {
    for kind in ItemKind::ALL {
        let ParsedReference::Reference(reference) = Reference::parse_any_case(kind, text) else {
            continue;
        };
        let names = [reference.to_string()];
        let found = ports.documents.lookup(project, DocumentKind::Deleted, &names).await?;
        if let Some(tombstone) = found.into_iter().flatten().next() {
            let id = DocumentId { kind: DocumentKind::Item(kind), name: tombstone.id.name.clone() };
            return Ok(Some((reference, id)));
        }
        // Git may have removed the file of an item that was never committed.
        let since = Timestamp(i64::MIN);
        let recent = ports.history.recent_changes(project, since, MAX_SEARCHED).await?;
        let mut ids = recent.into_iter().map(|recent| recent.id);
        let id = ids.find(|id| Reference::from_document(id) == Some(reference));
        // A text can be a reference of one kind only.
        return Ok(id.map(|id| (reference, id)));
    }
    Ok(None)
}

/// The entities that a text may have named: at a path, or with an ID as tools create them.
fn entities_named(text: &str) -> impl Iterator<Item = DocumentId> {
    let path = text.strip_prefix(".ixchel/").unwrap_or(text);
    let path = path.strip_suffix(".md").unwrap_or(path);
    let id = text.to_lowercase();
    let created = match id.split_once('-') {
        Some((prefix, digits)) if is_entity_id(&id) => {
            EntityKind::parse(prefix).map(|kind| kind.document_id(digits))
        }
        _ => None,
    };
    std::iter::once(DocumentId::entity(path)).chain(created)
}

/// Finds the text of the version that the argument `field` names; without a prefix the newest one.
pub(crate) async fn find_version(
    ports: &ApplicationPorts,
    target: &HistoryTarget,
    prefix: Option<VersionPrefix>,
    field: &str,
) -> Result<VersionText> {
    let HistoryTarget { project, id, name, .. } = target;
    let matches = |version: &Version| prefix.is_none_or(|prefix| prefix.matches(*version));
    let present = ports.documents.versions(project, std::slice::from_ref(id)).await?;
    // If Git converts the file, its own version is not in the list.
    let present = present.into_iter().flatten().next();
    let mut found = present.filter(matches).map(|version| (version, None));
    let mut age = 0;
    let mut query = HistoryQuery { after: None, limit: FIRST_PAGE };
    let notes = loop {
        let page = ports.history.history(project, id, &query).await?;
        for entry in page.entries {
            age += 1;
            let Some(version) = entry.version.filter(matches) else { continue };
            match &found {
                Some((other, _)) if *other != version => {
                    if let Some(prefix) = prefix {
                        return Err(ambiguous_version(field, name, prefix, [*other, version]));
                    }
                }
                // The newest of several entries with one text.
                Some((_, Some(_))) => {}
                _ => found = Some((version, Some((age, entry)))),
            }
        }
        query.after = page.next;
        if found.is_some() || query.after.is_none() || age >= MAX_SEARCHED {
            break page.notes;
        }
        query.limit = SEARCH_PAGE;
    };
    let Some((version, listed)) = found else {
        let version = prefix.map_or_else(String::new, |prefix| format!(" {prefix}"));
        let mut message =
            format!("{field}: {name} has no version{version}; omit {field} to list its versions");
        for note in notes {
            message.extend([". ", note_text(note)]);
        }
        return Err(Error::new(ErrorKind::NotFound, message).field(field).reference(name));
    };
    let (age, entry) = listed.map_or((0, None), |(age, entry)| (age, Some(entry)));
    let Some(document) = ports.history.document_at(project, id, version).await? else {
        let message = format!("{field}: version {version} of {name} has no text; it was erased");
        return Err(Error::new(ErrorKind::NotFound, message).field(field).reference(name));
    };
    let is_present = present == Some(version);
    Ok(VersionText { age, is_present, version, entry, document })
}

fn ambiguous_version(
    field: &str,
    name: &str,
    prefix: VersionPrefix,
    [newer, older]: [Version; 2],
) -> Error {
    let message =
        format!("{field}: {prefix} matches two versions of {name}; send {newer} or {older}");
    Error::new(ErrorKind::InvalidArgument, message).field(field).reference(name)
}

/// The difference of two texts, with removed words as `[-old-]` and added words as `{+new+}`.
pub fn word_diff(old: &str, new: &str) -> String {
    difference_text(&compare_texts(old, new, Instant::now() + TIME_LIMIT))
}

fn note_text(note: HistoryNote) -> &'static str {
    match note {
        HistoryNote::NoRepository => {
            "This project is not in a Git repository: only the latest changes on this machine are \
             known."
        }
        HistoryNote::NoGit => {
            "Git is not installed, so the history has only the latest changes on this machine."
        }
        HistoryNote::ShallowClone => {
            "The clone is shallow or partial: older versions are missing, and its first commit may \
             not have written its text."
        }
        HistoryNote::ForeignOwner => {
            "Git refuses to read the repository, because it belongs to another user: only the latest \
             changes on this machine are known."
        }
        HistoryNote::FiltersChangeBytes => {
            "Git converts line ends or content of the file, so the versions of commits differ from \
             the file's own version."
        }
        HistoryNote::Uncommitted => "The first entry is not committed yet.",
        HistoryNote::Truncated => "A time or size limit was reached, so versions are missing.",
        HistoryNote::Unreadable => {
            "Git could not read the history, and the log of the server says why: only the latest \
             changes on this machine are known."
        }
        HistoryNote::LocalBlocked => {
            "The local history cannot be used, so changes before a commit are missing: remove \
             .reqlore/local/history, or give it to this user."
        }
    }
}
