//! How the weights of a local model learn while it serves: the section `[weights]` of `gateway.toml`.

use super::opted_in::OptedIn;
use super::pace::Processors;
use super::windows::{Times, Windows};
use clawhost_core::RewardSource;
use clawhost_learn::memory::ScopeLevel;
use clawhost_learn::policy::LiveSignal;
use clawhost_model::{AdapterSettings, Learned};
use serde::Deserialize;
use std::num::NonZeroU32;

/// Sessions of a step: few enough that a service of some hundred sessions a day learns, and enough for a baseline.
const BATCH: usize = 16;
/// Numbers of them that make sense: one session has no baseline, and more than this is a day of a large service.
const BATCH_RANGE: std::ops::RangeInclusive<usize> = 2..=4096;
/// The learning rate: that of `OpenClaw-RL` for adapters.
const RATE: f64 = 1e-4;
/// How often each session is learned from: as in `OpenClaw-RL`.
const EPOCHS: u32 = 2;
/// Most epochs: the bounds of the objective stop most of what more would do.
const MOST_EPOCHS: u32 = 32;
/// Seconds after its last answer at which a session is taken, with the feedback that it has by then: the half hour for which it may be open, and ten minutes.
const DEADLINE_SECONDS: u64 = 2_400;
/// Longest such time: thirty days.
const LONGEST_DEADLINE_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Seconds after which a batch that is due is trained on in any case: a day.
const OVERDUE_SECONDS: u64 = 24 * 60 * 60;
/// The share of the processors that training may use.
const SHARE: f64 = 0.5;
/// Rank of the adapter that learns, as of `--adapter-rank` in the guide. 0: all weights learn.
const RANK: usize = 16;
/// Longest list of names that is shown.
const SHOWN_BYTES: usize = 200;
/// Largest rank of an adapter.
const MOST_RANK: usize = 1024;

/// How weights learn from live sessions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsSection {
    /// The alias of the served local model that learns. `None`: no weights learn.
    pub model: Option<String>,
    /// Whose sessions they learn from: `all`, `key:NAME` (all behind that key; `key:` without one), or a scope as of memory, `user:KEY/NAME`,
    /// `project:KEY/NAME` or, without a key, `agent:/NAME`. What one of them says changes the answers to all.
    #[serde(default, deserialize_with = "one_or_more")]
    pub from: Vec<String>,
    /// What they learn from: `binary`, `hint` or `combined`.
    pub signal: Option<String>,
    /// Sessions of a step.
    pub batch: Option<usize>,
    /// The learning rate.
    pub rate: Option<f64>,
    /// How often each session is learned from.
    pub epochs: Option<u32>,
    /// Rank of the adapter that learns. 0: all weights.
    pub adapter_rank: Option<usize>,
    /// Whether each `user` or `project` has an adapter of its own, which learns from its sessions and answers them. `None`: one set of weights for all.
    pub adapters: Option<String>,
    /// The teacher of answers with a correction: `openai:MODEL@ADDRESS` of an endpoint that scores given tokens. `None`: the model itself.
    pub teacher: Option<String>,
    /// The sources of the rewards that weights learn from. `None`: users and outcomes.
    pub train_from: Option<Vec<String>>,
    /// Seconds after its last answer at which a session is taken.
    pub deadline_seconds: Option<u64>,
    /// Seconds without a request after which a batch is trained on, also outside of the hours in `quiet`. `None`: without such hours as soon as it is due,
    /// and else in these hours alone.
    pub idle_seconds: Option<u64>,
    /// Hours of the week in which a batch is trained on even if requests come, in UTC: `22:00-06:00`, or `sat,sun 00:00-24:00`. Empty: none.
    #[serde(default, deserialize_with = "one_or_more")]
    pub quiet: Vec<String>,
    /// Seconds after which a batch that is due is trained on in any case.
    pub overdue_seconds: Option<u64>,
    /// The share of the processors that training may use.
    pub processors: Option<f64>,
    /// MiB of memory that a step may need. A step that needs more is not taken. `None`: what is free.
    pub memory_mb: Option<u64>,
}

