//! Asks the teacher about the answers of an iteration, before the weights learn from them. The answers of a teacher are not recorded: a
//! run that was interrupted asks again about the iteration that it had not completed.

use crate::{LearningError, Staged};
use clawhost_core::{ModelError, TaughtToken, Teacher};
use clawhost_learn::Batch;
use clawhost_learn::policy::{Generated, GeneratedSequence};
use clawhost_play::{Cancel, StopReason};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Sequences that a teacher is asked about at once. An endpoint and a local model have limits of their own, which wait; this one bounds
/// the answers that wait here.
const ASKED_AT_ONCE: usize = 64;

/// A teacher, and what it is asked.
#[derive(Clone)]
pub struct Teaching {
    /// The teacher.
    pub teacher: Arc<dyn Teacher>,
    /// Most likely tokens that it names at every position. 0: none.
    pub likely: u8,
    /// Number of tokens that the model that learns has. A teacher of another size may be padded to more: those count with the rest.
    pub vocabulary: usize,
}

/// What the teacher says of the sampled tokens of a sequence.
async fn taught(
    Teaching { teacher, likely, vocabulary }: &Teaching,
    sequence: &GeneratedSequence,
    temperature: f32,
) -> Result<Vec<TaughtToken>, ModelError> {
    let all = teacher.teach(&sequence.tokens, temperature, *likely).await?;
    if all.len() + 1 != sequence.tokens.len() {
        let (found, given) = (all.len() + 1, sequence.tokens.len());
        return Err(ModelError::InvalidResponse(format!("the teacher scored {found} tokens of {given}")));
    }
    let known = |mut token: TaughtToken| {
        token.likely.retain(|(id, _)| (*id as usize) < *vocabulary);
        token
    };
    Ok(sequence.of_sampled(all).map(known).collect())
}

async fn of_answer(teaching: Teaching, generated: Arc<Generated>) -> Result<Vec<TaughtToken>, ModelError> {
    let mut all = Vec::with_capacity(generated.written());
    for sequence in &generated.sequences {
        all.extend(taught(&teaching, sequence, generated.logprob_temperature()).await?);
    }
    Ok(all)
}

