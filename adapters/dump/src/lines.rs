//! The lines of a dump file.
//!
//! Dumps outlive programs: a change to what these types read or write needs a new [`VERSION`].

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqlore_domain::audit::{AuditRow, Hash};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, Kind, MAX_BYTES, Version};
use reqlore_domain::identity::{Access, Digest, Role, Token, TokenId, User, UserName};
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord, HighWaterMark};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const FORMAT: &str = "reqlore-dump";
const VERSION: u64 = 1;

/// The longest line: a byte of text takes at most six in JSON (`\u0000`); the rest is for the
/// other keys.
pub(crate) const LINE_BYTES: usize = 6 * MAX_BYTES + (1 << 20);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header<'a> {
    format: Cow<'a, str>,
    version: u64,
    /// The program that wrote it.
    reqlore: Cow<'a, str>,
}

/// Why the header is refused.
pub(crate) enum HeaderError {
    Newer(String),
    Unreadable(String),
}

impl Header<'_> {
    pub(crate) const OURS: Self = Header {
        format: Cow::Borrowed(FORMAT),
        version: VERSION,
        reqlore: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
    };

    /// Checks the version first, because a newer format may have other keys.
    pub(crate) fn check(line: &[u8]) -> Result<(), HeaderError> {
        let not_a_dump = || HeaderError::Unreadable("this is not a Reqlore dump".to_owned());
        let header: Value = serde_json::from_slice(line).map_err(|_| not_a_dump())?;
        if header["format"] != FORMAT {
            return Err(not_a_dump());
        }
        match header["version"].as_u64() {
            Some(version) if version > VERSION => Err(HeaderError::Newer(format!(
                "it was written by a newer Reqlore (format {version}, and this one reads \
                 {VERSION}); upgrade Reqlore to read it"
            ))),
            Some(VERSION) => match serde_json::from_value::<Header>(header) {
                Ok(_) => Ok(()),
                Err(error) => Err(HeaderError::Unreadable(error.to_string())),
            },
            _ => {
                Err(HeaderError::Unreadable(format!("the version of the format is not {VERSION}")))
            }
        }
    }
}

/// The last line. Dumps without users, tokens and audit rows may lack these counts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) records: u64,
    #[serde(default)]
    pub(crate) users: u64,
    #[serde(default)]
    pub(crate) tokens: u64,
    /// Rows of the audit.
    #[serde(default)]
    pub(crate) audit: u64,
    pub(crate) sha256: String,
}

impl End {
    pub(crate) fn new(counts: Counts, hash: Sha256) -> Self {
        let Counts { records, users, tokens, audit } = counts;
        Self { records, users, tokens, audit, sha256: hex::encode(hash.finalize()) }
    }

    /// Describes the first count that differs from the lines.
    pub(crate) fn miscount(&self, found: Counts) -> Option<String> {
        let counts = [
            ("records", self.records, found.records),
            ("users", self.users, found.users),
            ("tokens", self.tokens, found.tokens),
            ("rows of the audit", self.audit, found.audit),
        ];
        let differs = counts.into_iter().find(|(_, told, found)| told != found);
        differs.map(|(what, told, found)| format!("there are {found} {what}, not {told}"))
    }
}

/// Number of lines by kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) records: u64,
    pub(crate) users: u64,
    pub(crate) tokens: u64,
    pub(crate) audit: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, record: &ArchiveRecord) {
        match record {
            ArchiveRecord::Document(_) => self.records += 1,
            ArchiveRecord::HighWaterMark(_) => {}
            ArchiveRecord::User(_) => self.users += 1,
            ArchiveRecord::Token(_) => self.tokens += 1,
            ArchiveRecord::AuditRow(_) => self.audit += 1,
        }
    }
}

/// The first key of a line tells its type; a document has none of these.
pub(crate) fn decode(line: &[u8]) -> Result<ArchiveRecord, String> {
    if line.starts_with(b"{\"mark\":") {
        MarkLine::decode(line).map(ArchiveRecord::HighWaterMark)
    } else if line.starts_with(b"{\"user\":") {
        UserLine::decode(line).map(ArchiveRecord::User)
    } else if line.starts_with(b"{\"token\":") {
        TokenLine::decode(line).map(ArchiveRecord::Token)
    } else if line.starts_with(b"{\"audit\":") {
        RowLine::decode(line).map(ArchiveRecord::AuditRow)
    } else {
        DocumentLine::decode(line).map(ArchiveRecord::Document)
    }
}

