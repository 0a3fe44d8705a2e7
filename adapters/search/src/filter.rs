//! The filter of a query over the item table, and the facets of items as numbers.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::search::{SearchFacet, SearchQuery};

use crate::item_table::{IndexedItem, ItemTable};

pub(crate) struct ItemFilter<'a> {
    documents: &'a [DocumentKind],
    kinds: &'a [String],
    /// Sorted numbers. An item needs at least one facet of each list.
    facets: Vec<Vec<u32>>,
}

impl<'a> ItemFilter<'a> {
    pub(crate) fn new(query: &'a SearchQuery, facet_numbers: &FacetNumbers) -> Self {
        let mut facets = Vec::with_capacity(query.facets.len());
        for alternatives in &query.facets {
            // A facet without a number occurs in no item.
            let mut numbers: Vec<u32> = alternatives
                .iter()
                .filter_map(|facet| facet_numbers.find(facet.as_str()))
                .collect();
            // Sorted for the binary search in `includes_item`.
            numbers.sort_unstable();
            facets.push(numbers);
        }
        Self { documents: &query.document_kinds, kinds: &query.item_kinds, facets }
    }

    pub(crate) fn includes_slot(&self, table: &ItemTable, slot: u32) -> bool {
        // A query without filters needs no look-up in the table.
        if self.is_unrestricted() {
            return true;
        }
        match table.item(slot) {
            Some(item) => self.includes_item(item),
            None => false,
        }
    }

    /// True if documents of this kind are searched.
    pub(crate) fn includes_kind(&self, kind: DocumentKind) -> bool {
        self.documents.is_empty() || self.documents.contains(&kind)
    }

    fn is_unrestricted(&self) -> bool {
        self.documents.is_empty() && self.kinds.is_empty() && self.facets.is_empty()
    }

    fn includes_item(&self, item: &IndexedItem) -> bool {
        if !self.includes_kind(item.document.kind) {
            return false;
        }
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kind| **kind == *item.kind) {
            return false;
        }
        for alternatives in &self.facets {
            if !item.facets.iter().any(|facet| alternatives.binary_search(facet).is_ok()) {
                return false;
            }
        }
        true
    }
}

/// Facets as numbers. A number is valid in one table only, so files and responses hold the text.
#[derive(Debug, Default)]
pub(crate) struct FacetNumbers {
    numbers: HashMap<Box<str>, u32, RandomState>,
    texts: Vec<Box<str>>,
}

impl FacetNumbers {
    /// Returns the number of a text, and assigns one to a new text.
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

    pub(crate) fn to_facets(&self, numbers: &[u32]) -> Vec<SearchFacet> {
        numbers.iter().map(|number| SearchFacet::from_text(self.text(*number))).collect()
    }
}
