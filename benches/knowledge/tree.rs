//! Trees of entities as large as one likes, always the same: words of a made-up language, some of
//! which are frequent and most of which are rare, as in any language.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// So many words there are.
const VOCABULARY: usize = 8_000;
const SYLLABLES: [&str; 40] = [
    "ba", "ber", "ca", "con", "da", "de", "di", "do", "en", "er", "fa", "ga", "gen", "ha", "in",
    "ka", "la", "le", "lo", "ma", "men", "mi", "na", "ne", "no", "or", "pa", "per", "pro", "ra",
    "re", "sa", "se", "sta", "ta", "ten", "ti", "to", "va", "ver",
];
/// Folder, beginning of ids, and kind.
const SHELVES: [(&str, &str, &str); 4] = [
    ("decisions", "dec", "decision"),
    ("issues", "iss", "issue"),
    ("ideas/2024", "idea", "idea"),
    ("reports/weekly", "rpt", "report"),
];
/// So many distinct tags there are.
const TAGS: usize = 36;

/// Numbers that look random and are the same each time (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }
}

/// Words, and how often each is used: the n-th n times less than the first (Zipf).
pub(crate) struct Language {
    words: Vec<String>,
    /// The sums of all weights up to each word.
    sums: Vec<u64>,
}

impl Language {
    pub(crate) fn new() -> Self {
        let mut random = Random::new(1);
        let mut words: Vec<String> = Vec::with_capacity(VOCABULARY);
        let mut known = std::collections::HashSet::new();
        while words.len() < VOCABULARY {
            // What is used often is short.
            let length = words.len().to_string().len() / 2 + random.below(3);
            let word: String =
                (0..=length).map(|_| SYLLABLES[random.below(SYLLABLES.len())]).collect();
            if known.insert(word.clone()) {
                words.push(word);
            }
        }
        let mut sum = 0;
        let sums = (1..=VOCABULARY as u64).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        Self { sums: sums.collect(), words }
    }

    fn word(&self, random: &mut Random) -> &str {
        let all = self.sums.last().copied().unwrap_or(1);
        let at = random.next() % all;
        let place = self.sums.partition_point(|sum| *sum <= at);
        self.words.get(place).map_or("", String::as_str)
    }

    pub(crate) fn words(&self, random: &mut Random, count: usize) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.word(random)).collect();
        words.join(" ")
    }

    /// Different questions of two to six words, as often with frequent ones as texts have them.
    pub(crate) fn queries(&self, count: usize) -> Vec<String> {
        let mut random = Random::new(2);
        let mut query = || {
            let words = 2 + random.below(5);
            self.words(&mut random, words)
        };
        let mut queries = std::collections::BTreeSet::new();
        while queries.len() < count {
            queries.insert(query());
        }
        queries.into_iter().collect()
    }
}

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

/// Writes so many entities; files of the same number are the same in trees of any size, but for
/// their links.
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
