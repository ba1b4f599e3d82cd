//! The settings of learning and of the harness layer, with the rules between these options.

use super::{Resolver, preset_text, preset_whole, small};
use crate::{
    AllowanceSpec, Amount, EvolveSpec, HarnessSpec, Key, Layer, LayerSpec, LearnSpec, PluginSpec, RouterSpec,
    ScheduleKind,
};

/// What the text of a policy begins with that a router chooses.
pub(super) const ROUTER: &str = "router:";
/// Options whose values follow from a budget.
const DIVIDED: [Key; 6] =
    [Key::GateEvery, Key::GatePairs, Key::ReflectEvery, Key::Iterations, Key::Episodes, Key::Group];
/// Those among them that say how lessons are judged. Where layers learn in turns, the others are those of the other layers.
const DIVIDED_OF_LESSONS: &[Key] = DIVIDED.split_at(3).0;

/// The options whose values follow from a budget under this schedule.
pub(crate) fn divided(schedule: ScheduleKind) -> &'static [Key] {
    match schedule {
        ScheduleKind::Joint => &DIVIDED,
        ScheduleKind::Turns => DIVIDED_OF_LESSONS,
    }
}

impl Resolver<'_> {
    pub(super) fn learn(&mut self) -> LearnSpec {
        let layers = self.layers.clone().into_iter().map(|layer| match layer {
            Layer::Harness => LayerSpec::Harness(self.harness()),
            Layer::Weights => LayerSpec::Weights(self.weights()),
            Layer::Router => LayerSpec::Router(self.router()),
        });
        let layers = layers.collect();
        let from = self.text(Key::From).map(str::to_owned);
        if from.is_some() && self.layers.contains(&Layer::Weights) {
            let why = "is for the harness: weights learn from answers that the model of now gave, token by token";
            self.refuse(Key::From, [why.into()]);
        }
        if from.is_some() && self.layers.contains(&Layer::Router) {
            let why = "is for the harness: a router learns from decisions that it makes as it is now";
            self.refuse(Key::From, [why.into()]);
        }
        let schedule = self.schedule();
        if schedule == ScheduleKind::Turns && self.layers.len() < 2 {
            self.refuse(Key::Schedule, ["turns are for several layers; name another one, or write \"joint\"".into()]);
        }
        LearnSpec {
            from,
            iterations: self.whole_or(Key::Iterations, 0),
            schedule,
            test_pairs: self.whole_or(Key::TestPairs, 0),
            layers,
        }
    }

    /// When layers learn. Several layers take turns unless the run says otherwise: while one learns, what the others do is the same in all
    /// episodes that are compared. Measured for three layers in the section of the benchmarks about all layers in one run.
    fn schedule(&self) -> ScheduleKind {
        let usual = if self.layers.len() > 1 { ScheduleKind::Turns } else { ScheduleKind::Joint };
        let named = self.text(Key::Schedule);
        let named = named.and_then(|name| ScheduleKind::ALL.into_iter().find(|kind| kind.name() == name));
        named.unwrap_or(usual)
    }

    fn router(&mut self) -> RouterSpec {
        if self.is_without_rewards() {
            self.refuse(Key::Rewards, ["missing; no decision of a router is measured without a reward".into()]);
        }
        if !self.text(Key::Policy).is_some_and(|policy| policy.starts_with(ROUTER)) {
            self.refuse(Key::Policy, ["names no router; where one learns, write \"router:NAME\"".into()]);
        }
        RouterSpec {}
    }

    fn harness(&mut self) -> HarnessSpec {
        if self.is_without_rewards() {
            self.refuse(Key::Rewards, ["missing; no lesson is measured without a reward".into()]);
        }
        let exists = self.exists;
        let parse = |text: &String| PluginSpec::parse(text, exists).ok();
        let reflectors: Vec<PluginSpec> = self.texts(Key::Reflectors).iter().filter_map(parse).collect();
        let evolve = self.evolve(reflectors.first());
        // A mistake is reported once.
        let is_reported = self.refused.contains(&Key::Reflectors) || self.refused.contains(&Key::EvolveReflector);
        let is_evolving = evolve.as_ref().is_some_and(|evolve| !evolve.reflector.path.is_empty());
        if reflectors.is_empty() && !is_evolving && !is_reported {
            let why = "missing; name a reflector, as in \"reflector_rules.wasm\"";
            self.refuse(Key::Reflectors, [why.into()]);
        }
        let (budget, allowance) = (self.whole(Key::Budget), self.allowance());
        if budget.is_some() || allowance.is_some() {
            self.refuse_beside_budget();
        }
        let budget = match allowance {
            Some(_) => None,
            None => budget.or_else(|| self.usual_budget()),
        };
        HarnessSpec {
            reflectors,
            budget,
            allowance,
            trial_slots: self.small_or(Key::TrialSlots, 0),
            reflect_every: self.whole_or(Key::ReflectEvery, 0),
            forbid: self.texts(Key::Forbid).to_vec(),
            gate_every: self.whole_or(Key::GateEvery, 0),
            gate_pairs: self.whole_or(Key::GatePairs, 0),
            alpha: self.number_or(Key::Alpha, 0),
            evolve,
        }
    }

    /// The budget in tokens or money.
    fn allowance(&mut self) -> Option<AllowanceSpec> {
        let tokens = self.whole(Key::BudgetTokens).map(|tokens| (Key::BudgetTokens, Amount::Tokens(tokens)));
        let money = self.number(Key::BudgetMoney).map(|money| (Key::BudgetMoney, Amount::Money(money)));
        let (key, amount) = tokens.or(money)?;
        let others = [Key::Budget, Key::BudgetTokens, Key::BudgetMoney].into_iter().filter(|other| *other != key);
        if let Some(other) = others.into_iter().find(|other| self.has(*other)) {
            self.refuse(key, ["cannot stand beside ".into(), other.into(), ": a run has one budget".into()]);
        }
        if self.has(Key::BudgetMoney) && !self.has(Key::Price) {
            self.refuse(Key::BudgetMoney, ["needs ".into(), Key::Price.into(), ", to know what tokens cost".into()]);
        }
        Some(AllowanceSpec { amount, rate: None })
    }

    /// The default budget. `None` if all layers learn from the same episodes, or if an option is set that measures every lesson alone or that
    /// excludes a budget. With a budget lessons are judged together, which takes a hundredth of the episodes.
    fn usual_budget(&self) -> Option<u64> {
        let proposes_lessons = !self.texts(Key::Reflectors).is_empty() && self.whole_or(Key::Evolve, 0) == 0;
        let schedule = self.schedule();
        let measures = divided(schedule).iter().chain(&[Key::TrialSlots, Key::From]).any(|key| self.has(*key));
        let is_apart = schedule == ScheduleKind::Turns || self.layers == [Layer::Harness];
        (proposes_lessons && !measures && is_apart).then(|| preset_whole(Key::Budget, 0))
    }

    /// Whether lessons are learned with a budget before the other layers learn.
    pub(super) fn sets_lessons_apart(&self) -> bool {
        let has_budget = [Key::Budget, Key::BudgetTokens, Key::BudgetMoney].into_iter().any(|key| self.has(key));
        let is_apart = self.schedule() == ScheduleKind::Turns && self.layers.len() > 1;
        is_apart && (has_budget || self.usual_budget().is_some())
    }

    /// The option that gives the run a budget.
    fn budget_key(&self) -> Key {
        [Key::BudgetTokens, Key::BudgetMoney].into_iter().find(|key| self.has(*key)).unwrap_or(Key::Budget)
    }

    /// A budget is divided by the program, and spent by the harness on episodes of its own.
    fn refuse_beside_budget(&mut self) {
        for key in divided(self.schedule()).iter().copied().filter(|key| self.has(*key)).collect::<Vec<_>>() {
            self.refuse(
                key,
                ["cannot stand beside ".into(), self.budget_key().into(), ", which divides its episodes itself".into()],
            );
        }
        for key in [Key::Evolve, Key::From].into_iter().filter(|key| self.has(*key)).collect::<Vec<_>>() {
            if key != Key::Evolve || self.whole_or(Key::Evolve, 0) > 0 {
                self.refuse(
                    key,
                    [
                        "cannot stand beside ".into(),
                        self.budget_key().into(),
                        ", which is for lessons from new episodes".into(),
                    ],
                );
            }
        }
        if self.layers.len() > 1 && self.schedule() == ScheduleKind::Joint {
            let (turns, why) = (
                format!(" {}", ScheduleKind::Turns.name()),
                "is for lessons alone; where other layers learn, too, it needs ",
            );
            self.refuse(self.budget_key(), [why.into(), Key::Schedule.into(), turns.into()]);
        }
    }

    /// The evolution of a section: with the named reflector, or the first one of the harness with `write=section`.
    fn evolve(&mut self, first: Option<&PluginSpec>) -> Option<EvolveSpec> {
        if self.has(Key::EvolveReflector) && !self.has(Key::Evolve) {
            let why = ["needs ".into(), Key::Evolve.into(), "; without it nothing evolves".into()];
            self.refuse(Key::EvolveReflector, why);
        }
        let budget = self.whole_or(Key::Evolve, 0);
        if budget == 0 {
            return None;
        }
        let exists = self.exists;
        let named = self.text(Key::EvolveReflector).and_then(|text| PluginSpec::parse(text, exists).ok());
        let section = self.text_or(Key::EvolveSection, 0).to_owned();
        let writing = || {
            let mut reflector = first.cloned()?;
            reflector.set("write", "section");
            if section != preset_text(Key::EvolveSection, 0) {
                reflector.set("section", &section);
            }
            Some(reflector)
        };
        let reflector = named.or_else(writing);
        Some(EvolveSpec {
            budget,
            minibatch: small(self.whole_or(Key::EvolveMinibatch, 0)),
            // Without a reflector the harness has a problem, and the run is not returned.
            reflector: reflector.unwrap_or(PluginSpec { path: String::new(), options: Vec::new(), plugin: None }),
            section,
        })
    }
}
