//! A resolved run as a patch that sets every option, for writing it to a file and for comparing it.

use crate::key::Preset;
use crate::resolve::learn::divided;
use crate::{
    Amount, CreditUnit, EvaluateSpec, HarnessSpec, Key, LayerSpec, LearnSpec, Price, RunSpec, RunSpecPatch,
    ScheduleKind, Source, Value, Verb, WeightsSpec, Work,
};

impl RunSpec {
    /// A patch that resolves to this run: all options of the run, including defaults. Values that the program set
    /// (identities, digests) are omitted.
    pub fn to_patch(&self) -> RunSpecPatch {
        let mut out = Setter(RunSpecPatch::new());
        out.text(Key::Plugin, self.environment.to_string());
        if !self.mix.is_empty() {
            out.texts(Key::Mix, self.mix.iter().map(ToString::to_string));
        }
        out.text(Key::Name, self.name.as_ref().map(ToString::to_string));
        if !self.tags.is_empty() {
            out.texts(Key::Tags, self.tags.iter().map(ToString::to_string));
        }
        out.texts(Key::Rewards, self.rewards.iter().map(ToString::to_string));
        out.text(Key::Policy, self.policy.model.clone());
        out.whole(Key::Seed, self.play.seed);
        out.whole(Key::MaxTurns, u64::from(self.play.max_turns));
        out.whole(Key::Concurrency, u64::from(self.play.concurrency));
        out.number(Key::FailureBudget, self.play.failure_budget);
        out.text(Key::Playbook, self.playbook.as_ref().map(|playbook| playbook.name.clone()));
        out.whole(Key::TokenBudget, self.token_budget);
        match &self.policy.system_prompt_file {
            Some(file) => out.text(Key::SystemPromptFile, file.clone()),
            None => out.text(Key::SystemPrompt, self.policy.system_prompt.clone()),
        }
        out.number(Key::Temperature, self.policy.temperature.map(as_written));
        out.number(Key::TopP, self.policy.top_p.map(as_written));
        out.whole(Key::MaxTokens, u64::from(self.policy.max_tokens));
        out.texts(Key::Grants, self.grants.iter().map(ToString::to_string));
        out.whole(Key::MaxTokensTotal, self.budget.max_tokens_total);
        out.whole(Key::MaxGrantTokens, self.budget.max_grant_tokens);
        out.number(Key::MaxCost, self.budget.max_cost);
        out.text(Key::Price, self.budget.price.as_ref().map(Price::to_string));
        if self.work.verb() != Verb::Evaluate {
            out.text(Key::Tasks, self.play.tasks.clone());
            out.whole(Key::Episodes, self.play.episodes);
            out.whole(Key::Group, u64::from(self.play.group));
        }
        if self.work.verb() == Verb::Play {
            out.texts(Key::Expect, self.play.expect.iter().map(ToString::to_string));
        }
        out.whole(Key::BranchAt, self.play.branch_at.map(u64::from));
        match &self.work {
            Work::Play => {}
            Work::Learn(learn) => {
                out.learn(learn);
                if learn.harness().is_some_and(|harness| harness.divides()) {
                    for key in divided(learn.schedule) {
                        out.0.remove(*key);
                    }
                }
            }
            Work::Evaluate(EvaluateSpec { pairs, tries, version, against }) => {
                out.whole(Key::Pairs, *pairs);
                out.whole(Key::Tries, u64::from(*tries));
                out.whole(Key::PlaybookVersion, *version);
                out.whole(Key::Against, *against);
            }
        }
        out.0
    }
}

impl RunSpec {
    /// The shortest patch that resolves to this run, without name and tags: options with their only default are
    /// omitted. It is what a person would write to start the run again.
    pub fn to_short_patch(&self) -> RunSpecPatch {
        let whole = self.to_patch();
        let mut short = RunSpecPatch::new();
        // Without any option of trials a run of several layers has a budget for its lessons.
        let says_measured = self.harness().is_some_and(|harness| !harness.divides())
            && self.learn().is_some_and(|learn| learn.schedule == ScheduleKind::Turns);
        if let Some((layers, source)) = whole.layers() {
            short.set_layers(layers.clone(), *source);
        }
        for key in whole.keys().filter(|key| ![Key::Name, Key::Tags].contains(key)) {
            let Some((value, source)) = whole.get(key) else { continue };
            let is_default = match (key.presets(), value) {
                ([Preset::Whole(preset)], Value::Whole(value)) => preset == value,
                ([Preset::Number(preset)], Value::Number(value)) => preset == value,
                ([Preset::Text(preset)], Value::Text(value)) => preset == value,
                ([Preset::Flag(preset)], Value::Flag(value)) => preset == value,
                ([], Value::Texts(texts)) => texts.is_empty(),
                _ => false,
            };
            if !is_default || (says_measured && key == Key::TrialSlots) {
                short.set(key, value.clone(), *source);
            }
        }
        short
    }
}

