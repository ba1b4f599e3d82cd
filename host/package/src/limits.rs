//! Limits that a plugin sets itself, below those of the host.

use crate::Kind;
use clawhost_core::Limits;
use serde::{Deserialize, Serialize};

/// The table `[limits]`: what the plugin promises to need at most. A plugin that exceeds its own limit fails as one that exceeds a limit of
/// the host. A number above the host's changes nothing, because only an operator raises limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSection {
    /// Linear memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Fuel of one call in millions of instructions: of `step`, `score` or `reflect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel_million: Option<u32>,
    /// Fuel of `start` in millions of instructions. Environments only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_fuel_million: Option<u32>,
    /// An observation in KiB. Environments only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation_kib: Option<u32>,
    /// Log lines of an episode or a verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_lines: Option<u32>,
    /// Calls of granted models, of an episode or a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_calls: Option<u32>,
    /// Tokens of granted models, of an episode or a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm_tokens: Option<u64>,
}

/// A limit of a plugin that is above the host's, and so without effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("limits.{key}: found {found}, which is above the host's {most}; a plugin can only lower its limits")]
pub struct LimitAbove {
    /// The key.
    pub key: &'static str,
    /// The plugin's number.
    pub found: u64,
    /// The host's.
    pub most: u64,
}

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const MILLION: u64 = 1_000_000;

/// Lowers a limit to a number of units, if one is given and below it. Returns the host's number if it is above.
fn lower<T>(key: &'static str, found: Option<impl Into<u64>>, unit: u64, limit: &mut T) -> Option<LimitAbove>
where
    T: Copy + TryInto<u64> + TryFrom<u64>,
{
    let found: u64 = found?.into();
    let most: u64 = (*limit).try_into().unwrap_or(u64::MAX);
    let asked = found.saturating_mul(unit);
    if asked > most {
        return Some(LimitAbove { key, found, most: most / unit });
    }
    // It is at most the limit, so it fits the type.
    *limit = T::try_from(asked).unwrap_or(*limit);
    None
}

impl LimitsSection {
    /// The limits of a host for a plugin of this kind, lowered to these.
    pub fn lowered(&self, kind: Kind, host: &Limits) -> Limits {
        self.applied(kind, host).0
    }

    /// Those that are above the host's limits for a plugin of this kind.
    pub fn above(&self, kind: Kind, host: &Limits) -> Vec<LimitAbove> {
        self.applied(kind, host).1
    }

    fn applied(&self, kind: Kind, host: &Limits) -> (Limits, Vec<LimitAbove>) {
        let mut limits = host.clone();
        // Rewards and routers have less memory than the others.
        let memory = match kind {
            Kind::Reward | Kind::Router => &mut limits.reward_memory_bytes,
            Kind::Environment | Kind::Reflector => &mut limits.memory_bytes,
        };
        let memory = lower("memory_mib", self.memory_mib, MIB, memory);
        let call = match kind {
            Kind::Environment => &mut limits.step,
            Kind::Reward => &mut limits.score,
            Kind::Reflector => &mut limits.reflect,
            Kind::Router => &mut limits.route,
        };
        let fuel = lower("fuel_million", self.fuel_million, MILLION, &mut call.fuel);
        if kind == Kind::Reward && self.fuel_million.is_some() && fuel.is_none() {
            // The plugin's number is for a call, however many episodes the group has.
            limits.score_fuel_per_episode = 0;
        }
        let others = [
            lower("start_fuel_million", self.start_fuel_million, MILLION, &mut limits.start.fuel),
            lower("observation_kib", self.observation_kib, KIB, &mut limits.observation_bytes),
            lower("log_lines", self.log_lines, 1, &mut limits.log_lines),
            lower("llm_calls", self.llm_calls, 1, &mut limits.llm_calls),
            lower("llm_tokens", self.llm_tokens, 1, &mut limits.llm_tokens),
        ];
        let above = [memory, fuel].into_iter().chain(others).flatten().collect();
        (limits, above)
    }

    /// The first limit that is zero: nothing works with it.
    pub(crate) fn zero(&self) -> Option<&'static str> {
        let all = [
            ("limits.memory_mib", self.memory_mib.map(u64::from)),
            ("limits.fuel_million", self.fuel_million.map(u64::from)),
            ("limits.start_fuel_million", self.start_fuel_million.map(u64::from)),
            ("limits.observation_kib", self.observation_kib.map(u64::from)),
        ];
        all.into_iter().find(|(_, found)| *found == Some(0)).map(|(key, _)| key)
    }

    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let host = Limits::default();
        let section = LimitsSection {
            memory_mib: Some(16),
            fuel_million: Some(5),
            start_fuel_million: Some(7),
            observation_kib: Some(4),
            log_lines: Some(3),
            llm_calls: Some(2),
            llm_tokens: Some(100),
        };
        let limits = section.lowered(Kind::Environment, &host);
        assert_eq!((limits.memory_bytes, limits.step.fuel, limits.start.fuel), (16 << 20, 5_000_000, 7_000_000));
        assert_eq!((limits.observation_bytes, limits.log_lines), (4096, 3));
        assert_eq!((limits.llm_calls, limits.llm_tokens), (2, 100));
        for kind in Kind::ALL {
            assert_eq!(section.above(kind, &host), []);
            assert_eq!(LimitsSection::default().lowered(kind, &host), host);
        }
        let reward = section.lowered(Kind::Reward, &host);
        assert_eq!(
            (reward.reward_memory_bytes, reward.score.fuel, reward.score_fuel_per_episode),
            (16 << 20, 5_000_000, 0)
        );
        assert_eq!(section.lowered(Kind::Reflector, &host).reflect.fuel, 5_000_000);
        assert_eq!(section.lowered(Kind::Router, &host).route.fuel, 5_000_000);
    }

    #[test]
    fn a_limit_above_the_hosts_for_that_kind_changes_nothing_and_is_named() {
        let host = Limits::default();
        let check = |kind: Kind, section: LimitsSection, expect: &str| {
            let above: Vec<String> = section.above(kind, &host).iter().map(ToString::to_string).collect();
            assert_eq!(above.join("; "), expect);
            if !expect.is_empty() {
                assert_eq!(section.lowered(kind, &host), host);
            }
        };
        let rest = "; a plugin can only lower its limits";
        let memory = |memory| LimitsSection { memory_mib: Some(memory), ..LimitsSection::default() };
        check(
            Kind::Environment,
            memory(65),
            &format!("limits.memory_mib: found 65, which is above the host's 64{rest}"),
        );
        check(Kind::Environment, memory(48), "");
        check(Kind::Reward, memory(48), &format!("limits.memory_mib: found 48, which is above the host's 32{rest}"));
        let fuel = |fuel| LimitsSection { fuel_million: Some(fuel), ..LimitsSection::default() };
        check(Kind::Reflector, fuel(600), "");
        check(Kind::Router, fuel(100), &format!("limits.fuel_million: found 100, which is above the host's 50{rest}"));
    }
}
