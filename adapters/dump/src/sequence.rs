//! What must be true of the lines of a dump and of their order, for whoever writes or reads one.
//!
//! The trap: an audit that somebody tampered with must still be saved, and `audit verify` must find
//! it out of what was saved. So rows come in the order of their numbers, and no more is asked.

use std::collections::BTreeSet;

use reqlore_domain::audit::AuditRow;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::document::{Document, DocumentId, MAX_BYTES, Version};
use reqlore_domain::identity::{Token, TokenId, User};
use reqlore_domain::ports::archive::{Mark, Record};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use crate::format::{Counts, Line};

/// The longest place, in bytes: what a path may have on Linux.
const MAX_PLACE: usize = 4_096;
/// So many marks are in a dump at most, and so many users, tokens and projects of tokens together:
/// they are read at once.
const MAX_AT_ONCE: usize = 1_000_000;

/// The lines so far. What breaks its rules is neither written nor read.
#[derive(Default)]
pub(crate) struct Sequence {
    pub(crate) counts: Counts,
    part: Part,
    last: Option<(ProjectKey, DocumentId)>,
    marks: usize,
    last_mark: Option<(ProjectKey, ItemKind)>,
    identities: usize,
    last_user: Option<String>,
    last_token: Option<(Timestamp, TokenId)>,
    tokens: BTreeSet<TokenId>,
    last_row: u64,
}

/// The parts of a dump in their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    #[default]
    Records,
    Marks,
    Users,
    Tokens,
    Audit,
}

impl Sequence {
    pub(crate) fn add(&mut self, line: &Line) -> Result<(), String> {
        match line {
            Line::Record(record) => self.add_record(record),
            Line::Mark(mark) => self.add_mark(mark),
            Line::User(user) => self.add_user(user),
            Line::Token(token) => self.add_token(token),
            Line::AuditRow(row) => self.add_row(row),
        }
    }

    pub(crate) fn add_record(&mut self, record: &Record) -> Result<(), String> {
        let Record { project, document: Document { id, body, version }, place, .. } = record;
        self.enter(Part::Records, || id.to_string())?;
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
        self.counts.records += 1;
        Ok(())
    }

    pub(crate) fn add_mark(&mut self, mark: &Mark) -> Result<(), String> {
        let Mark { project, kind, number } = mark;
        let (of, this) = (kind.name(), (project.clone(), *kind));
        self.enter(Part::Marks, || format!("the mark of {of}"))?;
        check_project(project)?;
        match &self.last_mark {
            Some(last) if *last == this => return Err(format!("the mark of {of} is there twice")),
            Some(last) if *last > this => return Err(format!("the mark of {of} is out of order")),
            _ => {}
        }
        if *number > MAX_NUMBER {
            return Err(format!("the mark of {of} is {number}; {MAX_NUMBER} is the limit"));
        }
        if self.marks == MAX_AT_ONCE {
            return Err(format!("there are more than {MAX_AT_ONCE} marks"));
        }
        self.last_mark = Some(this);
        self.marks += 1;
        Ok(())
    }

    pub(crate) fn add_user(&mut self, user: &User) -> Result<(), String> {
        let name = &user.name;
        self.enter(Part::Users, || format!("user {name}"))?;
        let this = Some(name.key());
        if self.last_user == this {
            return Err(format!("user {name} is there twice"));
        }
        if self.last_user > this {
            return Err(format!("user {name} is out of order"));
        }
        self.count_identities(1)?;
        self.last_user = this;
        self.counts.users += 1;
        Ok(())
    }

    pub(crate) fn add_token(&mut self, token: &Token) -> Result<(), String> {
        let id = &token.id;
        self.enter(Part::Tokens, || format!("token {id}"))?;
        token.projects.iter().try_for_each(check_project)?;
        if self.tokens.contains(id) {
            return Err(format!("token {id} is there twice"));
        }
        let this = Some((token.created_at, id.clone()));
        if self.last_token > this {
            return Err(format!("token {id} is out of order"));
        }
        self.count_identities(1 + token.projects.len())?;
        self.last_token = this;
        self.tokens.insert(id.clone());
        self.counts.tokens += 1;
        Ok(())
    }

    pub(crate) fn add_row(&mut self, row: &AuditRow) -> Result<(), String> {
        let number = row.number;
        self.enter(Part::Audit, || format!("row {number} of the audit"))?;
        if number <= self.last_row {
            let last = self.last_row;
            return Err(format!("row {number} of the audit stands behind row {last}"));
        }
        self.last_row = number;
        self.counts.audit += 1;
        Ok(())
    }

    /// What belongs to a part stands behind nothing of a later one.
    fn enter(&mut self, part: Part, what: impl FnOnce() -> String) -> Result<(), String> {
        if part < self.part {
            let what = what();
            return Err(format!(
                "{what} is out of order: a dump has records, then marks, users, tokens and rows of \
                 the audit"
            ));
        }
        self.part = part;
        Ok(())
    }

    fn count_identities(&mut self, more: usize) -> Result<(), String> {
        self.identities += more;
        if self.identities > MAX_AT_ONCE {
            return Err(format!(
                "there are more than {MAX_AT_ONCE} users, tokens and projects of tokens"
            ));
        }
        Ok(())
    }
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

fn check_project(project: &ProjectKey) -> Result<(), String> {
    if project.is_plain() {
        return Ok(());
    }
    Err("a project's key has 1 to 64 letters, digits, '-' and '_'".to_owned())
}
