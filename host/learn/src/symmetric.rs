//! Small symmetric matrices that rows can be added to and removed from.

use serde::{Deserialize, Serialize};

/// A symmetric matrix, stored as the rows of its lower triangle: row n has n + 1 cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Vec<f64>>", into = "Vec<Vec<f64>>")]
pub(crate) struct Symmetric(Vec<Vec<f64>>);

impl TryFrom<Vec<Vec<f64>>> for Symmetric {
    type Error = String;

    fn try_from(rows: Vec<Vec<f64>>) -> Result<Self, String> {
        match rows.iter().enumerate().find(|(at, row)| row.len() != at + 1) {
            Some((at, row)) => Err(format!("row {} of a triangle has {} numbers", at + 1, row.len())),
            None => Ok(Self(rows)),
        }
    }
}

impl From<Symmetric> for Vec<Vec<f64>> {
    fn from(matrix: Symmetric) -> Self {
        matrix.0
    }
}

impl Symmetric {
    /// Zeros, with this many rows.
    pub(crate) fn zeros(order: usize) -> Self {
        Self((1..=order).map(|cells| vec![0.0; cells]).collect())
    }

    /// Number of rows.
    pub(crate) fn order(&self) -> usize {
        self.0.len()
    }

    /// Inserts a row and column of zeros at this index, or at the end.
    pub(crate) fn insert(&mut self, at: usize) {
        let at = at.min(self.0.len());
        self.0.iter_mut().skip(at).for_each(|row| row.insert(at, 0.0));
        self.0.insert(at, vec![0.0; at + 1]);
    }

    /// Removes a row and its column, if they exist.
    pub(crate) fn remove(&mut self, at: usize) {
        if at < self.0.len() {
            self.0.remove(at);
            self.0.iter_mut().skip(at).for_each(|row| {
                row.remove(at);
            });
        }
    }

    /// Adds to the cell at this row and column and to its mirror image.
    pub(crate) fn add(&mut self, row: usize, column: usize, value: f64) {
        if let Some(cell) = self.0.get_mut(row.max(column)).and_then(|line| line.get_mut(row.min(column))) {
            *cell += value;
        }
    }

