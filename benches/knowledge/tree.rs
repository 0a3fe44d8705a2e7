//! Reproducible trees of entities of any size.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::language::{Random, SyntheticLanguage};

/// Folder, prefix of IDs and kind.
const FOLDERS: [(&str, &str, &str); 4] = [
    ("decisions", "dec", "decision"),
    ("issues", "iss", "issue"),
    ("ideas/2024", "idea", "idea"),
    ("reports/weekly", "rpt", "report"),
];
/// Number of distinct tags.
const TAGS: usize = 36;

/// The unique ID of an entity.
pub(crate) fn entity_id(number: usize) -> String {
    let (_, prefix, _) = FOLDERS[number % FOLDERS.len()];
    format!("{prefix}-{:06x}", number.wrapping_mul(0x9E_3779) % (1 << 24))
}

pub(crate) fn entity_path(project: &Path, number: usize) -> PathBuf {
    let (folder, _, _) = FOLDERS[number % FOLDERS.len()];
    project.join(".ixchel").join(folder).join(format!("{}.md", entity_id(number)))
}

/// Writes `count` entities. Between trees, files of the same number differ only in their links.
pub(crate) fn write_entities(
    project: &Path,
    language: &SyntheticLanguage,
    count: usize,
) -> io::Result<()> {
    for (folder, _, _) in FOLDERS {
        fs::create_dir_all(project.join(".ixchel").join(folder))?;
    }
    (0..count).try_for_each(|number| {
        fs::write(entity_path(project, number), entity_text(language, number, count))
    })
}

fn entity_text(language: &SyntheticLanguage, number: usize, count: usize) -> String {
    let mut random = Random::new(1_000 + number as u64);
    let (_, _, kind) = FOLDERS[number % FOLDERS.len()];
    let status = ["open", "accepted", "closed"][random.below(3)];
    let title_words = 3 + random.below(5);
    let title = language.words(&mut random, title_words);
    let tags: Vec<String> = (0..=random.below(3)).map(|_| random_tag(&mut random)).collect();
    let mut text = format!(
        "---\nid: {}\ntype: {kind}\ntitle: {title}\nstatus: {status}\ntags: [{}]\n\
         labels:\n  - {}\n",
        entity_id(number),
        tags.join(", "),
        random_tag(&mut random),
    );
    let mut link = || entity_id(random.below(count));
    // Writing to a string does not fail.
    let _ = writeln!(text, "relates_to: [{}, {}]", link(), link());
    let _ = write!(text, "depends_on:\n  - id: {}\n    type: blocks\n---\n\n", link());
    for _ in 0..2 + random.below(3) {
        let words = 20 + random.below(30);
        let _ = write!(text, "{}.\n\n", language.words(&mut random, words));
    }
    text
}

fn random_tag(random: &mut Random) -> String {
    format!("tag-{:02}", random.below(TAGS))
}
