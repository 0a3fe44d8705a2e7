//! Keys, plans, and the number of entries that queries visit.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::database::ReadLimit;
use reqlore_row_store::row::{RowBuffer, RowChange, RowQuery, TableRow, Value};
use reqlore_row_store::tables::{AUDIT, BODIES, DOCUMENTS, HISTORY, LINKS, Table};

use crate::keys::{ESCAPE, decode_value, push_value, split_value};
use crate::ordered_tree::OrderedTree;
use crate::plan::QueryPlan;
use crate::{Changes, find_damaged_rows, select};

/// A tree in memory that counts what is read.
#[derive(Default)]
struct CountedTree {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    visits: Cell<usize>,
}

impl OrderedTree for CountedTree {
    type Bytes = Vec<u8>;

    const MAX_KEY_BYTES: usize = 100;
    const MAX_VALUE_BYTES: usize = 64;

    fn get(&self, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        self.visits.set(self.visits.get() + 1);
        Ok(self.entries.get(key).cloned())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        is_descending: bool,
    ) -> impl Iterator<Item = StoreResult<(Vec<u8>, Vec<u8>)>> {
        let mut range =
            self.entries.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)));
        std::iter::from_fn(move || {
            let (key, value) = if is_descending { range.next_back() } else { range.next() }?;
            self.visits.set(self.visits.get() + 1);
            Some(Ok((key.clone(), value.clone())))
        })
    }
}

impl CountedTree {
    fn apply(&mut self, table: &'static Table, changes: &[RowChange]) {
        let mut added = Changes::default();
        added.add(self, table, changes).unwrap();
        for (key, change) in added.iter() {
            assert_eq!(self.entries.get(key), change.before.as_ref(), "{key:?}");
            match &change.after {
                Some(value) => self.entries.insert(key.clone(), value.clone()),
                None => self.entries.remove(key),
            };
        }
    }

    fn select(&self, query: RowQuery) -> Vec<TableRow> {
        select(self, &[query], ReadLimit::NONE).unwrap().unwrap().remove(0)
    }

    /// The number of rows of a query, and that of the entries that it visits.
    fn cost(&self, query: RowQuery) -> (usize, usize) {
        self.visits.set(0);
        let rows = self.select(query);
        (rows.len(), self.visits.get())
    }
}

fn encode(value: Value<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    push_value(&mut key, value);
    key
}

