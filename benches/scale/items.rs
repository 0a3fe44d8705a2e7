//! A reproducible project of any size: epics, stories, requirements and entities with tags.

use std::fs;
use std::path::Path;

use reqlore_domain::backlog::{ItemKind, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord, HighWaterMark};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::edit::{LinkTarget, NewRecord, RecordEdit};
use reqlore_domain::timestamp::Timestamp;
use reqlore_dump::DumpFile;

use crate::harness::Result;
use crate::harness::language::{Random, SyntheticLanguage};

/// Number of different tags, the same at every size.
pub(crate) const TAGS: u64 = 200;
/// Number of obsolete requirements, the same at every size.
const RARE_ITEMS: usize = 40;
/// Number of records in a batch of the dump.
const BATCH_RECORDS: usize = 1_000;
/// Timestamp of the first item in seconds. Each item is one second newer than the previous one.
const FIRST_TIMESTAMP: i64 = 1_700_000_000;

/// The numbers of documents of a project.
#[derive(Clone, Copy)]
pub(crate) struct ProjectSize {
    pub(crate) total: usize,
}

impl ProjectSize {
    pub(crate) fn epics(self) -> usize {
        self.total.div_ceil(100)
    }

    pub(crate) fn stories(self) -> usize {
        self.percentage(9)
    }

    pub(crate) fn entities(self) -> usize {
        self.percentage(10)
    }

    pub(crate) fn requirements(self) -> usize {
        self.percentage(80)
    }

    pub(crate) fn documents(self) -> usize {
        self.epics() + self.stories() + self.entities() + self.requirements()
    }

    /// A project has whole hundreds of documents, or fewer than a hundred.
    fn percentage(self, percent: usize) -> usize {
        if self.total < 100 { self.total * percent / 100 } else { self.epics() * percent }
    }
}

/// The documents of a project with their numbers, in the order of archives: by kind, then by name.
fn documents(size: ProjectSize) -> Result<Vec<(DocumentId, usize)>> {
    let mut names = Vec::with_capacity(size.documents());
    for number in 0..size.entities() {
        names.push((DocumentId::entity(entity_name(number)), number));
    }
    for (kind, count) in counts(size) {
        for number in 1..=count {
            let suffix = uid_suffix(kind, number);
            names.push((reference(kind, number)?.document_id("", &suffix), number));
        }
    }
    names.sort();
    Ok(names)
}

fn counts(size: ProjectSize) -> [(ItemKind, usize); 3] {
    [
        (ItemKind::Epic, size.epics()),
        (ItemKind::UserStory, size.stories()),
        (ItemKind::Requirement, size.requirements()),
    ]
}

/// Writes a dump file of projects of one size. The texts depend on the seed of their project.
pub(crate) async fn write_dump(
    file: &Path,
    language: &SyntheticLanguage,
    size: ProjectSize,
    projects: Vec<(ProjectKey, u64)>,
) -> Result<()> {
    let mut writer = DumpFile::new(file).import().await?;
    let documents = documents(size)?;
    for (project, seed) in &projects {
        for batch in documents.chunks(BATCH_RECORDS) {
            let mut records = Vec::with_capacity(BATCH_RECORDS);
            for (id, number) in batch {
                let text = text_of(id, *number, language, size, *seed)?;
                records.push(record(project, id, text, *number)?);
            }
            writer.write_batch(records).await?;
        }
    }
    let mut marks = Vec::new();
    for (project, _) in projects {
        for (kind, count) in counts(size) {
            let (project, number) = (project.clone(), count.try_into()?);
            marks.push(ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number }));
        }
    }
    for batch in marks.chunks(BATCH_RECORDS) {
        writer.write_batch(batch.to_vec()).await?;
    }
    Ok(writer.finish().await?)
}

/// Writes the files of a project.
pub(crate) fn write_files(
    project: &Path,
    language: &SyntheticLanguage,
    size: ProjectSize,
    seed: u64,
) -> Result<()> {
    for (id, number) in documents(size)? {
        let path = project.join(id.to_string());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text_of(&id, number, language, size, seed)?)?;
    }
    Ok(())
}

