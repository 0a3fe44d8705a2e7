//! Chooses the entries of a context and the parts of their texts that fit.

use std::collections::BTreeMap;
use std::ops::Range;

use super::render::{EntryGroup, entry_text, reserved_bytes, title_end};
use super::sentences::sentence_ends;
use super::{ContextCandidates, ContextEntry, EntryReason, ShownEntry, TaskContext, weights};

/// Chooses what a text of at most `max_bytes` shows.
pub fn choose_entries(candidates: ContextCandidates, max_bytes: usize) -> TaskContext {
    let mut budget = Budget::new(candidates, max_bytes);
    budget.choose();
    budget.into_context()
}

/// Positions of candidates.
type Step = Range<usize>;

const NO_LIMIT: usize = usize::MAX;

struct Budget {
    entries: Vec<ContextEntry>,
    /// The shown end of each text; `None` for an entry that is left out.
    ends: Vec<Option<usize>>,
    /// The position of each entry's group in `headings`.
    groups: Vec<usize>,
    headings: Vec<EntryGroup>,
    has_heading: Vec<bool>,
    /// Named, linked, rules, found, ended.
    steps: [Step; 5],
    unread: BTreeMap<String, usize>,
    is_story: bool,
    is_uncertain: bool,
    max_bytes: usize,
    free_bytes: usize,
}

impl Budget {
    fn new(candidates: ContextCandidates, max_bytes: usize) -> Self {
        let ContextCandidates {
            named,
            linked,
            rules,
            found,
            ended,
            unread,
            is_story,
            is_uncertain,
        } = candidates;
        let mut entries = Vec::new();
        let steps = [named, linked, rules, found, ended].map(|step| {
            let start = entries.len();
            entries.extend(step);
            start..entries.len()
        });
        let (headings, groups) = group_entries(&entries, steps[4].start);
        let mut kinds = unread.clone();
        for entry in &entries {
            kinds.insert(entry.label.kind.clone(), 0);
        }
        Self {
            ends: vec![None; entries.len()],
            has_heading: vec![false; headings.len()],
            free_bytes: max_bytes.saturating_sub(reserved_bytes(&kinds, is_uncertain)),
            entries,
            groups,
            headings,
            steps,
            unread,
            is_story,
            is_uncertain,
            max_bytes,
        }
    }

    fn choose(&mut self) {
        let [named, linked, rules, found, ended] = self.steps.clone();
        self.add_lines(named.clone(), NO_LIMIT);
        let all = 0..rules.end;
        if self.is_story && self.whole_bytes(all.clone()) <= self.free_bytes {
            self.add_lines(all.clone(), NO_LIMIT);
            self.add_texts(all, NO_LIMIT);
        } else {
            self.choose_named(named, linked.clone(), ended.clone());
            self.choose_rules(rules);
        }
        self.choose_found(found.clone());
        self.add_lines(ended, NO_LIMIT);
        // The rest of the budget, without shares.
        self.add_lines(linked.clone(), NO_LIMIT);
        self.add_texts(0..linked.end, NO_LIMIT);
        if !self.is_uncertain {
            self.add_texts(found, NO_LIMIT);
        }
    }

    fn choose_named(&mut self, named: Step, linked: Step, ended: Step) {
        let mut linked_bytes = share(self.free_bytes, weights::LINKED_SHARE);
        if self.is_story {
            // A story shows all titles before texts.
            self.add_lines(linked.clone(), NO_LIMIT);
            self.add_lines(ended, NO_LIMIT);
            linked_bytes = share(self.free_bytes, weights::LINKED_SHARE);
        } else {
            linked_bytes = self.add_lines(linked.clone(), linked_bytes);
        }
        let mut text_bytes = self.free_bytes;
        if !self.steps[3].is_empty() {
            text_bytes = share(text_bytes, weights::NAMED_TEXT_SHARE);
        }
        self.add_texts(named, text_bytes);
        self.add_texts(linked, linked_bytes);
    }

    /// Rules have their texts only if all of them fit.
    fn choose_rules(&mut self, rules: Step) {
        let limit = share(self.max_bytes, weights::ALWAYS_SHARE).min(self.free_bytes);
        let is_whole = self.whole_bytes(rules.clone()) <= limit;
        let rest = self.add_lines(rules.clone(), limit);
        if is_whole {
            self.add_texts(rules, rest);
        }
    }

    fn choose_found(&mut self, found: Step) {
        let mut limit = if self.is_uncertain { weights::UNCERTAIN_BYTES } else { NO_LIMIT };
        for position in found {
            if !self.add_line(position, &mut limit) {
                continue;
            }
            let text_bytes = share(self.max_bytes, weights::FOUND_TEXT_SHARE).min(limit);
            let rest = self.add_texts(position..position + 1, text_bytes);
            limit = (limit - text_bytes).saturating_add(rest);
        }
    }

