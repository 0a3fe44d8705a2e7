//! The facets of items, and the filter of a query over the table.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::search::{SearchFacet, SearchQuery};

use crate::item_table::{IndexedItem, ItemTable};

/// The items that a query includes.
pub(crate) struct ItemFilter<'a> {
    documents: &'a [DocumentKind],
    kinds: &'a [String],
    /// Of each list an item has one; sorted.
    facets: Vec<Vec<u32>>,
}

impl<'a> ItemFilter<'a> {
    pub(crate) fn of(query: &'a SearchQuery, known: &FacetNumbers) -> Self {
        let number = |facet: &SearchFacet| known.find(facet.as_str());
        let facets = query.facets.iter().map(|wanted| {
            let mut wanted: Vec<u32> = wanted.iter().filter_map(number).collect();
            wanted.sort_unstable();
            wanted
        });
        Self { documents: &query.documents, kinds: &query.kinds, facets: facets.collect() }
    }

    pub(crate) fn includes_slot(&self, table: &ItemTable, slot: u32) -> bool {
        self.is_unrestricted() || table.item(slot).is_some_and(|entry| self.includes_item(entry))
    }

    fn is_unrestricted(&self) -> bool {
        self.documents.is_empty() && self.kinds.is_empty() && self.facets.is_empty()
    }

    fn includes_item(&self, entry: &IndexedItem) -> bool {
        let has = |wanted: &Vec<u32>| {
            entry.facets.iter().any(|facet| wanted.binary_search(facet).is_ok())
        };
        (self.documents.is_empty() || self.documents.contains(&entry.document.kind))
            && (self.kinds.is_empty() || self.kinds.iter().any(|kind| **kind == *entry.kind))
            && self.facets.iter().all(has)
    }
}

/// Facets as numbers, valid in one table only. Files and responses have the text.
#[derive(Debug, Default)]
pub(crate) struct FacetNumbers {
    numbers: HashMap<Box<str>, u32, RandomState>,
    texts: Vec<Box<str>>,
}

impl FacetNumbers {
    /// Assigns a number to a new text.
    pub(crate) fn assign(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(usize::try_from(number).unwrap_or(usize::MAX)).map_or("", |text| text)
    }

    pub(crate) fn of(&self, numbers: &[u32]) -> Vec<SearchFacet> {
        numbers.iter().map(|number| SearchFacet::from_text(self.text(*number))).collect()
    }
}
