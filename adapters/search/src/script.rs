//! The script of a text, which decides on the embedding models for it.

/// The script of most letters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// No letters, or no script with most of them.
    None,
    Latin,
    Cyrillic,
    Other,
}

/// Only the first letters of a text are counted.
const SCRIPT_SAMPLE_LETTERS: usize = 400;

impl Script {
    pub(crate) const COUNT: usize = 4;
    const ALL: [Self; Self::COUNT] = [Self::None, Self::Latin, Self::Cyrillic, Self::Other];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn to_byte(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// The script of these texts.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let mut counts = [0; Self::COUNT];
        let letters = texts.iter().flat_map(|text| text.chars().take(2 * SCRIPT_SAMPLE_LETTERS));
        for letter in letters.filter(|c| c.is_alphabetic()).take(SCRIPT_SAMPLE_LETTERS) {
            let script = match letter {
                'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' => Self::Latin,
                '\u{400}'..='\u{52f}' => Self::Cyrillic,
                _ => Self::Other,
            };
            counts[script.index()] += 1;
        }
        Self::most_frequent(&counts)
    }

    /// The script with the highest count, if there is only one.
    pub(crate) fn most_frequent(counts: &[usize; Self::COUNT]) -> Self {
        let best = counts[1..].iter().max().copied().unwrap_or(0);
        let mut with_most = Self::ALL[1..].iter().filter(|script| counts[script.index()] == best);
        match (best, with_most.next(), with_most.next()) {
            (1.., Some(script), None) => *script,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_texts() {
        assert_eq!(Script::of(&["12 !"]), Script::None);
        assert_eq!(Script::of(&["naïve", ""]), Script::Latin);
        assert_eq!(Script::of(&["как работает login"]), Script::Cyrillic);
        assert_eq!(Script::of(&["日本語"]), Script::Other);
        assert_eq!(Script::of(&["ab", "вг"]), Script::None);
    }
}
