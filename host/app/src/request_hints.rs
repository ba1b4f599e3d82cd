//! Remedies of requests that cannot be carried out.

use crate::RequestError;
use clawhost_core::Hint;

impl RequestError {
    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::ResumeDiffers { .. } => vec![Hint::SameSpecification, Hint::NewRun],
            Self::UnknownModel { .. } | Self::NoModelName { .. } => vec![Hint::ChangeThis],
            Self::NoRun { .. } => vec![Hint::command("runs list", "shows the latest")],
            Self::CannotResume { .. } => vec![Hint::NewRun],
            Self::CostUnknown { .. } => {
                vec![Hint::command("run PLUGIN", "plays some, which say it"), Hint::change("budget")]
            }
            Self::NothingDecided { .. } => vec![Hint::command("feedback EPISODE", "judges one")],
            Self::EmptyKeyFile { .. } => vec![Hint::change("api_key_file")],
            Self::SystemPromptFile { .. } => vec![Hint::change("system_prompt_file")],
            Self::GatewayRuns { .. } => vec![Hint::command("stop", "ends it"), Hint::OtherDataFolder],
            Self::GatewayNotStarted => {
                vec![Hint::command("start", "starts it"), Hint::command("run", "plays some episodes")]
            }
            Self::NoGateway { .. } => vec![Hint::command("start", "starts one"), Hint::OtherDataFolder],
            Self::KeyExists { .. } | Self::NoSuchKey { .. } | Self::GatewayKey { .. } => {
                vec![Hint::command("keys", "lists the keys")]
            }
            Self::WhichModel { .. } => vec![Hint::change("model")],
            Self::NotConfigured { .. } => vec![Hint::command("config show", "shows the keys that are set")],
            Self::PlaybookBusy { .. } => vec![Hint::change("playbook")],
            // What follows a folder is options, if all of it is.
            Self::NoModelFolder { folder } if folder.contains('?') => {
                vec![Hint::outside("options behind a folder are dtype=FORMAT and arg.NAME=VALUE, with & between them")]
            }
            Self::NoModelFolder { folder } if folder.starts_with("local:") => {
                vec![Hint::outside("leave out `local:`, a folder is named here")]
            }
            Self::NoModelFolder { .. } => vec![Hint::command("model init DIR", "makes a tiny one")],
            Self::ModelFolder { error, .. } => error.hints(),
            Self::SystemPromptUnsupported { .. } => {
                let does = "makes one that reads it, on request";
                vec![Hint::command("model init DIR", does)]
            }
            Self::NotConfirmed { .. } => vec![Hint::command("endpoints", "lists the confirmed addresses")],
            Self::NotEmpty { can_overwrite: true, .. } => vec![Hint::set("force", "true")],
            Self::OtherTokenizer { .. } | Self::NoTeacher { .. } | Self::Teacher { .. } => {
                vec![Hint::change("teacher")]
            }
            Self::NoPlugin { .. } => vec![Hint::change("plugins")],
            _ => Vec::new(),
        }
    }
}
