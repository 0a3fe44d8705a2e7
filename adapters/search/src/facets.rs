//! The facets of items as numbers.
//!
//! The trap: a number means something in one table only; files and answers have the text.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use reqlore_domain::search::Facet;

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

    /// The number of a text that some item has.
    pub(crate) fn known(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    pub(crate) fn text(&self, number: u32) -> &str {
        self.texts.get(usize::try_from(number).unwrap_or(usize::MAX)).map_or("", |text| text)
    }

    /// The facets of an item, as answers show them.
    pub(crate) fn of(&self, numbers: &[u32]) -> Vec<Facet> {
        numbers.iter().map(|number| Facet::from_text(self.text(*number))).collect()
    }
}
