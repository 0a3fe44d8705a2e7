//! Merges the local history of a document with the commits of Git.

use reqlore_domain::ports::history::HistoryEntry;

/// An entry of the merged history.
pub(super) struct ListedEntry {
    pub(super) entry: HistoryEntry,
    pub(super) source: EntrySource,
    /// The commit that has the text.
    pub(super) commit: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EntrySource {
    /// A recorded change.
    Change,
    /// The state before a recorded change, if no change made it.
    FoundState,
    /// A commit, or the present file.
    Git,
}

/// Merges local entries and commits, both newest first. A commit replaces the local entry that has
/// its text. Other commits are placed by time, but not between a change and the state before it.
///
/// `is_inside` is true if the first local entry precedes all commits. Without `is_last`, the local
/// entries that follow the last commit are dropped.
pub(super) fn merge_commits(
    local: Vec<ListedEntry>,
    commits: Vec<(String, HistoryEntry)>,
    mut is_inside: bool,
    is_last: bool,
) -> Vec<ListedEntry> {
    let mut merged: Vec<ListedEntry> = Vec::new();
    let mut local = local.into_iter().peekable();
    for (commit, entry) in commits {
        // Git has the time in seconds, so a change of the same second may be the earlier one.
        let committed_at = entry.at.seconds();
        while let Some(next) = local.next_if(|next| {
            let HistoryEntry { version, at, .. } = &next.entry;
            is_inside || *version == entry.version || at.seconds() >= committed_at
        }) {
            is_inside = next.source == EntrySource::Change;
            merged.push(next);
        }
        let last = merged.len().wrapping_sub(1);
        let known = merged.iter_mut().enumerate().find(|(index, listed)| {
            // The state of a checkout is later than the commit.
            let is_checkout = listed.source == EntrySource::FoundState && *index == last;
            let is_before = is_checkout || listed.entry.at.seconds() <= committed_at;
            is_before && listed.commit.is_none() && listed.entry.version == entry.version
        });
        if let Some((_, known)) = known {
            (known.entry, known.commit) = (entry, Some(commit));
        } else {
            let (source, commit) = (EntrySource::Git, Some(commit));
            merged.push(ListedEntry { entry, source, commit });
        }
    }
    merged.extend(local.take_while(|_| is_last));
    merged
}
