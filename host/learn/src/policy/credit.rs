//! Credit per turn without a critic. Where observations repeat: group-in-group policy optimisation (GiGPO: Feng et al. 2025).
//!
//! Members of a group meet equal states: the same observation after the same task. The turns in one state are an *anchor group*.
//! With the rewards `r` of the turns and the discount g, a turn is compared by its return
//!
//! ```text
//! R_t = r_t + g r_(t+1) + g^2 r_(t+2) + ...        A = A_episode + weight A_turn
//! ```
//!
//! `A_turn` is the advantage of `R_t` inside of its anchor group, by the same rule as that of the episode inside of its group. A
//! turn in a state that no other turn of the group is in has none. Where no turn has a reward of its own, the last one has that of
//! the episode: then `A_turn` says which way from a state led to more reward, or led there sooner.
//!
//! Where they do not repeat, a judge may say how good each turn was. Then `A_turn` is the advantage of the reward of the turn itself
//! among the rewards of the turns at the same place in the group's episodes: the outcome decides about the episode, and the judge
//! about its turns. A turn whose place only one episode reaches has none.

use super::advantage::{Advantage, GroupAdvantages, group_advantages};
use crate::LearnError;
use clawhost_core::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the tokens of a turn are credited with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credit {
    /// With the advantage of their episode.
    #[default]
    Episode,
    /// With that and the advantage of their turn among turns in the same state.
    Turn(TurnCredit),
    /// With that and the advantage of what a judge says of their turn, among turns at the same place.
    Judge(JudgeCredit),
}

/// The settings of credit by a judge of turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JudgeCredit {
    /// Weight of the advantage of the turn; greater than 0.
    pub weight: f64,
}

/// The settings of credit per turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TurnCredit {
    /// Discount per turn, 0 to 1.
    pub discount: f64,
    /// Weight of the advantage of the turn; greater than 0.
    pub weight: f64,
}

impl Default for TurnCredit {
    /// The published settings: discount .95, weight 1.
    fn default() -> Self {
        Self { discount: 0.95, weight: 1.0 }
    }
}

impl Credit {
    pub(super) fn check(self) -> Result<(), LearnError> {
        let (discount, weight) = match self {
            Self::Episode => return Ok(()),
            Self::Turn(TurnCredit { discount, weight }) => (discount, weight),
            Self::Judge(JudgeCredit { weight }) => (1.0, weight),
        };
        if !(0.0..=1.0).contains(&discount) {
            return Err(LearnError::Objective(format!("the discount per turn is {discount}; expected 0 to 1")));
        }
        if !(weight.is_finite() && weight > 0.0) {
            return Err(LearnError::Objective(format!("the weight of turns is {weight}; expected more than 0")));
        }
        Ok(())
    }
}

/// The turns of one member of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberTurns<'a> {
    /// The state of each turn.
    pub states: &'a [Digest],
    /// The reward of each turn. `None`: the last one has that of the episode.
    pub rewards: Option<&'a [f64]>,
    /// The reward of the episode.
    pub reward: f64,
}

impl MemberTurns<'_> {
    /// The return of each turn.
    fn returns(&self, discount: f64) -> Vec<f64> {
        let turns = self.states.len();
        let outcome = |turn: usize| if turn + 1 == turns { self.reward } else { 0.0 };
        let mut later = 0.0;
        let mut returns: Vec<f64> = (0..turns)
            .rev()
            .map(|turn| {
                let own = self.rewards.map_or_else(|| outcome(turn), |all| all.get(turn).copied().unwrap_or(0.0));
                later = own + discount * later;
                later
            })
            .collect();
        returns.reverse();
        returns
    }
}

