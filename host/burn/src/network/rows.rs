//! The sequences of a batch as rows of tokens on a device.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Added to a masked score. Its softmax weight becomes exactly 0.
pub(super) const MASKED: f32 = -1e30;

/// The place of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its row.
    pub row: usize,
    /// Its first position in the row.
    pub start: usize,
    /// Number of its tokens.
    pub length: usize,
}

/// Sequences in rows of equal length.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Number of rows, and their length.
    pub shape: [usize; 2],
    /// The tokens: `[rows, length]`, with 0 as padding.
    pub tokens: Tensor<2, Int>,
    /// Positions in their sequences, row by row.
    pub positions: Vec<u32>,
    /// `[rows or 1, 1, length, length]`: 0 where the column may be seen from the row, [`MASKED`] elsewhere.
    pub bias: Tensor<4>,
    /// The place of each sequence, in the order of the input.
    pub places: Vec<Place>,
}

impl Rows {
    /// One sequence per row, padded on the right.
    pub fn padded(sequences: &[&[u32]], device: &Device) -> Self {
        let length = sequences.iter().map(|tokens| tokens.len()).max().unwrap_or(0).max(1);
        let place = |(row, tokens): (usize, &&[u32])| Place { row, start: 0, length: tokens.len() };
        let places: Vec<Place> = sequences.iter().enumerate().map(place).collect();
        Self::laid(sequences, places, [sequences.len().max(1), length], device)
    }

    /// Packs as many sequences into each row as fit into `length`, the longest first. A sequence attends only to itself.
    pub fn packed(sequences: &[&[u32]], length: usize, device: &Device) -> Self {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        let of = |index: usize| sequences.get(index).map_or(0, |tokens| tokens.len());
        order.sort_by_key(|index| std::cmp::Reverse(of(*index)));
        let length = length.max(order.first().map_or(0, |index| of(*index))).max(1);
        let mut used: Vec<usize> = Vec::new();
        let mut places = vec![Place { row: 0, start: 0, length: 0 }; sequences.len()];
        for index in order {
            let wanted = of(index);
            let row = used.iter().position(|used| used + wanted <= length).unwrap_or_else(|| {
                used.push(0);
                used.len() - 1
            });
            if let (Some(used), Some(place)) = (used.get_mut(row), places.get_mut(index)) {
                *place = Place { row, start: *used, length: wanted };
                *used += wanted;
            }
        }
        Self::laid(sequences, places, [used.len().max(1), length], device)
    }

    fn laid(sequences: &[&[u32]], places: Vec<Place>, shape: [usize; 2], device: &Device) -> Self {
        let [count, length] = shape;
        let mut tokens = vec![0i32; count * length];
        let mut positions = vec![0u32; count * length];
        // Padding attends to itself, so that no softmax is empty.
        let mut owner = vec![0usize; count * length];
        for (number, (place, sequence)) in (1..).zip(places.iter().zip(sequences)) {
            let start = place.row * length + place.start;
            let cells = tokens.iter_mut().zip(&mut positions).zip(&mut owner).skip(start);
            for ((((token, position), owner), given), index) in cells.zip(*sequence).zip(0u32..) {
                (*token, *position, *owner) = (*given as i32, index, number);
            }
        }
        let one_each = places.len() == count && places.iter().all(|place| place.start == 0);
        let bias = if one_each { causal(length, device) } else { apart(&owner, shape, device) };
        Self { shape, tokens: Tensor::from_data(TensorData::new(tokens, shape), device), positions, bias, places }
    }
}

/// A causal mask. Padding after a sequence comes later than all its tokens, so it is masked as well.
fn causal(length: usize, device: &Device) -> Tensor<4> {
    let bias: Vec<f32> =
        (0..length).flat_map(|row| (0..length).map(move |column| if column <= row { 0.0 } else { MASKED })).collect();
    Tensor::from_data(TensorData::new(bias, [1, 1, length, length]), device)
}

/// A causal mask that also separates the sequences of a row.
fn apart(owner: &[usize], [count, length]: [usize; 2], device: &Device) -> Tensor<4> {
    let mut bias = Vec::with_capacity(count * length * length);
    for owners in owner.chunks(length) {
        for (row, mine) in owners.iter().enumerate() {
            let sees =
                |(column, theirs): (usize, &usize)| column == row || (column < row && mine == theirs && *mine != 0);
            bias.extend(owners.iter().enumerate().map(|cell| if sees(cell) { 0.0 } else { MASKED }));
        }
    }
    Tensor::from_data(TensorData::new(bias, [count, 1, length, length]), device)
}
