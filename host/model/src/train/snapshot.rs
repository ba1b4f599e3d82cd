//! A trainer as bytes: weights, moments and counters in safetensors. Equal states give equal bytes, on every device.

use super::trainer::Trainer;
use crate::LocalModelError;
use clawhost_core::Digest;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The format's name, beside the tensors.
const FORMAT: &str = "clawhost-trainer-2";

fn damaged(why: impl ToString) -> LocalModelError {
    LocalModelError::Checkpoint(format!("{}; it was written by another version, or damaged", why.to_string()))
}

/// The error for a weight that matches no weight of the model.
pub fn foreign_weight(name: &str) -> LocalModelError {
    LocalModelError::Checkpoint(format!(
        "the weight {name} is missing or has another shape; it belongs to another model"
    ))
}

/// A weight or a moment on the host. A matrix has the shape `[out, in]`.
#[derive(Debug)]
pub struct HostTensor<'a> {
    /// Its one or two dimensions.
    pub shape: Vec<usize>,
    /// Row by row.
    pub values: Cow<'a, [f32]>,
}

impl HostTensor<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.values.len() * size_of::<f32>()];
        let places = bytes.as_chunks_mut::<4>().0;
        places.iter_mut().zip(self.values.iter()).for_each(|(to, value)| *to = value.to_le_bytes());
        bytes
    }
}

/// The state that a step depends on, by the weight's name.
#[derive(Debug, Default)]
pub struct TrainerState<'a> {
    /// Steps that the moments include.
    pub steps: u64,
    /// The weights that learn.
    pub weights: BTreeMap<String, HostTensor<'a>>,
    /// First moments, and Muon's momentum.
    pub first: BTreeMap<String, HostTensor<'a>>,
    /// Second moments.
    pub second: BTreeMap<String, HostTensor<'a>>,
}

fn plain(view: &TensorView<'_>) -> HostTensor<'static> {
    let values = view.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    HostTensor { shape: view.shape().to_vec(), values }
}

impl Trainer {
    /// Everything that [`Trainer::restore`] restores.
    ///
    /// # Errors
    /// The device returns no data.
    pub fn to_bytes(&self) -> Result<Vec<u8>, LocalModelError> {
        let saved = self.saved()?;
        let mut tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
        for (kind, all) in [("weight", &saved.weights), ("first", &saved.first), ("second", &saved.second)] {
            for (name, plain) in all {
                tensors.insert(format!("{kind}.{name}"), (plain.shape.clone(), plain.bytes()));
            }
        }
        let views = tensors
            .iter()
            .map(|(name, (shape, bytes))| Ok((name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(damaged)?;
        // One entry: several would be written in an undefined order.
        let [scheduled, ever] = self.counters();
        let frozen = self.frozen().map(|frozen| format!(" {frozen}")).unwrap_or_default();
        let told = format!("{FORMAT} {} {scheduled} {ever}{frozen}", saved.steps);
        let metadata = HashMap::from([("state".to_owned(), told)]);
        safetensors::serialize(views, Some(metadata)).map_err(damaged)
    }

    /// Restores the state of these bytes, and drops accumulated gradients. An error changes nothing.
    ///
    /// # Errors
    /// They are no state of a trainer of this model.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), LocalModelError> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let told = metadata.metadata().as_ref().and_then(|known| known.get("state")).map(String::as_str);
        let told: Vec<&str> = told.unwrap_or_default().split(' ').collect();
        let [FORMAT, steps, scheduled, ever, frozen @ ..] = told.as_slice() else {
            return Err(damaged("no state of a trainer"));
        };
        if *frozen != self.frozen().map(|frozen| frozen.to_string()).iter().map(String::as_str).collect::<Vec<_>>() {
            let why = "the base weights differ, or only one of the two trains all weights";
            return Err(LocalModelError::Checkpoint(format!("{why}; it belongs to another model")));
        }
        let number = |text: &str| text.parse::<u64>().map_err(damaged);
        let (steps, scheduled, ever) = (number(steps)?, number(scheduled)?, number(ever)?);
        let tensors = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let mut saved = TrainerState { steps, ..TrainerState::default() };
        for (name, view) in tensors.tensors() {
            let (kind, name) = name.split_once('.').ok_or_else(|| damaged("a tensor without a kind"))?;
            let to = match kind {
                "weight" => &mut saved.weights,
                "first" => &mut saved.first,
                "second" => &mut saved.second,
                _ => return Err(damaged(format!("a tensor of the kind `{}`", clawhost_core::escaped(kind, 40)))),
            };
            if view.dtype() != Dtype::F32 {
                return Err(damaged(format!("a tensor of {:?}", view.dtype())));
            }
            to.insert(name.to_owned(), plain(&view));
        }
        for moments in [&saved.first, &saved.second] {
            let fits = |(name, moment): (&String, &HostTensor<'_>)| {
                saved.weights.get(name).is_some_and(|one| one.shape == moment.shape)
            };
            if let Some((name, _)) = moments.iter().find(|one| !fits((one.0, one.1))) {
                return Err(damaged(format!("a moment of `{}` that fits no weight", clawhost_core::escaped(name, 80))));
            }
        }
        self.resume(saved, [scheduled, ever])
    }

    /// The digest of moments and counters, computed once per step.
    pub fn state_digest(&self) -> Digest {
        *self.known_digest().get_or_init(|| {
            // An unreadable state has no digest. The following step fails with the reason.
            let saved = self.saved().unwrap_or_default();
            let told = format!("{FORMAT} {} {:?}", saved.steps, self.counters());
            let moments = [("first", &saved.first), ("second", &saved.second)];
            moments.into_iter().fold(Digest::of(told.as_bytes()), |digest, (kind, all)| {
                all.iter().fold(digest, |digest, (name, plain)| {
                    digest.extended(format!("{kind}.{name}").as_bytes()).extended(&plain.bytes())
                })
            })
        })
    }
}
