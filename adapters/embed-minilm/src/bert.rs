//! The forward pass of BERT: pieces of texts to one vector for each text.
//!
//! All pieces of a batch lie below one another in one matrix, whichever text they belong to; only
//! attention looks at a text's own rows. So nothing is padded and nothing needs a mask.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Slice};

use crate::LoadError;
use crate::safetensors::{LayerNorm, LinearLayer, TensorFile};

/// How many numbers a piece is through all layers.
pub(crate) const HIDDEN_SIZE: usize = 384;
const HEAD_COUNT: usize = 12;
const HEAD_SIZE: usize = HIDDEN_SIZE / HEAD_COUNT;
const INTERMEDIATE_SIZE: usize = 4 * HIDDEN_SIZE;
const MAX_POSITIONS: usize = 512;
const TOKEN_TYPES: usize = 2;
const EPSILON: f32 = 1e-12;
/// As numbers to divide by.
const HIDDEN_F32: f32 = 384.0;
const HEAD_F32: f32 = 32.0;

const ROWS: Axis = Axis(0);
const COLUMNS: Axis = Axis(1);

pub(crate) struct BertModel {
    words: Array2<f32>,
    positions: Array2<f32>,
    norm: LayerNorm,
    layers: Vec<EncoderLayer>,
    gelu: GeluTable,
}

struct EncoderLayer {
    /// Query, key and value side by side.
    attention: LinearLayer,
    attention_output: LinearLayer,
    attention_norm: LayerNorm,
    intermediate: LinearLayer,
    output: LinearLayer,
    output_norm: LayerNorm,
}

impl BertModel {
    pub(crate) fn load(
        weights: &mut TensorFile,
        pieces: usize,
        layers: usize,
    ) -> Result<Self, LoadError> {
        let words =
            weights.read_matrix("embeddings.word_embeddings.weight", [pieces, HIDDEN_SIZE])?;
        let kinds = weights
            .read_matrix("embeddings.token_type_embeddings.weight", [TOKEN_TYPES, HIDDEN_SIZE])?;
        let places = weights
            .read_matrix("embeddings.position_embeddings.weight", [MAX_POSITIONS, HIDDEN_SIZE])?;
        Ok(Self {
            words,
            positions: places + kinds.row(0),
            norm: weights.read_norm("embeddings.LayerNorm", HIDDEN_SIZE)?,
            layers: (0..layers)
                .map(|i| EncoderLayer::load(weights, i))
                .collect::<Result<_, _>>()?,
            gelu: GeluTable::new(),
        })
    }

    pub(crate) fn vocabulary_size(&self) -> usize {
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
        let mut x = Array2::zeros((rows, HIDDEN_SIZE));
        for (text, range) in texts.iter().zip(&ranges) {
            for (place, piece) in text.iter().enumerate() {
                let mut row = x.row_mut(range.start + place);
                row += &self.words.row(*piece as usize);
                row += &self.positions.row(place);
            }
        }
        normalize_rows(&mut x, &self.norm);
        for layer in &self.layers {
            layer.forward(&mut x, &ranges, &self.gelu);
        }
        ranges.into_iter().map(|range| unit_mean(&x.slice_axis(ROWS, Slice::from(range)))).collect()
    }
}

impl EncoderLayer {
    fn load(weights: &mut TensorFile, index: usize) -> Result<Self, LoadError> {
        let at = |name: &str| vec![format!("encoder.layer.{index}.{name}")];
        let three: Vec<_> = ["query", "key", "value"]
            .iter()
            .flat_map(|n| at(&format!("attention.self.{n}")))
            .collect();
        Ok(Self {
            attention: weights.read_linear(&three, HIDDEN_SIZE, HIDDEN_SIZE)?,
            attention_output: weights.read_linear(
                &at("attention.output.dense"),
                HIDDEN_SIZE,
                HIDDEN_SIZE,
            )?,
            attention_norm: weights.read_norm(&at("attention.output.LayerNorm")[0], HIDDEN_SIZE)?,
            intermediate: weights.read_linear(
                &at("intermediate.dense"),
                HIDDEN_SIZE,
                INTERMEDIATE_SIZE,
            )?,
            output: weights.read_linear(&at("output.dense"), INTERMEDIATE_SIZE, HIDDEN_SIZE)?,
            output_norm: weights.read_norm(&at("output.LayerNorm")[0], HIDDEN_SIZE)?,
        })
    }

