//! The lines of a dump, and what must be true of the records in them.
//!
//! Trap: dumps outlive programs. What these types read or write changes with [`VERSION`] only.

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::document::{Document, DocumentId, Kind, MAX_BYTES, Version};
use reqlore_domain::ports::archive::{Mark, Record};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const FORMAT: &str = "reqlore-dump";
const VERSION: u64 = 1;

/// A byte of a text takes at most six in JSON, as in `\u0000`; the rest is for the other keys.
pub(crate) const LINE_BYTES: usize = 6 * MAX_BYTES + (1 << 20);

/// The longest place, in bytes: what a path may have on Linux.
const MAX_PLACE: usize = 4_096;

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

#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) records: u64,
    pub(crate) sha256: String,
}

impl End {
    pub(crate) fn new(records: u64, hash: Sha256) -> Self {
        let mut sha256 = String::new();
        for byte in hash.finalize() {
            // Writing to a string does not fail.
            let _ = write!(sha256, "{byte:02x}");
        }
        Self { records, sha256 }
    }
}

/// A record. Its bytes are in `text`, or in `base64` when they are no UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
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
    let written = Line {
        project: project.as_str().into(),
        kind: document.id.kind.name().into(),
        name: document.id.name.as_str().into(),
        modified: time_as_text(*modified)?,
        place: place.as_deref().map(Cow::Borrowed),
        version: document.version,
        text: text.map(Cow::Borrowed),
        base64: text.is_none().then(|| STANDARD.encode(&document.body)),
    };
    serde_json::to_writer(line, &written).map_err(|error| error.to_string())
}

pub(crate) fn decode(line: &[u8]) -> Result<Record, String> {
    let line: Line = parsed(line)?;
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

/// How the line of a mark begins, and that of no record.
const MARK: &[u8] = b"{\"mark\":";

/// A mark; the kind of its items stands first, which tells it from a record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkLine<'a> {
    mark: Cow<'a, str>,
    project: Cow<'a, str>,
    number: u32,
}

pub(crate) fn is_mark(line: &[u8]) -> bool {
    line.starts_with(MARK)
}

pub(crate) fn encode_mark(mark: &Mark, line: &mut Vec<u8>) -> Result<(), String> {
    let Mark { project, kind, number } = mark;
    let (mark, project, number) = (kind.name().into(), project.as_str().into(), *number);
    let written = MarkLine { mark, project, number };
    serde_json::to_writer(line, &written).map_err(|error| error.to_string())
}

pub(crate) fn decode_mark(line: &[u8]) -> Result<Mark, String> {
    let MarkLine { mark, project, number } = parsed(line)?;
    let kind = ItemKind::ALL.into_iter().find(|kind| kind.name() == mark);
    let kind = kind.ok_or_else(|| format!("unknown kind of items {mark:?}"))?;
    Ok(Mark { project: ProjectKey::new(&*project), kind, number })
}

fn parsed<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        if serde_json::from_slice::<End>(line).is_ok() {
            return "there is more behind the end".to_owned();
        }
        // It names a place in the one line that it saw.
        error.to_string().replace(" at line 1 column ", " at column ")
    })
}

fn time_as_text(time: Timestamp) -> Result<String, String> {
    let time = OffsetDateTime::from_unix_timestamp_nanos(time.0.into());
    let time = time.map_err(|error| error.to_string())?;
    time.format(&Rfc3339).map_err(|error| error.to_string())
}

/// Only what [`time_as_text`] writes: other spellings may say more than can be kept.
fn time_from_text(text: &str) -> Result<Timestamp, String> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok();
    let time = time.and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok()).map(Timestamp);
    let time = time.filter(|time| time_as_text(*time).is_ok_and(|same| same == text));
    time.ok_or_else(|| {
        format!("{text:?} is no time like 2026-01-31T23:59:59.123456789Z in 1677 to 2262")
    })
}

/// A place lies below the project's folder, whoever looks for it there.
fn check_place(place: &str) -> Result<(), String> {
    if place.len() > MAX_PLACE {
        return Err(format!("a place has at most {MAX_PLACE} bytes, this has {}", place.len()));
    }
    if place.starts_with('/') || place.split('/').any(|part| part == "..") {
        return Err(format!("{place:?} is no place; one is relative and goes through no \"..\""));
    }
    if place.contains('\0') {
        return Err(format!("{place:?} is no place; it has a NUL character"));
    }
    Ok(())
}

/// So many marks are in a dump at most: they are read at once.
const MAX_MARKS: usize = 1_000_000;

/// The records and marks so far. What breaks its rules is neither written nor read.
#[derive(Default)]
pub(crate) struct Sequence {
    pub(crate) count: u64,
    last: Option<(ProjectKey, DocumentId)>,
    marks: usize,
    last_mark: Option<(ProjectKey, ItemKind)>,
}

impl Sequence {
    pub(crate) fn add(&mut self, record: &Record) -> Result<(), String> {
        let Record { project, document: Document { id, body, version }, place, .. } = record;
        if self.marks > 0 {
            return Err(format!("{id} stands behind a mark; marks stand behind all records"));
        }
        check_project(project)?;
        id.check()?;
        place.as_deref().map_or(Ok(()), check_place)?;
        let this = (project.clone(), id.clone());
        match &self.last {
            Some(last) if *last == this => return Err(format!("{id} is there twice")),
            Some(last) if *last > this => {
                return Err(format!("{id} stands behind {}, out of order", last.1));
            }
            _ => {}
        }
        if body.len() > MAX_BYTES {
            return Err(format!("{id} has {} bytes; {MAX_BYTES} are the limit", body.len()));
        }
        if Version::of(body) != *version {
            return Err(format!("{id} was changed; its bytes are not those of version {version}"));
        }
        self.last = Some(this);
        self.count += 1;
        Ok(())
    }

    pub(crate) fn add_mark(&mut self, mark: &Mark) -> Result<(), String> {
        let Mark { project, kind, number } = mark;
        check_project(project)?;
        let (of, this) = (kind.name(), (project.clone(), *kind));
        match &self.last_mark {
            Some(last) if *last == this => return Err(format!("the mark of {of} is there twice")),
            Some(last) if *last > this => return Err(format!("the mark of {of} is out of order")),
            _ => {}
        }
        if *number > MAX_NUMBER {
            return Err(format!("the mark of {of} is {number}; {MAX_NUMBER} is the limit"));
        }
        if self.marks == MAX_MARKS {
            return Err(format!("there are more than {MAX_MARKS} marks"));
        }
        self.last_mark = Some(this);
        self.marks += 1;
        Ok(())
    }
}

fn check_project(project: &ProjectKey) -> Result<(), String> {
    if project.is_plain() {
        return Ok(());
    }
    Err("a project's key has 1 to 64 letters, digits, '-' and '_'".to_owned())
}
