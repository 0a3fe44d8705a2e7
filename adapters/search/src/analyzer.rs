//! The analyzer: splits texts into normalized words, for documents, queries and snippets.
//!
//! A change of its words needs another [`VERSION`], or saved indexes keep words that no query has.

pub(crate) mod tokenizer;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frostem::{Algorithm, Stemmer};
use reqlore_domain::search::truncate_text;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// An index of another version is rebuilt.
pub(crate) const VERSION: u32 = 2;

/// Longer words are truncated.
const MAX_WORD_BYTES: usize = 64;
/// The cache is cleared when it has this many words.
const MAX_CACHED_WORDS: usize = 1 << 16;

/// Clones share a locked cache, so each concurrent user needs its own analyzer.
#[derive(Clone)]
pub(crate) struct Analyzer {
    cache: Arc<Mutex<WordCache>>,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self { cache: Arc::new(Mutex::new(WordCache::new())) }
    }

    /// Calls `take` with each word of the text. Identifiers give the whole and its parts.
    pub(crate) fn for_each_word(&self, text: &str, mut take: impl FnMut(&str)) {
        let mut cache = self.lock();
        let normal = normalize(text);
        let mut offset = 0;
        while let Some(compound) = tokenizer::next_compound(&normal, &mut offset) {
            for word in cache.words(compound).split(' ') {
                take(word);
            }
        }
    }

    /// Calls `take` with each word of the wanted compounds, and the compound's range in the text.
    pub(crate) fn for_each_word_of(
        &self,
        text: &str,
        is_wanted: impl Fn(&str) -> bool,
        mut take: impl FnMut(Range<usize>, &str),
    ) {
        let mut cache = self.lock();
        let mut offset = 0;
        while let Some(compound) = tokenizer::next_compound(text, &mut offset) {
            if !is_wanted(compound) {
                continue;
            }
            // The compound is a part of the text, so the distance of the pointers is its offset.
            let start = compound.as_ptr().addr() - text.as_ptr().addr();
            for word in cache.words(&normalize(compound)).split(' ') {
                take(start..start + compound.len(), word);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WordCache> {
        // A panic while the lock is held leaves the cache valid.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokenizer for Analyzer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream {
            cache: self.lock(),
            text: normalize(text),
            text_offset: 0,
            words: String::new(),
            word_offset: 0,
            token: Token::default(),
        }
    }
}

/// The words of a text for tantivy, without their offsets.
pub(crate) struct WordStream<'a> {
    cache: MutexGuard<'a, WordCache>,
    text: Cow<'a, str>,
    text_offset: usize,
    /// The words of the last compound, and the offset of the next word in them.
    words: String,
    word_offset: usize,
    token: Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        if self.word_offset >= self.words.len() {
            let Some(compound) = tokenizer::next_compound(&self.text, &mut self.text_offset) else {
                return false;
            };
            self.words.clear();
            self.words.push_str(self.cache.words(compound));
            self.word_offset = 0;
        }
        let rest = &self.words[self.word_offset..];
        let word = rest.split_once(' ').map_or(rest, |(word, _)| word);
        self.word_offset += word.len() + 1;
        // Token starts at `usize::MAX`, so the first position is 0.
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(word);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

/// Normalizes to NFKC; most texts already are.
fn normalize(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_known_nfkc) || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.nfkc().collect())
    }
}

/// True for characters of English and Russian, which NFKC keeps. Looking them up in the Unicode
/// tables would take longer than the rest of the analysis.
fn is_known_nfkc(c: char) -> bool {
    c.is_ascii() || matches!(c, '\u{400}'..='\u{481}' | '«' | '»' | '–' | '—' | '‘'..='”')
}

