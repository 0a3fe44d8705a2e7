//! The lines of a dump: its header and end, and those of records and marks.
//!
//! Trap: dumps outlive programs. What these types read or write changes with [`VERSION`] only.

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqlore_domain::audit::AuditRow;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, Kind, MAX_BYTES, Version};
use reqlore_domain::identity::{Token, User};
use reqlore_domain::ports::archive::{Mark, Record};
use reqlore_domain::project::ProjectKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::line::{parsed, time_as_text, time_from_text, write_line};
use crate::team;

const FORMAT: &str = "reqlore-dump";
const VERSION: u64 = 1;

/// A byte of a text takes at most six in JSON, as in `\u0000`; the rest is for the other keys.
pub(crate) const LINE_BYTES: usize = 6 * MAX_BYTES + (1 << 20);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header<'a> {
    format: Cow<'a, str>,
    version: u64,
    /// The program that wrote it.
    reqlore: Cow<'a, str>,
}

/// Why a first line begins nothing that can be read.
pub(crate) enum Foreign {
    Newer(String),
    Unreadable(String),
}

impl Header<'_> {
    pub(crate) const OURS: Self = Header {
        format: Cow::Borrowed(FORMAT),
        version: VERSION,
        reqlore: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
    };

    /// A newer format may have any other keys, so the version is looked at first.
    pub(crate) fn check(line: &[u8]) -> Result<(), Foreign> {
        let no_dump = || Foreign::Unreadable("this is no dump of Reqlore".to_owned());
        let header: Value = serde_json::from_slice(line).map_err(|_| no_dump())?;
        if header["format"] != FORMAT {
            return Err(no_dump());
        }
        match header["version"].as_u64() {
            Some(version) if version > VERSION => Err(Foreign::Newer(format!(
                "it was written by a newer Reqlore (format {version}, and this one reads \
                 {VERSION}); upgrade Reqlore to read it"
            ))),
            Some(VERSION) => match serde_json::from_value::<Header>(header) {
                Ok(_) => Ok(()),
                Err(error) => Err(Foreign::Unreadable(error.to_string())),
            },
            _ => Err(Foreign::Unreadable(format!("the version of the format is not {VERSION}"))),
        }
    }
}

/// Dumps from before there were users say nothing of them, of tokens and of the audit.
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
        let mut sha256 = String::new();
        for byte in hash.finalize() {
            // Writing to a string does not fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { records, users, tokens, audit, sha256 }
    }

    /// In which number it differs from what was found.
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

/// How many lines of a kind there are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) records: u64,
    pub(crate) users: u64,
    pub(crate) tokens: u64,
    pub(crate) audit: u64,
}

/// What a line between the header and the end holds.
pub(crate) enum Line {
    Record(Record),
    Mark(Mark),
    User(User),
    Token(Token),
    AuditRow(AuditRow),
}

impl Line {
    /// Each begins with a key of its own, and a record with none of these.
    pub(crate) fn decode(line: &[u8]) -> Result<Self, String> {
        if line.starts_with(b"{\"mark\":") {
            decode_mark(line).map(Self::Mark)
        } else if line.starts_with(b"{\"user\":") {
            team::decode_user(line).map(Self::User)
        } else if line.starts_with(b"{\"token\":") {
            team::decode_token(line).map(Self::Token)
        } else if line.starts_with(b"{\"audit\":") {
            team::decode_row(line).map(Self::AuditRow)
        } else {
            decode(line).map(Self::Record)
        }
    }
}

/// A record. Its bytes are in `text`, or in `base64` when they are no UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine<'a> {
    project: Cow<'a, str>,
    kind: Cow<'a, str>,
    name: Cow<'a, str>,
    modified: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<Cow<'a, str>>,
    version: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

pub(crate) fn encode(record: &Record, line: &mut Vec<u8>) -> Result<(), String> {
    let Record { project, document, modified, place } = record;
    let text = std::str::from_utf8(&document.body).ok();
    let written = RecordLine {
        project: project.as_str().into(),
        kind: document.id.kind.name().into(),
        name: document.id.name.as_str().into(),
        modified: time_as_text(*modified)?,
        place: place.as_deref().map(Cow::Borrowed),
        version: document.version,
        text: text.map(Cow::Borrowed),
        base64: text.is_none().then(|| STANDARD.encode(&document.body)),
    };
    write_line(&written, line)
}

fn decode(line: &[u8]) -> Result<Record, String> {
    let line: RecordLine = parsed(line)?;
    let kind = Kind::named(&line.kind).ok_or_else(|| format!("unknown kind {:?}", line.kind))?;
    let body = match (line.text, line.base64) {
        (Some(text), None) => text.into_owned().into_bytes(),
        (None, Some(base64)) => STANDARD.decode(base64).map_err(|error| error.to_string())?,
        _ => return Err("a record has either `text` or `base64`".to_owned()),
    };
    let id = DocumentId { kind, name: line.name.into_owned() };
    Ok(Record {
        project: ProjectKey::new(&*line.project),
        document: Document { id, body: Bytes::from(body), version: line.version },
        modified: time_from_text(&line.modified)?,
        place: line.place.map(Into::into),
    })
}

/// A mark, with the kind of its items.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkLine<'a> {
    mark: Cow<'a, str>,
    project: Cow<'a, str>,
    number: u32,
}

pub(crate) fn encode_mark(mark: &Mark, line: &mut Vec<u8>) -> Result<(), String> {
    let Mark { project, kind, number } = mark;
    let (mark, project, number) = (kind.name().into(), project.as_str().into(), *number);
    let written = MarkLine { mark, project, number };
    write_line(&written, line)
}

fn decode_mark(line: &[u8]) -> Result<Mark, String> {
    let MarkLine { mark, project, number } = parsed(line)?;
    let kind = ItemKind::ALL.into_iter().find(|kind| kind.name() == mark);
    let kind = kind.ok_or_else(|| format!("unknown kind of items {mark:?}"))?;
    Ok(Mark { project: ProjectKey::new(&*project), kind, number })
}
