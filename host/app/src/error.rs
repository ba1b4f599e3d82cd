//! The error of every operation: one type for all front ends, with a code, a kind and structured hints.

use crate::data::ForgetError;
use crate::live::MemoryError;
use crate::modules::ModuleError;
use crate::{ComparisonError, FolderError, NoHistory, NotGranted, ProofError, RequestError};
use clawhost_core::{Hint, StoreError, TrapReport};
use clawhost_engine::EngineError;
use clawhost_gateway::GatewayError;
use clawhost_learning::LearningError;
use clawhost_model::LocalModelError;
use clawhost_model::device::DeviceError;
use clawhost_play::PlayError;
use clawhost_providers::ProviderError;
use clawhost_run_config::{Key, Problems, SpecError};

/// The kind of an error, from which programs choose an exit code or a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is invalid here.
    Usage,
    /// A plugin was refused.
    Plugin,
    /// The data folder cannot be used.
    Store,
    /// The operator stopped the operation before anything was done.
    Cancelled,
    /// Any other error.
    Other,
}

/// A value of an option that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct WrongOption {
    /// The option.
    pub key: Key,
    /// The reason.
    pub error: AppError,
}

/// The error of an operation.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The request is invalid here.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The folder of a plugin cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A module cannot be used.
    #[error(transparent)]
    Module(Box<ModuleError>),
    /// A plugin asks for what is not granted.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// Something cannot be remembered or forgotten.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Nothing is forgotten.
    #[error(transparent)]
    Forget(#[from] ForgetError),
    /// Two judges cannot be compared.
    #[error(transparent)]
    Comparison(#[from] ComparisonError),
    /// A reward has no history.
    #[error(transparent)]
    NoHistory(#[from] NoHistory),
    /// A run is not packed, or a bundle not verified.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The specification of a run has problems.
    #[error(transparent)]
    Spec(#[from] Problems),
    /// The value of an option of the run cannot be used.
    #[error(transparent)]
    Option(Box<WrongOption>),
    /// A stored specification cannot be read.
    #[error("{run}: {error}")]
    Document {
        /// The run.
        run: String,
        /// The reason.
        error: SpecError,
    },
    /// A plugin was refused, or the engine cannot be set up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The data folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An endpoint cannot be set up.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A local model cannot be used.
    #[error(transparent)]
    Model(#[from] LocalModelError),
    /// A device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A gateway cannot start.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// Episodes cannot be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// A learning run cannot continue.
    #[error(transparent)]
    Learning(#[from] LearningError),
    /// Invalid lessons, objectives or playbooks.
    #[error(transparent)]
    Learn(#[from] clawhost_learn::LearnError),
    /// A file of the program cannot be written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A task of the host ended unexpectedly.
    #[error("a task of the host stopped unexpectedly: {0}")]
    Host(String),
}

impl AppError {
    /// Attributes this error to an option, unless something else is at fault.
    pub(crate) fn of_option(self, key: Key) -> Self {
        match self {
            Self::Device(_)
            | Self::Store(_)
            | Self::Host(_)
            | Self::Engine(EngineError::Compiler(_) | EngineError::SetUp(_)) => self,
            error => Self::Option(Box::new(WrongOption { key, error })),
        }
    }

    /// The error itself, without its option.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Option(wrong) => wrong.error.cause(),
            error => error,
        }
    }

    /// The option whose value cannot be used.
    pub fn option(&self) -> Option<Key> {
        match self {
            Self::Option(wrong) => Some(wrong.key),
            _ => None,
        }
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Option(wrong) => wrong.error.kind(),
            Self::Request(_)
            | Self::Folder(_)
            | Self::Module(_)
            | Self::NotGranted(_)
            | Self::Memory(_)
            | Self::Forget(_)
            | Self::Comparison(_)
            | Self::NoHistory(_)
            | Self::Proof(_)
            | Self::Spec(_)
            | Self::Provider(_)
            | Self::Device(_) => ErrorKind::Usage,
            Self::Engine(EngineError::Options { .. }) => ErrorKind::Usage,
            Self::Engine(EngineError::Compiler(_) | EngineError::SetUp(_)) => ErrorKind::Other,
            Self::Engine(_) => ErrorKind::Plugin,
            // The request is at fault: the folder is sound.
            Self::Store(StoreError::NameTaken { .. }) => ErrorKind::Usage,
            Self::Store(_) | Self::Document { .. } | Self::Gateway(GatewayError::Store(_) | GatewayError::Spool(_)) => {
                ErrorKind::Store
            }
            Self::Gateway(GatewayError::Randomness(_) | GatewayError::Stopped) => ErrorKind::Other,
            Self::Gateway(_) => ErrorKind::Usage,
            Self::Play(error) | Self::Learning(LearningError::Play(error)) => match error {
                PlayError::UnknownSplit { .. } | PlayError::NoTasks { .. } | PlayError::Mixture { .. } => {
                    ErrorKind::Usage
                }
                PlayError::Tasks(_) => ErrorKind::Plugin,
                PlayError::Store(_) => ErrorKind::Store,
                PlayError::Cancelled => ErrorKind::Cancelled,
                PlayError::Host(_) => ErrorKind::Other,
            },
            Self::Learning(
                LearningError::HeldOutSplit { .. }
                | LearningError::NothingHeldOut { .. }
                | LearningError::PlaybookChanged { .. },
            ) => ErrorKind::Usage,
            Self::Model(error) if error.is_of_folder() => ErrorKind::Usage,
            Self::Learning(_) | Self::Model(_) | Self::Learn(_) | Self::Io { .. } | Self::Host(_) => ErrorKind::Other,
        }
    }

    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Option(wrong) => wrong.error.code(),
            Self::Request(error) => error.code(),
            Self::Folder(error) => error.code(),
            Self::Module(error) => error.code(),
            Self::NotGranted(_) => "not_granted",
            Self::Memory(_) => "memory",
            Self::Forget(_) => "forget",
            Self::Comparison(error) => error.code(),
            Self::NoHistory(_) => "no_history",
            Self::Proof(error) => error.code(),
            Self::Spec(_) => "specification",
            Self::Document { .. } => "stored_specification",
            Self::Engine(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Gateway(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Model(error) => error.code(),
            Self::Device(error) => error.code(),
            Self::Play(error) => error.code(),
            Self::Learning(error) => error.code(),
            Self::Learn(_) => "learn",
            Self::Io { .. } => "file",
            Self::Host(_) => "host",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::Option(wrong) => {
                wrong.error.hints().into_iter().map(|hint| hint.of_option(wrong.key.name())).collect()
            }
            Self::Request(error) => error.hints(),
            Self::Folder(error) => error.hints(),
            Self::Module(error) => error.hints(),
            Self::NotGranted(error) => error.hints(),
            Self::Memory(MemoryError::Unknown { .. }) => vec![Hint::command("memory list SCOPE", "shows what it has")],
            Self::Memory(MemoryError::Nowhere(_)) => vec![Hint::command("memory list", "shows the scopes")],
            Self::Memory(_) => Vec::new(),
            Self::Forget(ForgetError::GatewayRuns { .. }) => vec![Hint::command("stop", "ends it")],
            Self::Forget(_) => Vec::new(),
            Self::Comparison(error) => error.hints(),
            Self::NoHistory(_) => NoHistory::hints(),
            Self::Proof(error) => error.hints(),
            Self::Engine(error) => error.hints(),
            Self::Store(error) => error.hints(),
            Self::Gateway(error) => error.hints(),
            Self::Provider(error) => error.hints(),
            Self::Model(error) => error.hints(),
            Self::Device(error) => error.hints(),
            Self::Play(error) => error.hints(),
            Self::Learning(error) => error.hints(),
            Self::Spec(_) | Self::Document { .. } | Self::Learn(_) | Self::Io { .. } | Self::Host(_) => Vec::new(),
        }
    }

    /// The state of the guest, if the error is a trap.
    pub fn trap(&self) -> Option<&TrapReport> {
        let failure = match self {
            Self::Option(wrong) => return wrong.error.trap(),
            Self::Engine(EngineError::NoAnswer { failure, .. }) => Some(failure),
            Self::Play(PlayError::Tasks(failure)) | Self::Learning(LearningError::Play(PlayError::Tasks(failure))) => {
                Some(failure)
            }
            _ => None,
        };
        failure.and_then(|failure| failure.report.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_engine::World;

    #[test]
    fn a_hint_names_the_option_that_was_read() {
        let wrong = |found, wanted| EngineError::WrongWorld { name: "p.wasm".into(), found, wanted };
        let check = |error: AppError, key: Key, expect: &[Hint]| {
            let (text, kind, code) = (error.to_string(), error.kind(), error.code());
            let error = error.of_option(key);
            assert_eq!((error.to_string(), error.kind(), error.code()), (text, kind, code));
            assert_eq!((error.hints().as_slice(), error.option()), (expect, Some(key)));
        };
        let (environment, reward) = (World::Environment, World::Reward);
        check(wrong(reward, environment).into(), Key::Plugin, &[Hint::change("plugin")]);
        check(wrong(reward, World::Reflector).into(), Key::EvolveReflector, &[Hint::change("evolve_reflector")]);
        let plays = Hint::command("run PLUGIN.wasm", "plays an environment");
        check(wrong(environment, reward).into(), Key::Rewards, &[Hint::change("rewards"), plays]);
        let no_model = AppError::from(LocalModelError::TwoHeads);
        assert_eq!((no_model.kind(), no_model.code()), (ErrorKind::Usage, "two-heads"));
        assert_eq!(AppError::from(LocalModelError::Logits).kind(), ErrorKind::Other);
        let unknown = RequestError::UnknownModel { spec: "folower".into(), nearest: None };
        check(unknown.into(), Key::Grants, &[Hint::change("grants")]);
        let keyless = ProviderError::NoKey { host: "h".into(), variable: "V" };
        check(keyless.into(), Key::Grants, &[Hint::set("api_key_file", "FILE")]);
    }

    #[test]
    fn errors_with_other_causes_are_not_attributed_to_an_option() {
        let error = AppError::Host("gone".into()).of_option(Key::Policy);
        assert_eq!(error.option(), None);
    }
}
