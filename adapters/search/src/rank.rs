//! From scores to an order: words and meaning fused, exact references first.
//!
//! The trap: pages must fit together without holes or repeats, so an order never depends on how
//! much of it is asked for, and equals stand in the order of their references.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

use crate::table::{self, Table};

/// So many of the best by words and by meaning are fused; what is further down says little.
pub(crate) const FUSED: usize = 200;

/// An item and its score in some list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub(crate) slot: u32,
    pub(crate) score: f32,
}

/// What meaning says.
#[derive(Debug, Clone)]
pub(crate) struct Near {
    /// At most [`FUSED`], best first.
    pub(crate) list: Vec<Scored>,
    /// What it counts beside words, which count 1.
    pub(crate) weight: f32,
    /// What is less near and has no word of the query is not found at all.
    pub(crate) cutoff: f32,
}

/// A page of what was found, and how much was found in all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    pub(crate) found: Vec<Scored>,
    pub(crate) total: usize,
}

/// `words` are the scores by slot, zero for what has no word of the query; `pinned` comes first, in
/// its own order.
pub(crate) fn page(
    table: &Table,
    words: &[f32],
    near: Option<&Near>,
    pinned: &[u32],
    page: Range<usize>,
) -> Page {
    let near = near.filter(|near| !near.list.is_empty());
    let scored = (0..).zip(words).filter(|(_, score)| **score > 0.0);
    let mut by_words: Vec<Scored> =
        scored.map(|(slot, score)| Scored { slot, score: *score }).collect();
    let has_word = |slot: u32| words.get(table::index(slot)).is_some_and(|score| *score > 0.0);
    let mut total = by_words.len();
    // What fusion and pins take out of the words' own order leaves places for those behind.
    let fused_at_most = if near.is_some() { 2 * FUSED } else { 0 };
    let reach = page.end.saturating_add(fused_at_most).saturating_add(pinned.len());
    keep_best(&mut by_words, reach);
    by_words.sort_unstable_by(|a, b| compare(table, *a, *b));

    let mut found = match near {
        Some(near) => {
            let near_only = near.list.iter().filter(|near_by| !has_word(near_by.slot));
            total += near_only.filter(|near_by| near_by.score >= near.cutoff).count();
            fused(table, &by_words, near, has_word)
        }
        None => alone(&by_words),
    };
    let listed = |slot: u32| near.is_some_and(|near| is_listed(near, slot));
    total += pinned.iter().filter(|slot| !has_word(**slot) && !listed(**slot)).count();
    found.retain(|found| !pinned.contains(&found.slot));
    let first = pinned.iter().map(|slot| Scored { slot: *slot, score: 1.0 });
    found.splice(0..0, first);
    let range = page.start.min(found.len())..page.end.min(found.len());
    Page { found: found[range].to_vec(), total }
}

/// Is it found by meaning, whether or not by words?
fn is_listed(near: &Near, slot: u32) -> bool {
    near.list.iter().any(|found| found.slot == slot && found.score >= near.cutoff)
}

/// Best first; of equals the first by reference, then by document.
pub(crate) fn compare(table: &Table, a: Scored, b: Scored) -> Ordering {
    b.score.total_cmp(&a.score).then_with(|| {
        let name =
            |found: Scored| table.item(found.slot).map(|entry| (&entry.reference, &entry.document));
        name(a).cmp(&name(b)).then(a.slot.cmp(&b.slot))
    })
}

/// Keeps the best so many, and all that equal the last of them.
pub(crate) fn keep_best(list: &mut Vec<Scored>, count: usize) {
    if list.len() <= count {
        return;
    }
    let Some(place) = count.checked_sub(1) else { return list.clear() };
    let mut scores: Vec<f32> = list.iter().map(|found| found.score).collect();
    let (_, worst, _) = scores.select_nth_unstable_by(place, |a, b| b.total_cmp(a));
    let worst = *worst;
    list.retain(|found| found.score >= worst);
}

/// Words alone: shares of the best score.
fn alone(words: &[Scored]) -> Vec<Scored> {
    let best = words.first().map_or(1.0, |found| found.score);
    words.iter().map(|found| Scored { slot: found.slot, score: found.score / best }).collect()
}

/// The sum of both scores, each stretched over the best [`FUSED`] of its list; behind these what
/// only has words, in its order.
fn fused(
    table: &Table,
    words: &[Scored],
    near: &Near,
    has_word: impl Fn(u32) -> bool,
) -> Vec<Scored> {
    let (head, tail) = words.split_at(words.len().min(FUSED));
    let both = 1.0 + near.weight;
    let mut sums: HashMap<u32, f32> = HashMap::with_capacity(2 * FUSED);
    for (found, share) in head.iter().zip(stretched(head)) {
        sums.insert(found.slot, share / both);
    }
    for (found, share) in near.list.iter().zip(stretched(&near.list)) {
        if found.score >= near.cutoff || has_word(found.slot) {
            *sums.entry(found.slot).or_default() += share * near.weight / both;
        }
    }
    let mut order: Vec<Scored> = sums
        .iter()
        .map(|(slot, score)| Scored { slot: *slot, score: score.clamp(0.0, 1.0) })
        .collect();
    order.sort_unstable_by(|a, b| compare(table, *a, *b));
    let rest = tail.iter().filter(|found| !sums.contains_key(&found.slot));
    order.extend(rest.map(|found| Scored { slot: found.slot, score: 0.0 }));
    order
}

/// Scores between the worst, 0, and the best, 1.
fn stretched(list: &[Scored]) -> impl Iterator<Item = f32> {
    let best = list.first().map_or(0.0, |found| found.score);
    let worst = list.last().map_or(0.0, |found| found.score);
    let width = best - worst;
    list.iter().map(move |found| if width > 0.0 { (found.score - worst) / width } else { 1.0 })
}
