//! The models that are served, by alias.

use crate::GatewayError;
use clawhost_core::{Llm, LlmIdentity};
use clawhost_providers::{Dialect, Upstream};
use std::sync::Arc;

/// What answers for an alias.
#[derive(Clone)]
pub enum ModelSource {
    /// An endpoint. Requests of its dialect are forwarded byte for byte; others are translated.
    Endpoint {
        /// Forwards.
        upstream: Arc<Upstream>,
        /// Translates.
        client: Arc<dyn Llm>,
        /// The model's name there.
        model: String,
        /// Whether a client's own key is passed on, if the upstream has none of its own.
        passes_key: bool,
    },
    /// A model of this process.
    Local(Arc<dyn Llm>),
}

impl ModelSource {
    /// The model.
    pub fn identity(&self) -> LlmIdentity {
        match self {
            Self::Endpoint { client, .. } => client.identity(),
            Self::Local(model) => model.identity(),
        }
    }

    /// The upstream, if it has this dialect.
    pub(crate) fn speaks(&self, dialect: Dialect) -> Option<(&Arc<Upstream>, &str, bool)> {
        match self {
            Self::Endpoint { upstream, model, passes_key, .. } if upstream.dialect() == dialect => {
                Some((upstream, model, *passes_key))
            }
            Self::Endpoint { .. } | Self::Local(_) => None,
        }
    }

    /// The model behind its port.
    pub(crate) fn model(&self) -> &Arc<dyn Llm> {
        match self {
            Self::Endpoint { client, .. } => client,
            Self::Local(model) => model,
        }
    }
}

/// A served model.
#[derive(Clone)]
pub struct ServedModel {
    /// Its name for clients.
    pub alias: String,
    /// What answers.
    pub source: ModelSource,
}

impl std::fmt::Debug for ServedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedModel").field("alias", &self.alias).field("model", &self.source.identity()).finish()
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Models(Vec<ServedModel>);

impl Models {
    pub(crate) fn new(models: Vec<ServedModel>) -> Result<Self, GatewayError> {
        if models.is_empty() {
            return Err(GatewayError::NoModel);
        }
        for (at, model) in models.iter().enumerate() {
            if models.iter().take(at).any(|known| known.alias == model.alias) {
                return Err(GatewayError::AliasTwice(model.alias.clone()));
            }
        }
        Ok(Self(models))
    }

    pub(crate) fn find(&self, alias: &str) -> Option<&ServedModel> {
        self.0.iter().find(|model| model.alias == alias)
    }

    pub(crate) fn aliases(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|model| model.alias.as_str())
    }
}
