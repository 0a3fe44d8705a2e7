//! Lengths of time as people write them: `1s`, `15m`, `2h`, `90d`.

use std::fmt;

use reqlore_domain::time::Timestamp;

/// What letters mean, the longest first.
const UNITS: [(char, u32); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// A length of time in whole seconds, 366 days at most: no token lives longer (rulings 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Lifetime(u32);

impl Lifetime {
    /// How long a token counts when nothing else is asked for.
    pub const USUAL: Self = Self::days(90);
    pub const LONGEST: Self = Self::days(366);
    /// How long a token counts beside its successor, at most (reliability 4).
    pub const LONGEST_OVERLAP: Self = Self::days(1);

    const fn days(days: u32) -> Self {
        Self(days * 24 * 60 * 60)
    }

    /// Reads a number with its unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let unit =
            UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));
        let digits = unit.filter(|(digits, _)| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let read =
            digits.and_then(|(digits, seconds)| Some((digits.parse::<u64>().ok()?, seconds)));
        let Some((count, seconds)) = read else {
            return Err(
                "write a number and s, m, h or d for seconds, minutes, hours or days, like \
                        90d"
                .to_owned(),
            );
        };
        let seconds = count.saturating_mul(u64::from(*seconds));
        let fits = u32::try_from(seconds).ok().map(Self).filter(|length| *length <= Self::LONGEST);
        fits.ok_or_else(|| format!("at most {}", Self::LONGEST))
    }

    /// How long a token counts: some time.
    pub fn of_token(text: &str) -> Result<Self, String> {
        Self::parse(text).and_then(|length| match length.0 {
            0 => Err("a token counts at least 1s".to_owned()),
            _ => Ok(length),
        })
    }

    /// How long a token counts beside its successor: a day at most, and perhaps no time at all.
    pub fn of_overlap(text: &str) -> Result<Self, String> {
        let length = Self::parse(text)?;
        if length > Self::LONGEST_OVERLAP {
            return Err("at most 24h".to_owned());
        }
        Ok(length)
    }

    pub fn after(self, time: Timestamp) -> Timestamp {
        Timestamp::new(time.seconds() + i64::from(self.0), time.nanoseconds())
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().find(|(_, seconds)| self.0 > 0 && self.0.is_multiple_of(*seconds));
        let (unit, seconds) = whole.unwrap_or(&('s', 1));
        write!(f, "{}{unit}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rulings 7: durations `1s`, `2h`, `90d`; at most 366 days
    #[test]
    fn a_length_is_a_number_with_a_unit_between_its_bounds() {
        for (text, seconds) in
            [("1s", 1), ("15m", 900), ("2h", 7_200), ("90d", 7_776_000), ("366d", 31_622_400)]
        {
            assert_eq!(Lifetime::of_token(text), Ok(Lifetime(seconds)), "{text}");
            assert_eq!(Lifetime(seconds).to_string(), text);
        }
        for wrong in [
            "",
            "d",
            "90",
            "0s",
            "-1d",
            "+1d",
            "1.5h",
            "1w",
            "1 d",
            "367d",
            "31622401s",
            "9D",
            "99999999999999999999d",
            "\u{661}d",
        ] {
            assert!(Lifetime::of_token(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Lifetime::of_overlap("24h"), Ok(Lifetime::LONGEST_OVERLAP));
        assert_eq!(Lifetime::of_overlap("0s"), Ok(Lifetime::default()));
        assert!(Lifetime::of_overlap("86401s").is_err());
        assert_eq!(Lifetime(90).after(Timestamp::new(10, 7)), Timestamp::new(100, 7));
    }
}
