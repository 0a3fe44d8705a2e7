//! The forward pass of BERT: from the word pieces of texts to one vector for each text.
//!
//! The pieces of all texts of a batch are the rows of one matrix. Only attention is computed for
//! each text separately, so there is no padding and no mask.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Slice};

use crate::error::LoadError;
use crate::safetensors::{LayerNorm, LinearLayer, TensorFile};

pub(crate) const HIDDEN_SIZE: usize = 384;
const HEAD_COUNT: usize = 12;
const HEAD_SIZE: usize = HIDDEN_SIZE / HEAD_COUNT;
const INTERMEDIATE_SIZE: usize = 4 * HIDDEN_SIZE;
const MAX_POSITIONS: usize = 512;
const TOKEN_TYPES: usize = 2;
const EPSILON: f32 = 1e-12;
// The sizes as divisors.
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
    /// Query, key and value, concatenated.
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
        vocabulary_size: usize,
        layer_count: usize,
    ) -> Result<Self, LoadError> {
        let words = weights
            .read_matrix("embeddings.word_embeddings.weight", [vocabulary_size, HIDDEN_SIZE])?;
        let token_types = weights
            .read_matrix("embeddings.token_type_embeddings.weight", [TOKEN_TYPES, HIDDEN_SIZE])?;
        let positions = weights
            .read_matrix("embeddings.position_embeddings.weight", [MAX_POSITIONS, HIDDEN_SIZE])?;
        let norm = weights.read_norm("embeddings.LayerNorm", HIDDEN_SIZE)?;
        let mut layers = Vec::with_capacity(layer_count);
        for index in 0..layer_count {
            layers.push(EncoderLayer::load(weights, index)?);
        }
        // A single text has token type 0 only, so its vector is added once, here.
        let positions = positions + token_types.row(0);
        Ok(Self { words, positions, norm, layers, gelu: GeluTable::new() })
    }

    pub(crate) fn vocabulary_size(&self) -> usize {
        self.words.nrows()
    }

    /// Returns the mean of the last layer's outputs for each text, as a vector of unit length.
    ///
    /// A text has 1 to 512 pieces, each below [`BertModel::vocabulary_size`]; otherwise it panics.
    pub(crate) fn embed(&self, texts: &[&[u32]]) -> Vec<Vec<f32>> {
        let mut ranges = Vec::with_capacity(texts.len());
        let mut rows = 0;
        for text in texts {
            ranges.push(rows..rows + text.len());
            rows += text.len();
        }
        let mut x = Array2::zeros((rows, HIDDEN_SIZE));
        for (text, range) in texts.iter().zip(&ranges) {
            for (position, piece) in text.iter().enumerate() {
                let mut row = x.row_mut(range.start + position);
                row += &self.words.row(*piece as usize);
                row += &self.positions.row(position);
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
        let prefix = format!("encoder.layer.{index}");
        let attention = [
            format!("{prefix}.attention.self.query"),
            format!("{prefix}.attention.self.key"),
            format!("{prefix}.attention.self.value"),
        ];
        let attention_output = [format!("{prefix}.attention.output.dense")];
        let attention_norm = format!("{prefix}.attention.output.LayerNorm");
        let intermediate = [format!("{prefix}.intermediate.dense")];
        let output = [format!("{prefix}.output.dense")];
        let output_norm = format!("{prefix}.output.LayerNorm");
        Ok(Self {
            attention: weights.read_linear(&attention, HIDDEN_SIZE, HIDDEN_SIZE)?,
            attention_output: weights.read_linear(&attention_output, HIDDEN_SIZE, HIDDEN_SIZE)?,
            attention_norm: weights.read_norm(&attention_norm, HIDDEN_SIZE)?,
            intermediate: weights.read_linear(&intermediate, HIDDEN_SIZE, INTERMEDIATE_SIZE)?,
            output: weights.read_linear(&output, INTERMEDIATE_SIZE, HIDDEN_SIZE)?,
            output_norm: weights.read_norm(&output_norm, HIDDEN_SIZE)?,
        })
    }

    fn forward(&self, x: &mut Array2<f32>, texts: &[Range<usize>], gelu: &GeluTable) {
        let projected = apply_linear(x, &self.attention);
        let mut attended = Array2::zeros(x.dim());
        // Pieces attend only to pieces of their own text.
        for text in texts {
            let rows = Slice::from(text.clone());
            let text_projected = projected.slice_axis(ROWS, rows);
            let mut text_attended = attended.slice_axis_mut(ROWS, rows);
            for head in 0..HEAD_COUNT {
                apply_head(&text_projected, &mut text_attended, head * HEAD_SIZE);
            }
        }
        *x += &apply_linear(&attended, &self.attention_output);
        normalize_rows(x, &self.attention_norm);

        let mut hidden = apply_linear(x, &self.intermediate);
        hidden.mapv_inplace(|number| gelu.activate(number));
        *x += &apply_linear(&hidden, &self.output);
        normalize_rows(x, &self.output_norm);
    }
}

/// Applies the attention head whose columns start at `column` to the pieces of one text.
fn apply_head(projected: &ArrayView2<f32>, out: &mut ArrayViewMut2<f32>, column: usize) {
    let query = head_columns(projected, column);
    let key = head_columns(projected, HIDDEN_SIZE + column);
    let value = head_columns(projected, 2 * HIDDEN_SIZE + column);
    let mut weights = Array2::zeros((projected.nrows(), projected.nrows()));
    general_mat_mul(HEAD_F32.sqrt().recip(), &query, &key.t(), 0.0, &mut weights);
    for mut row in weights.rows_mut() {
        // Softmax. Subtracting the largest number prevents an overflow.
        let largest = row.fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        row.mapv_inplace(|number| (number - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    let mut out = out.slice_axis_mut(COLUMNS, Slice::from(column..column + HEAD_SIZE));
    general_mat_mul(1.0, &weights, &value, 0.0, &mut out);
}

fn head_columns<'a>(projected: &'a ArrayView2<f32>, start: usize) -> ArrayView2<'a, f32> {
    projected.slice_axis(COLUMNS, Slice::from(start..start + HEAD_SIZE))
}

fn apply_linear(x: &Array2<f32>, layer: &LinearLayer) -> Array2<f32> {
    let mut out = Array2::zeros((x.nrows(), layer.bias.len()));
    // The product is added to the bias, which saves a pass over the matrix.
    out += &layer.bias;
    general_mat_mul(1.0, x, &layer.weight.t(), 1.0, &mut out);
    out
}

fn normalize_rows(x: &mut Array2<f32>, norm: &LayerNorm) {
    for mut row in x.rows_mut() {
        let mean = row.sum() / HIDDEN_F32;
        row -= mean;
        let variance = row.fold(0.0, |sum, number| sum + number * number) / HIDDEN_F32;
        row *= (variance + EPSILON).sqrt().recip();
        row *= &norm.weight;
        row += &norm.bias;
    }
}

fn unit_mean(rows: &ArrayView2<f32>) -> Vec<f32> {
    // The mean has the direction of the sum, so the division by the count is left out.
    let sum: Array1<f32> = rows.sum_axis(ROWS);
    let length = sum.dot(&sum).sqrt();
    sum.iter().map(|number| number / length).collect()
}

/// Beyond this the function is 0 or `x`.
const GELU_RANGE: f32 = 6.0;
const GELU_RANGE_F64: f64 = 6.0;
const GELU_STEPS_PER_UNIT: f32 = 170.0;
const GELU_STEP: f64 = 1.0 / 170.0;
const GELU_STEPS: usize = 2040;

/// The activation function GELU by linear interpolation in a table, because it is evaluated half a
/// million times per text. The error is below 2e-6.
struct GeluTable {
    points: Box<[f32; GELU_STEPS + 2]>,
}

impl GeluTable {
    #[expect(clippy::cast_possible_truncation, reason = "the sum needs f64, the table only f32")]
    fn new() -> Self {
        let mut points = Box::new([0.0; GELU_STEPS + 2]);
        // The normal distribution, integrated by Simpson's rule.
        let mut integral = 0.0;
        let mut x = -GELU_RANGE_F64;
        for point in points.iter_mut() {
            *point = (x * integral) as f32;
            integral += GELU_STEP / 6.0
                * (normal_density(x)
                    + 4.0 * normal_density(x + GELU_STEP / 2.0)
                    + normal_density(x + GELU_STEP));
            x += GELU_STEP;
        }
        Self { points }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of the table: 0 to GELU_STEPS"
    )]
    fn activate(&self, x: f32) -> f32 {
        let position = (x.clamp(-GELU_RANGE, GELU_RANGE) + GELU_RANGE) * GELU_STEPS_PER_UNIT;
        let index = (position as usize).min(GELU_STEPS);
        let (here, next) = (self.points[index], self.points[index + 1]);
        let interpolated = here + (position - index as f32) * (next - here);
        if x > GELU_RANGE { x } else { interpolated }
    }
}

fn normal_density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::GeluTable;

    #[test]
    fn gelu_equals_known_values() {
        let gelu = GeluTable::new();
        let expected = [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_3), (0.5, 0.345_731_2)];
        for (x, y) in expected {
            assert!((gelu.activate(x) - y).abs() < 3e-6, "{x}: {}", gelu.activate(x));
        }
        assert!(gelu.activate(-6.0).abs() < 1e-6 && gelu.activate(-60.0).abs() < 1e-6);
        assert!((gelu.activate(6.0) - 6.0).abs() < 1e-6 && gelu.activate(60.0) > 59.999);
        assert!(gelu.activate(f32::NAN).is_nan());
    }
}
