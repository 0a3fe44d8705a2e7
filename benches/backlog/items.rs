//! Backlogs of any size, always the same, written as the tools write them.

use std::fs;
use std::path::{Path, PathBuf};

use reqlore_domain::backlog::{ItemKind, LinkTarget, NewItem, Priority, Reference};
use reqlore_domain::document::{BACKLOG, DocumentKind, folder_of};
use reqlore_domain::timestamp::Timestamp;

use crate::harness::Result;
use crate::harness::language::{Language, Random};

/// Requirements of a story.
pub(crate) const REQUIREMENTS: usize = 10;
/// Stories of an epic.
pub(crate) const STORIES: usize = 100;
/// The time of the first item in seconds; each following one is a second younger.
const BEGIN: i64 = 1_760_000_000;

/// The number of requirements, from which the others follow.
#[derive(Clone, Copy)]
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

/// The reference of the item with this number, of which the first is 1.
pub(crate) fn reference(kind: ItemKind, number: usize) -> Result<Reference> {
    Ok(Reference { kind, number: number.try_into()? })
}

/// The folder of a kind.
pub(crate) fn folder(project: &Path, kind: ItemKind) -> PathBuf {
    project.join(BACKLOG).join(folder_of(DocumentKind::Item(kind)))
}

pub(crate) fn write(project: &Path, language: &Language, size: Size) -> Result<()> {
    write_kind(project, language, ItemKind::Epic, size.epics(), None)?;
    let parent = Some((ItemKind::Epic, STORIES));
    write_kind(project, language, ItemKind::UserStory, size.stories(), parent)?;
    let parent = Some((ItemKind::UserStory, REQUIREMENTS));
    write_kind(project, language, ItemKind::Requirement, size.requirements, parent)
}

/// `parent` is the kind of all parents, and how many children each of them has.
fn write_kind(
    project: &Path,
    language: &Language,
    kind: ItemKind,
    count: usize,
    parent: Option<(ItemKind, usize)>,
) -> Result<()> {
    let folder = folder(project, kind);
    fs::create_dir_all(&folder)?;
    for number in 1..=count {
        let parent = parent.map(|(kind, children)| linked(kind, number.div_ceil(children)));
        let text = item(language, kind, number, parent.transpose()?.as_ref())?;
        let name = reference(kind, number)?.document(&mark(kind, number)).name;
        fs::write(folder.join(format!("{name}.md")), text)?;
    }
    Ok(())
}

fn linked(kind: ItemKind, number: usize) -> Result<LinkTarget> {
    Ok(LinkTarget { reference: reference(kind, number)?, mark: Some(mark(kind, number)) })
}

fn item(
    language: &Language,
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
    let at = Timestamp::new(BEGIN + i64::try_from(number)?, 0);
    let new = NewItem {
        kind,
        uid: &format!("0199c7f0-0000-7000-8000-{:0>12}", mark(kind, number)),
        title: Some(&title),
        description: &description,
        status: None,
        priority: Priority::new(1 + random.below(4)),
        requirement_type: None,
        parent,
        assignee: None,
        tags: &[],
        creator: "bench",
        at,
    };
    Ok(new.text()?)
}

/// The end of a uid, unique within a kind.
fn mark(kind: ItemKind, number: usize) -> String {
    format!("{:06x}", (number * 4 + kind as usize).wrapping_mul(0x9E_3779) % (1 << 24))
}
