//! How far what is known of an area can be believed: what the watch said, and what it can't see.

use std::collections::BTreeSet;

use reqlore_domain::document::DocumentId;

use crate::watch::Watch;

/// What happened since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Quiet,
    /// These documents changed, came or went.
    Touched(BTreeSet<DocumentId>),
    /// The watch can't tell; it is of no use any more.
    Lost,
}

/// How far what is known of an area can be believed.
#[derive(Debug, Default)]
pub(crate) struct Ground {
    pub(crate) watch: Option<Watch>,
    /// What the watch named, or we wrote, and nobody has looked at yet.
    pub(crate) touched: BTreeSet<DocumentId>,
    /// Documents for which the watch can't vouch.
    pub(crate) unwatchable: BTreeSet<DocumentId>,
    /// The cache was read.
    pub(crate) loaded: bool,
    /// All there was has been looked at.
    pub(crate) listed: bool,
    /// How many documents were read since the cache was last written.
    pub(crate) unsaved: usize,
}

impl Ground {
    /// Takes in what the watch has to tell; false when it can't vouch any more.
    pub(crate) fn drain(&mut self) -> bool {
        match self.watch.as_mut().map_or(News::Lost, Watch::news) {
            News::Quiet => true,
            News::Touched(ids) => {
                self.touched.extend(ids);
                true
            }
            News::Lost => {
                self.watch = None;
                false
            }
        }
    }

    /// Is all there is known, after the watch was asked?
    pub(crate) fn is_known(&self) -> bool {
        self.listed && self.touched.is_empty() && self.unwatchable.is_empty()
    }
}
