//! The one order of lists: priority, newest first, higher number first (S2 1.6; rulings 3).

use std::cmp::{Ordering, Reverse};

use super::Item;

/// How two items stand in a list. What has no priority comes after what has one.
pub fn order(a: &Item, b: &Item) -> Ordering {
    let key = |item: &Item| {
        let priority = item.priority.map_or(u8::MAX, super::Priority::number);
        let number = item.reference.map(|reference| reference.number);
        (priority, Reverse(item.created_at), Reverse(number))
    };
    key(a).cmp(&key(b))
}
