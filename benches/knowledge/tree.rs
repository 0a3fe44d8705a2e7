//! Trees of entities of any size, always the same.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::harness::language::{Language, Random};

/// Folder, prefix of ids, and kind.
const SHELVES: [(&str, &str, &str); 4] = [
    ("decisions", "dec", "decision"),
    ("issues", "iss", "issue"),
    ("ideas/2024", "idea", "idea"),
    ("reports/weekly", "rpt", "report"),
];
/// The number of distinct tags.
const TAGS: usize = 36;

/// The id of an entity by its number: no two are alike.
pub(crate) fn id(number: usize) -> String {
    let (_, prefix, _) = SHELVES[number % SHELVES.len()];
    format!("{prefix}-{:06x}", number.wrapping_mul(0x9E_3779) % (1 << 24))
}

/// The file of an entity.
pub(crate) fn path(project: &Path, number: usize) -> PathBuf {
    let (folder, _, _) = SHELVES[number % SHELVES.len()];
    project.join(".ixchel").join(folder).join(format!("{}.md", id(number)))
}

/// Writes this many entities. Files of the same number differ between trees only in their links.
pub(crate) fn write(project: &Path, language: &Language, count: usize) -> io::Result<()> {
    for (folder, _, _) in SHELVES {
        fs::create_dir_all(project.join(".ixchel").join(folder))?;
    }
    (0..count)
        .try_for_each(|number| fs::write(path(project, number), entity(language, number, count)))
}

fn entity(language: &Language, number: usize, count: usize) -> String {
    let mut random = Random::new(1_000 + number as u64);
    let (_, _, kind) = SHELVES[number % SHELVES.len()];
    let status = ["open", "accepted", "closed"][random.below(3)];
    let title_words = 3 + random.below(5);
    let title = language.words(&mut random, title_words);
    let tags: Vec<String> = (0..=random.below(3)).map(|_| tag(&mut random)).collect();
    let mut text = format!(
        "---\nid: {}\ntype: {kind}\ntitle: {title}\nstatus: {status}\ntags: [{}]\n\
         labels:\n  - {}\n",
        id(number),
        tags.join(", "),
        tag(&mut random),
    );
    let mut link = || id(random.below(count));
    // Writing to a string does not fail.
    let _ = writeln!(text, "relates_to: [{}, {}]", link(), link());
    let _ = write!(text, "depends_on:\n  - id: {}\n    type: blocks\n---\n\n", link());
    for _ in 0..2 + random.below(3) {
        let words = 20 + random.below(30);
        let _ = write!(text, "{}.\n\n", language.words(&mut random, words));
    }
    text
}

fn tag(random: &mut Random) -> String {
    format!("tag-{:02}", random.below(TAGS))
}
