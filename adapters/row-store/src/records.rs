//! Encoding of domain values as rows.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::audit_log::{AuditRow, ChainHead, RowHash};
use reqlore_domain::backlog::claim::Claim;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta, Version};
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Token, User};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::history::{HistoryEntry, PastContent, PastEntry, TextHash};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::truncate_text;
use reqlore_domain::timestamp::Timestamp;

use crate::error::{DATABASE_LABEL, damaged, refused};
use crate::row::{RowKey, TableRow, Value, Values};
use crate::stored_meta::{METADATA_FORMAT, decode_meta};

/// Maximum size of a part of a text in bytes. Some databases limit a value to 1 MiB.
pub(crate) const PART_BYTES: usize = 512 * 1024;
/// Maximum size of a document's name in bytes: some databases limit all values of a key to 1 KiB.
pub(crate) const MAX_NAME_BYTES: usize = 512;
/// Longer derived keys are shortened.
const MAX_KEY_BYTES: usize = 192;

/// Reads the values of a row in the order of the columns.
pub(crate) struct RowReader<'a> {
    values: Values<'a>,
    object: &'static str,
}

impl<'a> RowReader<'a> {
    /// `object` names the row in an error.
    pub(crate) fn new(row: &'a TableRow, object: &'static str) -> Self {
        Self { values: row.values(), object }
    }

    fn next_value(&mut self) -> StoreResult<Value<'a>> {
        self.values.next().ok_or_else(|| damaged(self.object))
    }

    /// Skips columns.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.skip(count);
        self
    }

    pub(crate) fn skip(&mut self, count: usize) {
        self.values.skip_values(count);
    }

    pub(crate) fn optional_text(&mut self) -> StoreResult<Option<&'a str>> {
        match self.next_value()? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            _ => Err(damaged(self.object)),
        }
    }

    pub(crate) fn text(&mut self) -> StoreResult<&'a str> {
        self.optional_text()?.ok_or_else(|| damaged(self.object))
    }

    pub(crate) fn optional_integer(&mut self) -> StoreResult<Option<i64>> {
        match self.next_value()? {
            Value::Null => Ok(None),
            Value::Integer(number) => Ok(Some(number)),
            _ => Err(damaged(self.object)),
        }
    }

    pub(crate) fn integer(&mut self) -> StoreResult<i64> {
        self.optional_integer()?.ok_or_else(|| damaged(self.object))
    }

    /// A number that is never negative.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self) -> StoreResult<T> {
        T::try_from(self.integer()?).map_err(|_| damaged(self.object))
    }

    pub(crate) fn optional_binary(&mut self) -> StoreResult<Option<&'a [u8]>> {
        match self.next_value()? {
            Value::Null => Ok(None),
            Value::Binary(bytes) => Ok(Some(bytes)),
            _ => Err(damaged(self.object)),
        }
    }

    /// A value that a row without wide columns does not have.
    pub(crate) fn wide_binary(&mut self) -> StoreResult<Option<&'a [u8]>> {
        if self.values.clone().next().is_none() { Ok(None) } else { self.optional_binary() }
    }

    pub(crate) fn binary<const N: usize>(&mut self) -> StoreResult<[u8; N]> {
        let fixed = self.optional_binary()?.and_then(|bytes| bytes.try_into().ok());
        fixed.ok_or_else(|| damaged(self.object))
    }

    /// Kind and name of a document.
    pub(crate) fn document_id(&mut self) -> StoreResult<DocumentId> {
        let kind = DocumentKind::from_name(self.text()?);
        let kind = kind.ok_or_else(|| damaged("a document's kind"))?;
        Ok(DocumentId { kind, name: self.text()?.to_owned() })
    }

    pub(crate) fn origin(&mut self) -> StoreResult<ChangeOrigin> {
        let mut text = || self.optional_text().map(|text| text.map(str::to_owned));
        Ok(ChangeOrigin { user: text()?, tool: text()?, reason: text()? })
    }
}

