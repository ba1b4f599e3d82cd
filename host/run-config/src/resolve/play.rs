//! The settings of playing, of the policy and of the budget, with the rules between these options.

use super::{Resolver, preset_whole, small};
use crate::check::expected;
use crate::{BudgetSpec, Key, Layer, PlaySpec, PolicySpec, Verb};
use std::ops::RangeInclusive;

/// Episodes of an iteration. All of them are in memory until the layers have learned from them.
const EPISODES_OF_AN_ITERATION: RangeInclusive<u64> = 2..=100_000;
/// Members of a group if lessons are credited. Half of them see a lesson and half do not, so the number is even. Beyond
/// 64, another group gives more information than another member.
const CREDIT_GROUP: RangeInclusive<u64> = 2..=64;
/// Splits that are reserved for measuring.
const KEPT: [&str; 2] = ["test", "val"];

impl Resolver<'_> {
    pub(super) fn play(&mut self) -> PlaySpec {
        let (episodes, group) = match self.verb {
            Verb::Play => (self.whole_or(Key::Episodes, 0), self.whole_or(Key::Group, 0)),
            Verb::Learn => self.iteration(),
            // Each pair is a group: the same task with the same seed, for both sides and all tries.
            Verb::Evaluate => {
                let group = 2 * self.whole_or(Key::Tries, 0);
                (group * self.whole_or(Key::Pairs, 0), group)
            }
        };
        self.check_branch(group);
        if self.verb == Verb::Learn
            && let Some(split) = self.text(Key::Tasks).filter(|split| KEPT.contains(split)).map(str::to_owned)
        {
            let why = format!("found \"{split}\", but that split is reserved for measuring; name another split");
            self.refuse(Key::Tasks, [why.into()]);
        }
        PlaySpec {
            tasks: self.text(Key::Tasks).map(str::to_owned),
            seed: self.whole_or(Key::Seed, 0),
            episodes,
            group: small(group),
            branch_at: self.whole(Key::BranchAt).map(small),
            max_turns: self.small_or(Key::MaxTurns, 0),
            expect: self.texts(Key::Expect).iter().filter_map(|text| text.parse().ok()).collect(),
            concurrency: self.concurrency(episodes),
            failure_budget: self.number_or(Key::FailureBudget, 0),
        }
    }

    /// If weights learn, the model computes the next token of all episodes together.
    fn concurrency(&self, episodes: u64) -> u16 {
        let least = preset_whole(Key::Concurrency, 0);
        let usual = match self.learns(Layer::Weights) {
            true => least.max(episodes.min(preset_whole(Key::Concurrency, 1))),
            false => least,
        };
        small(self.whole(Key::Concurrency).unwrap_or(usual))
    }

    /// Whether the run plays episodes with a policy that answers equal requests alike. Then two members of a group show what a lesson on trial
    /// does, and further ones add little.
    fn is_deterministic(&self) -> bool {
        let policy = self.text_or(Key::Policy, 0);
        let is_fixed = !self.has(Key::Model) && (policy == "follower" || policy.starts_with("script:"));
        let plays = !self.has(Key::From) && !self.learns(Layer::Weights);
        plays && (is_fixed || self.number(Key::Temperature) == Some(0.0))
    }

    /// Episodes of an iteration, and members of a group.
    fn iteration(&mut self) -> (u64, u64) {
        // Lessons with a budget have episodes of their own, and these are those of the other layers.
        let measures = self.learns(Layer::Harness) && !self.sets_lessons_apart();
        let case = match (measures, self.is_deterministic()) {
            (true, false) => 1,
            (true, true) => 2,
            (false, _) => 3,
        };
        let (mut episodes, mut group) = (self.whole_or(Key::Episodes, 1), self.whole_or(Key::Group, case));
        if !EPISODES_OF_AN_ITERATION.contains(&episodes) {
            let (least, most) = EPISODES_OF_AN_ITERATION.into_inner();
            let why = format!("a whole number from {least} to {most}, for an iteration of learning");
            self.refuse(Key::Episodes, [expected(&episodes.to_string(), &why).into()]);
            episodes = self.whole_or(Key::Episodes, 1);
        }
        let (least, most) = CREDIT_GROUP.into_inner();
        let why = if measures && (!CREDIT_GROUP.contains(&group) || group % 2 == 1) {
            Some(format!("an even number from {least} to {most}: half of a group sees a lesson, half does not"))
        } else if self.learns(Layer::Weights) && group < 2 {
            Some("at least 2: members of a group are compared with each other".to_owned())
        } else {
            None
        };
        if let Some(why) = why {
            self.refuse(Key::Group, [expected(&group.to_string(), &why).into()]);
            group = self.whole_or(Key::Group, case);
        }
        self.check_multiple(episodes, group);
        (episodes, group)
    }

    fn check_multiple(&mut self, episodes: u64, group: u64) {
        let is_sure = [Key::Episodes, Key::Group].iter().all(|key| !self.refused.contains(key));
        if !is_sure || self.layers.is_empty() || episodes.is_multiple_of(group) {
            return;
        }
        let below = episodes - episodes % group;
        let near = [below, below + group].into_iter().filter(|near| EPISODES_OF_AN_ITERATION.contains(near));
        let near = near.map(|near| near.to_string()).collect::<Vec<_>>().join(" or ");
        let whose = if self.has(Key::Episodes) { "found" } else { "the default is" };
        let begin = format!("{whose} {episodes}; expected a multiple of the ");
        let end = format!(" of {group}, as {near}");
        self.refuse(Key::Episodes, [begin.into(), Key::Group.into(), end.into()]);
    }

    fn check_branch(&mut self, group: u64) {
        let Some(branch_at) = self.whole(Key::BranchAt) else { return };
        let turns = self.whole_or(Key::MaxTurns, 0);
        if group < 2 && !self.refused.contains(&Key::Group) {
            self.refuse(Key::BranchAt, ["needs ".into(), Key::Group.into(), " of at least 2: a group branches".into()]);
        } else if branch_at >= turns && !self.refused.contains(&Key::MaxTurns) {
            let begin = format!("found {branch_at}; expected less than ");
            let end = format!(", which is {turns}");
            self.refuse(Key::BranchAt, [begin.into(), Key::MaxTurns.into(), end.into()]);
        }
    }

    pub(super) fn policy(&mut self) -> PolicySpec {
        for (second, first) in [(Key::Model, Key::Policy), (Key::SystemPromptFile, Key::SystemPrompt)] {
            if self.has(first) && self.has(second) {
                self.refuse(second, ["not together with ".into(), first.into(), "; remove one of them".into()]);
            }
        }
        let model = match self.text(Key::Model) {
            Some(folder) => format!("local:{folder}"),
            None => self.text_or(Key::Policy, 0).to_owned(),
        };
        PolicySpec {
            model,
            identity: None,
            system_prompt: self.text(Key::SystemPrompt).map(str::to_owned),
            system_prompt_file: self.text(Key::SystemPromptFile).map(str::to_owned),
            temperature: self.temperature(),
            top_p: self.top_p(),
            max_tokens: self.small_or(Key::MaxTokens, 0),
        }
    }

    pub(super) fn budget(&mut self) -> BudgetSpec {
        if self.number(Key::MaxCost).is_some() && !self.has(Key::Price) {
            self.refuse(Key::MaxCost, ["needs ".into(), Key::Price.into(), "; without one no cost is known".into()]);
        }
        BudgetSpec {
            max_tokens_total: self.whole(Key::MaxTokensTotal),
            max_grant_tokens: self.whole(Key::MaxGrantTokens),
            max_cost: self.number(Key::MaxCost),
            price: self.text(Key::Price).and_then(|text| text.parse().ok()),
        }
    }
}
