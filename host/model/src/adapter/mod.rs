//! Adapters (LoRA, Hu et al. 2021): two thin matrices beside a projection. The matrices are trained; the base weights
//! are not.
//!
//! A is initialised uniformly in ±1/√in, as PEFT's Kaiming initialisation does, and B with 0, so a fresh adapter
//! changes nothing. Folders have PEFT's format, for reading and writing: [`AdapterFolder`].

mod folder;
mod merge;
#[cfg(test)]
mod tests;

pub use folder::AdapterFolder;

use crate::host_weights::Stream;
use crate::{HostDecoder, HostMatrix, LocalModelError, LowRank};
use serde::{Serialize, Serializer};

/// The projections of a block, by the short names of PEFT's `target_modules`.
pub const PROJECTIONS: [&str; 7] = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
/// Largest rank. Beyond it an adapter is no smaller than its projection.
const LARGEST_RANK: usize = 1024;

/// Which projections of every block have adapters; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets([bool; 7]);

impl Targets {
    /// All seven.
    pub const ALL: Self = Self([true; 7]);

    /// By their short names.
    ///
    /// # Errors
    /// A name is unknown, or there is none.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, LocalModelError> {
        let mut chosen = [false; 7];
        for name in names {
            let place = PROJECTIONS.iter().position(|known| *known == name).ok_or_else(|| {
                let (name, known) = (clawhost_core::escaped(name, 80), PROJECTIONS.join(", "));
                LocalModelError::Adapter(format!("there is no projection `{name}`; a block has {known}"))
            })?;
            chosen.get_mut(place).into_iter().for_each(|chosen| *chosen = true);
        }
        if chosen == [false; 7] {
            return Err(LocalModelError::Adapter("no projection is named; an adapter needs at least one".into()));
        }
        Ok(Self(chosen))
    }

    /// Their short names, in the order of [`PROJECTIONS`].
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        PROJECTIONS.into_iter().zip(self.0).filter_map(|(name, chosen)| chosen.then_some(name))
    }

    fn has(&self, name: &str) -> bool {
        self.names().any(|one| one == name)
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// The settings of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AdapterSettings {
    /// Rows of A, columns of B; 1 to 1024.
    pub rank: usize,
    /// The adapter's output is multiplied by alpha / rank. Above 0.
    pub alpha: f64,
    /// The projections that have an adapter.
    pub targets: Targets,
    /// The seed of a fresh adapter.
    pub seed: u64,
}

impl Default for AdapterSettings {
    /// Rank 16, alpha 32, all projections: if all are adapted, a low rank learns from rewards as well as full
    /// fine-tuning does.
    fn default() -> Self {
        Self { rank: 16, alpha: 32.0, targets: Targets::ALL, seed: 0 }
    }
}

impl AdapterSettings {
    /// Attaches a fresh adapter to a model. An adapter that the model already has is replaced. Equal seeds give equal
    /// bytes.
    ///
    /// # Errors
    /// The rank or alpha is out of range.
    pub fn attach(&self, model: &HostDecoder) -> Result<HostDecoder, LocalModelError> {
        let Self { rank, alpha, targets, seed } = *self;
        if !((1..=LARGEST_RANK).contains(&rank) && alpha.is_finite() && alpha > 0.0) {
            let why =
                format!("a rank of {rank} and an alpha of {alpha}; the rank is 1 to {LARGEST_RANK}, alpha over 0");
            return Err(LocalModelError::Adapter(why));
        }
        let mut model = model.without_adapters();
        for (number, block) in model.blocks.iter_mut().enumerate() {
            for (name, projection) in block.projections_mut().into_iter().filter(|(name, _)| targets.has(name)) {
                let [out, input] = projection.weight.shape;
                let bound = 1.0 / (input as f64).sqrt();
                let mut stream = Stream::of(seed, &format!("adapter {number} {name}"));
                let a = (0..rank * input).map(|_| ((stream.uniform() * 2.0 - 1.0) * bound) as f32).collect();
                projection.adapter = Some(LowRank {
                    a: HostMatrix::new(name, [rank, input], a)?,
                    b: HostMatrix::new(name, [out, rank], vec![0.0; out * rank])?,
                    scale: alpha / rank as f64,
                });
            }
        }
        Ok(model)
    }
}

/// Which weights of a model learn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Learned {
    /// All of them.
    #[default]
    Full,
    /// An adapter: the one that the model has, or a fresh one with these settings.
    Adapter(AdapterSettings),
}
