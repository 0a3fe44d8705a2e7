//! Explains an answer with few or no hits: nothing is stored, not imported or not indexed yet.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::Result;
use reqlore_domain::identity::{Caller, ProjectScope};
use reqlore_domain::ports::documents::{DocumentFilter, read_all};
use reqlore_domain::ports::project_resolver::{DocumentsFolder, Toolset};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{SearchHits, SearchQuery};

use crate::answers::answer::ToolAnswer;
use crate::ports::ApplicationPorts;

/// With fewer hits than this, an answer mentions pending texts.
const FEW_HITS: usize = 10;

/// Hit counts of a search over all pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitCounts {
    /// True if the first page has neither certain nor uncertain hits.
    is_empty: bool,
    total: usize,
    pending: usize,
    /// False for a query such as `*`.
    has_word: bool,
}

impl HitCounts {
    /// Counts the hits of the page of a query.
    pub(crate) fn of_page(page: &SearchHits, query: &SearchQuery) -> Self {
        let is_empty = page.hits.is_empty() && query.offset == 0;
        // Characters from U+2190 on, such as arrows and emoji, may be words.
        let has_word = query.text.contains(|c: char| c.is_alphanumeric() || c >= '\u{2190}');
        Self { is_empty, total: page.total, pending: page.pending, has_word }
    }

    /// Returns a note about pending texts if there are few hits.
    pub(crate) fn pending_note(self) -> Option<String> {
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
    answer: &mut ToolAnswer,
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
    found: HitCounts,
    excluded: &str,
) -> Result<()> {
    let pending = found.pending_note();
    if found.is_empty {
        let excluded = match pending.as_deref() {
            _ if !found.has_word => {
                "The query has no letter or digit, so no text matches; search for words."
            }
            pending => pending.unwrap_or(excluded),
        };
        return add_reason(answer, ports, caller, project, kinds, excluded).await;
    }
    answer.add_notes(pending);
    if found.total < FEW_HITS {
        note_unimported(answer, ports, project, synced_kinds(kinds)).await?;
    }
    Ok(())
}

/// The kinds that `ixchel_sync` imports repeatedly. The others are imported once, so files
/// that remain after that are left over, and reading all of them would take seconds.
fn synced_kinds(kinds: &[DocumentKind]) -> &[DocumentKind] {
    if kinds.contains(&DocumentKind::Entity) { &[DocumentKind::Entity] } else { &[] }
}

/// Adds to an empty answer why it is empty. `excluded` is the reason if the project has documents
/// of these kinds, so that the query or a filter excludes all of them; empty if the
/// answer says it. Names the files that a database has not imported.
pub(crate) async fn add_reason(
    answer: &mut ToolAnswer,
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
    excluded: &str,
) -> Result<()> {
    let reason = missing_reason(ports, caller, project, kinds).await?;
    let imported = if reason.is_some() { kinds } else { synced_kinds(kinds) };
    let reason = reason.unwrap_or_else(|| excluded.to_owned());
    answer.add_notes([reason].into_iter().filter(|reason| !reason.is_empty()));
    note_unimported(answer, ports, project, imported).await
}

/// Adds a note about files of these kinds in the project's folder that a database has not imported.
pub(crate) async fn note_unimported(
    answer: &mut ToolAnswer,
    ports: &ApplicationPorts,
    project: &ProjectKey,
    kinds: &[DocumentKind],
) -> Result<()> {
    let Some(tree) = &ports.root_files else { return Ok(()) };
    let (mut count, mut has_entities) = (0, false);
    for kind in kinds {
        let (files, _) = read_all(&**tree, project, *kind).await?;
        let ids: Vec<DocumentId> = files.iter().map(|meta| meta.id.clone()).collect();
        let versions = ports.documents.versions(project, &ids).await?;
        let missing = versions.iter().filter(|version| version.is_none()).count();
        count += missing;
        has_entities |= missing > 0 && *kind == DocumentKind::Entity;
    }
    if count == 0 {
        return Ok(());
    }
    let import = if has_entities {
        "ixchel_sync imports .ixchel, `reqlore copy` imports the rest"
    } else {
        "`reqlore copy` imports all documents"
    };
    let word = if count == 1 { "file" } else { "files" };
    answer.add_notes([format!(
        "The project's folder has {count} {word} that the database has not imported; {import}."
    )]);
    Ok(())
}

/// Returns why there are no documents of these kinds; `None` if there are some.
pub(crate) async fn missing_reason(
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
    kinds: &[DocumentKind],
) -> Result<Option<String>> {
    for kind in kinds {
        let filter = DocumentFilter { limit: 1, ..DocumentFilter::of_kind(*kind) };
        let page = ports.documents.find(project, &filter).await?;
        if !page.metadata.is_empty() {
            return Ok(None);
        }
        if let Some(file) = page.unread.first() {
            return Ok(Some(format!("{}: {}", file.path, file.reason)));
        }
    }
    let nouns = match kinds {
        [DocumentKind::Entity] => return Ok(Some(no_entities(ports, caller, project).await?)),
        [kind] => plural_noun(*kind),
        _ => "texts",
    };
    Ok(Some(format!("This project has no {nouns} yet.")))
}

/// Returns why a project has no entities.
async fn no_entities(
    ports: &ApplicationPorts,
    caller: &Caller,
    project: &ProjectKey,
) -> Result<String> {
    let folder = ports.projects.folder(project).await?;
    let reason = match ports.projects.find_documents(caller, project, Toolset::Knowledge) {
        DocumentsFolder::Found(found) if found == *project => match &ports.root_files {
            None => "the folder .ixchel has no .md files".to_owned(),
            Some(_) => "the database has none".to_owned(),
        },
        DocumentsFolder::Found(found) => {
            let above = ports.projects.folder(&found).await?;
            format!(
                "{above}/.ixchel is above the project's folder, and a database imports only the \
                 project's own; start with --root {above}"
            )
        }
        DocumentsFolder::Unusable(reason) => reason,
        DocumentsFolder::Missing => match caller.scope {
            ProjectScope::Anywhere => format!("neither {folder} nor a folder above it has .ixchel"),
            // A path of the server's machine is of no use to a remote caller.
            ProjectScope::Configured | ProjectScope::Only(_) => {
                "the project's folder has no .ixchel".to_owned()
            }
        },
    };
    Ok(format!("This project has no entities yet: {reason}."))
}

fn plural_noun(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Section => "sections",
        DocumentKind::Entity => "entities",
        DocumentKind::Item(ItemKind::Requirement) => "backlog requirements",
        DocumentKind::Item(kind) => kind.row().words[1],
        _ => "documents",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_with_few_hits_names_pending_texts() {
        let note = |total, pending| {
            HitCounts { is_empty: total == 0, total, pending, has_word: true }.pending_note()
        };
        let expected = "The search index is being built: 1 text is pending, so hits may be \
                        missing. Search again later.";
        assert_eq!(note(0, 1).unwrap(), expected);
        assert!(note(9, 5_000).unwrap().contains("5000 texts are pending"));
        assert_eq!((note(0, 0), note(10, 5_000)), (None, None));
    }
}
