//! Requirement sections: four tools over AGENTS.md and its sections.

pub(crate) mod delete_requirements;
pub(crate) mod get_instructions;
pub(crate) mod get_requirements;
pub(crate) mod set_requirements;

use bytes::Bytes;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::instructions::{self, PLACEHOLDER, SectionTitles};
use reqlore_domain::sections::requirement_index::SectionKey;

use crate::ApplicationPorts;
use crate::transaction::edit;

pub(crate) type ProjectRoot = BoundedString<1_000>;
pub(crate) type OperationDescription = BoundedString<10_000>;

async fn resolve_project(
    ports: &ApplicationPorts,
    caller: &Caller,
    root: &ProjectRoot,
) -> Result<ProjectKey> {
    ports.projects.resolve(caller, Some(root.as_str()), Toolset::Sections).await
}

/// AGENTS.md and the section as they are stored. Creates a missing AGENTS.md for a caller who may
/// write.
async fn read_documents(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    section: Option<&SectionKey>,
    act: WriteContext,
) -> Result<(Document, Option<Document>)> {
    let section = section.map(|key| DocumentId::section(key.as_str()));
    let ids: Vec<DocumentId> = [DocumentId::instructions()].into_iter().chain(section).collect();
    let mut found = ports.documents.get(project, &ids).await?.into_iter();
    let agents = match found.next().flatten() {
        Some(agents) => agents,
        None if act.caller.may(Access::Write) => create_instructions(ports, project, act).await?,
        None => Document::new(DocumentId::instructions(), PLACEHOLDER.into()),
    };
    Ok((agents, found.next().flatten()))
}

/// Writes the placeholder unless another process was faster. The idempotency key of the call
/// belongs to the change that follows.
async fn create_instructions(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    act: WriteContext,
) -> Result<Document> {
    let id = DocumentId::instructions();
    let reads = ReadSet::of(vec![id.clone()]);
    let act = WriteContext { idempotency_key: None, ..act };
    let created = edit(ports, project, reads, act, move |snapshot| {
        if let Some(Some(document)) = snapshot.documents.first() {
            return Ok((Vec::new(), document.clone()));
        }
        let document = Document::new(id.clone(), PLACEHOLDER.into());
        let put = DocumentChange::Put { document: document.clone() };
        Ok((vec![put], document))
    });
    created.await.map(|(document, _)| document)
}

/// The reads of a section's write: AGENTS.md, the section, and the list of sections.
fn write_read_set(key: &SectionKey) -> ReadSet {
    let documents = vec![DocumentId::instructions(), DocumentId::section(key.as_str())];
    ReadSet { documents, metadata_of: Some(DocumentKind::Section), ..ReadSet::default() }
}

/// The state of AGENTS.md and the section in a snapshot of [`reads_of_write`].
fn snapshot_documents(snapshot: &Snapshot) -> (Option<&Document>, Option<&Document>) {
    let at = |at: usize| snapshot.documents.get(at).and_then(Option::as_ref);
    (at(0), at(1))
}

/// The change of AGENTS.md's list after the section `key` was added or removed.
fn section_list_change(
    snapshot: &Snapshot,
    key: &SectionKey,
    remains: bool,
) -> Result<Option<DocumentChange>> {
    let metas = snapshot.metadata.iter().map(|meta| (meta.id.name.clone(), meta.title.clone()));
    let mut titles: SectionTitles = metas.collect();
    if remains {
        titles.entry(key.as_str().to_owned()).or_default();
    } else {
        titles.remove(key.as_str());
    }
    let (agents, _) = snapshot_documents(snapshot);
    let source = agents.map_or(Ok(PLACEHOLDER), document_text)?;
    let edited = instructions::with_sections(source, &titles);
    let body = match (edited, agents) {
        (Some(edited), _) => Bytes::from(edited),
        (None, None) => PLACEHOLDER.into(),
        (None, Some(_)) => return Ok(None),
    };
    Ok(Some(DocumentChange::put(DocumentId::instructions(), body)))
}

/// A document's text, or an error that names it.
fn document_text(document: &Document) -> Result<&str> {
    document.text().map_err(|fault| unreadable_error(&document.id, &fault))
}

/// The same without a copy.
fn into_document_text(document: Document) -> Result<String> {
    let Document { id, body, version } = document;
    String::from_utf8(body.into()).map_err(|error| {
        let document = Document { id, body: error.into_bytes().into(), version };
        unreadable_error(&document.id, &document.text().err().unwrap_or_default())
    })
}

fn unreadable_error(id: &DocumentId, fault: &str) -> Error {
    let message = format!("{id}: {fault} and try again.");
    Error::new(ErrorKind::Unreadable, message).reference(id.name.clone())
}

/// Rejects a version that is not the current one. The conflict shows the current requirement.
fn check_version(
    expected: Option<Version>,
    section: Option<&Document>,
    key: &SectionKey,
    index: &str,
) -> Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let current = section.map(|document| document.version);
    if current == Some(expected) {
        return Ok(());
    }
    let message = match section {
        None => format!(
            "Conflict: section {key} is not there (if_version {expected}). Nothing was changed."
        ),
        Some(document) => {
            let section = Section::of(document_text(document)?);
            let stands = section.find(index).map_or_else(
                || format!("It holds no requirement {index}."),
                |requirement| format!("There it reads:\n{}", section.stored(requirement)),
            );
            format!(
                "Conflict: section {key} changed since version {expected}; it is now at {}. \
                 Nothing was changed. {stands}",
                document.version
            )
        }
    };
    Err(Error::new(ErrorKind::Conflict, message).field("if_version").reference(key.as_str()))
}
