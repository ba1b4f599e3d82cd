//! Reads a run file.

use crate::diagnostic::{Diagnostic, Diagnostics, Lines};
use crate::grant::{Grant, is_plain_name};
use crate::learn::{Evaluation, Evolve, Gate, HARNESS, Harness, Learn};
use crate::limits;
use crate::run_file::{Play, RunFile, SystemPrompt, Work};
use crate::section::Section;
use crate::unknown::{nearest, unknown_keys};
use clawhost_core::escaped;
use toml::de::DeTable;

/// The split that is kept for the final measurement.
const TEST_SPLIT: &str = "test";

/// Layers that this version knows.
const LAYERS: [&str; 1] = [HARNESS];

/// What is expected of a name that is shown in lists and stands in paths.
const PLAIN_NAME: &str = "a name of letters, digits, `-` and `_`, at most 128";

/// Most of a message about TOML, in bytes.
const SYNTAX_BYTES: usize = 200;

impl RunFile {
    /// Reads the text of a run file. Paths in it are not looked at.
    ///
    /// # Errors
    /// All that is wrong with it. In a text that is no TOML the keys are not looked at: what they mean is unsure.
    pub fn parse(text: &str) -> Result<Self, Diagnostics> {
        let lines = Lines::of(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        if let Some(diagnostics) = Diagnostics::of(syntax(&errors, &lines)) {
            return Err(diagnostics);
        }
        let mut sections = Sections::of(root.get_ref(), &lines);
        let file = sections.read();
        sections.contradictions(&file);
        match Diagnostics::of(sections.into_diagnostics()) {
            None => Ok(file),
            Some(diagnostics) => Err(diagnostics),
        }
    }
}

/// What makes a text no TOML: the first on each line, for others follow from it.
fn syntax(errors: &[toml::de::Error], lines: &Lines) -> Vec<Diagnostic> {
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    for error in errors {
        let line = error.span().map(|span| lines.at(span.start));
        if !diagnostics.iter().any(|known| known.line == line) {
            let message = format!("not TOML: {}", escaped(error.message(), SYNTAX_BYTES));
            diagnostics.push(Diagnostic { line, key: String::new(), message });
        }
    }
    diagnostics
}

struct Sections<'a, 't> {
    top: Section<'a, 't>,
    learn: Section<'a, 't>,
    harness: Section<'a, 't>,
    gate: Section<'a, 't>,
    evolve: Section<'a, 't>,
    eval: Section<'a, 't>,
}

impl<'a, 't> Sections<'a, 't> {
    fn of(root: &'a DeTable<'t>, lines: &'a Lines) -> Self {
        let mut top = Section::top(root, lines);
        Self {
            learn: top.section("learn"),
            harness: top.section("harness"),
            gate: top.section("gate"),
            evolve: top.section("evolve"),
            eval: top.section("eval"),
            top,
        }
    }

    /// The whole file. Where something is wrong a default stands in, and a diagnostic is noted.
    fn read(&mut self) -> RunFile {
        let plugin = self.top.text("plugin").unwrap_or_default();
        if !self.top.has("plugin") {
            self.top.refuse("plugin", "missing; name the environment, as in plugin = \"env_shop.wasm\"");
        }
        // Both are read, whichever counts: typos in the other are found too.
        let (play, learn) = (read_play(&mut self.top), self.read_learn());
        let work = if self.learn.is_there() { Work::Learn(learn) } else { Work::Play(play) };
        let top = &mut self.top;
        let default = RunFile::new(plugin);
        RunFile {
            rewards: top.list("rewards", |text, _| Ok(text.to_owned())).unwrap_or(default.rewards),
            policy: top.text("policy").unwrap_or(default.policy),
            tasks: top.text("tasks"),
            seed: top.whole("seed", &limits::SEED).unwrap_or(default.seed),
            max_turns: top.whole("max_turns", &limits::MAX_TURNS).unwrap_or(default.max_turns),
            concurrency: top.whole("concurrency", &limits::CONCURRENCY).unwrap_or(default.concurrency),
            failure_budget: top.number("failure_budget", &limits::FAILURE_BUDGET).unwrap_or(default.failure_budget),
            system_prompt: read_system_prompt(top),
            temperature: top.number("temperature", &limits::TEMPERATURE),
            max_tokens: top.whole("max_tokens", &limits::MAX_TOKENS).unwrap_or(default.max_tokens),
            grants: read_grants(top).unwrap_or(default.grants),
            max_tokens_total: top.whole("max_tokens_total", &limits::MAX_TOKENS_TOTAL),
            max_cost: top.number("max_cost", &limits::MONEY),
            price: top.parsed(
                "price",
                |text| text.parse().ok(),
                "two prices per million tokens, read and written, each from 0 to 1000000000, as in \"0.15,0.60\"",
            ),
            plugin: default.plugin,
            work,
        }
    }