/// A list of texts, or one text alone.
fn one_or_more<'de, D: serde::Deserializer<'de>>(texts: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum Texts {
        One(String),
        More(Vec<String>),
    }
    Ok(match Texts::deserialize(texts)? {
        Texts::One(text) => vec![text],
        Texts::More(texts) => texts,
    })
}

/// A section with defaults, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightsPlan {
    pub(crate) model: String,
    pub(crate) from: OptedIn,
    pub(crate) signal: LiveSignal,
    pub(crate) batch: usize,
    pub(crate) rate: f64,
    pub(crate) epochs: NonZeroU32,
    pub(crate) learned: Learned,
    /// The level of the scopes of which each has an adapter of its own. `None`: one set of weights for all.
    pub(crate) adapters: Option<ScopeLevel>,
    pub(crate) teacher: Option<String>,
    pub(crate) sources: Vec<RewardSource>,
    pub(crate) deadline_ms: u64,
    /// When a batch is trained on.
    pub(crate) times: Times,
    /// What a step may use of the processors.
    pub(crate) processors: Processors,
    /// Bytes of memory that a step may need. `None`: what is free.
    pub(crate) memory_bytes: Option<u64>,
}

impl WeightsSection {
    /// What is to be done. `None`: no weights learn. The error says what is wrong.
    pub(crate) fn plan(&self) -> Result<Option<WeightsPlan>, String> {
        let Some(model) = self.model.clone() else {
            let other = Self { model: None, ..Self::default() };
            return if *self == other {
                Ok(None)
            } else {
                Err("weights.model: name the alias of the local model that learns".to_owned())
            };
        };
        let signal = match self.signal.as_deref() {
            None | Some("combined") => LiveSignal::Combined,
            Some("binary") => LiveSignal::Binary,
            Some("hint") => LiveSignal::Hint,
            Some(other) => {
                let other = clawhost_core::escaped(other, 60);
                return Err(format!("weights.signal: there is no signal `{other}`; write binary, hint or combined"));
            }
        };
        let batch = self.batch.unwrap_or(BATCH);
        if !BATCH_RANGE.contains(&batch) {
            return Err(format!("weights.batch: must be from {} to {}", BATCH_RANGE.start(), BATCH_RANGE.end()));
        }
        let rate = self.rate.unwrap_or(RATE);
        if !(rate > 0.0 && rate <= 1.0) {
            return Err("weights.rate: must be more than 0 and at most 1".to_owned());
        }
        let epochs = self.epochs.unwrap_or(EPOCHS);
        if !(1..=MOST_EPOCHS).contains(&epochs) {
            return Err(format!("weights.epochs: must be from 1 to {MOST_EPOCHS}"));
        }
        let learned = match self.adapter_rank.unwrap_or(RANK) {
            0 => Learned::Full,
            rank if rank <= MOST_RANK => {
                Learned::Adapter(AdapterSettings { rank, alpha: 2.0 * rank as f64, ..AdapterSettings::default() })
            }
            _ => return Err(format!("weights.adapter_rank: must be from 0 to {MOST_RANK}")),
        };
        let adapters = match self.adapters.as_deref() {
            None => None,
            Some("user") => Some(ScopeLevel::User),
            Some("project") => Some(ScopeLevel::Project),
            Some(other) => {
                let other = clawhost_core::escaped(other, 60);
                return Err(format!("weights.adapters: `{other}` has none of its own; write user or project"));
            }
        };
        if adapters.is_some() && learned == Learned::Full {
            return Err("weights.adapters: an adapter needs a rank; leave out adapter_rank = 0".to_owned());
        }
        let deadline = self.deadline_seconds.unwrap_or(DEADLINE_SECONDS);
        if !(1..=LONGEST_DEADLINE_SECONDS).contains(&deadline) {
            return Err(format!("weights.deadline_seconds: must be from 1 to {LONGEST_DEADLINE_SECONDS}"));
        }
        let share = self.processors.unwrap_or(SHARE);
        if !(share > 0.0 && share <= 1.0) {
            return Err("weights.processors: must be more than 0 and at most 1, the share of the processors".to_owned());
        }
        if self.memory_mb == Some(0) {
            return Err("weights.memory_mb: must be at least 1, in MiB".to_owned());
        }
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        Ok(Some(WeightsPlan {
            model,
            from: OptedIn::of(&self.from).map_err(|why| format!("weights.from: {why}"))?,
            signal,
            batch,
            rate,
            epochs: NonZeroU32::new(epochs).unwrap_or(NonZeroU32::MIN),
            learned,
            adapters,
            teacher: self.teacher.clone(),
            sources: crate::live::learning::sources("weights.train_from", self.train_from.as_deref())?,
            deadline_ms: deadline.saturating_mul(1000),
            times: Times {
                idle_ms: self.idle_seconds.map(|seconds| seconds.saturating_mul(1000)),
                quiet: Windows::of(&self.quiet).map_err(|why| format!("weights.quiet: {why}"))?,
                overdue_ms: self.overdue_seconds.unwrap_or(OVERDUE_SECONDS).saturating_mul(1000),
            },
            processors: Processors::of(processors, share),
            memory_bytes: self.memory_mb.map(|mib| mib.saturating_mul(1 << 20)),
        }))
    }
}

