//! Connects traits to exports. Public for the export macros; not part of the interface.
#![allow(missing_docs, reason = "hidden from authors")]

use crate::bindings::environment::exports::clawhost::environment::environment as wit;
use crate::bindings::observer::clawhost::episode::view;
use crate::bindings::observer::clawhost::types::types::About;
use crate::bindings::reflector::exports::clawhost::reflector::reflector as reflector_wit;
use crate::bindings::reward::exports::clawhost::reward::reward as reward_wit;
use crate::bindings::router::exports::clawhost::router::router as router_wit;
use crate::{
    Action, Attributes, Context, Episode, Group, MessageEnvironment, OptionSpec, Params, Reflector, Reward, Router,
    Scope, Signals, Source, Status, Step, Task, Verdict,
};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Once;

/// Logs panics with message and location. Without it a panic in a guest is reported as `unreachable`.
fn install_panic_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|info| crate::log::error(&info.to_string()))));
}

fn about(name: &str, version: &str, summary: &str, features: Vec<String>, options: Vec<OptionSpec>) -> About {
    About {
        name: name.to_owned(),
        version: version.to_owned(),
        summary: summary.to_owned(),
        features,
        options,
        extra: vec![("sdk".to_owned(), concat!("rust ", env!("CARGO_PKG_VERSION")).to_owned())],
    }
}

/// The name in `about.extra` under which an environment declares its extras, one pair for each.
const GIVES: &str = "gives";

/// Adds pairs with one name.
fn declaring(mut about: About, name: &str, values: impl IntoIterator<Item = String>) -> About {
    about.extra.extend(values.into_iter().map(|value| (name.to_owned(), value)));
    about
}

/// A context with options only: checks draw no random numbers.
fn chosen(options: Attributes) -> Context {
    Context::new(0, options)
}

pub struct EnvironmentGuest<E>(PhantomData<E>);

pub struct LiveEpisode<E>(RefCell<E>);

fn params(wit: wit::Params) -> Params {
    Params { task: wit.task, context: wit.context, max_turns: wit.max_turns }
}

impl<E: MessageEnvironment> wit::Guest for EnvironmentGuest<E> {
    type Episode = LiveEpisode<E>;

    fn describe() -> Result<wit::Description, wit::EnvError> {
        install_panic_hook();
        let features = if E::SNAPSHOT { vec!["snapshot".to_owned()] } else { Vec::new() };
        let splits =
            E::splits().into_iter().map(|split| wit::Split { name: split.name, tasks: split.tasks, extra: Vec::new() });
        let about = about(E::NAME, E::VERSION, E::SUMMARY, features, E::options());
        let gives = [(E::REVIEWS, "reviews"), (E::DEMONSTRATIONS, "demonstrations")];
        let gives = gives.into_iter().filter(|(given, _)| *given).map(|(_, name)| name.to_owned());
        Ok(wit::Description { about: declaring(about, GIVES, gives), splits: splits.collect(), extra: Vec::new() })
    }

    fn check(options: Attributes) -> Result<(), wit::EnvError> {
        install_panic_hook();
        E::check(&chosen(options)).map_err(|error| wit::EnvError::InvalidOption(error.into_message()))
    }

    fn tasks(context: Context, split: String, offset: u64, limit: u32) -> Result<Vec<Task>, wit::EnvError> {
        install_panic_hook();
        E::tasks(&context, &split, offset, limit).map_err(|error| wit::EnvError::Other(error.into_message()))
    }
}

impl<E: MessageEnvironment> wit::GuestEpisode for LiveEpisode<E> {
    fn start(wit: wit::Params) -> Result<(wit::Episode, wit::Opening), wit::EnvError> {
        install_panic_hook();
        let (episode, opening) = E::start(&params(wit)).map_err(|error| wit::EnvError::Other(error.into_message()))?;
        let opening = wit::Opening {
            observation: opening.observation,
            tools: opening.tools,
            system_hint: opening.system_hint,
            artefacts: opening.artefacts,
            extra: Vec::new(),
        };
        Ok((wit::Episode::new(Self(RefCell::new(episode))), opening))
    }

    fn restore(wit: wit::Params, state: Vec<u8>) -> Result<wit::Episode, wit::EnvError> {
        install_panic_hook();
        let episode =
            E::restore(&params(wit), &state).map_err(|error| wit::EnvError::InvalidSnapshot(error.into_message()))?;
        Ok(wit::Episode::new(Self(RefCell::new(episode))))
    }

    fn step(&self, action: wit::Action) -> Result<wit::StepResult, wit::EnvError> {
        let mut signals = Signals::default();
        let action = Action { message: action.message, refused: action.tool_results };
        let step = self.0.borrow_mut().step(&action, &mut signals).unwrap_or_else(|error| {
            signals.set("invalid_action", 1.0);
            Step::error(&action, error.message())
        });
        Ok(wit::StepResult {
            observation: step.observation,
            status: match step.status {
                Status::Running => wit::Status::Running,
                Status::Terminated => wit::Status::Terminated,
                Status::Truncated(reason) => wit::Status::Truncated(reason),
            },
            signals: signals.0,
            artefacts: step.artefacts,
            extra: Vec::new(),
        })
    }

