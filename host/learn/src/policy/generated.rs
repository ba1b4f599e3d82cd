//! Converts a recorded episode into training data: the exact sampled tokens, never re-tokenised text.
//!
//! Usually the prompt of a turn begins with all earlier tokens, so one sequence contains all turns. Where it does not (a
//! template that drops reasoning, a shortened conversation), a new sequence starts.

use super::{Recorded, Sampling};
use clawhost_core::{Digest, Ending, Episode, GrammarRecord, Message, TaughtToken, Turn, Verdict, standing};

/// Consecutive tokens of prompts and replies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GeneratedSequence {
    /// The token ids.
    pub tokens: Vec<u32>,
    /// True where the model sampled the token.
    pub mask: Vec<bool>,
}

impl GeneratedSequence {
    /// Of what is known of every token from the second on, the part that belongs to sampled tokens. Nothing predicts the first token.
    pub fn of_sampled<T>(&self, scored: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let places = scored.into_iter().zip(self.mask.iter().skip(1));
        places.filter(|(_, is_sampled)| **is_sampled).map(|(one, _)| one)
    }
}

/// The tokens that a local model sampled in one episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Sequences in the order of the turns.
    pub sequences: Vec<GeneratedSequence>,
    /// Log-probs of the sampled tokens under the sampling distribution, nats.
    pub rollout: Vec<f32>,
    /// For each turn, the number of sampled tokens up to its end.
    pub turn_ends: Vec<usize>,
    /// The state of each turn: the digest of what the policy observed before it.
    pub states: Vec<Digest>,
    /// Reward of each turn, if a reward judged turns.
    pub turn_rewards: Option<Vec<f64>>,
    /// Sampling temperature; 0 is greedy decoding, which gives no importance ratios.
    pub temperature: f32,
    /// The oldest version of the weights that sampled in the episode.
    pub version: u64,
    /// Whether the sampling distribution was changed by anything that training does not compute again: top-k, top-p, min-p, penalties, bias, or a grammar
    /// whose masks nobody can compute again.
    pub restricted: bool,
    /// The grammar of the answer of each turn. Empty: no answer had one.
    pub grammars: Vec<Option<GrammarRecord>>,
    /// Whether a limit of turns or tokens ended the episode.
    pub truncated: bool,
    /// What a teacher says of the sampled tokens, one by one. Empty: none was asked.
    pub taught: Vec<TaughtToken>,
    /// Whether the episode has no reward, and only its teacher has something to say of it.
    pub unrewarded: bool,
}

/// The digest of the texts of an observation.
fn state<'a>(observed: impl Iterator<Item = &'a Message>) -> Digest {
    let texts: Vec<String> = observed.map(Message::plain_text).collect();
    // Divided by a character that no text has, so that equal digests mean equal texts.
    Digest::of(texts.join("\0").as_bytes())
}

/// The rewards of the turns of an episode: the weighted mean of all verdicts that count and have one number for each turn, whatever
/// their source. The sources decide about the episode: a judge may say something of turns beside an outcome.
fn turn_rewards(episode: &Episode) -> Option<Vec<f64>> {
    let turns = episode.turns.len();
    let (mut sums, mut weights) = (vec![0.0; turns], 0.0);
    for record in standing(&episode.verdicts).filter(|record| record.counts()) {
        let Verdict::Scored(card) = &record.verdict else { continue };
        if turns > 0 && card.per_turn.len() == turns {
            sums.iter_mut().zip(&card.per_turn).for_each(|(sum, value)| *sum += record.weight * value);
            weights += record.weight;
        }
    }
    (weights > 0.0).then(|| sums.into_iter().map(|sum| sum / weights).collect())
}

