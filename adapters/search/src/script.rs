//! The script of a text, which decides which embedding models can rank it.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// No letters, or two scripts with equally many.
    None,
    Latin,
    Cyrillic,
    Other,
}

/// Letters that are counted; the rest of a text is ignored.
const SCRIPT_SAMPLE_LETTERS: usize = 400;

impl Script {
    pub(crate) const COUNT: usize = 4;
    pub(crate) const ALL: [Self; Self::COUNT] =
        [Self::None, Self::Latin, Self::Cyrillic, Self::Other];

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Detects the script of most letters of these texts.
    pub(crate) fn detect(texts: &[&str]) -> Self {
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

    /// Returns the script with the highest count; `None` for a tie.
    pub(crate) fn most_frequent(counts: &[usize; Self::COUNT]) -> Self {
        let (mut best, mut best_count) = (Self::None, 0);
        for script in [Self::Latin, Self::Cyrillic, Self::Other] {
            let count = counts[script.index()];
            if count > best_count {
                (best, best_count) = (script, count);
            } else if count == best_count {
                best = Self::None;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_of_text_is_that_of_most_letters() {
        assert_eq!(Script::detect(&["12 !"]), Script::None);
        assert_eq!(Script::detect(&["naïve", ""]), Script::Latin);
        assert_eq!(Script::detect(&["как работает login"]), Script::Cyrillic);
        assert_eq!(Script::detect(&["日本語"]), Script::Other);
        assert_eq!(Script::detect(&["ab", "вг"]), Script::None);
    }
}
