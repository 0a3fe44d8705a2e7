//! A JSON text as a tree and as tokens, read as strictly as the clients' own readers do.
//!
//! The parser's options shut out JSON5, but it still lets through what no client does: line breaks
//! in strings, and any white space of Unicode. It refuses what JavaScript writes when a text was
//! cut within an emoji, half a surrogate pair; that is read as a replacement character here.

use std::borrow::Cow;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use crate::edit::Unreadable;

/// The nodes' places are those of the text that was read.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Comments too.
    pub(super) tokens: Vec<TokenAndRange<'a>>,
    pub(super) root: Option<Value<'a>>,
}

impl<'a> Document<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, Unreadable> {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let parsed = parse_to_ast(text, &collect, &OPTIONS)
            .map_err(|error| unreadable(text, error.range().start, &error.kind().to_string()))?;
        let document = Self { text, tokens: parsed.tokens.unwrap_or_default(), root: parsed.value };
        document.check_characters()?;
        Ok(document)
    }

    /// The last token, maybe a comment, before this place.
    pub(super) fn token_before(&self, at: usize) -> Option<&TokenAndRange<'a>> {
        let next = self.tokens.partition_point(|token| token.range.start < at);
        self.tokens[..next].last()
    }

    /// The comma that follows, with comments between or not.
    pub(super) fn comma_after(&self, at: usize) -> Option<&TokenAndRange<'a>> {
        let next = self.tokens.partition_point(|token| token.range.start < at);
        let token = self.tokens[next..].iter().find(|token| !is_comment(token))?;
        (token.token == Token::Comma).then_some(token)
    }

    /// Is there a comment between these places?
    pub(super) fn has_comment(&self, start: usize, end: usize) -> bool {
        let next = self.tokens.partition_point(|token| token.range.start < start);
        let between = self.tokens[next..].iter().take_while(|token| token.range.end <= end);
        between.into_iter().any(is_comment)
    }

    fn check_characters(&self) -> Result<(), Unreadable> {
        let mut end = 0;
        for token in &self.tokens {
            self.check_gap(end, token.start())?;
            end = token.end();
            let rest = &self.text[end..];
            if matches!(token.token, Token::CommentLine(_))
                && rest.starts_with('\r')
                && !rest.starts_with("\r\n")
            {
                // To some clients the comment goes on behind it.
                let what = "a comment that a lone carriage return ends";
                return Err(unreadable(self.text, end, what));
            }
            if let Token::String(_) = token.token
                && let Some(at) = self.text[token.start()..end].find(|sign: char| sign < ' ')
            {
                let what = "a line break or tab in a string, where `\\n` or `\\t` has to stand";
                return Err(unreadable(self.text, token.start() + at, what));
            }
        }
        self.check_gap(end, self.text.len())
    }

    fn check_gap(&self, start: usize, end: usize) -> Result<(), Unreadable> {
        let is_odd = |sign: char| ![' ', '\t', '\n', '\r'].contains(&sign);
        match self.text[start..end].find(is_odd) {
            Some(at) => Err(unreadable(self.text, start + at, "white space that JSON has not")),
            None => Ok(()),
        }
    }
}

pub(super) fn is_comment(token: &TokenAndRange<'_>) -> bool {
    matches!(token.token, Token::CommentLine(_) | Token::CommentBlock(_))
}

/// The text as the parser can read it, with everything at the same place: half surrogate pairs are
/// replaced.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let mut readable = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match (surrogate(text, at), surrogate(text, at + 6)) {
            (None, _) => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => at += 12,
            _ => {
                readable.to_mut().replace_range(at..at + 6, "\\ufffd");
                at += 6;
            }
        }
    }
    readable
}

/// The half of a surrogate pair whose escape stands here.
fn surrogate(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    let unit = u32::from_str_radix(digits, 16).ok()?;
    (0xD800..0xE000).contains(&unit).then_some(unit)
}

fn unreadable(text: &str, at: usize, what: &str) -> Unreadable {
    let mut letters = what.chars();
    let what: String =
        letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
    Unreadable::at(
        text,
        at,
        &format!(
            "the file is not the JSON that its client reads: {what}; correct it there, or move \
             the file away, then run this again"
        ),
    )
}

/// JSON with comments and trailing commas.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};