impl Generated {
    /// Extracts the tokens of an episode. `None` if no turn recorded tokens, or if they do not follow each other.
    pub fn of(episode: &Episode) -> Option<Self> {
        let first = episode.turns.iter().find_map(|turn| turn.tokens.as_ref())?;
        let cut = |turn: &Turn| turn.finish == "length";
        let mut generated = Self {
            sequences: Vec::new(),
            rollout: Vec::new(),
            turn_ends: Vec::new(),
            states: Vec::new(),
            turn_rewards: None,
            temperature: first.temperature,
            version: first.version,
            restricted: false,
            grammars: Vec::new(),
            truncated: matches!(episode.ending, Ending::Truncated(_)) || episode.turns.iter().any(cut),
            taught: Vec::new(),
            unrewarded: false,
        };
        let judged = turn_rewards(episode);
        let mut rewards = Vec::new();
        let mut results: &[Message] = &[];
        for (number, turn) in episode.turns.iter().enumerate() {
            let observed = std::mem::replace(&mut results, &turn.tool_results).iter().chain(&turn.observation);
            let Some(record) = &turn.tokens else { continue };
            generated.states.push(state(observed));
            rewards.push(judged.as_ref().and_then(|all| all.get(number)).copied().unwrap_or(0.0));
            let goes_on = record.shared > 0
                && generated.sequences.last().is_some_and(|sequence| sequence.tokens.len() == record.shared);
            if record.shared > 0 && !goes_on {
                // The preceding tokens are not on record.
                return None;
            }
            if !goes_on {
                generated.sequences.push(GeneratedSequence::default());
            }
            let Some(sequence) = generated.sequences.last_mut() else { continue };
            sequence.tokens.extend(record.prompt.iter().chain(&record.tokens));
            sequence.mask.resize(sequence.tokens.len() - record.tokens.len(), false);
            sequence.mask.resize(sequence.tokens.len(), true);
            generated.rollout.extend(&record.logprob_sampled);
            generated.turn_ends.push(generated.rollout.len());
            generated.version = generated.version.min(record.version);
            generated.restricted |= record.restricted;
            generated.grammars.push(record.grammar.clone());
        }
        if generated.grammars.iter().all(Option::is_none) {
            generated.grammars.clear();
        }
        generated.turn_rewards = judged.map(|_| rewards);
        Some(generated)
    }

    /// Which of the sampled tokens are trained: those that the grammar of their answer did not force. Where one token alone is allowed, its
    /// log-prob is 0 whatever the weights, and it teaches nothing.
    fn trained(&self) -> Vec<bool> {
        let mut trained = vec![true; self.rollout.len()];
        let mut begin = 0;
        for (grammar, end) in self.grammars.iter().zip(&self.turn_ends) {
            if grammar.is_some() {
                let turn = trained.iter_mut().zip(&self.rollout).take(*end).skip(begin);
                turn.for_each(|(trained, logprob)| *trained = *logprob != 0.0);
            }
            begin = *end;
        }
        trained
    }

    /// Number of sampled tokens.
    pub fn written(&self) -> usize {
        self.rollout.len()
    }

    /// The temperature of the log-probs of sampled tokens. Greedy answers have those of 1.
    pub fn logprob_temperature(&self) -> f32 {
        if self.temperature > 0.0 { self.temperature } else { 1.0 }
    }

