//! Which items a query is about, as a filter over the table.

use reqlore_domain::document::Kind;
use reqlore_domain::search::{Facet, Query};

use crate::facets::Facets;
use crate::table::{Entry, Table};

/// Which items a query is about.
pub(crate) struct Filter<'a> {
    documents: &'a [Kind],
    kinds: &'a [String],
    /// Of each list an item has one; sorted.
    facets: Vec<Vec<u32>>,
}

impl<'a> Filter<'a> {
    pub(crate) fn of(query: &'a Query, known: &Facets) -> Self {
        let number = |facet: &Facet| known.known(facet.as_str());
        let facets = query.facets.iter().map(|wanted| {
            let mut wanted: Vec<u32> = wanted.iter().filter_map(number).collect();
            wanted.sort_unstable();
            wanted
        });
        Self { documents: &query.documents, kinds: &query.kinds, facets: facets.collect() }
    }

    pub(crate) fn fits(&self, table: &Table, slot: u32) -> bool {
        self.takes_all() || table.item(slot).is_some_and(|entry| self.takes(entry))
    }

    fn takes_all(&self) -> bool {
        self.documents.is_empty() && self.kinds.is_empty() && self.facets.is_empty()
    }

    fn takes(&self, entry: &Entry) -> bool {
        let has = |wanted: &Vec<u32>| {
            entry.facets.iter().any(|facet| wanted.binary_search(facet).is_ok())
        };
        (self.documents.is_empty() || self.documents.contains(&entry.document.kind))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| **kind == *entry.kind))
            && self.facets.iter().all(has)
    }
}
