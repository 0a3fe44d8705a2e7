//! Explains an answer with few or no hits: nothing is stored, not imported or not indexed yet.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::documents::{DocumentFilter, DocumentRepository, count_documents};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::SearchHits;

use crate::ApplicationPorts;
use crate::answer::ToolAnswer;

/// With fewer hits than this, an answer mentions pending texts.
const FEW_HITS: usize = 10;

/// Hit counts of a search over all pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitCounts {
    /// True if the first page has neither certain nor uncertain hits.
    is_empty: bool,
    total: usize,
    pending: usize,
}

impl HitCounts {
    /// Counts the hits of a page that begins at `offset`.
    pub(crate) fn of_page(page: &SearchHits, offset: usize) -> Self {
        let is_empty = page.hits.is_empty() && offset == 0;
        Self { is_empty, total: page.total, pending: page.pending }
    }

    /// Returns a note about pending texts if there are few hits.
    fn pending_note(self) -> Option<String> {
        let (verb, texts) = if self.pending == 1 { ("is", "text") } else { ("are", "texts") };
        (self.pending > 0 && self.total < FEW_HITS).then(|| {
            format!(
                "The search index is being built: {} {texts} {verb} pending, so hits may be \
                 missing. Search again later.",
                self.pending
            )
        })
    }
}

/// Adds an explanation to a search answer with few or no hits. `excluded` is the reason if the
/// query or a filter excludes all documents.
pub(crate) async fn explain_hits(
    reply: &mut ToolAnswer,
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
    found: HitCounts,
    excluded: &str,
) -> Result<()> {
    let pending = found.pending_note();
    if found.is_empty {
        let excluded = pending.as_deref().unwrap_or(excluded);
        return add_reason(reply, ports, caller, project, kinds, excluded).await;
    }
    reply.add_notes(pending);
    Ok(())
}

/// Adds to an empty answer why it is empty. `excluded` is the reason if the project has documents
/// of these kinds, so that the query or a filter excludes all of them.
pub(crate) async fn add_reason(
    reply: &mut ToolAnswer,
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
    excluded: &str,
) -> Result<()> {
    let reason = missing_reason(ports, caller, project, kinds).await?;
    reply.add_notes(vec![reason.unwrap_or_else(|| excluded.to_owned())]);
    Ok(())
}

/// Returns why there are no documents of these kinds; `None` if there are some.
async fn missing_reason(
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
) -> Result<Option<String>> {
    for kind in kinds {
        let filter = DocumentFilter { limit: 1, ..DocumentFilter::of_kind(*kind) };
        if !ports.documents.find(project, &filter).await?.metadata.is_empty() {
            return Ok(None);
        }
        let unread = ports.documents.diagnostics(project, *kind, 0).await?.unread;
        if let Some(file) = unread.first() {
            return Ok(Some(format!("{}: {}", file.path, file.reason)));
        }
    }
    let nouns = match kinds {
        [kind] => plural_noun(*kind),
        _ => "texts",
    };
    if let Some(tree) = &ports.root_files {
        let (files, has_entities) = count_all(&**tree, project, kinds).await?;
        if files > 0 {
            let import = if has_entities {
                "ixchel_sync imports .ixchel, `reqlore copy` imports the rest"
            } else {
                "`reqlore copy` imports all documents"
            };
            let word = if files == 1 { "file" } else { "files" };
            return Ok(Some(format!(
                "The database has no {nouns}, but the project's folder has {files} {word} not \
                 taken over; {import}."
            )));
        }
    }
    if kinds == [DocumentKind::Entity] && ports.root_files.is_none() {
        return Ok(Some(no_entity_files(ports, caller, project).await?));
    }
    Ok(Some(format!("This project has no {nouns} yet.")))
}

/// The number of documents, and true if some are entities.
async fn count_all(
    documents: &dyn DocumentRepository,
    project: &ProjectKey,
    kinds: &[DocumentKind],
) -> Result<(usize, bool)> {
    let (mut count, mut has_entities) = (0, false);
    for kind in kinds {
        let number = count_documents(documents, project, *kind).await?;
        count += number;
        has_entities |= number > 0 && *kind == DocumentKind::Entity;
    }
    Ok((count, has_entities))
}

async fn no_entity_files(
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
) -> Result<String> {
    let folder = ports.projects.folder(project).await?;
    if ports.projects.has_folder(&format!("{folder}/.ixchel")).await {
        return Ok("The folder .ixchel has no .md files yet.".to_owned());
    }
    let reason = match caller.scope {
        ProjectScope::Anywhere => format!("neither {folder} nor a folder above it has .ixchel"),
        // A path of the server's machine is of no use to a remote caller.
        ProjectScope::Configured | ProjectScope::Only(_) => {
            "the project's folder has no .ixchel".to_owned()
        }
    };
    Ok(format!("This project has no entities yet: {reason}."))
}

fn plural_noun(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Section => "sections",
        DocumentKind::Entity => "entities",
        DocumentKind::Item(ItemKind::Epic) => "epics",
        DocumentKind::Item(ItemKind::UserStory) => "user stories",
        DocumentKind::Item(ItemKind::Requirement) => "backlog requirements",
        DocumentKind::Item(ItemKind::AcceptanceCriteria) => "acceptance criteria",
        _ => "documents",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_with_few_hits_names_pending_texts() {
        let note =
            |total, pending| HitCounts { is_empty: total == 0, total, pending }.pending_note();
        let expected = "The search index is being built: 1 text is pending, so hits may be missing. \
                        Search again later.";
        assert_eq!(note(0, 1).unwrap(), expected);
        assert!(note(9, 5_000).unwrap().contains("5000 texts are pending"));
        assert_eq!((note(0, 0), note(10, 5_000)), (None, None));
    }
}