    fn read_learn(&mut self) -> Learn {
        let harness = &mut self.harness;
        let reflector = harness.text("reflector").unwrap_or_default();
        if self.learn.is_there() && !harness.has("reflector") && !harness.is_misshapen() {
            harness.refuse("reflector", "missing; name what draws lessons, as in reflector = \"reflector_rules.wasm\"");
        }
        let default = Learn::new(reflector);
        read_layers(&mut self.learn);
        if self.learn.flag("deterministic") == Some(false) {
            let why = "false is not in this version: with rollouts and updates at once no run could be repeated; \
                       write true, or leave it out";
            self.learn.refuse("deterministic", why);
        }
        let learn = &mut self.learn;
        Learn {
            iterations: learn.whole("iterations", &limits::ITERATIONS).unwrap_or(default.iterations),
            episodes: learn.whole("episodes", &limits::EPISODES_PER_ITERATION).unwrap_or(default.episodes),
            group: learn.whole("group", &limits::CREDIT_GROUP).unwrap_or(default.group),
            harness: read_harness(harness, default.harness),
            gate: read_gate(&mut self.gate, &default.gate),
            evolve: read_evolve(&mut self.evolve, default.evolve),
            eval: Evaluation {
                pairs: self.eval.whole("pairs", &limits::EVALUATION_PAIRS).unwrap_or(default.eval.pairs),
            },
        }
    }

    /// Keys that are right alone and wrong together.
    fn contradictions(&mut self, file: &RunFile) {
        if file.max_cost.is_some() && !self.top.has("price") {
            self.top.refuse("max_cost", "needs a price; without one no cost is known");
        }
        let Work::Learn(learn) = &file.work else {
            for section in [&mut self.harness, &mut self.gate, &mut self.evolve, &mut self.eval] {
                if section.is_there() && !section.is_misshapen() {
                    section.refuse_whole("only learning runs have it; add [learn], or take it out");
                }
            }
            return;
        };
        for key in ["episodes", "group"] {
            if self.top.has(key) {
                self.top.refuse(key, "not together with [learn], which has its own; write it there");
            }
        }
        if file.tasks.as_deref() == Some(TEST_SPLIT) {
            let why = "found \"test\", but what is measured at the end must not be learned from; name another split";
            self.top.refuse("tasks", why);
        }
        self.check_groups(learn);
    }

    fn check_groups(&mut self, learn: &Learn) {
        let (group, episodes) = (u64::from(learn.group), learn.episodes);
        if group % 2 == 1 {
            let (low, high) = limits::CREDIT_GROUP.into_inner();
            let expected = format!("an even number from {low} to {high}: half of a group sees a lesson, half does not");
            self.learn.refuse("group", format!("found {group}; expected {expected}"));
        }
        let is_sure = !self.learn.is_refused("group") && !self.learn.is_refused("episodes");
        if is_sure && !episodes.is_multiple_of(group) {
            let below = episodes - episodes % group;
            let near = [below, below + group].into_iter().filter(|near| limits::EPISODES_PER_ITERATION.contains(near));
            let near = near.map(|near| near.to_string()).collect::<Vec<_>>().join(" or ");
            let whose = if self.learn.has("episodes") { "found" } else { "the default is" };
            let why = format!("{whose} {episodes}; expected a multiple of the group of {group}, as {near}");
            self.learn.refuse("episodes", why);
        }
    }