fn text_of(
    id: &DocumentId,
    number: usize,
    language: &SyntheticLanguage,
    size: ProjectSize,
    seed: u64,
) -> Result<String> {
    match Reference::from_document(id) {
        Some(Reference { kind, .. }) => item_text(language, kind, number, size, seed),
        None => Ok(entity_text(language, number, seed)),
    }
}

fn record(
    project: &ProjectKey,
    id: &DocumentId,
    text: String,
    number: usize,
) -> Result<ArchiveRecord> {
    Ok(ArchiveRecord::Document(DocumentRecord {
        project: project.clone(),
        document: Document::new(id.clone(), text.into()),
        modified: timestamp(number)?,
        path: None,
        entry: PresentEntry::default(),
    }))
}

fn timestamp(number: usize) -> Result<Timestamp> {
    Ok(Timestamp::new(FIRST_TIMESTAMP + i64::try_from(number)?, 0))
}

/// The reference of an item. Numbers start at 1.
pub(crate) fn reference(kind: ItemKind, number: usize) -> Result<Reference> {
    Ok(Reference { kind, number: number.try_into()? })
}

fn entity_name(number: usize) -> String {
    format!("decisions/dec-{number:07x}")
}

fn entity_text(language: &SyntheticLanguage, number: usize, seed: u64) -> String {
    let mut random = Random::new(seed + 1_000_000_007 + number as u64);
    let title = language.words(&mut random, 6);
    let first = number as u64 % TAGS;
    let second = random.next() % TAGS;
    let body = language.words(&mut random, 57);
    format!(
        "---\nid: dec-{number:07x}\ntype: decision\ntitle: {title}\nstatus: open\n\
         tags: [tag-{first:03}, tag-{second:03}]\n---\n\n{body}.\n"
    )
}

fn item_text(
    language: &SyntheticLanguage,
    kind: ItemKind,
    number: usize,
    size: ProjectSize,
    seed: u64,
) -> Result<String> {
    let mut random = item_random(kind, number, seed);
    let title = language.words(&mut random, 6);
    let description = format!(
        "WHEN {}, THEN {}.\n\n{}.",
        language.words(&mut random, 12),
        language.words(&mut random, 17),
        language.words(&mut random, 30)
    );
    let parent = match kind {
        ItemKind::UserStory => Some(link_target(ItemKind::Epic, number.div_ceil(9))?),
        ItemKind::Requirement => {
            let story = number.div_ceil(9).min(size.stories());
            Some(link_target(ItemKind::UserStory, story)?)
        }
        _ => None,
    };
    let is_requirement = kind == ItemKind::Requirement;
    let (status, requirement_type) = match number {
        // Equally many at every size, so that a page of them is as long.
        ..=RARE_ITEMS => (Status::Obsolete, RequirementType::Interface),
        _ if number.is_multiple_of(4) => (Status::Draft, RequirementType::Functional),
        _ => (Status::Active, RequirementType::NonFunctional),
    };
    let fields = RecordEdit {
        title: Some(title),
        body: Some(description),
        status: is_requirement.then(|| status.name().to_owned()),
        priority: Priority::new(1 + random.below(4)),
        requirement_type: is_requirement.then_some(requirement_type),
        parent,
        ..RecordEdit::default()
    };
    let id = &format!("0199c7f0-0000-7000-8000-{:0>12}", uid_suffix(kind, number));
    let (kind, fields) = (kind.row(), &fields);
    let new = NewRecord { kind, id, fields, creator: "bench", created_at: timestamp(number)? };
    Ok(new.text()?)
}

fn item_random(kind: ItemKind, number: usize, seed: u64) -> Random {
    Random::new(seed + (number * 4 + kind as usize) as u64)
}

/// The title begins the text of an item.
pub(crate) fn requirement_title(language: &SyntheticLanguage, number: usize, seed: u64) -> String {
    language.words(&mut item_random(ItemKind::Requirement, number, seed), 6)
}

fn link_target(kind: ItemKind, number: usize) -> Result<LinkTarget> {
    let reference = reference(kind, number)?;
    Ok(LinkTarget { reference, file_suffix: Some(uid_suffix(kind, number)) })
}

/// The last characters of a uid, unique within a kind.
fn uid_suffix(kind: ItemKind, number: usize) -> String {
    format!("{:06x}", (number * 4 + kind as usize).wrapping_mul(0x9E_3779) % (1 << 24))
}
