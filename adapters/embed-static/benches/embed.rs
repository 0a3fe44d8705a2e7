//! Time to embed a query and a passage of 56 words.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use reqlore_domain::ports::embedder::{Embedder, TextRole};
use reqlore_embed_static::StaticEmbedder;

const QUERY: &str = "how are compressed records of an archive read";
const PASSAGE: &str = "The library returns the records of an archive to a caller one after another, \
    for compressed and for plain records, and reports its progress at any time. If a record is \
    damaged, the error names the offset of the record. The caller can then continue with the next \
    record of the archive without a second pass.";

fn bench_embed(criterion: &mut Criterion) {
    let embedder = StaticEmbedder::new();
    for (name, text) in [("query", QUERY), ("passage", PASSAGE)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| embedder.embed(TextRole::Query, &[black_box(text)]));
        });
    }
}

criterion_group!(benches, bench_embed);
criterion_main!(benches);
