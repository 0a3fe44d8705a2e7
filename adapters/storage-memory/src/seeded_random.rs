//! Random numbers that a seed repeats (SplitMix64).

use std::ops::Range;

#[derive(Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of a range that is not empty.
    pub fn within(&mut self, range: Range<usize>) -> usize {
        let width = (range.end - range.start) as u64;
        range.start + usize::try_from(self.next_number() % width).unwrap()
    }

    /// True in this many of 1000 calls.
    pub fn per_mille(&mut self, rate: usize) -> bool {
        self.within(0..1000) < rate
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.within(0..end + 1));
        }
    }
}
