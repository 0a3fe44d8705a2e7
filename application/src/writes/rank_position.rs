//! Positions in the order by hand: a rank before or after another item, whose priority it takes.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use reqlore_domain::backlog::rank::{MAX_RANK_BYTES, is_rank, rank_between};
use reqlore_domain::backlog::{ItemKind, ItemMeta, ItemSortKey, Priority, Reference, sort_key};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::record_list::{RecordFilter, RecordOrder, RecordQuery};
use reqlore_domain::records::edit::RecordEdit;

use crate::backlog::arguments::parse_reference;
use crate::backlog::item_lookup::item_meta;
use crate::writes::change::PlanContext;

/// Replaces a position such as `before US-003` by a rank, and the priority by that of the other
/// item, which a note reports.
pub(crate) async fn resolve_rank(
    context: PlanContext<'_>,
    kind: ItemKind,
    own: Option<&ItemMeta>,
    fields: &mut RecordEdit,
    notes: &mut Vec<String>,
) -> Result<()> {
    let Some(given) = fields.rank.take() else { return Ok(()) };
    let words: Vec<&str> = given.split_whitespace().collect();
    let (is_before, other) = match words[..] {
        ["before", other] => (true, other),
        ["after", other] => (false, other),
        [] | [_] if words.iter().all(|rank| is_rank(rank)) => {
            fields.rank = Some(words.concat());
            return Ok(());
        }
        _ => {
            return Err(rank_error(&format!(
                "{:?} is not a rank; send before or after and an ID, such as after US-047, or at \
                 most {MAX_RANK_BYTES} ASCII letters and digits",
                truncate_echo(&given)
            )));
        }
    };
    let other = parse_reference(&[kind], other, "rank")?;
    let own_reference = own.and_then(|item| item.reference);
    let position = find_position(context, own_reference, other, is_before).await?;
    let priority = Priority::new(position.0.into());
    if priority != fields.priority.or(own.and_then(|item| item.priority)) {
        notes.push(format!("priority is now {}, like that of {other}", position.0));
        fields.priority = priority;
    }
    fields.rank = Some(position.1.clone());
    if let Some(own) = own_reference {
        let mut planned = context.positions.lock().unwrap_or_else(PoisonError::into_inner);
        planned.insert(own, position);
    }
    Ok(())
}

/// The position before or after an item.
async fn find_position(
    context: PlanContext<'_>,
    own: Option<Reference>,
    other: Reference,
    is_before: bool,
) -> Result<ItemSortKey> {
    let meta = context.backlog().find_argument(other, "rank").await?;
    let planned = context.positions.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let stored = || item_meta(&meta).map(sort_key);
    let key = planned.get(&other).cloned().or_else(stored).unwrap_or_default();
    let priority = Priority::new(key.0.into());
    let query = RecordQuery {
        filter: RecordFilter { priority, ..RecordFilter::default() },
        order: RecordOrder { is_reversed: is_before, ..RecordOrder::ALL_LISTS },
        after: Some((String::new(), key.clone(), String::new(), meta.id.name.clone())),
        // This item and those with planned positions may be the next ones.
        ..RecordQuery::of_items(other.kind, planned.len() + 2)
    };
    let page = context.tools.ports.documents.list(context.project, &query).await?;
    let items = page.metadata.iter().filter_map(|meta| item_meta(meta));
    let mut positions: BTreeMap<_, _> =
        items.filter_map(|item| Some((item.reference?, sort_key(item)))).collect();
    positions.extend(planned);
    positions.retain(|reference, one| {
        let is_next = if is_before { *one < key } else { *one > key };
        is_next && one.0 == key.0 && Some(*reference) != own
    });
    let next = if is_before { positions.values().max() } else { positions.values().min() };
    let (next, known) = (next.map(rank_of), Some(rank_of(&key)));
    let (lower, upper) = if is_before { (next, known) } else { (known, next) };
    let rank = rank_between(lower, upper).ok_or_else(|| {
        let side = if is_before { "before" } else { "after" };
        rank_error(&format!("there is no room {side} {other}; move {other} first"))
    })?;
    Ok((key.0, rank))
}

/// The rank without the creation that orders equal ones.
fn rank_of((_, text): &ItemSortKey) -> &str {
    text.split(' ').next().unwrap_or_default()
}

fn rank_error(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("rank: {problem}")).field("rank")
}
