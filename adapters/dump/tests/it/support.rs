//! Records with unusual values, and dumps in temporary folders.

use std::path::PathBuf;

use bytes::Bytes;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, AuditTarget, ChainHead, RESULT_OK};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::identity::{
    Access, CallChannel, PresentedToken, Token, User, UserName, UserRole,
};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, DocumentRecord, HighWaterMark, IdentityRecords,
};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_dump::DumpFile;
use tempfile::TempDir;

/// A temporary folder for a dump.
pub(crate) struct DumpFolder {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

impl DumpFolder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("all.jsonl"), folder }
    }

    pub(crate) fn dump(&self) -> DumpFile {
        DumpFile::new(&self.path)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

pub(crate) fn document(id: DocumentId, body: impl Into<Bytes>, modified: i64) -> DocumentRecord {
    let place = Some(format!("docs/{}.md", id.name).into());
    let (document, modified) = (Document::new(id, body.into()), Timestamp(modified));
    let (project, entry) = (ProjectKey::default(), PresentEntry::default());
    DocumentRecord { project, document, modified, path: place, entry }
}

pub(crate) fn record(id: DocumentId, body: impl Into<Bytes>, modified: i64) -> ArchiveRecord {
    ArchiveRecord::Document(document(id, body, modified))
}

/// Documents in order, with unusual bytes, times and places.
pub(crate) fn records() -> Vec<ArchiveRecord> {
    let section = DocumentId::section;
    let mut records = vec![
        document(
            DocumentId::instructions(),
            "\u{feff}# A\r\n\r\nno end",
            1_600_000_000_123_456_789,
        ),
        document(section("empty"), "", 0),
        document(section("latin"), b"**1.** \xff\xfe not UTF-8\n".as_slice(), -1),
        document(section("null"), b"\0\x01\x1f\x7f \\ \" \t\n\r".as_slice(), i64::MIN),
        document(section("\u{20ac} \u{1f600} e\u{301}"), "\u{2028}\u{85}\u{fffd}\n", i64::MAX),
        document(DocumentId::docsets(), "docsets: {}\n", -1_000_000_000),
        document(DocumentId::entity("decisions/deep/dec-1d2c8f"), "---\nid: x\n---\n", 1),
        document(DocumentId::entity("n\u{f6}te"), "\n\n", 10),
        document(item(DocumentKind::Item(ItemKind::Epic), "EP-001"), "---\ntitle: E\n---\n", 11),
        document(item(DocumentKind::Deleted, "REQ-048-3f9a1c"), "---\ntitle: R\n---\n", 12),
    ];
    records[1].path = None;
    records[2].path = Some("".into());
    let mut other = document(section("a"), "in another project", 7);
    other.project = ProjectKey::new("an-Other_1");
    records.insert(0, other);
    records.into_iter().map(ArchiveRecord::Document).collect()
}

fn item(kind: DocumentKind, name: &str) -> DocumentId {
    DocumentId { kind, name: name.to_owned() }
}

pub(crate) fn mark(project: &str, kind: ItemKind, number: u32) -> ArchiveRecord {
    let project = ProjectKey::new(project);
    ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number })
}

/// Marks in order: one of a project without documents, and one with the highest number.
pub(crate) fn marks() -> Vec<ArchiveRecord> {
    vec![
        mark("Empty", ItemKind::UserStory, 0),
        mark("default", ItemKind::Epic, 7),
        mark("default", ItemKind::AcceptanceCriteria, 1_000_000_000),
    ]
}

pub(crate) const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";

pub(crate) fn user(name: &str) -> User {
    let (name, created_at) = (UserName::parse(name).unwrap(), Timestamp(1_700_000_000_000_000_001));
    User { name, role: UserRole::Administrator, created_at, disabled_at: None }
}

pub(crate) fn token(id: &str, user: &str, created_at: i64) -> Token {
    let presented = PresentedToken::new(id, SECRET).unwrap();
    Token {
        id: presented.id.clone(),
        user: UserName::parse(user).unwrap(),
        digest: presented.digest(),
        scope: Access::Write,
        projects: Vec::new(),
        created_at: Timestamp(created_at),
        expires_at: Timestamp(i64::MAX),
        revoked_at: None,
        successor: None,
        last_used_at: None,
        parent: None,
    }
}

/// Users and tokens in order, with all and with none of the optional fields.
pub(crate) fn identities() -> IdentityRecords {
    let disabled_at = Some(Timestamp(-1));
    let [first, second] = [token("aaaaaaaaaaaa", "ada", 5), token("ZZZZZZZZZZZZ", "BOB", 5)];
    let all = Token {
        scope: Access::Read,
        projects: vec![ProjectKey::new("an-Other_1"), ProjectKey::default()],
        revoked_at: Some(Timestamp(6)),
        successor: Some(first.id.clone()),
        last_used_at: Some(Timestamp(7_000_000_008)),
        ..second
    };
    let bob = User { role: UserRole::Commenter, disabled_at, ..user("Bob") };
    IdentityRecords { users: vec![user("ada"), bob], tokens: vec![all, first] }
}

/// Rows after a pruned one, with characters that JSON escapes.
pub(crate) fn rows(count: i64) -> Vec<ArchiveRecord> {
    let mut head = ChainHead { number: 6, ..ChainHead::default() };
    let row = |second| {
        let entry = AuditEvent {
            at: Timestamp::new(second, 1),
            user: "ada".to_owned(),
            token: identities().tokens.pop().map(|token| token.id),
            project: Some(ProjectKey::default()),
            action: "contract".to_owned(),
            targets: vec![AuditTarget {
                name: "section \u{20ac} \\ \"".to_owned(),
                before: None,
                after: Some(Version::of_bytes(b"x")),
            }],
            result: RESULT_OK.to_owned(),
            micros: 12,
            correlation_id: "c".to_owned(),
            reason: "\0\n\u{2028}".to_owned(),
            channel: CallChannel::Cli,
        };
        let row = AuditRow::seal_after(head, entry);
        head = row.head();
        ArchiveRecord::AuditRow(row)
    };
    (0..count).map(row).collect()
}

/// An archive with records of every type.
pub(crate) fn all_records() -> Vec<ArchiveRecord> {
    all_records_with(rows(3))
}

pub(crate) fn all_records_with(rows: Vec<ArchiveRecord>) -> Vec<ArchiveRecord> {
    let identities = identities().into_records().collect();
    [records(), marks(), identities, rows].concat()
}

pub(crate) async fn write_records(
    archive: &dyn Archive,
    records: Vec<ArchiveRecord>,
) -> StoreResult<()> {
    let mut writer = archive.import().await?;
    for record in records {
        writer.write_batch(vec![record]).await?;
    }
    writer.finish().await
}

pub(crate) async fn read_records(archive: &dyn Archive) -> StoreResult<Vec<ArchiveRecord>> {
    let mut reader = archive.export().await?;
    let mut all = Vec::new();
    loop {
        let records = reader.next_batch().await?;
        if records.is_empty() {
            let is_document = |record: &&_| matches!(record, ArchiveRecord::Document(_));
            assert_eq!(reader.total_documents(), Some(all.iter().filter(is_document).count()));
            return Ok(all);
        }
        all.extend(records);
    }
}

/// A dump of [`all_records`].
pub(crate) async fn example_dump() -> DumpFolder {
    let place = DumpFolder::new();
    write_records(&place.dump(), all_records()).await.unwrap();
    place
}
