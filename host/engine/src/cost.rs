//! Estimates what compiling a function costs, from its instructions alone. Equal bytes give equal estimates on every machine.

use std::collections::BTreeSet;
use wasmparser::Operator;

/// What compiling one function costs, in instructions of ordinary code: about 4 µs of processor time each in a released program.
///
/// Measured with Cranelift 0.135 on SDK guests, a QuickJS, a CPython, and functions made to be expensive. Three terms explain them:
/// instructions; the square of the instructions that may trap or branch, because each of them splits a block; and blocks times variables,
/// because every variable is followed through every block.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    instructions: usize,
    /// Instructions that may trap or branch.
    splits: usize,
    blocks: usize,
    variables: BTreeSet<u32>,
}

/// Splits whose square costs as much as one instruction: 1,500 were measured.
const SPLITS: usize = 1_000;

/// Pairs of a block and a variable that cost as much as one instruction.
const PAIRS: usize = 5;

impl Cost {
    /// Counts an instruction.
    pub(crate) fn take(&mut self, operator: &Operator<'_>) {
        self.instructions += 1;
        match operator {
            Operator::LocalGet { local_index }
            | Operator::LocalSet { local_index }
            | Operator::LocalTee { local_index } => {
                self.variables.insert(*local_index);
            }
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                self.splits += 1;
                self.blocks += 1;
            }
            // Division by zero, and overflow.
            Operator::I32DivS | Operator::I32RemS | Operator::I64DivS | Operator::I64RemS => self.splits += 2,
            other => self.splits += usize::from(!is_plain(other)),
        }
    }

    /// The estimate for all instructions so far.
    pub(crate) fn of_function(&self) -> usize {
        let splits = self.splits.saturating_mul(self.splits) / SPLITS;
        let followed = self.blocks.saturating_mul(self.variables.len()) / PAIRS;
        self.instructions.saturating_add(splits).saturating_add(followed)
    }
}

/// Instructions that neither trap nor branch, of those that are frequent. Others count as if they did.
fn is_plain(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::I32Const { .. }
            | O::I64Const { .. }
            | O::F32Const { .. }
            | O::F64Const { .. }
            | O::Call { .. }
            | O::GlobalGet { .. }
            | O::GlobalSet { .. }
            | O::Drop
            | O::Select
            | O::Nop
            | O::End
            | O::Return
            | O::I32Eqz
            | O::I32Eq
            | O::I32Ne
            | O::I32LtS
            | O::I32LtU
            | O::I32GtS
            | O::I32GtU
            | O::I32LeS
            | O::I32LeU
            | O::I32GeS
            | O::I32GeU
            | O::I64Eqz
            | O::I64Eq
            | O::I64Ne
            | O::I64LtS
            | O::I64LtU
            | O::I64GtS
            | O::I64GtU
            | O::I64LeS
            | O::I64LeU
            | O::I64GeS
            | O::I64GeU
            | O::I32Add
            | O::I32Sub
            | O::I32Mul
            | O::I32And
            | O::I32Or
            | O::I32Xor
            | O::I32Shl
            | O::I32ShrS
            | O::I32ShrU
            | O::I32Rotl
            | O::I32Rotr
            | O::I64Add
            | O::I64Sub
            | O::I64Mul
            | O::I64And
            | O::I64Or
            | O::I64Xor
            | O::I64Shl
            | O::I64ShrS
            | O::I64ShrU
            | O::I64Rotl
            | O::I64Rotr
            | O::I32WrapI64
            | O::I64ExtendI32S
            | O::I64ExtendI32U
    )
}