    fn into_diagnostics(self) -> Vec<Diagnostic> {
        let Self { top, learn, harness, gate, evolve, eval } = self;
        let unknown = unknown_keys(&[&top, &learn, &harness, &gate, &evolve, &eval]);
        let noted = [top, learn, harness, gate, evolve, eval].into_iter().flat_map(Section::into_diagnostics);
        noted.chain(unknown).collect()
    }
}

fn read_play(top: &mut Section<'_, '_>) -> Play {
    let default = Play::default();
    Play {
        group: top.whole("group", &limits::GROUP).unwrap_or(default.group),
        episodes: top.whole("episodes", &limits::EPISODES).unwrap_or(default.episodes),
    }
}

fn read_system_prompt(top: &mut Section<'_, '_>) -> Option<SystemPrompt> {
    // An empty prompt is one, and not the environment's hint.
    let text = top.parsed("system_prompt", |text| Some(text.to_owned()), "a text");
    let file = top.text("system_prompt_file");
    if top.has("system_prompt") && top.has("system_prompt_file") {
        top.refuse("system_prompt_file", "not together with system_prompt; take one of them out");
    }
    file.map(SystemPrompt::File).or(text.map(SystemPrompt::Text))
}

fn read_grants(top: &mut Section<'_, '_>) -> Option<Vec<Grant>> {
    top.list("grants", |text, known| {
        let grant: Grant = text.parse().map_err(str::to_owned)?;
        let is_same = |other: &Grant| match (other, &grant) {
            (Grant::Kv, Grant::Kv) => true,
            (Grant::Model { alias: one, .. }, Grant::Model { alias: other, .. }) => one == other,
            _ => false,
        };
        if known.iter().any(is_same) { Err("each grant and each alias once".to_owned()) } else { Ok(grant) }
    })
}

fn read_layers(learn: &mut Section<'_, '_>) {
    let known = LAYERS.join(", ");
    let layers = learn.list("layers", |text, seen: &[String]| {
        if seen.iter().any(|layer| layer == text) {
            return Err("each layer once".to_owned());
        }
        if text == "weights" {
            return Err(format!(
                "a layer that this version knows: {known}; weights learn by the command line alone so far"
            ));
        }
        if !LAYERS.contains(&text) {
            let hint = nearest(text, LAYERS).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            return Err(format!("a layer that this version knows: {known}{hint}"));
        }
        Ok(text.to_owned())
    });
    if layers.is_some_and(|layers| layers.is_empty()) && !learn.is_refused("layers") {
        learn.refuse("layers", format!("found an empty list; expected at least one layer of: {known}"));
    }
}

fn read_harness(harness: &mut Section<'_, '_>, default: Harness) -> Harness {
    Harness {
        reflector: default.reflector,
        playbook: harness.parsed("playbook", plain_name, PLAIN_NAME),
        token_budget: harness.whole("token_budget", &limits::TOKEN_BUDGET).unwrap_or(default.token_budget),
        trial_slots: harness.whole("trial_slots", &limits::TRIAL_SLOTS).unwrap_or(default.trial_slots),
        reflect_every: harness.whole("reflect_every", &limits::ITERATIONS).unwrap_or(default.reflect_every),
        forbid: harness.list("forbid", |text, _| Ok(text.to_owned())).unwrap_or(default.forbid),
    }
}

fn read_gate(gate: &mut Section<'_, '_>, default: &Gate) -> Gate {
    Gate {
        every: gate.whole("every", &limits::ITERATIONS).unwrap_or(default.every),
        pairs: gate.whole("pairs", &limits::PAIRS).unwrap_or(default.pairs),
        alpha: gate.number("alpha", &limits::ALPHA).unwrap_or(default.alpha),
    }
}

fn read_evolve(evolve: &mut Section<'_, '_>, default: Evolve) -> Evolve {
    Evolve {
        budget: evolve.whole("budget", &limits::EVOLVE_BUDGET).unwrap_or(default.budget),
        minibatch: evolve.whole("minibatch", &limits::MINIBATCH).unwrap_or(default.minibatch),
        section: evolve.parsed("section", plain_name, PLAIN_NAME).unwrap_or(default.section),
        reflector: evolve.text("reflector").unwrap_or(default.reflector),
    }
}

fn plain_name(text: &str) -> Option<String> {
    (is_plain_name(text) && text.len() <= limits::NAME_BYTES).then(|| text.to_owned())
}