/// A single-precision number in its shortest digits: 0.9, and not 0.8999999761581421.
pub(crate) fn as_written(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

/// Sets options. An absent value sets nothing.
struct Setter(RunSpecPatch);

impl Setter {
    fn learn(&mut self, learn: &LearnSpec) {
        self.text(Key::From, learn.from.clone());
        self.whole(Key::Iterations, learn.iterations);
        let is_of_several = learn.layers.len() > 1;
        self.text(Key::Schedule, is_of_several.then(|| learn.schedule.name().to_owned()));
        self.whole(Key::TestPairs, learn.test_pairs);
        let names = learn.layers.iter().map(|layer| layer.layer().name().to_owned()).collect();
        self.0.set_layers(names, Source::File { line: None });
        for layer in &learn.layers {
            match layer {
                LayerSpec::Harness(harness) => self.harness(harness),
                LayerSpec::Weights(weights) => self.weights(weights),
                LayerSpec::Router(_) => {}
            }
        }
    }

    fn harness(&mut self, harness: &HarnessSpec) {
        self.texts(Key::Reflectors, harness.reflectors.iter().map(ToString::to_string));
        match harness.allowance.as_ref().map(|allowance| allowance.amount) {
            // The number of episodes follows from it.
            Some(Amount::Tokens(tokens)) => self.whole(Key::BudgetTokens, tokens),
            Some(Amount::Money(money)) => self.number(Key::BudgetMoney, money),
            None => self.whole(Key::Budget, harness.budget),
        }
        self.whole(Key::TrialSlots, u64::from(harness.trial_slots));
        self.whole(Key::ReflectEvery, harness.reflect_every);
        self.whole(Key::GateEvery, harness.gate_every);
        self.whole(Key::GatePairs, harness.gate_pairs);
        self.number(Key::Alpha, harness.alpha);
        self.texts(Key::Forbid, harness.forbid.iter().cloned());
        match &harness.evolve {
            None => self.whole(Key::Evolve, 0),
            Some(evolve) => {
                self.whole(Key::Evolve, evolve.budget);
                self.text(Key::EvolveSection, evolve.section.clone());
                self.whole(Key::EvolveMinibatch, u64::from(evolve.minibatch));
                self.text(Key::EvolveReflector, evolve.reflector.to_string());
            }
        }
    }

    fn weights(&mut self, weights: &WeightsSpec) {
        self.text(Key::Objective, weights.objective.clone());
        self.text(Key::Teacher, weights.teacher.clone());
        if weights.teacher.is_some() {
            self.whole(Key::TeacherTop, u64::from(weights.teacher_top));
        }
        self.text(Key::Credit, weights.credit.name().to_owned());
        if weights.credit != CreditUnit::Episode {
            self.number(Key::CreditWeight, weights.credit_weight);
        }
        self.whole(Key::Epochs, u64::from(weights.epochs));
        self.whole(Key::Minibatches, u64::from(weights.minibatches));
        self.number(Key::Rate, weights.rate);
        self.whole(Key::Warmup, weights.warmup);
        self.text(Key::Optimizer, weights.optimizer.name().to_owned());
        if let Some(adapter) = &weights.adapter {
            self.whole(Key::AdapterRank, u64::from(adapter.rank));
            self.number(Key::AdapterAlpha, adapter.alpha);
            self.texts(Key::AdapterTargets, adapter.targets.iter().cloned());
        }
        self.text(Key::Truncated, weights.truncated.to_string());
        self.number(Key::Kl, weights.kl);
        self.whole(Key::Refills, u64::from(weights.refills));
        self.set(Key::DifficultyFilter, Value::Flag(weights.difficulty_filter));
        self.whole(Key::EvaluateEvery, weights.evaluate_every);
        self.whole(Key::EvaluateEpisodes, weights.evaluate_episodes);
        let demonstrations = weights.demonstrations.iter().map(|(name, value)| format!("{name}={value}"));
        self.texts(Key::Demonstrations, demonstrations);
        if !weights.demonstrations.is_empty() {
            self.number(Key::DemonstrationsUntil, weights.demonstrations_until);
            self.whole(Key::DemonstrationsSteps, weights.demonstrations_steps);
        }
        self.whole(Key::Completions, u64::from(weights.completions));
        self.text(Key::Out, weights.out.clone());
    }

    fn set(&mut self, key: Key, value: Value) {
        self.0.set(key, value, Source::File { line: None });
    }

    fn whole(&mut self, key: Key, number: impl Into<Option<u64>>) {
        if let Some(number) = number.into() {
            self.set(key, Value::Whole(number));
        }
    }

    fn number(&mut self, key: Key, number: impl Into<Option<f64>>) {
        if let Some(number) = number.into() {
            self.set(key, Value::Number(number));
        }
    }

    fn text(&mut self, key: Key, text: impl Into<Option<String>>) {
        if let Some(text) = text.into() {
            self.set(key, Value::Text(text));
        }
    }

    fn texts(&mut self, key: Key, texts: impl Iterator<Item = String>) {
        self.set(key, Value::Texts(texts.collect()));
    }
}
