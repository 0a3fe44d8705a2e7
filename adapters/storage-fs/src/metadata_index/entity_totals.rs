//! Counts of entities by kind and tag, kept while documents change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::knowledge::Entity;
use reqlore_domain::ports::record_list::{RecordCounts, RecordPage};

#[derive(Debug, Default)]
pub(super) struct EntityTotals {
    by_kind: BTreeMap<String, KindTotals>,
}

/// The entities of one kind.
#[derive(Debug, Default)]
struct KindTotals {
    count: usize,
    tags: BTreeMap<String, usize>,
    /// The names of documents without tags.
    untagged: BTreeSet<Arc<str>>,
}

impl EntityTotals {
    pub(super) fn add(&mut self, name: &Arc<str>, entity: &Entity) {
        let totals = self.by_kind.entry(entity.kind.clone()).or_default();
        totals.count += 1;
        for tag in &entity.tags {
            *totals.tags.entry(tag.clone()).or_default() += 1;
        }
        if entity.tags.is_empty() {
            totals.untagged.insert(Arc::clone(name));
        }
    }

    /// Removes an entity that was added.
    pub(super) fn remove(&mut self, name: &str, entity: &Entity) {
        let Some(totals) = self.by_kind.get_mut(&entity.kind) else { return };
        totals.count -= 1;
        if totals.count == 0 {
            self.by_kind.remove(&entity.kind);
            return;
        }
        for tag in &entity.tags {
            if let Some(count) = totals.tags.get_mut(tag) {
                *count -= 1;
                if *count == 0 {
                    totals.tags.remove(tag);
                }
            }
        }
        totals.untagged.remove(name);
    }

    /// The number of entities with each tag, or of each kind.
    pub(super) fn counts(&self, kind: Option<&str>, counts: RecordCounts) -> RecordPage {
        let mut page = RecordPage::default();
        for (kind, totals) in self.of_kind(kind) {
            page.total += totals.count;
            if counts == RecordCounts::Kind {
                page.by_text.insert(kind.clone(), totals.count);
                continue;
            }
            for (tag, count) in &totals.tags {
                *page.by_text.entry(tag.clone()).or_default() += count;
            }
        }
        page
    }

    /// The names of documents without tags, sorted by kind and name, and their number.
    pub(super) fn untagged(&self, kind: Option<&str>, limit: usize) -> (Vec<Arc<str>>, usize) {
        let (mut names, mut total) = (Vec::new(), 0);
        for (_, KindTotals { untagged, .. }) in self.of_kind(kind) {
            total += untagged.len();
            names.extend(untagged.iter().take(limit - names.len()).cloned());
        }
        (names, total)
    }

    /// The totals of one kind or of all.
    fn of_kind(&self, kind: Option<&str>) -> impl Iterator<Item = (&String, &KindTotals)> {
        self.by_kind.iter().filter(move |(other, _)| kind.is_none_or(|kind| kind == *other))
    }
}
