//! A reproducible synthetic language with the word frequencies of a natural one.

/// Number of words that [`SyntheticLanguage::new`] has.
const VOCABULARY: usize = 8_000;
const SYLLABLES: [&str; 40] = [
    "ba", "ber", "ca", "con", "da", "de", "di", "do", "en", "er", "fa", "ga", "gen", "ha", "in",
    "ka", "la", "le", "lo", "ma", "men", "mi", "na", "ne", "no", "or", "pa", "per", "pro", "ra",
    "re", "sa", "se", "sta", "ta", "ten", "ti", "to", "va", "ver",
];

/// Pseudo-random numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`. `end` must not be zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }
}

/// Words by frequency: the n-th word is n times rarer than the first (Zipf's law).
pub(crate) struct SyntheticLanguage {
    words: Vec<String>,
    /// Cumulative weights.
    sums: Vec<u64>,
}

impl SyntheticLanguage {
    pub(crate) fn new() -> Self {
        Self::with_vocabulary(VOCABULARY)
    }

    pub(crate) fn with_vocabulary(count: usize) -> Self {
        let mut random = Random::new(1);
        let mut words: Vec<String> = Vec::with_capacity(count);
        let mut unique = std::collections::HashSet::new();
        while words.len() < count {
            // Frequent words are short.
            let length = words.len().to_string().len() / 2 + random.below(3);
            let word: String =
                (0..=length).map(|_| SYLLABLES[random.below(SYLLABLES.len())]).collect();
            if unique.insert(word.clone()) {
                words.push(word);
            }
        }
        let mut sum = 0;
        let sums = (1..=count as u64).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        Self { sums: sums.collect(), words }
    }

    fn word(&self, random: &mut Random) -> &str {
        let total = self.sums.last().copied().unwrap_or(1);
        let weight = random.next() % total;
        let index = self.sums.partition_point(|sum| *sum <= weight);
        self.words.get(index).map_or("", String::as_str)
    }

    pub(crate) fn words(&self, random: &mut Random, count: usize) -> String {
        let words: Vec<&str> = (0..count).map(|_| self.word(random)).collect();
        words.join(" ")
    }

    /// The query of six words with this number.
    pub(crate) fn query(&self, number: usize) -> String {
        self.words(&mut Random::new(3 + number as u64), 6)
    }

    /// Distinct queries of two to six words with the frequencies of the texts.
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