impl WeightsPlan {
    /// What learns from whom, for people.
    pub(crate) fn summary(&self) -> String {
        let from = clawhost_core::escaped(&self.from.described(), SHOWN_BYTES);
        let model = clawhost_core::escaped(&self.model, SHOWN_BYTES);
        format!("{} of {model}, from sessions of {from}, {} of them a step", self.described(), self.batch)
    }

    /// Which weights learn, for people.
    pub(crate) fn described(&self) -> String {
        match (self.learned, self.adapters) {
            (Learned::Full, _) => "all weights".to_owned(),
            (Learned::Adapter(adapter), None) => format!("an adapter of rank {}", adapter.rank),
            (Learned::Adapter(adapter), Some(level)) => {
                format!("an adapter of rank {} for each {}", adapter.rank, level.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::GatewayFile;

    #[test]
    fn values_outside_of_their_ranges_are_refused() {
        let check = |text: &str, part: &str| {
            let why = GatewayFile::parse(&format!("[weights]\n{text}")).map(|file| file.weights);
            match why {
                Ok(section) => assert!(part.is_empty(), "{text}: {section:?}"),
                Err(why) => assert!(!part.is_empty() && why.contains(part), "{text}: {why}"),
            }
        };
        check("", "");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nsignal = \"hint\"\nquiet = [\"sat,sun 00:00-24:00\", \"22:00-06:00\"]",
            "",
        );
        check("model = \"tiny\"\nfrom = \"all\"\nquiet = \"22:00-06:00\"", "");
        check("model = \"tiny\"\nfrom = 1", "a text or a list of texts");
        check("model = \"tiny\"", "weights.from: name who has agreed");
        check("signal = \"hint\"", "weights.model: name the alias");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nsignal = \"opd\"",
            "weights.signal: there is no signal `opd`; write binary, hint",
        );
        check("model = \"tiny\"\nfrom = [\"all\"]\nbatch = 1", "weights.batch: must be from 2 to 4096");
        check("model = \"tiny\"\nfrom = [\"all\"]\nrate = 0", "weights.rate: must be more than 0");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\ndeadline_seconds = 0",
            "weights.deadline_seconds: must be from 1 to 2592000",
        );
        check("model = \"tiny\"\nfrom = [\"all\"]\nepochs = 0", "weights.epochs: must be from 1 to 32");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nadapter_rank = 2000",
            "weights.adapter_rank: must be from 0 to 1024",
        );
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nadapters = \"team\"",
            "weights.adapters: `team` has none of its own; write user or project",
        );
        check("model = \"tiny\"\nfrom = [\"all\"]\nadapters = \"user\"", "");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nadapters = \"user\"\nadapter_rank = 0",
            "weights.adapters: an adapter needs a rank",
        );
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nprocessors = 1.5",
            "weights.processors: must be more than 0 and at most 1",
        );
        check("model = \"tiny\"\nfrom = [\"all\"]\nmemory_mb = 0", "weights.memory_mb: must be at least 1");
        check("model = \"tiny\"\nfrom = [\"all\"]\nmemory_mb = 4096", "");
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\nquiet = [\"nights\"]",
            "weights.quiet: `nights` is no time of the week",
        );
        check(
            "model = \"tiny\"\nfrom = [\"all\"]\ntrain_from = [\"users\"]",
            "weights.train_from: there is no source `users`",
        );
    }
}
