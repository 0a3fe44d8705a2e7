//! The table of word pieces and their vectors, read in place from the executable.
//!
//! All numbers are little-endian. The index of a piece is its position in this file, not its number
//! in the model's vocabulary, because the file omits pieces that no text has.
//!
//! | part | bytes | content |
//! |---|---|---|
//! | head | 32 | `RQLTABLE`, then as u32: format, pieces, dimension, slots, longest piece, 0 |
//! | slots | 2 each | open addressing by FNV-1a of the piece: its index, or `0xFFFF` |
//! | ends | 4 each, one more than pieces | start of each piece's string; end of the last one |
//! | scales | 4 each | f32 factor of the row's numbers |
//! | rows | dimension each | signed bytes; the scale includes the weight of the piece |
//! | strings | the rest | UTF-8; pieces that continue a word begin with `##` |

pub(crate) const DIMENSION: usize = 256;

/// The maximum length of a piece, checked when the table is opened.
pub(crate) const MAX_PIECE_BYTES: usize = 32;

const FORMAT: u32 = 1;
const SLOT_COUNT: usize = 1 << 16;
const HEAD_BYTES: usize = 32;
const EMPTY_SLOT: u16 = u16::MAX;

pub(crate) struct VectorTable {
    slots: &'static [[u8; 2]],
    ends: &'static [[u8; 4]],
    scales: &'static [[u8; 4]],
    rows: &'static [[u8; DIMENSION]],
    strings: &'static [u8],
}

/// The FNV-1a hash of a piece, computed byte by byte.
#[derive(Clone, Copy)]
pub(crate) struct PieceHash(u32);

impl PieceHash {
    pub(crate) const START: Self = Self(0x811C_9DC5);
    pub(crate) const CONTINUED: Self = Self::START.with(b'#').with(b'#');

    pub(crate) const fn with(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u32).wrapping_mul(0x0100_0193))
    }
}

impl VectorTable {
    /// Validates the data. In a `static` an invalid table is a compile error.
    pub(crate) const fn from_bytes(data: &'static [u8]) -> Self {
        let (head, data) = data.split_at(HEAD_BYTES);
        let (magic, head) = head.split_at(8);
        assert!(matches!(magic, b"RQLTABLE"), "not a table of word pieces");
        let (head, _) = head.as_chunks::<4>();
        assert!(u32::from_le_bytes(head[0]) == FORMAT, "another format");
        let pieces = u32::from_le_bytes(head[1]) as usize;
        assert!(u32::from_le_bytes(head[2]) as usize == DIMENSION, "another dimension");
        assert!(u32::from_le_bytes(head[3]) as usize == SLOT_COUNT, "another number of slots");
        assert!(u32::from_le_bytes(head[4]) as usize <= MAX_PIECE_BYTES, "pieces too long");
        assert!(pieces < SLOT_COUNT && pieces < EMPTY_SLOT as usize, "too many pieces");

        let (slots, data) = data.split_at(SLOT_COUNT * 2);
        let (ends, data) = data.split_at((pieces + 1) * 4);
        let (scales, data) = data.split_at(pieces * 4);
        let (rows, strings) = data.split_at(pieces * DIMENSION);
        Self {
            slots: slots.as_chunks().0,
            ends: ends.as_chunks().0,
            scales: scales.as_chunks().0,
            rows: rows.as_chunks().0,
            strings,
        }
    }

    /// Returns the index of the piece with this hash that begins or continues a word.
    pub(crate) fn find_piece(
        &self,
        hash: PieceHash,
        is_continuation: bool,
        letters: &[u8],
    ) -> Option<usize> {
        let mut slot = hash.0 as usize % SLOT_COUNT;
        // The loop ends, because the table has more slots than pieces.
        loop {
            let index = u16::from_le_bytes(self.slots[slot]);
            if index == EMPTY_SLOT {
                return None;
            }
            let string = self.piece_text(usize::from(index));
            let piece = if is_continuation { string.strip_prefix(b"##") } else { Some(string) };
            if piece == Some(letters) {
                return Some(usize::from(index));
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
    }

    /// Adds the vector of a piece to `sum`.
    pub(crate) fn add_row(&self, piece: usize, sum: &mut [f32]) {
        // Each row has one scale, so that a number needs only one byte.
        let scale = f32::from_le_bytes(self.scales[piece]);
        for (sum, byte) in sum.iter_mut().zip(&self.rows[piece]) {
            *sum += scale * f32::from(byte.cast_signed());
        }
    }

    pub(crate) fn piece_text(&self, piece: usize) -> &[u8] {
        let start = u32::from_le_bytes(self.ends[piece]) as usize;
        let end = u32::from_le_bytes(self.ends[piece + 1]) as usize;
        &self.strings[start..end]
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}