    fn snapshot(&self) -> Result<Vec<u8>, wit::EnvError> {
        self.0.borrow().snapshot().map_err(|error| wit::EnvError::Unsupported(error.into_message()))
    }
}

fn read_group(group: &view::Group) -> Group {
    Group::new((0..group.size()).map(|index| Episode::from_host(group.episode(index))).collect())
}

pub struct RewardGuest<R>(PhantomData<R>);

impl<R: Reward> reward_wit::Guest for RewardGuest<R> {
    fn describe() -> Result<reward_wit::Description, reward_wit::RewardError> {
        install_panic_hook();
        let about = about(R::NAME, R::VERSION, R::SUMMARY, Vec::new(), R::options());
        let reads = R::reads().iter().map(ToString::to_string).collect::<Vec<_>>();
        Ok(reward_wit::Description {
            about: declaring(about, crate::reads::READS, reads),
            minimum: R::RANGE.0,
            maximum: R::RANGE.1,
            source: match R::SOURCE {
                Source::Outcome => reward_wit::Source::Outcome,
                Source::Execution => reward_wit::Source::Execution,
                Source::Judge => reward_wit::Source::Judge,
            },
            scope: match R::SCOPE {
                Scope::Each => reward_wit::Scope::Each,
                Scope::Group => reward_wit::Scope::Group,
            },
            extra: Vec::new(),
        })
    }

    fn check(options: Attributes) -> Result<(), reward_wit::RewardError> {
        install_panic_hook();
        R::check(&chosen(options)).map_err(|error| reward_wit::RewardError::InvalidOption(error.into_message()))
    }

    fn score(context: Context, group: view::Group) -> Result<Vec<reward_wit::Verdict>, reward_wit::RewardError> {
        install_panic_hook();
        let verdicts = R::score_group(&read_group(&group), &context)
            .map_err(|error| reward_wit::RewardError::Other(error.into_message()))?;
        Ok(verdicts.into_iter().map(verdict).collect())
    }
}

fn verdict(verdict: Verdict) -> reward_wit::Verdict {
    match verdict {
        Verdict::Scored { value, confidence, parts, rationale, per_turn } => {
            reward_wit::Verdict::Scored(reward_wit::ScoreCard {
                value,
                confidence,
                parts: crate::reward::into_signals(parts),
                rationale,
                per_turn,
                extra: Vec::new(),
            })
        }
        Verdict::NotApplicable(why) => reward_wit::Verdict::NotApplicable(why),
        Verdict::Failed(why) => reward_wit::Verdict::Failed(why),
    }
}

pub struct ReflectorGuest<R>(PhantomData<R>);

impl<R: Reflector> reflector_wit::Guest for ReflectorGuest<R> {
    fn describe() -> Result<About, reflector_wit::ReflectError> {
        install_panic_hook();
        Ok(about(R::NAME, R::VERSION, R::SUMMARY, Vec::new(), R::options()))
    }

    fn check(options: Attributes) -> Result<(), reflector_wit::ReflectError> {
        install_panic_hook();
        R::check(&chosen(options)).map_err(|error| reflector_wit::ReflectError::InvalidOption(error.into_message()))
    }

    fn reflect(
        context: Context,
        playbook: reflector_wit::Playbook,
        group: view::Group,
    ) -> Result<Vec<reflector_wit::Proposal>, reflector_wit::ReflectError> {
        install_panic_hook();
        R::reflect(&read_group(&group), &playbook, &context).map_err(|error| match error.is_of_model() {
            true => reflector_wit::ReflectError::Model(error.into_message()),
            false => reflector_wit::ReflectError::Other(error.into_message()),
        })
    }
}

pub struct RouterGuest<R>(PhantomData<R>);

impl<R: Router> router_wit::Guest for RouterGuest<R> {
    fn describe() -> Result<About, router_wit::RouteError> {
        install_panic_hook();
        Ok(about(R::NAME, R::VERSION, R::SUMMARY, Vec::new(), R::options()))
    }

    fn check(options: Attributes) -> Result<(), router_wit::RouteError> {
        install_panic_hook();
        R::check(&chosen(options)).map_err(|error| router_wit::RouteError::InvalidOption(error.into_message()))
    }

    fn route(
        context: Context,
        request: router_wit::Request,
        candidates: Vec<router_wit::Candidate>,
    ) -> Result<router_wit::Choice, router_wit::RouteError> {
        install_panic_hook();
        R::route(&request, &candidates, &context).map_err(|error| router_wit::RouteError::Other(error.into_message()))
    }
}
