//! Warnings for new items that have the title of an existing one.

use std::collections::{BTreeMap, HashMap, HashSet};

use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::encode_id;

use crate::context::ToolContext;
use crate::writes::batch::CommittedBatch;
use crate::writes::change::Action;

/// Pages of metadata that are read for each kind.
const MAX_PAGES: usize = 5;

/// The titles of the new items of a call.
pub(super) struct NewTitles {
    /// The positions of their entries, by title.
    kinds: BTreeMap<DocumentKind, HashMap<String, Vec<usize>>>,
    documents: HashSet<DocumentId>,
}

impl NewTitles {
    pub(super) fn of_batch(batch: &CommittedBatch) -> Self {
        let mut new = Self { kinds: BTreeMap::new(), documents: HashSet::new() };
        for (position, outcome) in batch.outcomes.iter().enumerate() {
            let id = &outcome.document.id;
            // Acceptance criteria have no title, but often the same first line.
            let is_untitled = matches!(id.kind, DocumentKind::Item(kind) if !kind.is_planned());
            let has_title = outcome.rule.is_none() && !is_untitled;
            let meta = DocumentMeta::from_document(&outcome.document, Timestamp::default());
            if outcome.action == Action::Create
                && has_title
                && let Some(key) = title_key(&meta)
            {
                new.documents.insert(id.clone());
                new.kinds.entry(id.kind).or_default().entry(key).or_default().push(position);
            }
        }
        new
    }

    /// Returns a warning for each new item with the title of an existing one of its kind, by the
    /// position of its entry.
    ///
    /// Compares with the first documents of a kind only, and with none if they cannot be read: a
    /// warning is not worth more.
    pub(super) async fn find_existing(
        self,
        context: &ToolContext,
        project: &ProjectKey,
    ) -> Vec<(usize, String)> {
        let mut notes = Vec::new();
        for (kind, mut titles) in self.kinds {
            let mut filter = DocumentFilter::of_kind(kind);
            for _ in 0..MAX_PAGES {
                let page = context.ports.documents.find(project, &filter).await;
                let Ok(page) = page else { return notes };
                for meta in page.metadata {
                    if !self.documents.contains(&meta.id)
                        && let Some(key) = title_key(&meta)
                        && let Some(positions) = titles.remove(&key)
                    {
                        let id = meta.reference().unwrap_or_default();
                        let note = format!("{} has the same title", encode_id(&id));
                        notes.extend(positions.into_iter().map(|at| (at, note.clone())));
                    }
                }
                filter.after_name = page.next_name;
                if filter.after_name.is_none() || titles.is_empty() {
                    break;
                }
            }
        }
        notes
    }
}

/// Kind and title of an item or entity, in lower case with single spaces.
fn title_key(meta: &DocumentMeta) -> Option<String> {
    let (kind, title) = match (&meta.item, &meta.entity) {
        (Some(item), _) => (item.kind.name(), &item.title),
        (_, Some(entity)) => (entity.kind.as_str(), &entity.title),
        _ => return None,
    };
    let words: Vec<String> = title.split_whitespace().map(str::to_lowercase).collect();
    Some(format!("{kind} {}", words.join(" ")))
}
