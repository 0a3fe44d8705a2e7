//! Changes in the order of commits.

use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;

use super::documents::document_id;
use super::{read_all, read_one};
use crate::database::RowSource;
use crate::records::{ProjectRow, RowReader, StoreRow, integer, project_key};
use crate::row::{RowQuery, TableRow, Value};
use crate::tables::{DOCUMENTS, PROJECTS, STORE, WRITERS};

pub(crate) async fn changes_since(
    source: &dyn RowSource,
    project: &ProjectKey,
    since: Option<ChangePosition>,
    limit: usize,
) -> StoreResult<ChangePage> {
    let mut queries = vec![
        RowQuery::keys(&STORE, vec![StoreRow::key()]),
        RowQuery::keys(&PROJECTS, vec![project_key(project)]),
    ];
    if let Some(ChangePosition { revision: Revision(first), .. }) = since {
        queries.push(writer_query(project, first));
        let changes = revisions(project, first.saturating_add(1), u64::MAX);
        queries.push(changes.limited_to(limit.saturating_add(1)));
    }
    let mut results = read_all(source, queries).await?.into_iter();
    let mut next = || results.next().unwrap_or_default();
    let store_id = u128::from_be_bytes(StoreRow::decode(&next())?.store_id);
    let row = next().first().map(ProjectRow::decode).transpose()?.unwrap_or_default();
    let since_writer = decode_writer(&next())?;
    let revision = Revision(row.revision);
    let position = ChangePosition { store_id, writer_id: row.writer, revision };
    let known = since.filter(|since| {
        since.store_id == store_id
            && since.revision <= revision
            && since.revision.0 >= row.complete_from
            && since.writer_id == since_writer
    });
    if known.is_none() {
        return Ok(ChangePage::Reset { position });
    }
    let rows = next();
    if rows.len() <= limit {
        return Ok(ChangePage::Since { ids: ids_of(&rows)?, position, has_more: false });
    }
    // The page ends with the last revision in it, which may have more changes.
    let last = revision_of(&rows[rows.len() - 1])?;
    let queries = vec![writer_query(project, last), revisions(project, last, last)];
    let mut results = read_all(source, queries).await?;
    let of_last = results.pop().unwrap_or_default();
    let writer_id = decode_writer(&results.pop().unwrap_or_default())?;
    let mut before = Vec::with_capacity(rows.len());
    for row in rows {
        if revision_of(&row)? < last {
            before.push(row);
        }
    }
    let mut ids = ids_of(&before)?;
    ids.extend(ids_of(&of_last)?);
    let position = ChangePosition { writer_id, revision: Revision(last), ..position };
    Ok(ChangePage::Since { ids, position, has_more: last < row.revision })
}

/// Documents with changes in these revisions, in the order of changes.
fn revisions(project: &ProjectKey, first: u64, last: u64) -> RowQuery {
    RowQuery::keys(&DOCUMENTS, vec![project_key(project)])
        .within("revision", integer(first)..integer(last.saturating_add(1)))
        .sorted_by(&["revision", "kind", "name"])
        .narrow()
}

/// The writer of a revision: the last row that begins with it or before.
fn writer_query(project: &ProjectKey, revision: u64) -> RowQuery {
    let end = integer(revision.saturating_add(1));
    RowQuery::keys(&WRITERS, vec![project_key(project)])
        .within("first_revision", Value::Integer(0)..end)
        .sorted_by(&["first_revision"])
        .descending()
        .limited_to(1)
}

/// 0 for a revision without a writer.
fn decode_writer(rows: &[TableRow]) -> StoreResult<u64> {
    let Some(row) = rows.first() else { return Ok(0) };
    Ok(RowReader::new(row, "a writer").after(2).integer()?.cast_unsigned())
}

fn revision_of(row: &TableRow) -> StoreResult<u64> {
    RowReader::new(row, "a revision").after(DOCUMENTS.key_width).number()
}

fn ids_of(rows: &[TableRow]) -> StoreResult<Vec<reqlore_domain::document::DocumentId>> {
    rows.iter().map(document_id).collect()
}

/// The ID of the storage, and whether it is complete.
pub(crate) async fn store_row(source: &dyn RowSource) -> StoreResult<StoreRow> {
    StoreRow::decode(&read_one(source, RowQuery::keys(&STORE, vec![StoreRow::key()])).await?)
}
