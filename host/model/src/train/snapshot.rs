//! A trainer as bytes: weights, moments and counters, as safetensors. Equal states, equal bytes.

use super::optimizer::{OptimizerState, Tensors};
use super::trainer::Trainer;
use crate::network::values;
use crate::{LocalModelError, Weight};
use burn::tensor::{Device, Tensor, TensorData};
use clawhost_core::Digest;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};

/// What is kept beside the tensors.
const FORMAT: &str = "clawhost-trainer-1";

fn damaged(why: impl ToString) -> LocalModelError {
    LocalModelError::Checkpoint(format!("{}; it was written by another version, or damaged", why.to_string()))
}

/// Values and shape of a tensor, on the host.
struct Plain {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn plain(tensor: &Tensors) -> Result<Plain, LocalModelError> {
    let (shape, values) = match tensor {
        Weight::Matrix(matrix) => (matrix.dims().to_vec(), values(matrix)?),
        Weight::Vector(vector) => (vector.dims().to_vec(), values(vector)?),
    };
    Ok(Plain { shape, bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() })
}

fn tensor(view: &TensorView<'_>, device: &Device) -> Result<Tensors, LocalModelError> {
    let value = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).map(f32::from_le_bytes);
    let values = view.data().chunks_exact(4).map(value).collect::<Result<Vec<f32>, _>>().map_err(damaged)?;
    match view.shape() {
        [rows, columns] => Ok(Weight::Matrix(Tensor::from_data(TensorData::new(values, [*rows, *columns]), device))),
        [length] => Ok(Weight::Vector(Tensor::from_data(TensorData::new(values, [*length]), device))),
        other => Err(damaged(format!("a tensor of {} dimensions", other.len()))),
    }
}

impl Trainer {
    /// Everything that [`Trainer::restore`] brings back.
    ///
    /// # Errors
    /// The device gives nothing back.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LocalModelError> {
        let mut tensors: BTreeMap<String, Plain> = BTreeMap::new();
        for (name, weight) in self.network().weights.weights() {
            // Beside an adapter nothing changes.
            let inner = match weight {
                Weight::Matrix(matrix) if matrix.is_require_grad() => Weight::Matrix(matrix.inner()),
                Weight::Vector(vector) if vector.is_require_grad() => Weight::Vector(vector.inner()),
                _ => continue,
            };
            tensors.insert(format!("weight.{name}"), plain(&inner)?);
        }
        for (kind, moments) in [("first", &self.state().first), ("second", &self.state().second)] {
            for (name, moment) in moments {
                tensors.insert(format!("{kind}.{name}"), plain(moment)?);
            }
        }
        let views = tensors
            .iter()
            .map(|(name, one)| Ok((name.clone(), TensorView::new(Dtype::F32, one.shape.clone(), &one.bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(damaged)?;
        // One entry: a map of several would be written in any order.
        let [scheduled, ever] = self.counters();
        let frozen = self.frozen().map(|frozen| format!(" {frozen}")).unwrap_or_default();
        let told = format!("{FORMAT} {} {scheduled} {ever}{frozen}", self.state().steps);
        let metadata = HashMap::from([("state".to_owned(), told)]);
        safetensors::serialize(views, Some(metadata)).map_err(damaged)
    }

    /// Becomes what these bytes hold, and forgets what was added up. Where it fails nothing has changed.
    ///
    /// # Errors
    /// They are no trainer of this model.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), LocalModelError> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let told = metadata.metadata().as_ref().and_then(|known| known.get("state")).map(String::as_str);
        let told: Vec<&str> = told.unwrap_or_default().split(' ').collect();
        let [FORMAT, steps, scheduled, ever, frozen @ ..] = told.as_slice() else {
            return Err(damaged("no state of a trainer"));
        };
        if *frozen != self.frozen().map(|frozen| frozen.to_string()).iter().map(String::as_str).collect::<Vec<_>>() {
            let why = "what the adapter stands beside is not the same, or there all weights learn and here they do not";
            return Err(LocalModelError::Checkpoint(format!("{why}; it is of another model")));
        }
        let number = |text: &str| text.parse::<u64>().map_err(damaged);
        let (steps, scheduled, ever) = (number(steps)?, number(scheduled)?, number(ever)?);
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let device = self.network().device().inner();
        let mut weights = BTreeMap::new();
        let mut state = OptimizerState { steps, ..OptimizerState::default() };
        for (name, view) in tensors.tensors() {
            let (kind, name) = name.split_once('.').ok_or_else(|| damaged("a tensor without a kind"))?;
            let to = match kind {
                "weight" => &mut weights,
                "first" => &mut state.first,
                "second" => &mut state.second,
                _ => return Err(damaged(format!("a tensor of the kind `{}`", clawhost_core::escaped(kind, 40)))),
            };
            to.insert(name.to_owned(), tensor(&view, &device)?);
        }
        self.become_what(weights, state, [scheduled, ever])
    }

    /// Names moments and counters.
    pub fn state_digest(&self) -> Digest {
        // What cannot be read has no name of its own; the step that follows will fail and say why.
        Digest::of(&self.to_bytes().unwrap_or_default())
    }
}