    fn forward(&self, x: &mut Array2<f32>, texts: &[Range<usize>], gelu: &GeluTable) {
        let mixed = apply_linear(x, &self.attention);
        let mut attended = Array2::zeros(x.dim());
        for text in texts {
            let rows = Slice::from(text.clone());
            let mixed = mixed.slice_axis(ROWS, rows);
            let mut attended = attended.slice_axis_mut(ROWS, rows);
            for head in 0..HEAD_COUNT {
                apply_head(&mixed, &mut attended, head * HEAD_SIZE);
            }
        }
        *x += &apply_linear(&attended, &self.attention_output);
        normalize_rows(x, &self.attention_norm);

        let mut inner = apply_linear(x, &self.intermediate);
        inner.mapv_inplace(|number| gelu.activate(number));
        *x += &apply_linear(&inner, &self.output);
        normalize_rows(x, &self.output_norm);
    }
}

/// One head, whose numbers start at `column`: each piece becomes a mix of those it looks at.
fn apply_head(mixed: &ArrayView2<f32>, out: &mut ArrayViewMut2<f32>, column: usize) {
    let part = |nth: usize| {
        let start = nth * HIDDEN_SIZE + column;
        mixed.slice_axis(COLUMNS, Slice::from(start..start + HEAD_SIZE))
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
    let mut out = out.slice_axis_mut(COLUMNS, Slice::from(column..column + HEAD_SIZE));
    general_mat_mul(1.0, &looks, &value, 0.0, &mut out);
}

fn apply_linear(x: &Array2<f32>, layer: &LinearLayer) -> Array2<f32> {
    let mut out = Array2::zeros((x.nrows(), layer.bias.len()));
    out += &layer.bias;
    general_mat_mul(1.0, x, &layer.weight.t(), 1.0, &mut out);
    out
}

fn normalize_rows(x: &mut Array2<f32>, by: &LayerNorm) {
    for mut row in x.rows_mut() {
        let mean = row.sum() / HIDDEN_F32;
        row -= mean;
        let spread = row.fold(0.0, |sum, number| sum + number * number) / HIDDEN_F32;
        row *= (spread + EPSILON).sqrt().recip();
        row *= &by.weight;
        row += &by.bias;
    }
}

fn unit_mean(rows: &ArrayView2<f32>) -> Vec<f32> {
    let sum: Array1<f32> = rows.sum_axis(ROWS);
    let length = sum.dot(&sum).sqrt();
    sum.iter().map(|number| number / length).collect()
}

/// Beyond this the curve is 0 or `x`.
const GELU_RANGE: f32 = 6.0;
const GELU_RANGE_F64: f64 = 6.0;
const GELU_STEPS_PER_UNIT: f32 = 170.0;
const GELU_STEP: f64 = 1.0 / 170.0;
const GELU_STEPS: usize = 2040;

/// The activation between the two halves of a layer, by linear interpolation in a table: it is
/// evaluated half a million times per text. The error is below two millionths.
struct GeluTable {
    points: Box<[f32; GELU_STEPS + 2]>,
}

impl GeluTable {
    #[expect(clippy::cast_possible_truncation, reason = "a table of f32, summed up as f64")]
    fn new() -> Self {
        let mut points = Box::new([0.0; GELU_STEPS + 2]);
        // The normal distribution function, integrated by Simpson's rule.
        let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let mut share = 0.0;
        let mut x = -GELU_RANGE_F64;
        for point in points.iter_mut() {
            *point = (x * share) as f32;
            share += GELU_STEP / 6.0
                * (density(x) + 4.0 * density(x + GELU_STEP / 2.0) + density(x + GELU_STEP));
            x += GELU_STEP;
        }
        Self { points }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index in the table: from 0 to STEPS"
    )]
    fn activate(&self, x: f32) -> f32 {
        let at = (x.clamp(-GELU_RANGE, GELU_RANGE) + GELU_RANGE) * GELU_STEPS_PER_UNIT;
        let index = (at as usize).min(GELU_STEPS);
        let (here, next) = (self.points[index], self.points[index + 1]);
        let read = here + (at - index as f32) * (next - here);
        if x > GELU_RANGE { x } else { read }
    }
}

#[cfg(test)]
mod tests {
    use super::GeluTable;

    #[test]
    fn the_curve_goes_through_known_points() {
        let gelu = GeluTable::new();
        let known = [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_3), (0.5, 0.345_731_2)];
        for (x, y) in known {
            assert!((gelu.activate(x) - y).abs() < 3e-6, "{x}: {}", gelu.activate(x));
        }
        assert!(gelu.activate(-6.0).abs() < 1e-6 && gelu.activate(-60.0).abs() < 1e-6);
        assert!((gelu.activate(6.0) - 6.0).abs() < 1e-6 && gelu.activate(60.0) > 59.999);
        assert!(gelu.activate(f32::NAN).is_nan());
    }
}