/// A number as a value. Our numbers are counters far below the limit of an integer.
pub(crate) fn integer(number: impl TryInto<i64>) -> Value<'static> {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

/// A text for a column of a key. Long texts keep their beginning and a hash of the whole.
pub(crate) fn key_text(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_KEY_BYTES {
        return text.into();
    }
    let hash = TextHash::of_bytes(text.as_bytes());
    format!("{}{hash}", truncate_text(text, MAX_KEY_BYTES - 64)).into()
}

/// The key of the row of a project, with which the keys of its other rows begin.
pub(crate) fn project_key(project: &ProjectKey) -> RowKey {
    TableRow::of(&[project.as_str().into()])
}

pub(crate) fn document_key(project: &ProjectKey, id: &DocumentId) -> RowKey {
    TableRow::of(&[project.as_str().into(), id.kind.name().into(), (&id.name).into()])
}

/// Rejects names that are too long for a key of some databases.
pub(crate) fn check_name(id: &DocumentId) -> StoreResult<()> {
    if id.name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let reason = format!("its name is longer than {MAX_NAME_BYTES} bytes; choose a shorter one");
    Err(StoreError::Refused { subject: id.to_string(), reason })
}

/// A row of `projects`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProjectRow {
    pub(crate) revision: u64,
    pub(crate) complete_from: u64,
    pub(crate) writer: u64,
}

impl ProjectRow {
    pub(crate) fn decode(row: &TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, "a project").after(1);
        Ok(Self {
            revision: reader.number()?,
            complete_from: reader.number()?,
            writer: reader.integer()?.cast_unsigned(),
        })
    }

    pub(crate) fn encode(&self, project: &ProjectKey) -> TableRow {
        let writer = self.writer.cast_signed().into();
        project_key(project).with(&[integer(self.revision), integer(self.complete_from), writer])
    }
}

/// A row of `documents`.
#[derive(Debug, Clone)]
pub(crate) struct DocumentRow {
    pub(crate) revision: u64,
    /// Number of the last entry of the history.
    pub(crate) number: u64,
    /// `None` for a deleted document.
    pub(crate) present: Option<PresentRow>,
}

/// The values of a document that exists.
#[derive(Debug, Clone)]
pub(crate) struct PresentRow {
    pub(crate) version: Version,
    pub(crate) modified: Timestamp,
    pub(crate) parts: usize,
    /// Encoded metadata; empty in a row without wide columns.
    pub(crate) meta: Bytes,
    pub(crate) path: Option<Arc<str>>,
    pub(crate) origin: ChangeOrigin,
}

impl PresentRow {
    /// The metadata of the document of this row.
    pub(crate) fn meta(&self, id: DocumentId) -> StoreResult<DocumentMeta> {
        decode_meta(&self.meta, id, self.version)
    }

    /// `derived` are the columns of the metadata.
    pub(crate) fn encode(
        &self,
        key: &RowKey,
        (revision, number): (u64, u64),
        derived: &TableRow,
    ) -> TableRow {
        let (version, ChangeOrigin { user, tool, reason }) =
            (self.version.to_string(), &self.origin);
        let mut values = vec![integer(revision), integer(number), (&version).into()];
        values.extend([self.modified.0.into(), integer(self.parts), self.path.as_deref().into()]);
        values.extend(derived.values());
        values.extend([user, tool, reason].map(|text| Value::from(text.as_deref())));
        values.push(self.meta[..].into());
        key.with(&values)
    }
}

/// The position of the revision in a row of `documents`.
pub(crate) const REVISION: usize = 3;
/// The columns that derive from the metadata.
const FIRST_DERIVED: usize = REVISION + 6;
const DERIVED_COLUMNS: usize = 5;
const VALUES_OF_PRESENT: usize = 13;

impl DocumentRow {
    /// The newest entry of the history of a document, with its number.
    pub(crate) fn into_entry(self) -> Option<(u64, HistoryEntry)> {
        let PresentRow { version, modified: at, origin, .. } = self.present?;
        Some((self.number, HistoryEntry { version: Some(version), at, origin, is_purged: false }))
    }