#[test]
fn encoded_values_keep_their_order_and_end() {
    let numbers = [i64::MIN, -65_537, -257, -256, -255, -1, 0, 1, 255, 256, 1 << 40, i64::MAX];
    let texts = ["", "\0", "\0\0", "\0a", "\u{1}", "a", "a\0", "a\0\u{10ffff}", "ab", "\u{e4}"];
    let binaries: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\0\xff", b"\x01", b"\xff\xff"];
    let columns = [
        numbers.map(Value::from).to_vec(),
        texts.map(Value::from).to_vec(),
        binaries.map(Value::from).to_vec(),
    ];
    for mut values in columns {
        values.insert(0, Value::Null);
        let keys: Vec<_> = values.iter().map(|value| encode(*value)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{values:?}");
        for (at, (value, key)) in values.iter().zip(&keys).enumerate() {
            let longer = [key, &keys[(at * 7) % keys.len()][..]].concat();
            assert_eq!(split_value(&longer).unwrap().0, key);
            assert_eq!(split_value(&key[..key.len() - 1]), None, "{value:?} cut off");
            let mut buffer = RowBuffer::default();
            decode_value(key, &mut buffer).unwrap();
            assert_eq!(buffer.take().value(0), *value);
            // No key of a later column or a piece is at or above the end of a range.
            for (other, other_key) in values.iter().zip(&keys) {
                let after_range = *other_key >= [&key[..], &[ESCAPE]].concat();
                assert_eq!(after_range, other > value, "{value:?} {other:?}");
            }
        }
    }
}

/// A document with 100 items in each of 10 statuses.
fn document(number: i64) -> TableRow {
    let name = format!("REQ-{number:04}");
    let status = format!("s{}", number % 10);
    let position = number.to_be_bytes();
    TableRow::of(&["p".into(), "k".into(), (&name).into(), number.into(), 1.into()]).with(&[
        "v".into(),
        1.into(),
        1.into(),
        Value::Null,
        (&name).into(),
        position[..].into(),
        (&status).into(),
        "t".into(),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        (&[7; 200][..]).into(),
    ])
}

fn documents() -> CountedTree {
    let mut tree = CountedTree::default();
    let inserts: Vec<_> = (0..1000).map(|number| RowChange::Insert(document(number))).collect();
    tree.apply(&DOCUMENTS, &inserts);
    tree
}

#[test]
fn queries_visit_only_the_rows_of_their_result() {
    let tree = documents();
    let pieces = tree.entries.keys().filter(|key| key.starts_with(&[5, 0])).count() / 1000 - 1;
    let key = TableRow::of(&["p".into(), "k".into()]);
    let of = |columns: &[&'static str], values: &[Value<'_>]| {
        RowQuery::any_of(&DOCUMENTS, columns, vec![key.with(values)])
    };
    let positions = [5, 995].map(i64::to_be_bytes);
    let within = |query: RowQuery| {
        query.within("position", positions[0][..].into()..positions[1][..].into())
    };
    let name = Value::from("REQ-0007");
    // Through an index, a row costs its entry, its first value and the other pieces.
    let row = 2 + pieces;
    let cases = [
        (of(&["project", "kind", "name"], &[name]), 1, 1 + pieces),
        (of(&["project", "kind", "reference"], &[name]), 1, row),
        (within(of(&["project", "kind"], &[])).sorted_by(&["position"]).limited_to(5), 5, 5 * row),
        (
            within(of(&["project", "kind", "status", "type"], &["s3".into(), "t".into()]))
                .sorted_by(&["position"])
                .descending()
                .limited_to(5),
            5,
            5 * row,
        ),
        (
            RowQuery::any_of(&DOCUMENTS, &["project"], vec![TableRow::of(&["p".into()])])
                .within("revision", Value::from(990)..Value::from(i64::MAX))
                .sorted_by(&["revision", "name"]),
            10,
            10 * row,
        ),
    ];
    for (query, rows, visits) in cases {
        assert_eq!(tree.cost(query.clone()), (rows, visits), "{query:?}");
    }
    // A scan of the rows in the order of their key.
    let named = of(&["project", "kind"], &[]).sorted_by(&["name"]).limited_to(3);
    let (rows, visits) = tree.cost(named);
    assert_eq!((rows, visits), (3, 3 * (1 + pieces) + 1));
    assert_eq!(tree.cost(RowQuery::all(&DOCUMENTS)), (1000, 1000 * (1 + pieces)));
}

#[test]
fn reads_end_at_a_number_of_rows_or_bytes() {
    let tree = documents();
    let visits = |limit: ReadLimit| {
        tree.visits.set(0);
        assert!(select(&tree, &[RowQuery::all(&DOCUMENTS)], limit).unwrap().is_none());
        tree.visits.get()
    };
    let entries = tree.entries.keys().filter(|key| key.starts_with(&[5, 0])).count() / 1000;
    assert_eq!(visits(ReadLimit { rows: 100, ..ReadLimit::NONE }), 101 * entries + 1);
    let row_bytes = document(0).as_bytes().len();
    assert_eq!(visits(ReadLimit { bytes: 4 * row_bytes, ..ReadLimit::NONE }), 5 * entries + 1);
}

#[test]
fn plan_uses_a_partial_index_only_if_implied() {
    let plan = |query: &RowQuery| {
        let QueryPlan { tree, compared, is_exact, .. } = QueryPlan::of(query);
        (tree, compared, is_exact)
    };
    let of_kind = RowQuery::keys(&DOCUMENTS, vec![TableRow::of(&["p".into(), "k".into()])]);
    assert_eq!(plan(&of_kind), (0, 2, true));
    assert_eq!(plan(&of_kind.clone().sorted_by(&["position"])), (0, 2, true), "null is not in it");
    let listed = RowQuery { not_null: Some("position"), ..of_kind.sorted_by(&["position"]) };
    assert_eq!(plan(&listed), (3, 2, true));
    let ended = RowQuery::all(&HISTORY).within("ended", Value::from(0)..Value::from(9));
    assert_eq!(plan(&ended), (1, 0, true));
    let not_leading = RowQuery::any_of(&LINKS, &["name"], vec![TableRow::of(&["a".into()])]);
    assert_eq!(plan(&not_leading), (0, 0, false));
}

#[test]
fn large_values_are_replaced_and_removed_in_pieces() {
    let mut tree = CountedTree::default();
    let part =
        |bytes: &[u8]| TableRow::of(&["p".into(), "k".into(), "n".into(), 0.into(), bytes.into()]);
    let key = part(b"").prefix(BODIES.key_width);
    for length in [0, 50, 51, 52, 500, 115, 116, 1, 179, 180] {
        let row = part(&vec![9; length]);
        tree.apply(&BODIES, &[RowChange::Insert(row.clone())]);
        // The checksum, and the type and length of the value.
        assert_eq!(tree.entries.len(), (4 + 5 + length).div_ceil(64));
        assert_eq!(tree.select(RowQuery::all(&BODIES).descending()), [row]);
    }
    tree.apply(&BODIES, &[RowChange::Delete { key, before: None }]);
    assert_eq!(tree.entries.len(), 0);
}

#[test]
fn damaged_and_misplaced_rows_are_found_and_named() {
    let damages: [fn(&mut Vec<u8>); 3] = [
        |value| value[70 % 64] ^= 1,
        |value| value.clear(),
        |value| {
            value.pop();
        },
    ];
    for damage in damages {
        let mut tree = documents();
        let keys: Vec<_> =
            tree.entries.keys().filter(|key| key.starts_with(&[5, 0])).cloned().collect();
        assert_eq!(find_damaged_rows(&tree, 9).unwrap(), [""; 0]);
        damage(tree.entries.get_mut(&keys[1]).unwrap());
        let name = "row p k REQ-0000 of table documents";
        assert_eq!(find_damaged_rows(&tree, 9).unwrap(), [name]);
        let error =
            select(&tree, &[RowQuery::all(&DOCUMENTS)], ReadLimit::NONE).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    let mut tree = documents();
    let first = tree.entries.first_key_value().unwrap().1.clone();
    *tree.entries.iter_mut().next_back().unwrap().1 = first.clone();
    tree.entries.insert(vec![0x20, 0], first);
    assert_eq!(find_damaged_rows(&tree, 9).unwrap(), ["a row of no table"]);
    let inserts = [1, 2].map(|number| TableRow::of(&[number.into(), b"h"[..].into(), "t".into()]));
    let mut tree = CountedTree::default();
    tree.apply(&AUDIT, &inserts.map(RowChange::Insert));
    let first = tree.entries.first_key_value().unwrap().1.clone();
    *tree.entries.last_entry().unwrap().get_mut() = first;
    assert_eq!(find_damaged_rows(&tree, 9).unwrap(), ["row 2 of table audit"]);
}
