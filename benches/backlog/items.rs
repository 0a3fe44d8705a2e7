//! Reproducible backlogs of any size, in the format that the tools write.

use std::fs;
use std::path::{Path, PathBuf};

use reqlore_domain::backlog::{ItemKind, Priority, Reference};
use reqlore_domain::document::{BACKLOG_FOLDER, DocumentKind, backlog_folder_of};
use reqlore_domain::records::edit::{LinkTarget, NewRecord, RecordEdit};
use reqlore_domain::timestamp::Timestamp;

use crate::harness::Result;
use crate::harness::language::{Random, SyntheticLanguage};

/// Requirements per story.
pub(crate) const REQUIREMENTS: usize = 10;
/// Stories per epic.
pub(crate) const STORIES: usize = 100;
/// Timestamp before the first item in seconds. Each item is one second newer than the previous one.
const FIRST_TIMESTAMP: i64 = 1_760_000_000;

/// Size of a backlog. The number of requirements determines the other numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) requirements: usize,
}

impl Size {
    pub(crate) fn stories(self) -> usize {
        self.requirements.div_ceil(REQUIREMENTS)
    }

    pub(crate) fn epics(self) -> usize {
        self.stories().div_ceil(STORIES)
    }

    pub(crate) fn items(self) -> usize {
        self.requirements + self.stories() + self.epics()
    }
}

/// The reference of an item. Numbers start at 1.
pub(crate) fn reference(kind: ItemKind, number: usize) -> Result<Reference> {
    Ok(Reference { kind, number: number.try_into()? })
}

pub(crate) fn folder(project: &Path, kind: ItemKind) -> PathBuf {
    project.join(BACKLOG_FOLDER).join(backlog_folder_of(DocumentKind::Item(kind)))
}

pub(crate) fn write_backlog(
    project: &Path,
    language: &SyntheticLanguage,
    size: Size,
) -> Result<()> {
    write_kind(project, language, ItemKind::Epic, size.epics(), None)?;
    let parent = Some((ItemKind::Epic, STORIES));
    write_kind(project, language, ItemKind::UserStory, size.stories(), parent)?;
    let parent = Some((ItemKind::UserStory, REQUIREMENTS));
    write_kind(project, language, ItemKind::Requirement, size.requirements, parent)
}

/// Writes all items of a kind. `parent` is the kind of the parents and the number of their
/// children.
fn write_kind(
    project: &Path,
    language: &SyntheticLanguage,
    kind: ItemKind,
    count: usize,
    parent: Option<(ItemKind, usize)>,
) -> Result<()> {
    let folder = folder(project, kind);
    fs::create_dir_all(&folder)?;
    for number in 1..=count {
        let parent = parent.map(|(kind, children)| link_target(kind, number.div_ceil(children)));
        let text = item_text(language, kind, number, parent.transpose()?.as_ref())?;
        let name = reference(kind, number)?.document_id("", &uid_suffix(kind, number)).name;
        fs::write(folder.join(format!("{name}.md")), text)?;
    }
    Ok(())
}

fn link_target(kind: ItemKind, number: usize) -> Result<LinkTarget> {
    Ok(LinkTarget {
        reference: reference(kind, number)?,
        file_suffix: Some(uid_suffix(kind, number)),
    })
}

fn item_text(
    language: &SyntheticLanguage,
    kind: ItemKind,
    number: usize,
    parent: Option<&LinkTarget>,
) -> Result<String> {
    let mut random = Random::new((number * 3 + kind as usize) as u64);
    let title_words = 3 + random.below(5);
    let title = language.words(&mut random, title_words);
    let sentence = |word: &str, random: &mut Random| {
        let words = 5 + random.below(10);
        format!("- **{word}** {}", language.words(random, words))
    };
    let description = ["WHEN", "THEN", "AND"].map(|word| sentence(word, &mut random)).join("\n");
    let created_at = Timestamp::new(FIRST_TIMESTAMP + i64::try_from(number)?, 0);
    let fields = RecordEdit {
        title: Some(title),
        body: Some(description),
        priority: Priority::new(1 + random.below(4)),
        parent: parent.cloned(),
        ..RecordEdit::default()
    };
    let id = &format!("0199c7f0-0000-7000-8000-{:0>12}", uid_suffix(kind, number));
    let (kind, fields) = (kind.row(), &fields);
    let new = NewRecord { kind, id, fields, creator: "bench", created_at };
    Ok(new.text()?)
}

/// The last characters of a uid, unique within a kind.
fn uid_suffix(kind: ItemKind, number: usize) -> String {
    format!("{:06x}", (number * 4 + kind as usize).wrapping_mul(0x9E_3779) % (1 << 24))
}