    /// Multiplies every cell.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().flatten().for_each(|cell| *cell *= factor);
    }

    /// Adds another matrix, of at most this order.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (row, other) in self.0.iter_mut().zip(&other.0) {
            row.iter_mut().zip(other).for_each(|(cell, other)| *cell += other);
        }
    }

    /// Adds `weight v v'`.
    pub(crate) fn add_square(&mut self, v: &[f64], weight: f64) {
        for (row, own) in self.0.iter_mut().zip(v) {
            let own = weight * own;
            row.iter_mut().zip(v).for_each(|(cell, other)| *cell += own * other);
        }
    }

    /// The solution `x` of `(M + ridge I) x = right`. The matrix must be positive semidefinite, and `ridge` greater than 0.
    pub(crate) fn solve(&self, ridge: f64, right: &[f64]) -> Vec<f64> {
        let factor = self.cholesky(ridge);
        let mut solution: Vec<f64> = Vec::with_capacity(factor.len());
        for (row, value) in factor.iter().zip(right) {
            let known: f64 = row.iter().zip(&solution).map(|(cell, earlier)| cell * earlier).sum();
            solution.push((value - known) / row.last().copied().unwrap_or(1.0));
        }
        for (at, row) in factor.iter().enumerate().rev() {
            let (earlier, own) = solution.split_at_mut(at);
            let Some(own) = own.first_mut() else { continue };
            *own /= row.last().copied().unwrap_or(1.0);
            earlier.iter_mut().zip(row).for_each(|(value, cell)| *value -= cell * *own);
        }
        solution
    }

    /// `v' M v`.
    pub(crate) fn quadratic(&self, v: &[f64]) -> f64 {
        let lines = self.0.iter().zip(v).map(|(row, own)| {
            let to_diagonal: f64 = row.iter().zip(v).map(|(cell, other)| cell * other).sum();
            let diagonal = row.last().copied().unwrap_or_default() * own;
            own * (2.0 * to_diagonal - diagonal)
        });
        lines.sum()
    }

    /// The inverse of this matrix plus `ridge` (greater than 0) on its diagonal, in full. The matrix must be positive
    /// semidefinite.
    pub(crate) fn inverse(&self, ridge: f64) -> Vec<Vec<f64>> {
        let factor = self.cholesky(ridge);
        // The inverse of the factor, row by row; it is triangular too.
        let mut triangle: Vec<Vec<f64>> = Vec::with_capacity(factor.len());
        for row in &factor {
            let diagonal = row.last().copied().unwrap_or(1.0);
            let mut inverse = vec![0.0; row.len()];
            for (weight, earlier) in row.iter().zip(&triangle) {
                inverse.iter_mut().zip(earlier).for_each(|(cell, value)| *cell -= weight * value / diagonal);
            }
            if let Some(last) = inverse.last_mut() {
                *last = 1.0 / diagonal;
            }
            triangle.push(inverse);
        }
        let mut full = vec![vec![0.0; factor.len()]; factor.len()];
        for row in &triangle {
            for (line, left) in full.iter_mut().zip(row) {
                line.iter_mut().zip(row).for_each(|(cell, right)| *cell += left * right);
            }
        }
        full
    }

    /// The lower Cholesky factor of this matrix plus `ridge` on its diagonal.
    fn cholesky(&self, ridge: f64) -> Vec<Vec<f64>> {
        let mut factor: Vec<Vec<f64>> = Vec::with_capacity(self.0.len());
        for own in &self.0 {
            let mut row = Vec::with_capacity(own.len());
            for (cell, earlier) in own.iter().zip(&factor) {
                let known: f64 = row.iter().zip(earlier).map(|(one, other)| one * other).sum();
                row.push((cell - known) / earlier.last().copied().unwrap_or(1.0));
            }
            let known: f64 = row.iter().map(|value| value * value).sum();
            // Rounding may leave less than the ridge on the diagonal.
            row.push((own.last().copied().unwrap_or_default() + ridge - known).max(ridge * 1e-3).sqrt());
            factor.push(row);
        }
        factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn pairs(order: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..order).flat_map(move |row| (0..order).map(move |column| (row, column)))
    }

    /// A sum of squares, as this type and in full.
    fn random(order: usize, random: &mut Random) -> (Symmetric, Vec<Vec<f64>>) {
        let mut matrix = Symmetric::default();
        (0..order).for_each(|at| matrix.insert(at));
        let mut full = vec![vec![0.0; order]; order];
        for _ in 0..2 * order + 1 {
            let x: Vec<f64> = (0..order).map(|_| random.normal()).collect();
            for (row, column) in pairs(order) {
                full[row][column] += x[row] * x[column];
            }
            pairs(order)
                .filter(|(row, column)| column >= row)
                .for_each(|(row, column)| matrix.add(row, column, x[row] * x[column]));
        }
        (matrix, full)
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        for order in [0, 1, 2, 7, 40] {
            let (matrix, mut full) = random(order, &mut Random(order as u64));
            (0..order).for_each(|at| full[at][at] += 0.5);
            let inverse = matrix.inverse(0.5);
            for (row, column) in pairs(order) {
                let product: f64 = (0..order).map(|at| full[row][at] * inverse[at][column]).sum();
                let expect = if row == column { 1.0 } else { 0.0 };
                assert!((product - expect).abs() < 1e-9, "{order}: {row}, {column}: {product}");
            }
        }
    }

    #[test]
    fn the_ridge_makes_a_singular_matrix_invertible() {
        let mut matrix = Symmetric::default();
        (0..2).for_each(|at| matrix.insert(at));
        [(0, 0), (0, 1), (1, 1)].into_iter().for_each(|(row, column)| matrix.add(row, column, 100.0));
        let inverse = matrix.inverse(1e-6);
        assert!(inverse.iter().flatten().all(|value| value.is_finite()), "{inverse:?}");
        // So large that the ridge is lost to rounding.
        for size in 1..100 {
            let mut matrix = Symmetric::default();
            (0..3).for_each(|at| matrix.insert(at));
            pairs(3)
                .filter(|(row, column)| column <= row)
                .for_each(|(row, column)| matrix.add(row, column, 1e12 / f64::from(size)));
            let inverse = matrix.inverse(1e-6);
            assert!(inverse.iter().flatten().all(|value| value.is_finite()), "{size}: {inverse:?}");
        }
    }

    #[test]
    fn a_solution_times_the_matrix_is_the_right_side() {
        for order in [0, 1, 2, 7, 17] {
            let (matrix, full) = random(order, &mut Random(order as u64));
            let right: Vec<f64> = (0..order).map(|at| at as f64 - 1.5).collect();
            let solution = matrix.solve(0.5, &right);
            for row in 0..order {
                let product: f64 = (0..order).map(|at| full[row][at] * solution[at]).sum();
                assert!((product + 0.5 * solution[row] - right[row]).abs() < 1e-9, "{order}: {row}: {product}");
            }
        }
    }

    #[test]
    fn a_square_is_added_with_its_weight_and_cells_are_scaled() {
        let mut matrix = Symmetric::default();
        (0..2).for_each(|at| matrix.insert(at));
        matrix.add_square(&[2.0, 3.0], 0.5);
        assert_eq!(matrix.0, [vec![2.0], vec![3.0, 4.5]]);
        matrix.scale(2.0);
        assert_eq!(matrix.0, [vec![4.0], vec![6.0, 9.0]]);
    }

    #[test]
    fn a_quadratic_form_counts_both_triangles() {
        let (matrix, full) = random(5, &mut Random(3));
        let v = [1.0, -2.0, 0.5, 0.0, 3.0];
        let expect: f64 = pairs(5).map(|(row, column)| v[row] * full[row][column] * v[column]).sum();
        assert!((matrix.quadratic(&v) - expect).abs() < 1e-9);
    }

    #[test]
    fn insert_and_remove_keep_the_other_cells() {
        let (original, _) = random(4, &mut Random(4));
        for at in 0..=4 {
            let mut matrix = original.clone();
            matrix.insert(at);
            assert_ne!(matrix, original);
            matrix.add(at, 0, 9.0);
            matrix.add(4, at, 9.0);
            matrix.remove(at);
            assert_eq!(matrix, original, "at {at}");
        }
        let mut matrix = original.clone();
        matrix.remove(4);
        matrix.add(7, 0, 1.0);
        assert_eq!(matrix, original, "indices out of range are ignored");
    }

    #[test]
    fn only_triangular_rows_deserialise() {
        let check = |text: &str, expect: bool| {
            assert_eq!(serde_json::from_str::<Symmetric>(text).is_ok(), expect, "{text}");
        };
        check("[]", true);
        check("[[1.5]]", true);
        check("[[1.5],[0.0,2.0]]", true);
        check("[[]]", false);
        check("[[1.5],[0.0]]", false);
        check("[[1.5],[0.0,2.0,3.0]]", false);
    }
}