    /// The version of a document that exists.
    pub(crate) fn decode_version(row: &TableRow) -> StoreResult<Option<Version>> {
        read_version(&mut RowReader::new(row, "a document's row").after(REVISION + 2))
    }

    /// The version and the encoded metadata of a document that exists.
    pub(crate) fn decode_meta(row: &TableRow) -> StoreResult<Option<(Version, &[u8])>> {
        let mut reader = RowReader::new(row, "a document's row").after(REVISION + 2);
        let Some(version) = read_version(&mut reader)? else { return Ok(None) };
        reader.skip(VALUES_OF_PRESENT - 2);
        Ok(Some((version, reader.wide_binary()?.unwrap_or_default())))
    }

    pub(crate) fn decode(row: &TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, "a document's row").after(REVISION);
        let (revision, number) = (reader.number()?, reader.number()?);
        let Some(version) = read_version(&mut reader)? else {
            return Ok(Self { revision, number, present: None });
        };
        let (modified, parts) = (Timestamp(reader.integer()?), reader.number()?);
        let path = reader.optional_text()?.map(Into::into);
        reader.skip(DERIVED_COLUMNS);
        let origin = reader.origin()?;
        let meta = reader.wide_binary()?.map(|meta| row.share(meta)).unwrap_or_default();
        let present = Some(PresentRow { version, modified, parts, meta, path, origin });
        Ok(Self { revision, number, present })
    }

    /// The columns that derive from the metadata.
    pub(crate) fn derived(row: &TableRow) -> TableRow {
        let values: Vec<_> = row.values().skip(FIRST_DERIVED).take(DERIVED_COLUMNS).collect();
        TableRow::of(&values)
    }

    /// The row of a deleted document.
    pub(crate) fn encode_deleted(key: &RowKey, revision: u64, number: u64) -> TableRow {
        key.with(&[integer(revision), integer(number)]).with(&[Value::Null; VALUES_OF_PRESENT])
    }
}

fn read_version(reader: &mut RowReader<'_>) -> StoreResult<Option<Version>> {
    let Some(version) = reader.optional_text()? else { return Ok(None) };
    Version::parse(version).map(Some).ok_or_else(|| damaged("a document's version"))
}

/// The rows of a text: its parts after a key.
pub(crate) fn text_rows(key: &RowKey, body: &Bytes) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let mut start = 0;
    while start < body.len() || rows.is_empty() {
        let end = body.len().min(start + PART_BYTES);
        rows.push(key.with(&[integer(rows.len()), body[start..end].into()]));
        start = end.max(1);
    }
    rows
}

/// Joins the parts of a text, which are the last values of rows in order. `None` without parts.
pub(crate) fn join_parts(rows: &[TableRow]) -> Option<Bytes> {
    let mut parts = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(Value::Binary(bytes)) = row.values().last() else { return None };
        parts.push(bytes);
    }
    match (rows, &*parts) {
        ([row], [only]) => Some(row.share(only)),
        ([], _) => None,
        _ => Some(parts.concat().into()),
    }
}

/// Those of sorted rows whose key begins with this one. The parts of a text are in their order.
pub(crate) fn rows_of<'r>(rows: &'r [TableRow], key: &RowKey) -> &'r [TableRow] {
    let rows = &rows[rows.partition_point(|row| row < key)..];
    &rows[..rows.iter().take_while(|row| row.starts_with(key)).count()]
}

/// Number of rows of the text of an entry.
fn part_count(content: &PastContent) -> usize {
    match content {
        PastContent::Text(body) => body.len().div_ceil(PART_BYTES).max(1),
        PastContent::Deleted | PastContent::Purged(_) => 0,
    }
}

