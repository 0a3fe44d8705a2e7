//! The forward pass of BERT: pieces of texts to one vector for each text.
//!
//! All pieces of a batch lie below one another in one matrix, whichever text they belong to; only
//! attention looks at a text's own rows. So nothing is padded and nothing needs a mask.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Slice};

use crate::LoadError;
use crate::weights::{Linear, Norm, Weights};

/// How many numbers a piece is through all layers.
pub(crate) const HIDDEN: usize = 384;
const HEADS: usize = 12;
const HEAD: usize = HIDDEN / HEADS;
const INNER: usize = 4 * HIDDEN;
const PLACES: usize = 512;
const KINDS: usize = 2;
const EPSILON: f32 = 1e-12;
/// As numbers to divide by.
const HIDDEN_F32: f32 = 384.0;
const HEAD_F32: f32 = 32.0;

const ROWS: Axis = Axis(0);
const COLUMNS: Axis = Axis(1);

pub(crate) struct Bert {
    words: Array2<f32>,
    places: Array2<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    gelu: Gelu,
}

struct Layer {
    /// Query, key and value side by side.
    attention: Linear,
    attended: Linear,
    attended_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

impl Bert {
    pub(crate) fn load(
        weights: &mut Weights,
        pieces: usize,
        layers: usize,
    ) -> Result<Self, LoadError> {
        let words = weights.matrix("embeddings.word_embeddings.weight", [pieces, HIDDEN])?;
        let kinds = weights.matrix("embeddings.token_type_embeddings.weight", [KINDS, HIDDEN])?;
        let places = weights.matrix("embeddings.position_embeddings.weight", [PLACES, HIDDEN])?;
        Ok(Self {
            words,
            places: places + kinds.row(0),
            norm: weights.norm("embeddings.LayerNorm", HIDDEN)?,
            layers: (0..layers).map(|i| Layer::load(weights, i)).collect::<Result<_, _>>()?,
            gelu: Gelu::new(),
        })
    }

    pub(crate) fn pieces(&self) -> usize {
        self.words.nrows()
    }

    /// The mean of what the last layer says of each text's pieces, as a vector of unit length.
    /// Pieces are below `pieces()`, and a text has at least one and at most 512.
    pub(crate) fn embed(&self, texts: &[&[u32]]) -> Vec<Vec<f32>> {
        let mut ranges = Vec::with_capacity(texts.len());
        let mut rows = 0;
        for text in texts {
            ranges.push(rows..rows + text.len());
            rows += text.len();
        }
        let mut x = Array2::zeros((rows, HIDDEN));
        for (text, range) in texts.iter().zip(&ranges) {
            for (place, piece) in text.iter().enumerate() {
                let mut row = x.row_mut(range.start + place);
                row += &self.words.row(*piece as usize);
                row += &self.places.row(place);
            }
        }
        norm(&mut x, &self.norm);
        for layer in &self.layers {
            layer.pass(&mut x, &ranges, &self.gelu);
        }
        ranges.into_iter().map(|range| mean(&x.slice_axis(ROWS, Slice::from(range)))).collect()
    }
}

impl Layer {
    fn load(weights: &mut Weights, index: usize) -> Result<Self, LoadError> {
        let at = |name: &str| vec![format!("encoder.layer.{index}.{name}")];
        let three: Vec<_> = ["query", "key", "value"]
            .iter()
            .flat_map(|n| at(&format!("attention.self.{n}")))
            .collect();
        Ok(Self {
            attention: weights.linear(&three, HIDDEN, HIDDEN)?,
            attended: weights.linear(&at("attention.output.dense"), HIDDEN, HIDDEN)?,
            attended_norm: weights.norm(&at("attention.output.LayerNorm")[0], HIDDEN)?,
            inner: weights.linear(&at("intermediate.dense"), HIDDEN, INNER)?,
            outer: weights.linear(&at("output.dense"), INNER, HIDDEN)?,
            outer_norm: weights.norm(&at("output.LayerNorm")[0], HIDDEN)?,
        })
    }

