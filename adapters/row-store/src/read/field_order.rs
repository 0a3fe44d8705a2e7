//! The first items of a list in the order of a custom field.
//!
//! An order is a sequence of values, ranges of values, and the items without a value. The rows of
//! a value are in groups of status and type, so each value is read in the order of lists by itself.

use std::ops::Range;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::record_list::{FieldOrder, custom_values, position_key};

use super::documents::{AFTER_TEXTS, decode_metas};
use super::items::{Base, FieldRow, ItemReader, Place};
use super::read_one;
use crate::row::{RowQuery, TableRow, Value};
use crate::tables::ITEM_FIELDS;

/// Maximum number of rows that one query reads.
const MAX_CHUNK: usize = 1_000;

/// A part of the order.
enum Segment {
    Value(String),
    /// The values in a range, without the choices.
    Range(Range<String>),
    /// Items without a value.
    Rest,
}

struct FieldScan<'a> {
    reader: &'a ItemReader<'a>,
    order: &'a FieldOrder,
    is_reversed: bool,
    places: Vec<Place>,
}

/// Returns at least one place more than the page has, if there are as many. `base` and `groups` are
/// those of all items of the list.
pub(super) async fn first_places(
    reader: &ItemReader<'_>,
    order: &FieldOrder,
    base: Base<'_>,
    groups: &[TableRow],
) -> StoreResult<Vec<Place>> {
    if order.name == FieldOrder::STATUS {
        return reader.places_by_status(order, base, groups).await;
    }
    let is_reversed = reader.query.order.is_reversed;
    let mut scan = FieldScan { reader, order, is_reversed, places: Vec::new() };
    let mut segments = segments(order, is_reversed);
    let mut after = reader.query.after.as_ref().map(position_key);
    if let Some((text, ..)) = &reader.query.after {
        segments = segments_from(segments, order, is_reversed, text);
    }
    for segment in segments {
        match segment {
            Segment::Value(value) => scan.add_value(&value, after.take()).await?,
            Segment::Range(range) => scan.add_range(range).await?,
            Segment::Rest => scan.add_rest(base, groups, after.take()).await?,
        }
        if scan.is_full() {
            break;
        }
    }
    Ok(scan.places)
}

/// The whole order.
fn segments(order: &FieldOrder, is_reversed: bool) -> Vec<Segment> {
    let mut values: Vec<_> = order.choices.iter().cloned().map(Segment::Value).collect();
    let (mut ranges, mut start) = (Vec::new(), String::new());
    let mut sorted = order.choices.clone();
    sorted.sort_unstable();
    for choice in sorted {
        ranges.push(Segment::Range(start..choice.clone()));
        start = choice + "\0";
    }
    ranges.push(Segment::Range(start..AFTER_TEXTS.to_owned()));
    if is_reversed {
        values.reverse();
        ranges.reverse();
    }
    values.extend(ranges);
    values.push(Segment::Rest);
    values
}

/// The rest of the order from the item with this sort text on. The first segment has its value.
fn segments_from(
    mut all: Vec<Segment>,
    order: &FieldOrder,
    is_reversed: bool,
    text: &str,
) -> Vec<Segment> {
    let other = text.strip_prefix(FieldOrder::CLASSES[1]);
    let first = all.iter().position(|segment| match segment {
        Segment::Value(value) => order.sort_text(Some(value)) == text,
        Segment::Range(range) => {
            other.is_some_and(|key| (&*range.start..&*range.end).contains(&key))
        }
        Segment::Rest => true,
    });
    let mut rest = all.split_off(first.unwrap_or_default());
    if let (Some(Segment::Range(range)), Some(key)) = (rest.first_mut(), other) {
        if is_reversed {
            key.clone_into(&mut range.end);
        } else {
            range.start = format!("{key}\0");
        }
        rest.insert(0, Segment::Value(key.to_owned()));
    }
    rest
}

