//! Checks each record of a dump and its position, while writing and while reading.
//!
//! Of audit rows only the numbers are checked: a tampered audit log must be saved unchanged, so
//! that `audit verify` can report it.

use std::collections::BTreeSet;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::document::{Document, DocumentId, MAX_DOCUMENT_BYTES, Version};
use reqlore_domain::identity::TokenId;
use reqlore_domain::ports::archive::{ArchiveRecord, DocumentRecord, HistoryRecord, RecordKey};
use reqlore_domain::ports::history::PastContent;
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::project_key::ProjectKey;

use crate::lines::EndLine;

/// Maximum length of a path in bytes (`PATH_MAX` on Linux).
const MAX_PATH_BYTES: usize = 4_096;
/// Maximum length of the user, tool and reason of a change. Storages write at most 503 bytes.
const MAX_ORIGIN_BYTES: usize = 1_000;
/// Maximum number of marks, and of users, tokens and token projects together. It bounds the memory
/// of an import.
const MAX_IN_MEMORY: usize = 1_000_000;

/// State after the records that were checked so far.
#[derive(Default)]
pub(crate) struct OrderCheck {
    pub(crate) totals: EndLine,
    last: Option<RecordKey>,
    marks: usize,
    identities: usize,
    tokens: BTreeSet<TokenId>,
}

impl OrderCheck {
    pub(crate) fn check_next(&mut self, record: &ArchiveRecord) -> Result<(), String> {
        let key = record.key();
        match record {
            ArchiveRecord::Document(record) => check_document(record)?,
            ArchiveRecord::HighWaterMark(mark) => {
                check_project(&mark.project)?;
                if mark.number > MAX_NUMBER {
                    return Err(format!("{key} is {}; the limit is {MAX_NUMBER}", mark.number));
                }
                self.marks += 1;
            }
            ArchiveRecord::History(record) => check_history(record)?,
            ArchiveRecord::User(_) => self.identities += 1,
            ArchiveRecord::Token(token) => {
                for project in &token.projects {
                    check_project(project)?;
                }
                // Tokens are sorted by age, so equal ids may be far apart.
                if !self.tokens.insert(token.id.clone()) {
                    return Err(format!("{key} occurs twice"));
                }
                self.identities += 1 + token.projects.len();
            }
            ArchiveRecord::AuditRow(_) => {}
        }
        match &self.last {
            Some(last) if *last == key => return Err(format!("{key} occurs twice")),
            Some(last) if *last > key => {
                return Err(format!("{key} is out of order, after {last}"));
            }
            _ => {}
        }
        if self.marks > MAX_IN_MEMORY {
            return Err(format!("there are more than {MAX_IN_MEMORY} marks"));
        }
        if self.identities > MAX_IN_MEMORY {
            return Err(format!(
                "there are more than {MAX_IN_MEMORY} users, tokens and projects of tokens"
            ));
        }
        self.totals.count_record(record);
        self.last = Some(key);
        Ok(())
    }
}

fn check_document(record: &DocumentRecord) -> Result<(), String> {
    let DocumentRecord { project, document: Document { id, body, version }, path, entry, .. } =
        record;
    check_project(project)?;
    id.check()?;
    check_origin(&entry.origin)?;
    if let Some(path) = path {
        check_path(path)?;
    }
    check_size(id, body)?;
    if Version::of_bytes(body) != *version {
        return Err(format!("{id} was changed: its bytes do not match version {version}"));
    }
    Ok(())
}

fn check_history(record: &HistoryRecord) -> Result<(), String> {
    check_project(&record.project)?;
    record.document.check()?;
    check_origin(&record.entry.origin)?;
    match &record.entry.content {
        PastContent::Text(body) => check_size(&record.document, body),
        PastContent::Deleted | PastContent::Purged(_) => Ok(()),
    }
}

/// Rejects texts that a storage would have to split.
fn check_origin(origin: &ChangeOrigin) -> Result<(), String> {
    for text in [&origin.user, &origin.tool, &origin.reason].into_iter().flatten() {
        if text.len() > MAX_ORIGIN_BYTES {
            return Err(format!(
                "the user, tool and reason of a change have at most {MAX_ORIGIN_BYTES} bytes, one \
                 has {}",
                text.len()
            ));
        }
    }
    Ok(())
}

fn check_size(id: &DocumentId, body: &[u8]) -> Result<(), String> {
    if body.len() > MAX_DOCUMENT_BYTES {
        return Err(format!("{id} has {} bytes; the limit is {MAX_DOCUMENT_BYTES}", body.len()));
    }
    Ok(())
}

/// Rejects paths that lead out of the project's folder.
fn check_path(path: &str) -> Result<(), String> {
    if path.len() > MAX_PATH_BYTES {
        return Err(format!(
            "a path has at most {MAX_PATH_BYTES} bytes, this one has {}",
            path.len()
        ));
    }
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "{path:?} is not allowed; a path must be relative and must not contain \"..\""
        ));
    }
    if path.contains('\0') {
        return Err(format!("{path:?} is not a path; it has a NUL character"));
    }
    Ok(())
}

fn check_project(project: &ProjectKey) -> Result<(), String> {
    if project.is_plain() {
        return Ok(());
    }
    Err("a project's key has 1 to 64 letters, digits, '-' and '_'".to_owned())
}