/// Appends the case-folded and decomposed letter without accents, which all its spellings share.
fn fold_char(c: char, folded: &mut String) {
    // The capitals of `ς` and `ß` are those of `σ` and `ss`.
    for c in c.to_uppercase().flat_map(char::to_lowercase).nfkd() {
        match c {
            'ł' => folded.push('l'),
            'ø' => folded.push('o'),
            'đ' | 'ð' => folded.push('d'),
            'ħ' => folded.push('h'),
            'þ' => folded.push_str("th"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            // Accents, and points of Hebrew and Arabic. Marks of other classes are letters.
            _ if matches!(canonical_combining_class(c), 10..=36 | 200..=240) => {}
            _ => folded.push(c),
        }
    }
}

/// Stemmers, and a cache of the words of compounds.
struct WordCache {
    english: Stemmer,
    russian: Stemmer,
    /// The range in `buffer` of a compound's words.
    ranges: HashMap<Box<str>, Range<usize>, foldhash::fast::RandomState>,
    buffer: String,
}

impl WordCache {
    fn new() -> Self {
        Self {
            english: Stemmer::new(Algorithm::English),
            russian: Stemmer::new(Algorithm::Russian),
            ranges: HashMap::default(),
            buffer: String::new(),
        }
    }

    /// Returns the words of a compound, at least one, separated by spaces.
    fn words(&mut self, compound: &str) -> &str {
        let compound = truncate_text(compound, MAX_WORD_BYTES);
        let range = match self.ranges.get(compound) {
            Some(range) => range.clone(),
            None => self.analyze(compound),
        };
        &self.buffer[range]
    }

    fn analyze(&mut self, compound: &str) -> Range<usize> {
        if self.ranges.len() >= MAX_CACHED_WORDS {
            // The ranges point into the buffer, so both are cleared together.
            self.ranges.clear();
            self.buffer.clear();
        }
        let start = self.buffer.len();
        // Taken out, because `normalize_word` borrows `self`.
        let mut buffer = std::mem::take(&mut self.buffer);
        tokenizer::split_compound(compound, |word, is_stemmed| {
            if buffer.len() > start {
                buffer.push(' ');
            }
            buffer.push_str(&self.normalize_word(word, is_stemmed));
        });
        self.buffer = buffer;
        let range = start..self.buffer.len();
        self.ranges.insert(compound.into(), range.clone());
        range
    }

    /// Returns the word with folded case and without accents, with `е` for `ё`, and stemmed.
    fn normalize_word(&self, word: &str, is_stemmed: bool) -> String {
        let mut lower = String::with_capacity(word.len());
        for c in word.chars().flat_map(char::to_lowercase) {
            match c {
                'ё' => lower.push('е'),
                '’' => lower.push('\''),
                // Folded already. `й` is a letter of its own.
                '\0'..='\x7f' | '\u{400}'..='\u{52f}' => lower.push(c),
                other => fold_char(other, &mut lower),
            }
        }
        if !lower.chars().all(is_known_nfkc) {
            lower = lower.nfc().collect();
        }
        if !is_stemmed {
            return lower;
        }
        // Words of other languages and mixed scripts have no stem.
        if lower.bytes().all(|b| b.is_ascii_lowercase() || b == b'\'') {
            self.english.stem(&lower).into_owned()
        } else if lower.chars().all(|c| matches!(c, '\u{400}'..='\u{52f}')) {
            self.russian.stem(&lower).into_owned()
        } else {
            lower
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_nfkc_characters_are_not_changed_by_nfkc() {
        let plain: String = ('\0'..=char::MAX).filter(|c| is_known_nfkc(*c)).collect();
        assert_eq!(plain.nfkc().collect::<String>(), plain);
    }

    fn words(text: &str) -> String {
        let mut words = Vec::new();
        Analyzer::new().for_each_word(text, |word| words.push(word.to_owned()));
        words.join(" ")
    }

    #[test]
    fn words_of_text_are_normalized_and_stemmed() {
        for (text, expected) in [
            ("", ""),
            ("  — … !", ""),
            ("Connections, connected!", "connect connect"),
            ("the user's don't", "the user don't"),
            ("the user’s", "the user"),
            ("Требования требований", "требован требован"),
            ("Ещё ёлки", "ещ елк"),
            ("ﬁne ＡＢＣ １２", "fine abc 12"),
            ("naïve Straße STRASSE", "naiv strass strass"),
            ("日本 カタカナ", "日 本 カタ タカ カナ"),
            ("тест2 mixedСлово", "тест2 тест 2 mixedслово mix слов"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn spellings_of_a_word_are_one_word() {
        for spellings in [
            "ΛΟΓΑΡΙΑΣΜΟΣ λογαριασμός λογαριασμοσ Λογαριασμός",
            "Straße STRASSE STRAẞE strasse",
            "Ørsted ØRSTED orsted",
            "Łódź LODZ lódz",
            "Đorđe ĐORĐE dorde",
            "İstanbul ISTANBUL istanbul ıstanbul",
            "Crème CREME cre\u{300}me",
            "Ångström ANGSTROM angstrom",
            "Šiauliai siauliai ŠIAULIAI",
            "Việt VIET vie\u{323}\u{302}t",
            "Œuvre œuvre OEUVRE",
            "Þór THOR þór",
            "أحمد احمد",
            "שָׁלוֹם שלום",
            "ﬁancé FIANCÉ fiance",
            "ДЖУНГЛІ джунглі",
        ] {
            let words = words(spellings);
            let first = words.split(' ').next().unwrap();
            assert!(words.split(' ').all(|word| word == first), "{spellings}: {words}");
        }
    }

    #[test]
    fn different_letters_stay_different_words() {
        for (a, b) in [("йод", "иод"), ("か", "が"), ("カギ", "カキ"), ("लोग", "लग"), ("กา", "กู")]
        {
            assert_ne!(words(a), words(b), "{a} {b}");
        }
    }

    #[test]
    fn scripts_that_join_words_are_found_by_pairs() {
        for (text, part) in [
            ("사용자는 계정 없이 결제할 수 있다", "결제"),
            ("사용자는 계정 없이 결제할 수 있다", "사용자"),
            ("ผู้ใช้ชำระเงินได้โดยไม่ต้องมีบัญชี", "ชำระเงิน"),
            ("ຜູ້ໃຊ້ສາມາດຈ່າຍເງິນໄດ້", "ຈ່າຍເງິນ"),
            ("អ្នកប្រើអាចបង់ប្រាក់បាន", "បង់ប្រាក់"),
            ("ユーザーログイン画面", "ログイン"),
            ("ﾛｸﾞｲﾝ画面", "ログイン"),
            ("အသုံးပြုသူများ ငွေပေးချေနိုင်သည်", "ငွေပေးချေ"),
            ("회원가입API를 호출", "API"),
            ("🚀 launch", "🚀"),
            ("ship❤️it", "❤"),
            ("✅ 완료", "✅"),
            ("👩‍💻 work", "💻"),
            ("Brand® name", "®"),
        ] {
            let (text, part) = (words(text), words(part));
            assert!(!part.is_empty() && format!(" {text} ").contains(&format!(" {part} ")));
        }
        assert_eq!(words("결"), "결");
        assert_eq!(words("결제 ก 10 ล้าน │ ─ ✓\u{fe0f}"), "결제 ก 10 ล้า าน ✓");
    }

    #[test]
    fn identifiers_give_the_whole_and_its_parts() {
        for (text, expected) in [
            ("REQ-048", "req-048 req 048 48"),
            ("req-048.", "req-048 req 048 48"),
            ("get_user_story", "get_user_story get user stori"),
            ("__init__", "init"),
            ("getUserStories", "getuserstori get user stori"),
            ("HTTPServer", "httpserver http server"),
            ("HTTP", "http"),
            ("sha256", "sha256 sha 256"),
            ("dec-1d2c8f", "dec-1d2c8f dec 1d2c8f"),
            ("general:2.1", "general 2.1 2 1"),
            ("src/main.rs", "src main.rs main rs"),
            ("v2", "v2 v 2"),
            ("000", "000 0"),
            ("C++ a.b.", "c a.b a b"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn token_stream_gives_same_words_as_analyzer() {
        let text = "REQ-048: the Connections of getUserStory, требования №5";
        let mut analyzer = Analyzer::new();
        let mut stream = analyzer.token_stream(text);
        let mut streamed = Vec::new();
        while stream.advance() {
            streamed.push(stream.token().text.clone());
        }
        assert_eq!(streamed.join(" "), words(text));
    }

    #[test]
    fn word_over_limit_is_truncated() {
        assert_eq!(words(&"x".repeat(10_000)).len(), MAX_WORD_BYTES);
        assert_eq!(words(&"ж".repeat(10_000)).len(), MAX_WORD_BYTES);
    }
}