/// Encodes an entry of the history without its text.
pub(crate) fn encode_entry(key: &RowKey, entry: &PastEntry) -> TableRow {
    let (hash, is_purged) = match &entry.content {
        PastContent::Deleted => (None, false),
        PastContent::Text(body) => (Some(TextHash::of_bytes(body)), false),
        PastContent::Purged(hash) => (Some(*hash), true),
    };
    let ChangeOrigin { user, tool, reason } = &entry.origin;
    let version = hash.map(|hash| hash.version().to_string());
    key.with(&[
        integer(entry.number),
        version.as_deref().into(),
        hash.as_ref().map(|hash| &hash.0[..]).into(),
        integer(part_count(&entry.content)),
        entry.at.0.into(),
        entry.ended.0.into(),
        user.as_deref().into(),
        tool.as_deref().into(),
        reason.as_deref().into(),
        i64::from(is_purged).into(),
    ])
}

/// A row of `history`, without the text.
#[derive(Debug)]
pub(crate) struct EntryRow {
    pub(crate) id: DocumentId,
    pub(crate) number: u64,
    pub(crate) hash: Option<TextHash>,
    /// Number of rows of the text.
    pub(crate) parts: usize,
    pub(crate) at: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) origin: ChangeOrigin,
    pub(crate) is_purged: bool,
}

impl EntryRow {
    pub(crate) fn into_entry(self) -> HistoryEntry {
        let Self { hash, at, origin, is_purged, .. } = self;
        HistoryEntry { version: hash.map(|hash| hash.version()), at, origin, is_purged }
    }

    pub(crate) fn decode(row: &TableRow) -> StoreResult<Self> {
        let mut reader = RowReader::new(row, "an entry of the history").after(1);
        let (id, number) = (reader.document_id()?, reader.number()?);
        reader.skip(1);
        let hash = match reader.optional_binary()? {
            None => None,
            Some(hash) => match hash.try_into() {
                Ok(hash) => Some(TextHash(hash)),
                Err(_) => return Err(damaged("a hash of the history")),
            },
        };
        Ok(Self {
            id,
            number,
            hash,
            parts: reader.number()?,
            at: Timestamp(reader.integer()?),
            ended: Timestamp(reader.integer()?),
            origin: reader.origin()?,
            is_purged: reader.integer()? != 0,
        })
    }
}

pub(crate) fn encode_audit_row(row: &AuditRow) -> TableRow {
    TableRow::of(&[integer(row.number), row.hash.0[..].into(), (&*row.text).into()])
}

pub(crate) fn decode_audit_row(row: &TableRow) -> StoreResult<AuditRow> {
    let mut reader = RowReader::new(row, "a row of the audit log");
    let (number, hash) = (reader.number()?, RowHash(reader.binary()?));
    Ok(AuditRow { number, hash, text: reader.text()?.into() })
}

/// The row of `store`.
#[derive(Debug, Clone)]
pub struct StoreRow {
    /// `complete`, or `filling` during an import.
    pub state: String,
    pub store_id: [u8; 16],
    pub epoch: i64,
    pub newest_audit: ChainHead,
    pub metadata_format: i64,
}

impl StoreRow {
    pub const COMPLETE: &str = "complete";
    pub const FILLING: &str = "filling";
    /// The value of the key.
    pub const ID: i64 = 1;

    pub fn key() -> RowKey {
        TableRow::of(&[Self::ID.into()])
    }

    /// Decodes the result of a query for the only row.
    pub fn decode(rows: &[TableRow]) -> StoreResult<Self> {
        let row = rows.first().ok_or_else(|| damaged("the row of table store"))?;
        let mut reader = RowReader::new(row, "the row of table store").after(1);
        Ok(Self {
            state: reader.text()?.to_owned(),
            store_id: reader.binary()?,
            epoch: reader.integer()?,
            newest_audit: ChainHead { number: reader.number()?, hash: RowHash(reader.binary()?) },
            metadata_format: reader.integer()?,
        })
    }