/// The weighted advantage of every turn of every member of a group, without that of its episode.
pub fn turn_advantages(settings: TurnCredit, rule: Advantage, group: &[MemberTurns<'_>]) -> Vec<Vec<f64>> {
    let mut anchors: BTreeMap<Digest, Vec<Compared>> = BTreeMap::new();
    for (member, turns) in group.iter().enumerate() {
        for (turn, (state, value)) in turns.states.iter().zip(turns.returns(settings.discount)).enumerate() {
            anchors.entry(*state).or_default().push((member, turn, value));
        }
    }
    compared(settings.weight, rule, group, anchors.into_values())
}

/// The same from what a judge says of each turn.
pub fn judged_advantages(settings: JudgeCredit, rule: Advantage, group: &[MemberTurns<'_>]) -> Vec<Vec<f64>> {
    let mut places: BTreeMap<usize, Vec<Compared>> = BTreeMap::new();
    for (member, turns) in group.iter().enumerate() {
        for (turn, (_, value)) in turns.states.iter().zip(turns.rewards.into_iter().flatten()).enumerate() {
            places.entry(turn).or_default().push((member, turn, *value));
        }
    }
    compared(settings.weight, rule, group, places.into_values())
}

/// A member, its turn, and the number by which it is compared.
type Compared = (usize, usize, f64);

/// Advantages inside of each of some groups of turns.
fn compared(
    weight: f64,
    rule: Advantage,
    group: &[MemberTurns<'_>],
    together: impl Iterator<Item = Vec<Compared>>,
) -> Vec<Vec<f64>> {
    let mut found: Vec<Vec<f64>> = group.iter().map(|turns| vec![0.0; turns.states.len()]).collect();
    for turns in together {
        let values: Vec<f64> = turns.iter().map(|(_, _, value)| *value).collect();
        let GroupAdvantages::Advantages(advantages) = group_advantages(rule, &values) else { continue };
        for ((member, turn, _), advantage) in turns.into_iter().zip(advantages) {
            if let Some(place) = found.get_mut(member).and_then(|turns| turns.get_mut(turn)) {
                *place = weight * advantage;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// States from letters.
    fn states(text: &str) -> Vec<Digest> {
        text.bytes().map(|letter| Digest::of(&[letter])).collect()
    }

    fn check(settings: TurnCredit, rule: Advantage, members: &[(&str, Option<&[f64]>, f64)], expect: &[&[f64]]) {
        let states: Vec<Vec<Digest>> = members.iter().map(|(text, ..)| states(text)).collect();
        let group: Vec<MemberTurns<'_>> = members
            .iter()
            .zip(&states)
            .map(|((_, rewards, reward), states)| MemberTurns { states, rewards: *rewards, reward: *reward })
            .collect();
        let found = turn_advantages(settings, rule, &group);
        assert_eq!(found.len(), expect.len());
        for (found, expect) in found.iter().zip(expect) {
            assert_eq!(found.len(), expect.len());
            let is_close = found.iter().zip(*expect).all(|(found, expect)| (found - expect).abs() < 5e-7);
            assert!(is_close, "{found:?} is not {expect:?}");
        }
    }

    #[test]
    fn advantages_of_turns_equal_the_reference() {
        // Computed by an independent script (float64). Three members; all begin in a, two meet in b, one comes back to a.
        let members: [(&str, Option<&[f64]>, f64); 3] = [("abc", None, 1.0), ("abd", None, 0.0), ("aea", None, 0.5)];
        let usual = TurnCredit::default();
        check(
            usual,
            Advantage::Standardised,
            &members,
            &[&[1.188_745_4, 0.707_001_5, 0.0], &[-1.254_739_8, -0.707_001_5, 0.0], &[-0.032_997_2, 0.0, 0.098_991_6]],
        );
        let rewarded: [(&str, Option<&[f64]>, f64); 3] = [
            ("abc", Some(&[0.1, 0.0, 1.0]), 1.0),
            ("abd", Some(&[0.0, 0.3, 0.0]), 0.0),
            ("aea", Some(&[0.0, 0.2, 0.5]), 0.5),
        ];
        let half = TurnCredit { discount: 0.5, weight: 2.0 };
        check(
            half,
            Advantage::Centred,
            &rewarded,
            &[&[0.0875, 0.2, 0.0], &[-0.3125, -0.2, 0.0], &[-0.1625, 0.0, 0.3875]],
        );
    }

    #[test]
    fn only_turns_in_a_shared_state_are_credited() {
        let usual = TurnCredit { discount: 1.0, weight: 1.0 };
        check(usual, Advantage::Centred, &[("ab", None, 1.0), ("cd", None, 0.0)], &[&[0.0, 0.0], &[0.0, 0.0]]);
        // Only the second turn decides: the shared first one has the same returns as the episodes.
        check(usual, Advantage::Centred, &[("ab", None, 1.0), ("ab", None, 0.0)], &[&[0.5, 0.5], &[-0.5, -0.5]]);
        check(usual, Advantage::Centred, &[("", None, 1.0), ("a", None, 0.0)], &[&[], &[0.0]]);
        let sooner = TurnCredit { discount: 0.5, weight: 1.0 };
        check(sooner, Advantage::Centred, &[("ab", None, 1.0), ("a", None, 1.0)], &[&[-0.25, 0.0], &[0.25]]);
    }

    #[test]
    fn turns_that_a_judge_scored_are_compared_with_those_at_their_place() {
        let check = |weight: f64, members: &[(&str, Option<&[f64]>, f64)], expect: &[&[f64]]| {
            let states: Vec<Vec<Digest>> = members.iter().map(|(text, ..)| states(text)).collect();
            let group: Vec<MemberTurns<'_>> = members
                .iter()
                .zip(&states)
                .map(|((_, rewards, reward), states)| MemberTurns { states, rewards: *rewards, reward: *reward })
                .collect();
            assert_eq!(judged_advantages(JudgeCredit { weight }, Advantage::Centred, &group), expect);
        };
        // Whatever was observed, and whatever the outcomes are. The third turn of one episode meets no other.
        let members: [(&str, Option<&[f64]>, f64); 2] =
            [("ab", Some(&[1.0, 0.0]), 0.0), ("cde", Some(&[0.0, 0.5, 1.0]), 1.0)];
        check(1.0, &members, &[&[0.5, -0.25], &[-0.5, 0.25, 0.0]]);
        check(0.5, &members, &[&[0.25, -0.125], &[-0.25, 0.125, 0.0]]);
        // The judge said nothing of one episode.
        check(1.0, &[("a", Some(&[1.0]), 0.0), ("b", None, 1.0), ("c", Some(&[0.0]), 1.0)], &[&[0.5], &[0.0], &[-0.5]]);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |discount: f64, weight: f64, expect: &str| {
            let error = Credit::Turn(TurnCredit { discount, weight }).check().unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(1.1, 1.0, "discount per turn is 1.1");
        check(0.9, 0.0, "weight of turns is 0");
        let error = Credit::Judge(JudgeCredit { weight: f64::NAN }).check().unwrap_err().to_string();
        assert!(error.contains("weight of turns is NaN"), "{error}");
        assert!(Credit::Episode.check().is_ok() && Credit::Turn(TurnCredit::default()).check().is_ok());
    }
}