pub(crate) fn encode(record: &ArchiveRecord, line: &mut Vec<u8>) -> Result<(), String> {
    match record {
        ArchiveRecord::Document(record) => write_line(&DocumentLine::new(record), line),
        ArchiveRecord::HighWaterMark(mark) => write_line(&MarkLine::new(mark), line),
        ArchiveRecord::User(user) => write_line(&UserLine::new(user), line),
        ArchiveRecord::Token(token) => write_line(&TokenLine::new(token), line),
        ArchiveRecord::AuditRow(row) => write_line(&RowLine::new(row), line),
    }
}

pub(crate) fn write_line(written: &impl Serialize, line: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(line, written).map_err(|error| error.to_string())
}

fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        let line = serde_json::from_slice::<Value>(line);
        if line.is_ok_and(|line| line.get("sha256").is_some()) {
            return "the file continues after its end line".to_owned();
        }
        // serde_json saw one line only, so its line number is always 1.
        error.to_string().replace(" at line 1 column ", " at column ")
    })
}

/// A point in time in its one spelling: other spellings could hold more than a [`Timestamp`] can.
#[derive(Clone, Copy)]
struct LineTime(Timestamp);

impl Serialize for LineTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text().map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for LineTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let time = OffsetDateTime::parse(&text, &Rfc3339).ok();
        let nanos = time.and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok());
        let time = nanos.map(|nanos| Self(Timestamp(nanos)));
        time.filter(|time| time.text().is_ok_and(|same| same == text)).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{text:?} is not a time like 2026-01-31T23:59:59.123456789Z in 1677 to 2262"
            ))
        })
    }
}

impl LineTime {
    fn text(self) -> Result<String, String> {
        let time = OffsetDateTime::from_unix_timestamp_nanos(self.0.0.into());
        let time = time.map_err(|error| error.to_string())?;
        time.format(&Rfc3339).map_err(|error| error.to_string())
    }
}

/// A document. Its bytes are in `text`, or in `base64` if they are not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentLine<'a> {
    project: Cow<'a, str>,
    kind: Cow<'a, str>,
    name: Cow<'a, str>,
    modified: LineTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Cow<'a, str>>,
    version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> DocumentLine<'a> {
    fn new(record: &'a DocumentRecord) -> Self {
        let DocumentRecord { project, document, modified, place } = record;
        let text = std::str::from_utf8(&document.body).ok();
        Self {
            project: project.as_str().into(),
            kind: document.id.kind.name().into(),
            name: document.id.name.as_str().into(),
            modified: LineTime(*modified),
            place: place.as_deref().map(Cow::Borrowed),
            version: document.version,
            text: text.map(Cow::Borrowed),
            base64: text.is_none().then(|| STANDARD.encode(&document.body)),
        }
    }

    fn decode(line: &[u8]) -> Result<DocumentRecord, String> {
        let line: DocumentLine = parse(line)?;
        let kind =
            Kind::named(&line.kind).ok_or_else(|| format!("unknown kind {:?}", line.kind))?;
        let body = match (line.text, line.base64) {
            (Some(text), None) => text.into_owned().into_bytes(),
            (None, Some(base64)) => STANDARD.decode(base64).map_err(|error| error.to_string())?,
            _ => return Err("a record has either `text` or `base64`".to_owned()),
        };
        let id = DocumentId { kind, name: line.name.into_owned() };
        Ok(DocumentRecord {
            project: ProjectKey::new(&*line.project),
            document: Document { id, body: Bytes::from(body), version: line.version },
            modified: line.modified.0,
            place: line.place.map(Into::into),
        })
    }
}

/// A high-water mark; `mark` is the kind of its items.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkLine<'a> {
    mark: Cow<'a, str>,
    project: Cow<'a, str>,
    number: u32,
}

