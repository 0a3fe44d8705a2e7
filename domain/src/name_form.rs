//! Spellings of one name: composed or decomposed letters, as macOS writes them, and case.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Composes letters with their marks (NFC). Compatibility characters such as `ﬁ` stay.
pub fn compose(name: &str) -> Cow<'_, str> {
    if is_nfc(name) { Cow::Borrowed(name) } else { Cow::Owned(name.nfc().collect()) }
}

/// The spelling in which names, IDs, tags, users and titles are compared: composed, in lower case.
pub fn fold_name(name: &str) -> String {
    compose(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_spellings_are_one_name() {
        for (one, other) in [
            ("re\u{301}sume\u{301}", "résumé"),
            ("u\u{308}bersicht", "Übersicht"),
            ("A\u{30a}ngström", "\u{212b}ngstro\u{308}m"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}", "한글"),
            ("Vie\u{323}\u{302}t", "Việt"),
            ("Vie\u{302}\u{323}t", "VI\u{1ec6}T"),
            ("\u{1e69}", "s\u{307}\u{323}"),
            ("\u{2126}", "ω"),
            ("\u{212a}elvin", "kelvin"),
            ("и\u{306}од", "Йод"),
            ("か\u{3099}", "が"),
            ("α\u{301}", "Ά"),
            ("\u{fb2a}", "ש\u{5c1}"),
            ("\u{958}", "\u{915}\u{93c}"),
            ("E\u{301}cole", "école"),
        ] {
            assert_eq!(fold_name(one), fold_name(other), "{one} {other}");
        }
    }

    #[test]
    fn compatible_and_similar_letters_stay_different() {
        for (one, other) in [
            ("ﬁle", "file"),
            ("x²", "x2"),
            ("①", "1"),
            ("Ａ", "A"),
            ("resume", "résumé"),
            ("straße", "strasse"),
            ("ø", "o"),
            ("ı", "i"),
            ("а", "a"),
            ("½", "1/2"),
            ("ｶ", "カ"),
        ] {
            assert_ne!(fold_name(one), fold_name(other), "{one} {other}");
        }
    }
}