/// Adds to every answer of a batch what the teacher says of its tokens.
pub(super) async fn teach(teaching: &Teaching, batch: &mut Batch, cancel: &Cancel) -> Staged<()> {
    let members = batch.groups.iter_mut().flat_map(|group| &mut group.members);
    let mut answers: Vec<&mut Arc<Generated>> = members.filter_map(|member| member.generated.as_mut()).collect();
    let mut waiting = answers.iter().map(|answer| Arc::clone(answer)).enumerate().collect::<Vec<_>>().into_iter();
    let mut asking = JoinSet::new();
    loop {
        while asking.len() < ASKED_AT_ONCE {
            let Some((place, answer)) = waiting.next() else { break };
            let teaching = teaching.clone();
            asking.spawn(async move { (place, of_answer(teaching, answer).await) });
        }
        let joined = tokio::select! {
            biased;
            () = cancel.requested() => return Err(StopReason::Cancelled.into()),
            joined = asking.join_next() => joined,
        };
        let Some(joined) = joined else { return Ok(()) };
        let (place, taught) = joined.map_err(|error| LearningError::Host(format!("asking the teacher: {error}")))?;
        match taught {
            Ok(taught) => {
                if let Some(answer) = answers.get_mut(place) {
                    Arc::make_mut(answer).taught = taught;
                }
            }
            Err(ModelError::Budget(_)) => return Err(StopReason::ModelBudget.into()),
            Err(error) => return Err(LearningError::Teacher(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Halt;
    use async_trait::async_trait;
    use clawhost_core::{Digest, EpisodeId, StateId};
    use clawhost_learn::{Group, Member, Removed};
    use std::sync::Mutex;

    /// Says of each token that its log-prob is minus its number, and fails as told.
    #[derive(Default)]
    struct Numbers {
        fails: Option<ModelError>,
        cut: usize,
        asked: Mutex<Vec<(Vec<u32>, f32, u8)>>,
    }

    #[async_trait]
    impl Teacher for Numbers {
        async fn teach(&self, tokens: &[u32], temperature: f32, likely: u8) -> Result<Vec<TaughtToken>, ModelError> {
            self.asked.lock().unwrap().push((tokens.to_vec(), temperature, likely));
            let token = |token: &u32| TaughtToken { logprob: -f64::from(*token), likely: vec![(*token, -0.5)] };
            let all = tokens.iter().skip(1 + self.cut).map(token).collect();
            self.fails.clone().map_or(Ok(all), Err)
        }
    }

    fn batch() -> Batch {
        let sequence = |first: u32| GeneratedSequence {
            tokens: vec![first, first + 1, first + 2],
            mask: vec![false, first.is_multiple_of(2), true],
        };
        let generated = |first: u32, temperature: f32| Generated {
            sequences: vec![sequence(first), sequence(first + 1)],
            rollout: vec![-1.0; 3],
            turn_ends: vec![3],
            states: Vec::new(),
            turn_rewards: None,
            temperature,
            version: 0,
            restricted: false,
            grammars: Vec::new(),
            truncated: false,
            taught: Vec::new(),
            unrewarded: false,
        };
        let member = |first: u32| Member {
            episode: EpisodeId(first.to_string()),
            reward: 0.0,
            shown: 0,
            generated: Some(Arc::new(generated(first, if first == 10 { 0.0 } else { 0.5 }))),
        };
        let empty = Member { generated: None, ..member(30) };
        let members = vec![member(10), empty, member(20)];
        let group = Group { task: "a".into(), seed: 1, drawn: Vec::new(), propensity: 1.0, members };
        let state_id = StateId(Digest::of(b"state"));
        Batch { number: 0, state_id, groups: vec![group], answers: Vec::new(), removed: Removed::default() }
    }

    async fn filled(teacher: Numbers) -> (Staged<()>, Batch, Arc<Numbers>) {
        let (teacher, mut batch) = (Arc::new(teacher), batch());
        let done =
            teach(&Teaching { teacher: teacher.clone(), likely: 4, vocabulary: 22 }, &mut batch, &Cancel::default())
                .await;
        (done, batch, teacher)
    }

    #[tokio::test]
    async fn every_sampled_token_has_what_the_teacher_says_of_it() {
        let (done, batch, teacher) = filled(Numbers::default()).await;
        done.unwrap();
        let taught = |place: usize| {
            let generated = batch.groups[0].members[place].generated.as_ref().unwrap();
            generated.taught.iter().map(|token| token.logprob).collect::<Vec<_>>()
        };
        assert_eq!((taught(0), taught(2)), (vec![-11.0, -12.0, -13.0], vec![-21.0, -22.0, -23.0]));
        let likely = |place: usize| {
            let generated = batch.groups[0].members[place].generated.as_ref().unwrap();
            generated.taught.iter().map(|token| token.likely.len()).collect::<Vec<_>>()
        };
        assert_eq!((likely(0), likely(2)), (vec![1, 1, 1], vec![1, 0, 0]), "of 22 tokens");
        let mut asked = teacher.asked.lock().unwrap().clone();
        asked.sort_by(|one, other| one.0.cmp(&other.0));
        // Greedy answers have log-probs at temperature 1.
        assert_eq!(asked[0], (vec![10, 11, 12], 1.0, 4));
        assert_eq!(asked[2], (vec![20, 21, 22], 0.5, 4));
    }

    #[tokio::test]
    async fn a_teacher_that_does_not_answer_ends_the_run_and_a_spent_budget_stops_it() {
        let failed = |why: &str| Numbers { fails: Some(ModelError::Unavailable(why.to_owned())), ..Numbers::default() };
        let Err(Halt::Failed(error)) = filled(failed("gone")).await.0 else { panic!("it failed") };
        assert!(error.to_string().contains("the teacher cannot be learned from: the model did not answer: gone"));
        let Err(Halt::Failed(error)) = filled(Numbers { cut: 1, ..Numbers::default() }).await.0 else { panic!("cut") };
        assert!(error.to_string().contains("the teacher scored 2 tokens of 3"), "{error}");
        let spent = Numbers { fails: Some(ModelError::Budget("all".to_owned())), ..Numbers::default() };
        let Err(Halt::Stopped(stopped)) = filled(spent).await.0 else { panic!("it stopped") };
        assert_eq!(stopped.reason, StopReason::ModelBudget);
    }

    #[tokio::test]
    async fn a_run_that_is_stopped_does_not_wait_for_the_teacher() {
        let cancel = Cancel::default();
        cancel.request();
        let teaching = Teaching { teacher: Arc::new(Numbers::default()), likely: 0, vocabulary: 22 };
        let Err(Halt::Stopped(stopped)) = teach(&teaching, &mut batch(), &cancel).await else { panic!("it stopped") };
        assert_eq!(stopped.reason, StopReason::Cancelled);
    }
}
