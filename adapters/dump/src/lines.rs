//! The lines of a dump file.
//!
//! Later versions must read old dumps: any change to these types needs a new [`VERSION`]. Format 2
//! added earlier versions of documents, and the origin of the present ones.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqlore_domain::audit_log::{AuditRow, RowHash};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, MAX_DOCUMENT_BYTES, Version};
use reqlore_domain::identity::{Access, Token, TokenDigest, TokenId, User, UserName, UserRole};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord, HighWaterMark, HistoryRecord};
use reqlore_domain::ports::history::{PastContent, PastEntry, PresentEntry, TextHash};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const FORMAT: &str = "reqlore-dump";
const VERSION: u64 = 2;

/// Maximum length of a line: JSON needs at most six bytes for a byte of text (`\u0000`). The rest
/// is for the other keys.
pub(crate) const MAX_LINE_BYTES: usize = 6 * MAX_DOCUMENT_BYTES + (1 << 20);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumpHeader<'a> {
    format: Cow<'a, str>,
    version: u64,
    /// Version of the program that wrote the dump.
    reqlore: Cow<'a, str>,
}

/// The reason why a header is refused.
pub(crate) enum HeaderError {
    Newer(String),
    Unreadable(String),
}

impl DumpHeader<'_> {
    pub(crate) const CURRENT: Self = DumpHeader {
        format: Cow::Borrowed(FORMAT),
        version: VERSION,
        reqlore: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
    };

    /// Checks the version first, because a newer format may have other keys.
    pub(crate) fn check_line(line: &[u8]) -> Result<(), HeaderError> {
        let header = serde_json::from_slice(line).unwrap_or(Value::Null);
        if header["format"] != FORMAT {
            return Err(HeaderError::Unreadable("this is not a Reqlore dump".to_owned()));
        }
        match header["version"].as_u64() {
            Some(version) if version > VERSION => Err(HeaderError::Newer(format!(
                "was written by a newer Reqlore (format {version}, supported: {VERSION}); \
                 update Reqlore"
            ))),
            Some(1..=VERSION) => match serde_json::from_value::<DumpHeader>(header) {
                Ok(_) => Ok(()),
                Err(error) => Err(HeaderError::Unreadable(error.to_string())),
            },
            _ => Err(HeaderError::Unreadable(format!("the format is not 1 to {VERSION}"))),
        }
    }
}

/// The last line. Dumps without users, tokens and audit rows may omit these counts.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndLine {
    /// Number of documents.
    pub(crate) records: u64,
    #[serde(default)]
    users: u64,
    #[serde(default)]
    tokens: u64,
    /// Number of audit rows.
    #[serde(default)]
    audit: u64,
    /// Number of earlier versions and deletions; 0 before format 2.
    #[serde(default)]
    history: u64,
    /// Hash of all lines before this one; empty while lines are counted.
    pub(crate) sha256: String,
}

impl EndLine {
    pub(crate) fn count_record(&mut self, record: &ArchiveRecord) {
        match record {
            ArchiveRecord::Document(_) => self.records += 1,
            ArchiveRecord::HighWaterMark(_) => {}
            ArchiveRecord::History(_) => self.history += 1,
            ArchiveRecord::User(_) => self.users += 1,
            ArchiveRecord::Token(_) => self.tokens += 1,
            ArchiveRecord::AuditRow(_) => self.audit += 1,
        }
    }

    pub(crate) fn with_hash(&self, hash: Sha256) -> Self {
        Self { sha256: hex::encode(hash.finalize()), ..self.clone() }
    }

    /// Describes the first count that differs from the lines.
    pub(crate) fn describe_miscount(&self, actual: &Self) -> Option<String> {
        for (label, stated, actual) in [
            ("records", self.records, actual.records),
            ("users", self.users, actual.users),
            ("tokens", self.tokens, actual.tokens),
            ("audit rows", self.audit, actual.audit),
            ("earlier versions", self.history, actual.history),
        ] {
            if stated != actual {
                return Some(format!("there are {actual} {label}, not {stated}"));
            }
        }
        None
    }
}

pub(crate) fn decode_line(line: &[u8]) -> Result<ArchiveRecord, String> {
    let error = match parse_record(line) {
        Ok(record) => return Ok(record),
        Err(error) => error,
    };
    let json = serde_json::from_slice::<Value>(line);
    if json.is_ok_and(|json| json.get("sha256").is_some()) {
        return Err("the file continues after its end line".to_owned());
    }
    // serde_json saw one line only, so its line number is always 1.
    Err(error.to_string().replace(" at line 1 column ", " at column "))
}