    fn pass(&self, x: &mut Array2<f32>, texts: &[Range<usize>], gelu: &Gelu) {
        let mixed = linear(x, &self.attention);
        let mut attended = Array2::zeros(x.dim());
        for text in texts {
            let rows = Slice::from(text.clone());
            let mixed = mixed.slice_axis(ROWS, rows);
            let mut attended = attended.slice_axis_mut(ROWS, rows);
            for head in 0..HEADS {
                attend(&mixed, &mut attended, head * HEAD);
            }
        }
        *x += &linear(&attended, &self.attended);
        norm(x, &self.attended_norm);

        let mut inner = linear(x, &self.inner);
        inner.mapv_inplace(|number| gelu.of(number));
        *x += &linear(&inner, &self.outer);
        norm(x, &self.outer_norm);
    }
}

/// One head, whose numbers start at `column`: each piece becomes a mix of those it looks at.
fn attend(mixed: &ArrayView2<f32>, out: &mut ArrayViewMut2<f32>, column: usize) {
    let part = |nth: usize| {
        let start = nth * HIDDEN + column;
        mixed.slice_axis(COLUMNS, Slice::from(start..start + HEAD))
    };
    let (query, key, value) = (part(0), part(1), part(2));
    let mut looks = Array2::zeros((mixed.nrows(), mixed.nrows()));
    general_mat_mul(HEAD_F32.sqrt().recip(), &query, &key.t(), 0.0, &mut looks);
    for mut row in looks.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        row.mapv_inplace(|number| (number - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    let mut out = out.slice_axis_mut(COLUMNS, Slice::from(column..column + HEAD));
    general_mat_mul(1.0, &looks, &value, 0.0, &mut out);
}

fn linear(x: &Array2<f32>, layer: &Linear) -> Array2<f32> {
    let mut out = Array2::zeros((x.nrows(), layer.bias.len()));
    out += &layer.bias;
    general_mat_mul(1.0, x, &layer.weight.t(), 1.0, &mut out);
    out
}

fn norm(x: &mut Array2<f32>, by: &Norm) {
    for mut row in x.rows_mut() {
        let mean = row.sum() / HIDDEN_F32;
        row -= mean;
        let spread = row.fold(0.0, |sum, number| sum + number * number) / HIDDEN_F32;
        row *= (spread + EPSILON).sqrt().recip();
        row *= &by.weight;
        row += &by.bias;
    }
}

fn mean(rows: &ArrayView2<f32>) -> Vec<f32> {
    let sum: Array1<f32> = rows.sum_axis(ROWS);
    let length = sum.dot(&sum).sqrt();
    sum.iter().map(|number| number / length).collect()
}

/// Beyond this the curve is 0 or `x`.
const END: f32 = 6.0;
const END_F64: f64 = 6.0;
const PER_UNIT: f32 = 170.0;
const STEP: f64 = 1.0 / 170.0;
const STEPS: usize = 2040;

/// The activation between the two halves of a layer, by linear interpolation in a table: it is
/// evaluated half a million times per text. The error is below two millionths.
struct Gelu {
    points: Box<[f32; STEPS + 2]>,
}

impl Gelu {
    #[expect(clippy::cast_possible_truncation, reason = "a table of f32, summed up as f64")]
    fn new() -> Self {
        let mut points = Box::new([0.0; STEPS + 2]);
        // The normal distribution function, integrated by Simpson's rule.
        let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let mut share = 0.0;
        let mut x = -END_F64;
        for point in points.iter_mut() {
            *point = (x * share) as f32;
            share += STEP / 6.0 * (density(x) + 4.0 * density(x + STEP / 2.0) + density(x + STEP));
            x += STEP;
        }
        Self { points }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index in the table: from 0 to STEPS"
    )]
    fn of(&self, x: f32) -> f32 {
        let at = (x.clamp(-END, END) + END) * PER_UNIT;
        let index = (at as usize).min(STEPS);
        let (here, next) = (self.points[index], self.points[index + 1]);
        let read = here + (at - index as f32) * (next - here);
        if x > END { x } else { read }
    }
}

#[cfg(test)]
mod tests {
    use super::Gelu;

    #[test]
    fn the_curve_goes_through_known_points() {
        let gelu = Gelu::new();
        let known = [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_3), (0.5, 0.345_731_2)];
        for (x, y) in known {
            assert!((gelu.of(x) - y).abs() < 3e-6, "{x}: {}", gelu.of(x));
        }
        assert!(gelu.of(-6.0).abs() < 1e-6 && gelu.of(-60.0).abs() < 1e-6);
        assert!((gelu.of(6.0) - 6.0).abs() < 1e-6 && gelu.of(60.0) > 59.999);
        assert!(gelu.of(f32::NAN).is_nan());
    }
}