impl<'a> MarkLine<'a> {
    fn new(mark: &'a HighWaterMark) -> Self {
        let HighWaterMark { project, kind, number } = mark;
        Self { mark: kind.name().into(), project: project.as_str().into(), number: *number }
    }

    fn decode(line: &[u8]) -> Result<HighWaterMark, String> {
        let MarkLine { mark, project, number } = parse(line)?;
        let kind = ItemKind::ALL.into_iter().find(|kind| kind.name() == mark);
        let kind = kind.ok_or_else(|| format!("unknown kind of items {mark:?}"))?;
        Ok(HighWaterMark { project: ProjectKey::new(&*project), kind, number })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserLine<'a> {
    user: Cow<'a, str>,
    role: Cow<'a, str>,
    created_at: LineTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<LineTime>,
}

impl<'a> UserLine<'a> {
    fn new(user: &'a User) -> Self {
        Self {
            user: user.name.as_str().into(),
            role: user.role.name().into(),
            created_at: LineTime(user.created_at),
            disabled_at: user.disabled_at.map(LineTime),
        }
    }

    fn decode(line: &[u8]) -> Result<User, String> {
        let UserLine { user, role, created_at, disabled_at } = parse(line)?;
        let known = Role::ALL.into_iter().find(|known| known.name() == role);
        Ok(User {
            name: UserName::parse(&user)?,
            role: known.ok_or_else(|| format!("unknown role {role:?}"))?,
            created_at: created_at.0,
            disabled_at: disabled_at.map(|time| time.0),
        })
    }
}

/// A token with the digest of its secret; the secret itself is never stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine<'a> {
    token: Cow<'a, str>,
    user: Cow<'a, str>,
    digest: Cow<'a, str>,
    scope: Cow<'a, str>,
    /// Empty means all projects.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    projects: Vec<Cow<'a, str>>,
    created_at: LineTime,
    expires_at: LineTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<LineTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<LineTime>,
}

impl<'a> TokenLine<'a> {
    fn new(token: &'a Token) -> Self {
        Self {
            token: token.id.as_str().into(),
            user: token.user.as_str().into(),
            digest: String::from(token.digest).into(),
            scope: token.scope.name().into(),
            projects: token.projects.iter().map(|project| project.as_str().into()).collect(),
            created_at: LineTime(token.created_at),
            expires_at: LineTime(token.expires_at),
            revoked_at: token.revoked_at.map(LineTime),
            successor: token.successor.as_ref().map(|successor| successor.as_str().into()),
            last_used_at: token.last_used_at.map(LineTime),
        }
    }

    fn decode(line: &[u8]) -> Result<Token, String> {
        let line: TokenLine = parse(line)?;
        let scope = Access::ALL.into_iter().find(|known| known.name() == line.scope);
        Ok(Token {
            id: token_id(&line.token)?,
            user: UserName::parse(&line.user)?,
            digest: Digest::try_from(line.digest.into_owned())?,
            scope: scope.ok_or_else(|| format!("unknown scope {:?}", line.scope))?,
            projects: line.projects.iter().map(|project| ProjectKey::new(&**project)).collect(),
            created_at: line.created_at.0,
            expires_at: line.expires_at.0,
            revoked_at: line.revoked_at.map(|time| time.0),
            successor: line.successor.as_deref().map(token_id).transpose()?,
            last_used_at: line.last_used_at.map(|time| time.0),
        })
    }
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::try_from(text.to_owned()).map_err(str::to_owned)
}

/// An audit row. `text` is the sealed JSON, unchanged.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine<'a> {
    audit: u64,
    hash: Cow<'a, str>,
    text: Cow<'a, str>,
}

impl<'a> RowLine<'a> {
    fn new(row: &'a AuditRow) -> Self {
        let AuditRow { number, hash, text } = row;
        Self { audit: *number, hash: hash.to_string().into(), text: (&**text).into() }
    }

    fn decode(line: &[u8]) -> Result<AuditRow, String> {
        let RowLine { audit: number, hash, text } = parse(line)?;
        let hash = Hash::try_from(hash.into_owned())?;
        Ok(AuditRow { number, hash, text: text.into() })
    }
}