/// The first key of a line determines its type. A document line starts with none of these.
fn parse_record(line: &[u8]) -> serde_json::Result<ArchiveRecord> {
    let mut reader = serde_json::Deserializer::from_slice(line);
    let json = &mut reader;
    let record = if line.starts_with(b"{\"mark\":") {
        ArchiveRecord::HighWaterMark(MarkLine::deserialize(json)?)
    } else if line.starts_with(b"{\"history\":") {
        let entry = HistoryLine::deserialize(json)?.decode();
        ArchiveRecord::History(entry.map_err(serde_json::Error::custom)?)
    } else if line.starts_with(b"{\"user\":") {
        ArchiveRecord::User(UserLine::deserialize(json)?)
    } else if line.starts_with(b"{\"token\":") {
        ArchiveRecord::Token(TokenLine::deserialize(json)?)
    } else if line.starts_with(b"{\"audit\":") {
        ArchiveRecord::AuditRow(RowLine::deserialize(json)?)
    } else {
        let document = DocumentLine::deserialize(json)?.decode();
        ArchiveRecord::Document(document.map_err(serde_json::Error::custom)?)
    };
    // Rejects a second value on the line.
    reader.end()?;
    Ok(record)
}

pub(crate) fn encode_line(record: &ArchiveRecord, line: &mut Vec<u8>) -> Result<(), String> {
    let json = &mut serde_json::Serializer::new(line);
    let written = match record {
        ArchiveRecord::Document(record) => DocumentLine::new(record).serialize(json),
        ArchiveRecord::HighWaterMark(mark) => MarkLine::serialize(mark, json),
        ArchiveRecord::History(record) => HistoryLine::new(record).serialize(json),
        ArchiveRecord::User(user) => UserLine::serialize(user, json),
        ArchiveRecord::Token(token) => TokenLine::serialize(token, json),
        ArchiveRecord::AuditRow(row) => RowLine::serialize(row, json),
    };
    written.map_err(|error| error.to_string())
}

/// A document. Its body is in `text`, or in `base64` if it is not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentLine<'a> {
    project: ProjectKey,
    kind: Cow<'a, str>,
    name: Cow<'a, str>,
    #[serde(with = "time_text")]
    modified: Timestamp,
    #[serde(rename = "place", skip_serializing_if = "Option::is_none")]
    path: Option<Arc<str>>,
    version: Version,
    /// [`PresentEntry::number`]; omitted for the first version.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'a, ChangeOrigin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> DocumentLine<'a> {
    fn new(record: &'a DocumentRecord) -> Self {
        let DocumentRecord { project, document, modified, path, entry } = record;
        let (text, base64) = encode_body(&document.body);
        Self {
            project: project.clone(),
            kind: document.id.kind.name().into(),
            name: document.id.name.as_str().into(),
            modified: *modified,
            path: path.clone(),
            version: document.version,
            number: (entry.number != 1).then_some(entry.number),
            by: encode_origin(&entry.origin),
            text,
            base64,
        }
    }

    fn decode(self) -> Result<DocumentRecord, String> {
        let id = decode_id(&self.kind, self.name)?;
        let Some(body) = decode_body(self.text, self.base64)? else {
            return Err("a record has either `text` or `base64`".to_owned());
        };
        let number = self.number.unwrap_or(1);
        Ok(DocumentRecord {
            project: self.project,
            document: Document { id, body, version: self.version },
            modified: self.modified,
            path: self.path,
            entry: PresentEntry { number, origin: decode_origin(self.by) },
        })
    }
}

/// An earlier version of a document. It has either `text`, `base64`, `purged` (the hash of an
/// erased text) or none of them, for a deletion.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryLine<'a> {
    #[serde(rename = "history")]
    number: u64,
    project: ProjectKey,
    kind: Cow<'a, str>,
    name: Cow<'a, str>,
    #[serde(with = "time_text")]
    at: Timestamp,
    /// Time of the next change.
    #[serde(with = "time_text")]
    ended: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'a, ChangeOrigin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<TextHash>,
}

impl<'a> HistoryLine<'a> {
    fn new(record: &'a HistoryRecord) -> Self {
        let HistoryRecord { project, document, entry } = record;
        let (mut text, mut base64, mut purged) = (None, None, None);
        match &entry.content {
            PastContent::Deleted => {}
            PastContent::Text(body) => (text, base64) = encode_body(body),
            PastContent::Purged(hash) => purged = Some(*hash),
        }
        Self {
            number: entry.number,
            project: project.clone(),
            kind: document.kind.name().into(),
            name: document.name.as_str().into(),
            at: entry.at,
            ended: entry.ended,
            by: encode_origin(&entry.origin),
            text,
            base64,
            purged,
        }
    }

    fn decode(self) -> Result<HistoryRecord, String> {
        let content = match (decode_body(self.text, self.base64)?, self.purged) {
            (None, None) => PastContent::Deleted,
            (Some(body), None) => PastContent::Text(body),
            (None, Some(hash)) => PastContent::Purged(hash),
            (Some(_), Some(_)) => return Err("a purged version has no text".to_owned()),
        };
        let Self { number, at, ended, .. } = self;
        let origin = decode_origin(self.by);
        Ok(HistoryRecord {
            project: self.project,
            document: decode_id(&self.kind, self.name)?,
            entry: PastEntry { number, at, ended, origin, content },
        })
    }
}

