//! Chooses the entries of a context and the parts of their texts that fit.

use std::collections::BTreeMap;
use std::ops::Range;

use super::render::{entry_text, heading, reserved_bytes, title_end};
use super::sentences::sentence_ends;
use super::{ContextCandidates, EntryReason, ShownEntry, TaskContext, weights};

/// Chooses what a text of at most `max_bytes` shows.
pub fn choose_entries(candidates: ContextCandidates, max_bytes: usize) -> TaskContext {
    let ContextCandidates { named, linked, rules, mut found, ended, is_story, is_weak } =
        candidates;
    let mut omitted = BTreeMap::new();
    if is_weak {
        for entry in found.drain(weights::MAX_WEAK_ENTRIES.min(found.len())..) {
            *omitted.entry(entry.label.kind).or_default() += 1;
        }
    }
    let is_uncertain = is_weak && named.is_empty();
    let (mut entries, mut reasons) = (Vec::new(), BTreeMap::new());
    let lists = [(named, false), (linked, false), (rules, false), (found, false), (ended, true)];
    let steps = lists.map(|(list, is_ended)| {
        let start = entries.len();
        for entry in list {
            if !is_ended {
                reasons.entry(entry.label.kind.clone()).or_insert(entry.reason);
            }
            entries.push(ShownEntry { entry, end: 0, is_ended });
        }
        start..entries.len()
    });
    let kinds = entries.iter().map(|one| &*one.entry.label.kind);
    let kinds = kinds.chain(omitted.keys().map(String::as_str)).collect();
    let free_bytes = max_bytes.saturating_sub(reserved_bytes(&kinds, is_uncertain));
    let is_shown = vec![false; entries.len()];
    let mut budget = Budget { entries, is_shown, reasons, max_bytes, free_bytes };
    budget.choose(steps, is_story, is_weak);
    let Budget { entries, is_shown, reasons, .. } = budget;
    let mut shown = Vec::new();
    for (one, is_shown) in entries.into_iter().zip(is_shown) {
        if is_shown {
            shown.push(one);
        } else {
            *omitted.entry(one.entry.label.kind).or_default() += 1;
        }
    }
    TaskContext { entries: shown, omitted, is_uncertain, reasons }
}

/// Positions of entries.
type Step = Range<usize>;

const NO_LIMIT: usize = usize::MAX;

struct Budget {
    /// Of all candidates.
    entries: Vec<ShownEntry>,
    is_shown: Vec<bool>,
    reasons: BTreeMap<String, EntryReason>,
    max_bytes: usize,
    free_bytes: usize,
}

impl Budget {
    fn choose(&mut self, steps: [Step; 5], is_story: bool, is_weak: bool) {
        let [named, linked, rules, found, ended] = steps;
        self.add_lines(named.clone(), NO_LIMIT);
        if !(is_story && self.add_whole(named.start..rules.end, NO_LIMIT)) {
            let mut linked_bytes = share(self.free_bytes, weights::LINKED_SHARE);
            if is_story {
                // A story shows all titles before texts.
                self.add_lines(linked.clone(), NO_LIMIT);
                self.add_lines(ended.clone(), NO_LIMIT);
                linked_bytes = share(self.free_bytes, weights::LINKED_SHARE);
            } else {
                linked_bytes = self.add_lines(linked.clone(), linked_bytes);
            }
            let named_share = if found.is_empty() { 100 } else { weights::NAMED_TEXT_SHARE };
            self.add_texts(named.clone(), share(self.free_bytes, named_share));
            self.add_texts(linked.clone(), linked_bytes);
            // Rules have their texts only if all of them fit.
            let limit = share(self.max_bytes, weights::ALWAYS_SHARE);
            if !self.add_whole(rules.clone(), limit) {
                self.add_lines(rules, limit);
            }
        }
        let titles = share(self.free_bytes, weights::FOUND_TITLES_SHARE);
        self.add_lines(found.clone(), if is_weak { NO_LIMIT } else { titles });
        for position in found.clone().filter(|_| !is_weak) {
            let limit = share(self.max_bytes, weights::FOUND_TEXT_SHARE);
            self.add_texts(position..position + 1, limit);
        }
        self.add_lines(found.clone(), NO_LIMIT);
        self.add_lines(ended, NO_LIMIT);
        // The rest of the budget, without shares.
        self.add_lines(linked.clone(), NO_LIMIT);
        self.add_texts(named.start..linked.end, NO_LIMIT);
        if !is_weak {
            self.add_texts(found, NO_LIMIT);
        }
    }

    fn size(&self, position: usize, end: usize) -> usize {
        let one = &self.entries[position];
        entry_text(&one.entry, end, one.is_ended, &self.reasons).len()
    }

    /// Shows the entries of a step, which has no texts yet, with their texts if all of them fit
    /// within `limit` bytes.
    fn add_whole(&mut self, step: Step, limit: usize) -> bool {
        let before = (self.is_shown.clone(), self.free_bytes);
        let rest = self.add_lines(step.clone(), limit);
        self.add_texts(step.clone(), rest);
        let is_whole = step.clone().all(|position| {
            let one = &self.entries[position];
            self.is_shown[position] && one.end == one.entry.text.len()
        });
        if !is_whole {
            (self.is_shown, self.free_bytes) = before;
            for one in &mut self.entries[step] {
                one.end = 0;
            }
        }
        is_whole
    }

    /// Shows the entries of a step without texts, within `limit` bytes. Returns the rest of them.
    fn add_lines(&mut self, step: Step, mut limit: usize) -> usize {
        for position in step {
            if self.is_shown[position] {
                continue;
            }
            let one = &self.entries[position];
            let is_same = |other: &ShownEntry| {
                one.is_ended == other.is_ended
                    && (one.is_ended || one.entry.label.kind == other.entry.label.kind)
            };
            let mut shown = self.entries.iter().zip(&self.is_shown);
            let mut bytes = self.size(position, 0);
            if !shown.any(|(other, is_shown)| *is_shown && is_same(other)) {
                bytes += heading(one, &self.reasons).len();
            }
            if bytes <= self.free_bytes.min(limit) {
                self.free_bytes -= bytes;
                limit -= bytes;
                self.is_shown[position] = true;
            }
        }
        limit
    }

    /// Adds texts to the shown entries of a step, within `limit` bytes. Returns the rest of them.
    fn add_texts(&mut self, step: Step, mut limit: usize) -> usize {
        for position in step {
            let ShownEntry { entry, end: shown, .. } = &self.entries[position];
            if !self.is_shown[position] || *shown == entry.text.len() {
                continue;
            }
            let before = self.size(position, *shown);
            let room = before.saturating_add(self.free_bytes.min(limit));
            // The beginning of a text stands for the title only if it has all of it.
            let first = title_end(entry).unwrap_or_default().max(shown + 1);
            let mut ends = sentence_ends(&entry.text);
            ends.retain(|end| *end >= first);
            let fits = |end: &usize| self.size(position, *end) <= room;
            let fitting = match ends.last() {
                Some(whole) if fits(whole) => ends.len(),
                _ => ends.partition_point(fits),
            };
            let Some(last) = fitting.checked_sub(1) else { continue };
            let end = ends[last];
            let after = self.size(position, end);
            self.free_bytes = (self.free_bytes + before).saturating_sub(after);
            limit = limit.saturating_add(before).saturating_sub(after);
            self.entries[position].end = end;
        }
        limit
    }
}

fn share(bytes: usize, percent: usize) -> usize {
    bytes * percent / 100
}