impl FieldScan<'_> {
    fn is_full(&self) -> bool {
        self.places.len() >= self.reader.wanted()
    }

    /// Adds the items with a value, in the order of lists.
    async fn add_value(&mut self, value: &str, after: Option<Vec<u8>>) -> StoreResult<()> {
        let base = (&*self.order.name, value);
        let counts = read_one(self.reader.source, self.reader.counts_query(base)).await?;
        let groups = self.reader.groups(&counts, None)?;
        let mut chunk = Chunk::new(self, after);
        loop {
            let rows = chunk.read(Some(base), &groups).await?;
            for row in &rows {
                self.add_row(&FieldRow::decode(row)?, value);
            }
            match rows.last().map(FieldRow::decode).transpose()? {
                Some(last) if rows.len() >= chunk.limit && !self.is_full() => {
                    chunk.continue_after(last.position);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Adds an item that meets all conditions and is sorted by this value.
    fn add_row(&mut self, row: &FieldRow<'_>, value: &str) {
        let is_sorted_by = row.sort_value(&self.order.name).as_deref() == Some(value);
        if is_sorted_by && row.is_listed(&self.reader.query.filter) {
            self.places.push((self.order.sort_text(Some(value)), row.position.to_vec()));
        }
    }

    /// Adds the items with values in a range, value by value.
    async fn add_range(&mut self, mut range: Range<String>) -> StoreResult<()> {
        let mut limit = self.reader.wanted();
        loop {
            let key = self.reader.kind_key().with(&[(&self.order.name).into()]);
            let (start, end) = (Value::Text(&range.start), Value::Text(&range.end));
            let query = RowQuery::keys(&ITEM_FIELDS, vec![key])
                .within("value", start..end)
                .sorted_by(&["value"])
                .limited_to(limit);
            let query = if self.is_reversed { query.descending() } else { query };
            let rows = read_one(self.reader.source, query).await?;
            let Some(last) = rows.last().map(FieldRow::decode).transpose()? else { return Ok(()) };
            let has_more = rows.len() == limit;
            for row in &rows {
                let row = FieldRow::decode(row)?;
                // There may be more items with the last value.
                if !has_more || row.value != last.value {
                    self.add_row(&row, row.value);
                }
            }
            if has_more && !self.is_full() {
                self.add_value(last.value, None).await?;
            }
            if !has_more || self.is_full() {
                return Ok(());
            }
            if self.is_reversed {
                last.value.clone_into(&mut range.end);
            } else {
                range.start = format!("{}\0", last.value);
            }
            limit = (2 * limit).min(MAX_CHUNK);
        }
    }

    /// Adds the items without a value.
    async fn add_rest(
        &mut self,
        base: Base<'_>,
        groups: &[TableRow],
        after: Option<Vec<u8>>,
    ) -> StoreResult<()> {
        let (field, text) = (&*self.order.name, self.order.sort_text(None));
        let mut chunk = Chunk::new(self, after);
        loop {
            let rows = chunk.read(base, groups).await?;
            let mut last = None;
            for row in &rows {
                let position = self.reader.position_of(base, row)?;
                let has_value = if base.is_some() {
                    FieldRow::decode(row)?.sort_value(field).is_some()
                } else {
                    let has_value = |meta: &_| custom_values(meta).any(|(name, _)| name == field);
                    decode_metas([row])?.iter().any(|meta| has_value(meta))
                };
                if !has_value {
                    self.places.push((text.clone(), position.to_vec()));
                }
                last = Some(position);
            }
            match last {
                Some(last) if rows.len() >= chunk.limit && !self.is_full() => {
                    chunk.continue_after(last);
                }
                _ => return Ok(()),
            }
        }
    }
}

/// Reads items in the order of lists, more at once each time.
struct Chunk<'a> {
    reader: &'a ItemReader<'a>,
    range: Range<Vec<u8>>,
    limit: usize,
}

impl<'a> Chunk<'a> {
    fn new(scan: &FieldScan<'a>, after: Option<Vec<u8>>) -> Self {
        let reader = scan.reader;
        Self { reader, range: reader.query.filter.position_keys(after), limit: reader.wanted() }
    }

    async fn read(&self, base: Base<'_>, groups: &[TableRow]) -> StoreResult<Vec<TableRow>> {
        self.reader.first_rows(base, groups, &self.range, self.limit).await
    }

    fn continue_after(&mut self, position: &[u8]) {
        self.range.start = [position, b"\0"].concat();
        self.limit = (2 * self.limit).min(MAX_CHUNK);
    }
}