fn decode_id(kind: &str, name: Cow<'_, str>) -> Result<DocumentId, String> {
    match DocumentKind::from_name(kind) {
        Some(kind) => Ok(DocumentId { kind, name: name.into_owned() }),
        None => Err(format!("unknown kind {kind:?}")),
    }
}

/// Returns the body as text, or as base64 if it is not UTF-8.
fn encode_body(body: &[u8]) -> (Option<Cow<'_, str>>, Option<String>) {
    match std::str::from_utf8(body) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(body))),
    }
}

fn decode_body(
    text: Option<Cow<'_, str>>,
    base64: Option<String>,
) -> Result<Option<Bytes>, String> {
    match (text, base64) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(text.into_owned().into())),
        (None, Some(base64)) => match STANDARD.decode(base64) {
            Ok(body) => Ok(Some(body.into())),
            Err(error) => Err(error.to_string()),
        },
        (Some(_), Some(_)) => Err("a record has either `text` or `base64`".to_owned()),
    }
}

fn encode_origin(origin: &ChangeOrigin) -> Option<Cow<'_, ChangeOrigin>> {
    (*origin != ChangeOrigin::default()).then_some(Cow::Borrowed(origin))
}

fn decode_origin(origin: Option<Cow<'_, ChangeOrigin>>) -> ChangeOrigin {
    origin.map(Cow::into_owned).unwrap_or_default()
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HighWaterMark", deny_unknown_fields)]
struct MarkLine {
    #[serde(rename = "mark", with = "ItemKindName")]
    kind: ItemKind,
    project: ProjectKey,
    number: u32,
}

/// [`ItemKind::name`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "ItemKind", rename_all = "snake_case")]
enum ItemKindName {
    Epic,
    UserStory,
    Requirement,
    AcceptanceCriteria,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "User", deny_unknown_fields)]
struct UserLine {
    #[serde(rename = "user")]
    name: UserName,
    role: UserRole,
    #[serde(with = "time_text")]
    created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time_text")]
    disabled_at: Option<Timestamp>,
}

/// A token with the digest of its secret; the secret itself is never stored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Token", deny_unknown_fields)]
struct TokenLine {
    #[serde(rename = "token")]
    id: TokenId,
    user: UserName,
    digest: TokenDigest,
    scope: Access,
    /// Empty means all projects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    projects: Vec<ProjectKey>,
    #[serde(with = "time_text")]
    created_at: Timestamp,
    #[serde(with = "time_text")]
    expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time_text")]
    revoked_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<TokenId>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "time_text")]
    last_used_at: Option<Timestamp>,
    /// Dumps have no sessions.
    #[serde(skip)]
    parent: Option<TokenId>,
}

/// An audit row. `text` is the sealed JSON, unchanged.
#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditRow", deny_unknown_fields)]
struct RowLine {
    #[serde(rename = "audit")]
    number: u64,
    hash: RowHash,
    text: Arc<str>,
}

/// A timestamp as RFC 3339 text, for fields with and without `Option`. Only one spelling is valid,
/// because another could hold more than a [`Timestamp`].
mod time_text {
    use std::borrow::Cow;

    use reqlore_domain::timestamp::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use time::OffsetDateTime;
    use time::format_description::well_known::Rfc3339;

    pub(super) fn serialize<S: Serializer>(
        time: &(impl Copy + Into<Option<Timestamp>>),
        json: S,
    ) -> Result<S::Ok, S::Error> {
        let text = match (*time).into() {
            Some(time) => Some(to_text(time).map_err(serde::ser::Error::custom)?),
            None => None,
        };
        text.serialize(json)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: From<Timestamp>>(
        json: D,
    ) -> Result<T, D::Error> {
        let text = Cow::<str>::deserialize(json)?;
        match from_text(&text) {
            Some(time) => Ok(T::from(time)),
            None => Err(serde::de::Error::custom(format!(
                "{text:?} is not a time like 2026-01-31T23:59:59.123456789Z in 1677 to 2262"
            ))),
        }
    }

    fn from_text(text: &str) -> Option<Timestamp> {
        let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        let time = Timestamp(i64::try_from(time.unix_timestamp_nanos()).ok()?);
        // Rejects every other spelling of the same time.
        (to_text(time).ok()? == text).then_some(time)
    }

    fn to_text(time: Timestamp) -> Result<String, String> {
        let time = OffsetDateTime::from_unix_timestamp_nanos(time.0.into());
        let time = time.map_err(|error| error.to_string())?;
        time.format(&Rfc3339).map_err(|error| error.to_string())
    }
}
