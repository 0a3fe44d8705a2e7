//! Measures the index on generated texts: fill, search, one change, start.
//!
//! `cargo run --release -p reqlore-search --example speed -- [ITEMS] [words]`

#![allow(clippy::print_stdout, reason = "a report for a person")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::ports::embedder::{Embedder, Languages, Pace, Profile, Role};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::search::{Facet, Item, Meaning, Projection, Query};
use reqlore_search::{Config, Index};

fn main() -> Result<(), Box<dyn Error>> {
    let items = std::env::args().nth(1).map_or(Ok(10_000), |items| items.parse())?;
    let meaning = std::env::args().nth(2).is_none();
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(measure(folder.path(), items, meaning))
}

async fn measure(folder: &Path, items: u32, meaning: bool) -> Result<(), Box<dyn Error>> {
    let key = ProjectKey::default();
    let mut random = Random(7);
    let projections: Vec<_> = (0..items).map(|i| random.projection(i)).collect();
    let bytes: usize = projections.iter().flat_map(|p| &p.items).map(|i| i.text.len()).sum();

    let index = open(folder, meaning);
    let started = Instant::now();
    for batch in projections.chunks(256) {
        index.apply(&key, batch.to_vec()).await?;
    }
    let applied = started.elapsed();
    index.search(&key, &query("anything".to_owned())).await?;
    println!(
        "fill {items} items, {bytes} bytes: {applied:?}, first answer {:?}",
        started.elapsed()
    );
    let mut most = 0;
    loop {
        let pending = index.search(&key, &query("anything".to_owned())).await?.pending;
        most = most.max(pending);
        if pending == 0 {
            break;
        }
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(2))).await?;
    }
    println!("all is embedded after {:?} (at most {most} waited)", started.elapsed());

    for count in [1, 3, 8, 20] {
        let times = searches(&index, &mut random, count, Meaning::Off).await?;
        println!("words, {count} words: {}", middle(times));
        let times = searches(&index, &mut random, count, Meaning::Best).await?;
        println!("hybrid, {count} words: {}", middle(times));
    }
    let mut times = Vec::new();
    for i in 0..40 {
        let projection = random.projection(i * 97 % items);
        let started = Instant::now();
        index.apply(&key, vec![projection]).await?;
        index.search(&key, &query(random.text(5))).await?;
        times.push(started.elapsed());
    }
    println!("replace one and search: {}", middle(times));

    let started = Instant::now();
    drop(index);
    println!("drop (saves): {:?}", started.elapsed());
    let started = Instant::now();
    let index = open(folder, meaning);
    let known = index.indexed(&key).await?.len();
    println!("open with {known} documents: {:?}", started.elapsed());
    index.search(&key, &query(random.text(5))).await?;
    println!("and its first answer: {:?}", started.elapsed());
    Ok(())
}

fn open(folder: &Path, meaning: bool) -> Index {
    let embedders: Vec<Arc<dyn Embedder>> =
        if meaning { vec![Arc::new(Sums::new())] } else { Vec::new() };
    let (cache, store) = (Some(folder.to_path_buf()), "speed".to_owned());
    Index::new(Config { cache, store, embedders })
}

async fn searches(
    index: &Index,
    random: &mut Random,
    words: usize,
    meaning: Meaning,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..500 {
        let query = Query { meaning, ..query(random.text(words)) };
        let started = Instant::now();
        index.search(&ProjectKey::default(), &query).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

fn query(text: String) -> Query {
    let (documents, kinds, meaning) = (Vec::new(), Vec::new(), Meaning::Best);
    let facets = Vec::new();
    Query { text, documents, kinds, facets, offset: 0, limit: 10, meaning }
}

fn middle(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    format!("p10 {:?}, p50 {:?}, p99 {:?}", at(10), at(50), at(99))
}

/// Words as rare as those of a language.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 0..words {
            let bits = self.next() % 15;
            let word = self.next() % (2 << bits);
            text.push_str(&spell(word));
            text.push(' ');
        }
        text
    }

    fn projection(&mut self, number: u32) -> Projection {
        let text = self.text(100);
        let item = Item {
            reference: format!("REQ-{number:05}"),
            kind: "requirement".to_owned(),
            title: self.text(5),
            text: text.clone(),
            tags: Vec::new(),
            links: Vec::new(),
            facets: vec![
                Facet::new(Facet::PRIORITY, number % 4 + 1),
                Facet::new(Facet::PARENT, number / 10),
            ],
        };
        let document = DocumentId::entity(format!("e/{number}"));
        Projection { document, version: Some(Version::of(text.as_bytes())), items: vec![item] }
    }
}

fn spell(mut number: u64) -> String {
    let syllables = ["ka", "ro", "mi", "ten", "su", "lo", "ped", "ing", "ar", "bel"];
    let mut word = String::new();
    word.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or(0)));
    while number > 0 {
        word.push_str(syllables[usize::try_from(number % 10).unwrap_or(0)]);
        number /= 10;
    }
    word
}

/// A model as fast as a table: the sum of a vector for each word.
struct Sums(Profile);

impl Sums {
    fn new() -> Self {
        Self(Profile {
            name: "sums".to_owned(),
            id: "sums 1".to_owned(),
            dimension: 256,
            weight: 0.33,
            languages: Languages::English,
            pace: Pace::Instant,
        })
    }
}

impl Embedder for Sums {
    fn profile(&self) -> &Profile {
        &self.0
    }

    fn embed(&self, _: Role, texts: &[&str]) -> reqlore_domain::error::Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| sum(text)).collect())
    }
}

fn sum(text: &str) -> Vec<f32> {
    let mut sum = vec![0.0_f32; 256];
    for word in text.split_whitespace() {
        let mut random =
            Random(word.bytes().fold(5381_u64, |h, b| h.wrapping_mul(33) ^ u64::from(b)) | 1);
        for number in &mut sum {
            *number += f32::from(u8::try_from(random.next() >> 56).unwrap_or(0)) - 127.5;
        }
    }
    let length = sum.iter().map(|n| n * n).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    sum.iter().map(|n| n / length).collect()
}
