//! The curve between the two halves of a layer: `x` times the share of a normal distribution below
//! `x`.
//!
//! It is wanted half a million times a text, so it is read from a table, straight between points;
//! that is off by less than two millionths.

/// Beyond these the curve is 0, or `x`.
const END: f32 = 6.0;
const END_F64: f64 = 6.0;
const PER_UNIT: f32 = 170.0;
const STEP: f64 = 1.0 / 170.0;
const STEPS: usize = 2040;

pub(crate) struct Gelu {
    points: Box<[f32; STEPS + 2]>,
}

impl Gelu {
    #[expect(clippy::cast_possible_truncation, reason = "a table of f32, summed up as f64")]
    pub(crate) fn new() -> Self {
        let mut points = Box::new([0.0; STEPS + 2]);
        // The share below a point grows by what lies between it and the one before, which is
        // added up by Simpson's rule.
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
        reason = "a place in the table: from 0 to STEPS"
    )]
    pub(crate) fn of(&self, x: f32) -> f32 {
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
