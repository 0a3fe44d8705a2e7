//! What a query and a passage of 56 words cost.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use reqlore_domain::ports::embedder::{Embedder, TextRole};
use reqlore_embed_static::StaticEmbedder;

const QUERY: &str = "how are compressed records of an archive read";
const PASSAGE: &str = "The library shall let a caller read the records of an archive one after \
    another, whether or not each of them is compressed, and shall tell at any time how far it has \
    come. When a record is damaged the caller is told where it begins and can go on with the next \
    one without reading anything again.";

fn embed(criterion: &mut Criterion) {
    let embedder = StaticEmbedder::new();
    for (name, text) in [("query", QUERY), ("passage", PASSAGE)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| embedder.embed(TextRole::Query, &[black_box(text)]));
        });
    }
}

criterion_group!(benches, embed);
criterion_main!(benches);