    /// The trajectory's record for training. Log-probs of trainer and reference are added by the crate that can compute
    /// them.
    pub fn recorded(&self, name: String, reward: f64, version_lag: u64) -> Recorded {
        let has_teacher = !self.taught.is_empty();
        let names_tokens = self.taught.iter().any(|token| !token.likely.is_empty());
        Recorded {
            teacher: has_teacher.then(|| self.taught.iter().map(|token| token.logprob).collect()),
            likely: if names_tokens {
                self.taught.iter().map(|token| token.likely.clone()).collect()
            } else {
                Vec::new()
            },
            sequence: name,
            reward: (!self.unrewarded).then_some(reward),
            rollout: self.rollout.iter().map(|logprob| f64::from(*logprob)).collect(),
            mask: self.trained(),
            turn_ends: self.turn_ends.clone(),
            states: self.states.clone(),
            turn_rewards: self.turn_rewards.clone(),
            truncated: self.truncated,
            version_lag,
            // The kind of restriction does not matter: without the kept set the trajectory cannot be trained on.
            sampling: Sampling { top_p: if self.restricted { 0.0 } else { 1.0 }, ..Sampling::default() },
            ..Recorded::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::{Origin, Part, RewardRecord, RewardSource, Role, ScoreCard, TokenRecord};

    /// An episode whose turns observed these texts.
    fn episode(observed: &[&str]) -> Episode {
        let mut episode: Episode =
            serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap();
        let turn = |text: &&str| {
            let record = TokenRecord {
                version: 0,
                shared: 0,
                prompt: vec![1],
                tokens: vec![2],
                logprob_model: vec![-0.5],
                logprob_sampled: vec![-0.5],
                temperature: 1.0,
                restricted: false,
                grammar: None,
            };
            Turn {
                observation: vec![Message::text(Role::User, Origin::Environment, *text)],
                tool_results: Vec::new(),
                tokens: Some(Box::new(record)),
                ..episode.turns[0].clone()
            }
        };
        episode.turns = observed.iter().map(turn).collect();
        episode
    }

    #[test]
    fn the_state_of_a_turn_is_what_was_observed_before_it() {
        let generated = Generated::of(&episode(&["a", "b", "a"])).unwrap();
        let [first, second, third] = generated.states[..] else { panic!("{:?}", generated.states) };
        assert!(first == third && first != second);
        let mut with_result = episode(&["a", "b"]);
        let result = Message { parts: vec![Part::Text("found".into())], ..with_result.turns[0].observation[0].clone() };
        with_result.turns[0].tool_results = vec![result];
        let other = Generated::of(&with_result).unwrap();
        assert!(other.states[0] == first && other.states[1] != second, "the result of a call was observed, too");
    }

    #[test]
    fn rewards_of_turns_are_those_of_a_verdict_about_every_turn() {
        let check = |per_turn: &[f64], expect: Option<&[f64]>| {
            let mut episode = episode(&["a", "b"]);
            let card = ScoreCard { per_turn: per_turn.to_vec(), ..ScoreCard::plain(1.0) };
            episode.verdicts.truncate(1);
            episode.verdicts[0].verdict = Verdict::Scored(card);
            let generated = Generated::of(&episode).unwrap();
            assert_eq!(generated.turn_rewards.as_deref(), expect, "{per_turn:?}");
            assert_eq!(generated.recorded("e".into(), 1.0, 0).turn_rewards.as_deref(), expect);
        };
        check(&[0.25, 1.0], Some(&[0.25, 1.0]));
        check(&[], None);
        check(&[1.0], None);
    }

    #[test]
    fn several_rewards_of_turns_are_one_by_their_weights() {
        let check = |cards: &[(&[f64], f64, RewardSource)], expect: Option<&[f64]>| {
            let mut episode = episode(&["a", "b"]);
            let plain = episode.verdicts[0].clone();
            let record = |(place, (per_turn, weight, source)): (usize, &(&[f64], f64, RewardSource))| {
                let card = ScoreCard { per_turn: per_turn.to_vec(), ..ScoreCard::plain(1.0) };
                let options_digest = Digest::of(&[place as u8]);
                RewardRecord {
                    verdict: Verdict::Scored(card),
                    weight: *weight,
                    source: *source,
                    options_digest,
                    ..plain.clone()
                }
            };
            episode.verdicts = cards.iter().enumerate().map(record).collect();
            assert_eq!(Generated::of(&episode).unwrap().turn_rewards.as_deref(), expect);
        };
        use RewardSource::{Judge, Outcome};
        check(&[(&[], 1.0, Outcome), (&[0.5, 1.0], 1.0, Judge)], Some(&[0.5, 1.0]));
        check(&[(&[0.0, 1.0], 3.0, Outcome), (&[1.0, 0.0], 1.0, Judge)], Some(&[0.25, 0.75]));
        // Recorded, and deciding nothing.
        check(&[(&[0.0, 1.0], 0.0, Outcome), (&[1.0, 0.0], 1.0, Judge)], Some(&[1.0, 0.0]));
        check(&[(&[0.0, 1.0], 0.0, Outcome)], None);
    }

    #[test]
    fn tokens_that_a_grammar_forced_are_not_trained() {
        let mut episode = episode(&["a", "b"]);
        let grammar = GrammarRecord { digest: Digest::of(b"g"), text: "g".into() };
        for (turn, grammar) in episode.turns.iter_mut().zip([None, Some(grammar.clone())]) {
            let record = turn.tokens.as_mut().unwrap();
            (record.tokens, record.logprob_model) = (vec![2, 3], vec![-0.5, -0.5]);
            (record.logprob_sampled, record.grammar) = (vec![0.0, -0.25], grammar);
        }
        let generated = Generated::of(&episode).unwrap();
        assert_eq!(generated.grammars, [None, Some(grammar)]);
        assert_eq!(generated.recorded("e".into(), 1.0, 0).mask, [true, true, false, true]);
        let plain = self::episode(&["a"]);
        assert!(Generated::of(&plain).unwrap().grammars.is_empty());
    }
}