    pub fn encode(&self) -> TableRow {
        let ChainHead { number, hash } = self.newest_audit;
        Self::key().with(&[
            (&self.state).into(),
            self.store_id[..].into(),
            self.epoch.into(),
            integer(number),
            hash.0[..].into(),
            self.metadata_format.into(),
        ])
    }

    /// Refuses a database that an import is filling, or whose metadata has another format.
    pub fn check_usable(&self) -> StoreResult<()> {
        self.check_complete()?;
        let found = self.metadata_format;
        if found == METADATA_FORMAT {
            return Ok(());
        }
        Err(StoreError::other_format(DATABASE_LABEL, found, METADATA_FORMAT))
    }

    /// Refuses a database that an import is filling.
    pub fn check_complete(&self) -> StoreResult<()> {
        if self.state == Self::COMPLETE {
            return Ok(());
        }
        Err(refused(
            "is incomplete: a copy or restore into it is running or was interrupted; wait for it, \
             or drop the database and copy again",
        ))
    }
}

pub(crate) fn encode_user(user: &User) -> StoreResult<TableRow> {
    Ok(TableRow::of(&[(&user.name.key()).into(), (&to_json(user)?).into()]))
}

pub(crate) fn decode_user(row: &TableRow) -> StoreResult<User> {
    from_json(RowReader::new(row, "a user").after(1).text()?, "a user")
}

pub(crate) fn encode_token(token: &Token) -> StoreResult<TableRow> {
    // The last use is only in its column: recording it does not rewrite the text.
    let text = to_json(&Token { last_used_at: None, ..token.clone() })?;
    Ok(TableRow::of(&[
        token.id.as_str().into(),
        (&token.user.key()).into(),
        token.created_at.0.into(),
        token.last_used_at.map(|at| at.0).into(),
        (&text).into(),
    ]))
}

pub(crate) fn decode_token(row: &TableRow) -> StoreResult<Token> {
    let mut reader = RowReader::new(row, "a token").after(3);
    let last_used_at = reader.optional_integer()?.map(Timestamp);
    let token: Token = from_json(reader.text()?, "a token")?;
    Ok(Token { last_used_at, ..token })
}

pub(crate) fn encode_record(key: &str, record: &IdempotencyRecord) -> StoreResult<TableRow> {
    let text = to_json(&IdempotencyRecord { answer: None, ..record.clone() })?;
    let response = record.answer.as_deref().into();
    Ok(TableRow::of(&[key.into(), record.at.0.into(), (&text).into(), response]))
}

pub(crate) fn decode_record(row: &TableRow) -> StoreResult<IdempotencyRecord> {
    let mut reader = RowReader::new(row, "an idempotency record").after(2);
    let record: IdempotencyRecord = from_json(reader.text()?, "an idempotency record")?;
    Ok(IdempotencyRecord { answer: reader.optional_text()?.map(Into::into), ..record })
}

pub(crate) fn encode_claim(project: &ProjectKey, claim: &Claim) -> TableRow {
    let Claim { story, id, holder, until } = claim;
    let key = claim_row_key(project, story);
    key.with(&[id.into(), holder.into(), until.0.into()])
}

pub(crate) fn claim_row_key(project: &ProjectKey, story: &str) -> RowKey {
    project_key(project).with(&[(&*key_text(story)).into()])
}

pub(crate) fn decode_claim(row: &TableRow) -> StoreResult<Claim> {
    let mut reader = RowReader::new(row, "a claim").after(1);
    let mut text = || reader.text().map(str::to_owned);
    let (story, id, holder) = (text()?, text()?, text()?);
    Ok(Claim { story, id, holder, until: Timestamp(reader.integer()?) })
}

fn to_json(value: &impl serde::Serialize) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Internal(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str, object: &str) -> StoreResult<T> {
    serde_json::from_str(text).map_err(|_| damaged(object))
}

pub(crate) fn body_keys(document: &RowKey, parts: usize) -> impl Iterator<Item = RowKey> {
    (0..parts).map(|part| document.with(&[integer(part)]))
}
