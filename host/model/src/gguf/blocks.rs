//! Numbers in blocks, as ggml quantises them: `dequantize_row_q4_0`, `_q8_0`, `_q4_K` and `_q6_K` of `ggml-quants.c`, and the codes of blocks that int8
//! keeps as they are.

use crate::cpu::BLOCK;

/// Values of a block that K formats share a scale for.
pub(crate) const SUPER: usize = 256;

/// Bytes of a block of [`BLOCK`] in Q4_0 and Q8_0, and of one of [`SUPER`] in Q4_K and Q6_K.
pub(crate) const Q4_0: usize = 18;
/// See [`Q4_0`].
pub(crate) const Q8_0: usize = 34;
/// See [`Q4_0`].
pub(crate) const Q4_K: usize = 144;
/// See [`Q4_0`].
pub(crate) const Q6_K: usize = 210;

fn half_of([low, high]: [u8; 2]) -> f32 {
    half::f16::from_le_bytes([low, high]).to_f32()
}

/// The codes and the scale of a block of Q8_0.
pub(crate) fn q8_0(block: &[u8; Q8_0]) -> ([i8; BLOCK], u16) {
    let [low, high, bytes @ ..] = block;
    let mut codes = [0; BLOCK];
    for (code, byte) in codes.iter_mut().zip(bytes) {
        *code = byte.cast_signed();
    }
    (codes, u16::from_le_bytes([*low, *high]))
}

/// The codes and the scale of a block of Q4_0: -8 to 7.
pub(crate) fn q4_0(block: &[u8; Q4_0]) -> ([i8; BLOCK], u16) {
    let [low, high, pairs @ ..] = block;
    let mut codes = [0; BLOCK];
    let (first, second) = codes.split_at_mut(BLOCK / 2);
    for ((first, second), pair) in first.iter_mut().zip(second).zip(pairs) {
        *first = (pair & 0xf).cast_signed() - 8;
        *second = (pair >> 4).cast_signed() - 8;
    }
    (codes, u16::from_le_bytes([*low, *high]))
}

/// The scale and the minimum of a part of a block of Q4_K: 6 bits each, packed into 12 bytes.
fn of_part(part: usize, packed: &[u8; 12]) -> (f32, f32) {
    let at = |place: usize| packed.get(place).copied().unwrap_or_default();
    let (scale, least) = match part {
        0..4 => (at(part) & 63, at(part + 4) & 63),
        _ => {
            let both = at(part + 4);
            ((both & 0xf) | (at(part - 4) >> 6) << 4, (both >> 4) | (at(part) >> 6) << 4)
        }
    };
    (f32::from(scale), f32::from(least))
}

/// Reads a block of Q4_K.
pub(crate) fn q4_k(block: &[u8; Q4_K], to: &mut Vec<f32>) {
    let [s0, s1, m0, m1, rest @ ..] = block;
    let (scale, least) = (half_of([*s0, *s1]), half_of([*m0, *m1]));
    let Some((packed, codes)) = rest.split_first_chunk::<12>() else { return };
    for (pair, codes) in codes.as_chunks::<32>().0.iter().enumerate() {
        let (one, other) = (of_part(2 * pair, packed), of_part(2 * pair + 1, packed));
        let (times, below) = (scale * one.0, least * one.1);
        to.extend(codes.iter().map(|code| times * f32::from(code & 0xf) - below));
        let (times, below) = (scale * other.0, least * other.1);
        to.extend(codes.iter().map(|code| times * f32::from(code >> 4) - below));
    }
}

/// Reads a block of Q6_K.
pub(crate) fn q6_k(block: &[u8; Q6_K], to: &mut Vec<f32>) {
    let Some((low, rest)) = block.split_first_chunk::<128>() else { return };
    let Some((high, rest)) = rest.split_first_chunk::<64>() else { return };
    let Some((scales, [d0, d1])) = rest.split_first_chunk::<16>() else { return };
    let scale = half_of([*d0, *d1]);
    let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0).zip(scales.as_chunks::<8>().0);
    for ((low, high), scales) in halves {
        let (first, second) = low.split_at(32);
        // Four quarters of 32: the low bits of the first and second half, then their high ones, with two bits more of `high` each.
        let quarters = [(first, 0), (second, 0), (first, 4), (second, 4)];
        for (quarter, (low, shift)) in quarters.into_iter().enumerate() {
            for (place, (low, high)) in low.iter().zip(high).enumerate() {
                let code = (low >> shift & 0xf) | (high >> (2 * quarter) & 3) << 4;
                let of_sixteen = scales.get(2 * quarter + place / 16).copied().unwrap_or_default().cast_signed();
                to.push(scale * f32::from(of_sixteen) * f32::from(code.cast_signed() - 32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_four_bits_have_their_halves_in_both_nibbles() {
        let mut block = [0u8; Q4_0];
        block[..2].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
        block[2] = 0x1f;
        block[17] = 0x80;
        let (codes, scale) = q4_0(&block);
        assert_eq!((codes[0], codes[16], codes[15], codes[31], codes[1]), (7, -7, -8, 0, -8));
        assert_eq!(half::f16::from_bits(scale).to_f32(), 0.5);
    }

    #[test]
    fn scales_of_six_bits_are_unpacked() {
        let mut packed = [0u8; 12];
        packed[1] = 0b10_000101;
        packed[5] = 0b11_000111;
        packed[9] = 0b0110_0011;
        assert_eq!(of_part(1, &packed), (5.0, 7.0));
        assert_eq!(of_part(5, &packed), (f32::from(0b10_0011u8), f32::from(0b11_0110u8)));
    }
}
