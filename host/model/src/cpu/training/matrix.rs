//! A matrix in both passes: laid out for each of them if it learns, else as it is kept.

use crate::cpu::elementwise::add;
use crate::cpu::{Laid, Panels};
use crate::host_weights::HostMatrix;
use std::sync::Arc;

/// A matrix `[outputs, inputs]`.
#[derive(Debug)]
pub(super) enum Matrix {
    /// Its values change with every step: laid out in f32 for each direction, 8 bytes a weight.
    Learned {
        /// Forward: `x Wᵀ`.
        rows: Panels,
        /// Backward: `dy W`.
        columns: Panels,
    },
    /// Shared with the model that answers, in its format. Products have the bits of the same numbers in f32.
    Frozen(Arc<Laid>),
}

impl Matrix {
    pub(super) fn of(matrix: &HostMatrix, learns: bool) -> Self {
        if !learns {
            return Self::Frozen(matrix.laid());
        }
        let values = matrix.values();
        Self::Learned {
            rows: Panels::of_rows(&values, matrix.shape),
            columns: Panels::of_columns(&values, matrix.shape),
        }
    }

    pub(super) fn shape(&self) -> [usize; 2] {
        match self {
            Self::Learned { rows, .. } => [rows.outputs, rows.inputs],
            Self::Frozen(laid) => [laid.outputs, laid.inputs],
        }
    }

    /// `x Wᵀ` on the current thread, which is written to `out` or added.
    pub(super) fn product<const ADD: bool>(&self, x: &[f32], out: &mut [f32]) {
        match self {
            Self::Learned { rows, .. } => rows.product::<ADD>(x, out),
            Self::Frozen(laid) if ADD => {
                let mut more = vec![0.0; out.len()];
                laid.multiply(x, &mut more, false);
                add(out, &more);
            }
            Self::Frozen(laid) => laid.multiply(x, out, false),
        }
    }

    /// `dy W` on the current thread, which is written to `out` or added.
    pub(super) fn back_product<const ADD: bool>(&self, dy: &[f32], out: &mut [f32]) {
        match self {
            Self::Learned { columns, .. } => columns.product::<ADD>(dy, out),
            Self::Frozen(laid) => {
                if !ADD {
                    out.fill(0.0);
                }
                laid.add_back(dy, out);
            }
        }
    }
}
