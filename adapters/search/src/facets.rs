//! The facets of items as numbers, and the filter that a query is.
//!
//! The trap: a number means something in one table only; files and answers have the text.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use reqlore_domain::document::Kind;
use reqlore_domain::search::{Facet, Query};

use crate::table::{self, Entry, Table};

/// All texts that facets ever had since the table was made; there are about as many as parents.
#[derive(Debug, Default)]
pub(crate) struct Facets {
    numbers: HashMap<Box<str>, u32, RandomState>,
    texts: Vec<Box<str>>,
}

impl Facets {
    /// The number of a facet's text, from now on.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(table::index(number)).map_or("", |text| text)
    }

    /// The facets of an item, as answers show them.
    pub(crate) fn of(&self, entry: &Entry) -> Vec<Facet> {
        entry.facets.iter().map(|number| Facet::from_text(self.text(*number))).collect()
    }
}

/// Which items a query is about.
pub(crate) struct Filter<'a> {
    documents: &'a [Kind],
    kinds: &'a [String],
    /// Of each list an item has one; sorted.
    facets: Vec<Vec<u32>>,
}

impl<'a> Filter<'a> {
    pub(crate) fn of(query: &'a Query, known: &Facets) -> Self {
        let number = |facet: &Facet| known.numbers.get(facet.as_str()).copied();
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
