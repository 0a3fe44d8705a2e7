//! Tests of the table and of the embedder.

use std::fmt::Write;

use reqlore_domain::ports::embedder::{Embedder, TextRole};
use sha2::{Digest, Sha256};

use crate::vector_table::{DIMENSION, PieceHash};
use crate::{StaticEmbedder, TABLE, for_each_piece};

const DATA: &[u8] = include_bytes!("../data/table.bin");

fn embed(text: &str) -> Vec<f32> {
    let embedder = StaticEmbedder::new();
    embedder.embed(TextRole::Passage, &[text]).unwrap().remove(0)
}

fn cosine(a: &str, b: &str) -> f32 {
    embed(a).iter().zip(embed(b)).map(|(a, b)| a * b).sum()
}

fn check_pieces(text: &str, expected: &str) {
    let mut found = Vec::new();
    for_each_piece(&TABLE, text, |i| found.push(std::str::from_utf8(TABLE.piece_text(i)).unwrap()));
    assert_eq!(found.join(" "), expected, "{text:?}");
}

#[test]
fn table_has_the_hash_of_its_notice() {
    // A new table needs a new number in `ID` and its hash in NOTICE.
    let notice = include_str!("../NOTICE");
    let hash = notice.lines().find_map(|line| line.strip_prefix("SHA-256: ")).unwrap();
    let found = Sha256::digest(DATA).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    assert_eq!(found, hash);
    assert_eq!(crate::ID, "static-1");
}

#[test]
fn each_piece_is_found_by_its_text() {
    for index in 0..TABLE.len() {
        let name = TABLE.piece_text(index);
        let continued = name.starts_with(b"##");
        let letters = name.strip_prefix(b"##").unwrap_or(name);
        let start = if continued { PieceHash::CONTINUED } else { PieceHash::START };
        let hash = letters.iter().fold(start, |hash, letter| hash.with(*letter));
        assert_eq!(TABLE.find_piece(hash, continued, letters), Some(index));
    }
}

#[test]
fn words_are_split_into_longest_pieces() {
    check_pieces("The archive, compressed.", "the archive compressed");
    check_pieces("unaffable", "una ##ffa ##ble");
    check_pieces("REQ-048 get_user_story", "re ##q 04 ##8 get user story");
}

#[test]
fn case_and_accents_are_ignored() {
    check_pieces("Café NAÏVE", "cafe naive");
    check_pieces("Cafe\u{301}", "cafe");
}

#[test]
fn text_that_is_not_english_has_no_pieces() {
    check_pieces("", "");
    check_pieces("--- ... 你好 привет straße 😀", "");
    check_pieces("archive归档archive", "archive archive");
    check_pieces(&"x".repeat(101), "");
    assert_eq!(embed("привет"), vec![0.0; DIMENSION]);
}

#[test]
fn vectors_have_unit_length_and_order_of_texts() {
    let embedder = StaticEmbedder::new();
    let texts = ["delete a file", "", "sign in"];
    let vectors = embedder.embed(TextRole::Passage, &texts).unwrap();
    assert_eq!(vectors.len(), 3);
    for (text, vector) in texts.iter().zip(vectors) {
        assert_eq!(vector.len(), embedder.profile().dimension);
        assert_eq!(vector, embed(text));
        let length = vector.iter().map(|x| x * x).sum::<f32>();
        assert!((length - 1.0).abs() < 1e-5 || text.is_empty(), "{text}: {length}");
    }
}

#[test]
fn query_is_embedded_without_function_words() {
    let query = |text: &str| {
        let vectors = StaticEmbedder::new().embed(TextRole::Query, &[text]).unwrap();
        vectors.into_iter().next().unwrap()
    };
    assert_eq!(query("How do I get my deposit back?"), embed("deposit back"));
    assert_eq!(query("When is the...?"), embed("When is the...?"));
    assert_eq!(query(""), embed(""));
}

#[test]
fn synonyms_are_more_similar_than_unrelated_texts() {
    let same = cosine("the user signs in with a password", "login of a person with credentials");
    let other = cosine("the user signs in with a password", "ships cross the northern ocean");
    assert!(same > other + 0.2, "{same} {other}");
}