    /// The bytes that the entries of a step need besides those that are already shown.
    fn whole_bytes(&self, step: Step) -> usize {
        let mut has_heading = self.has_heading.clone();
        let mut bytes = 0;
        for position in step {
            let group = self.groups[position];
            if !std::mem::replace(&mut has_heading[group], true) {
                bytes += self.headings[group].heading().len();
            }
            let shown = self.ends[position].map_or(0, |end| self.size(position, end));
            bytes += self.size(position, self.entries[position].text.len()).saturating_sub(shown);
        }
        bytes
    }

    fn size(&self, position: usize, end: usize) -> usize {
        let group = &self.headings[self.groups[position]];
        entry_text(&self.entries[position], end, group).len()
    }

    /// Shows the entries of a step without texts, within `limit` bytes. Returns the rest of them.
    fn add_lines(&mut self, step: Step, mut limit: usize) -> usize {
        for position in step {
            self.add_line(position, &mut limit);
        }
        limit
    }

    /// Adds texts to the shown entries of a step, within `limit` bytes. Returns the rest of them.
    fn add_texts(&mut self, step: Step, mut limit: usize) -> usize {
        for position in step {
            self.add_text(position, &mut limit);
        }
        limit
    }

    /// Shows an entry without its text. Returns false if it does not fit.
    fn add_line(&mut self, position: usize, limit: &mut usize) -> bool {
        if self.ends[position].is_some() {
            return true;
        }
        let group = self.groups[position];
        let mut bytes = self.size(position, 0);
        if !self.has_heading[group] {
            bytes += self.headings[group].heading().len();
        }
        if bytes > self.free_bytes.min(*limit) {
            return false;
        }
        self.free_bytes -= bytes;
        *limit -= bytes;
        self.has_heading[group] = true;
        self.ends[position] = Some(0);
        true
    }

    /// Shows as many sentences of an entry's text as fit.
    fn add_text(&mut self, position: usize, limit: &mut usize) {
        let Some(shown) = self.ends[position] else { return };
        let entry = &self.entries[position];
        if shown == entry.text.len() {
            return;
        }
        let before = self.size(position, shown);
        let room = before.saturating_add(self.free_bytes.min(*limit));
        let mut ends = sentence_ends(&entry.text);
        // The beginning of a text stands for the title only if it has all of it.
        let first = title_end(entry).unwrap_or_default().max(shown + 1);
        ends.retain(|end| *end >= first);
        let fits = |end: &usize| self.size(position, *end) <= room;
        let end = match ends.last() {
            Some(whole) if fits(whole) => *whole,
            _ => match ends.partition_point(fits).checked_sub(1) {
                Some(last) => ends[last],
                None => return,
            },
        };
        let after = self.size(position, end);
        self.free_bytes = (self.free_bytes + before).saturating_sub(after);
        *limit = limit.saturating_add(before).saturating_sub(after);
        self.ends[position] = Some(end);
    }

    fn into_context(self) -> TaskContext {
        let Self { entries, ends, groups, headings, unread: mut omitted, is_uncertain, .. } = self;
        let mut shown = Vec::new();
        for ((entry, end), group) in entries.into_iter().zip(ends).zip(groups) {
            match end {
                Some(end) => shown.push(ShownEntry { entry, end, group }),
                None => *omitted.entry(entry.label.kind).or_default() += 1,
            }
        }
        TaskContext { entries: shown, omitted, is_uncertain, headings }
    }
}

fn share(bytes: usize, share: f64) -> usize {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget is small, and a share is between 0 and 1"
    )]
    let share = (bytes as f64 * share) as usize;
    share
}

/// The groups of entries, and the position of each entry's group. Entries from `ended` on are no
/// longer valid.
fn group_entries(entries: &[ContextEntry], ended: usize) -> (Vec<EntryGroup>, Vec<usize>) {
    let mut headings: Vec<EntryGroup> = Vec::new();
    let mut reasons: Vec<BTreeMap<&str, usize>> = Vec::new();
    let mut groups = Vec::with_capacity(entries.len());
    for (position, entry) in entries.iter().enumerate() {
        let kind = (position < ended).then(|| entry.label.kind.clone());
        let known = headings.iter().position(|group| group.kind == kind);
        let group = known.unwrap_or_else(|| {
            headings.push(EntryGroup { kind, reason: entry.reason });
            reasons.push(BTreeMap::new());
            headings.len() - 1
        });
        *reasons[group].entry(entry.reason.name()).or_default() += 1;
        groups.push(group);
    }
    for (group, counts) in headings.iter_mut().zip(&reasons) {
        let count = |reason: &EntryReason| counts.get(reason.name()).copied().unwrap_or_default();
        // The first of equally common ones.
        let common = EntryReason::ALL.into_iter().rev().max_by_key(count);
        group.reason = common.unwrap_or(group.reason);
    }
    (headings, groups)
}
