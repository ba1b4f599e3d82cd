//! The models that a gateway serves: those of a request, and those of its configuration, which may change while it runs. The weights of
//! local models may change in both.

use crate::background::FormerWeights;
use crate::events::EventSink;
use crate::gateway_file::{GATEWAY_FILE, GatewayFile, ModelSection};
use crate::live::LearnedPlace;
use crate::model_folders::{folder_name, local_folder};
use crate::models::{ModelFactory, ServedOptions, is_endpoint};
use crate::own_models::OwnModels;
use crate::routers::{LiveRouter, RouterPlugins, router_name};
use crate::served_routers::{ServedRouter, ServedRouters};
use crate::tinker::TinkerModel;
use crate::watched_folder::WatchedFolder;
use crate::{AppError, RequestError};
use clawhost_core::Secret;
use clawhost_gateway::{Candidate, ModelSource, ServedModel, check_models};
use clawhost_model::LocalModel;
use clawhost_providers::{UpstreamEmbeddings, key_from_file};
use clawhost_run_config::LocalModelText;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of an alias in a message.
const SHOWN_BYTES: usize = 60;

/// Opens models for a gateway, and keeps those that are open.
pub(crate) struct ServedModels {
    factory: ModelFactory,
    /// The models of the request by their aliases.
    requested: Vec<(String, OpenModel)>,
    /// The aliases of the request whose model a router chooses, with the router.
    routed: Vec<(String, String)>,
    /// The routers of the request and of the configuration.
    routers: ServedRouters,
    /// The sections of the configuration that counts.
    sections: BTreeMap<String, ModelSection>,
    /// Their models, with the sections that they were opened for.
    configured: Configured,
    /// The model whose weights learn.
    learned: Option<LearnedModel>,
    /// The adapters of scopes that answer in its place.
    own: Option<OwnModels>,
    /// The model of `skills.embeddings`.
    embeddings: Option<Arc<UpstreamEmbeddings>>,
}

/// A model whose weights learn while it serves.
#[derive(Debug, Clone)]
pub(crate) struct LearnedModel {
    /// Its alias.
    pub(crate) alias: String,
    /// The folder that it learned from, without links.
    pub(crate) base: PathBuf,
    /// What was learned.
    pub(crate) place: LearnedPlace,
    /// Whether each scope has an adapter of its own. Otherwise the newest version answers everybody.
    pub(crate) is_of_scopes: bool,
}

impl LearnedModel {
    /// The folder that is served in the place of the configured one.
    fn folder(&self) -> Option<PathBuf> {
        (!self.is_of_scopes).then(|| self.place.serving())
    }
}

/// The folder of a model whose weights can learn, from its text.
fn learning_folder(spec: &str) -> Option<PathBuf> {
    let tinker = || TinkerModel::of(spec).ok().flatten().map(|tinker| tinker.folder);
    local_folder(spec).map(PathBuf::from).or_else(tinker)
}

/// The text of the model of an alias, of a request or a configuration. `None`: there is no such model, or it is none whose weights can learn.
pub(crate) fn configured_model(wanted: &str, texts: &[String], file: &GatewayFile) -> Option<String> {
    let requested = texts.iter().find_map(|text| {
        let (alias, spec) = alias(text);
        is_called(alias, spec, wanted).then_some(spec)
    });
    let configured = || file.models.get(wanted)?.model.as_deref();
    requested.or_else(configured).filter(|spec| learning_folder(spec).is_some()).map(str::to_owned)
}

/// Models of a configuration by their aliases.
type Configured = BTreeMap<String, (ModelSection, OpenModel)>;

/// A model that is open.
#[derive(Clone)]
pub(crate) struct OpenModel {
    spec: String,
    options: ServedOptions,
    pub(crate) candidate: Candidate,
    /// The model, if it is one of this process.
    local: Option<Arc<LocalModel>>,
    /// Its folder, if it is a local model, or that of the version of its weights.
    folder: Option<WatchedFolder>,
    /// How often its weights were replaced.
    replaced: u64,
}

impl OpenModel {
    /// Opens a model. Returns its name, too.
    pub(crate) fn new(
        factory: &ModelFactory,
        spec: &str,
        options: &ServedOptions,
        events: &dyn EventSink,
    ) -> Result<(String, Self), AppError> {
        // Before the files are read: what changes meanwhile is seen at the next look.
        let watched = local_folder(spec).map(PathBuf::from).or_else(|| options.version.clone());
        let folder = watched.map(WatchedFolder::new);
        let (name, source, local) = open(factory, spec, options, events)?;
        let (spec, options, candidate) = (spec.to_owned(), options.clone(), Candidate::new(source));
        Ok((name, Self { spec, options, candidate, local, folder, replaced: 0 }))
    }

    /// Whether it is the model of a text.
    pub(crate) fn is(&self, spec: &str) -> bool {
        self.spec == spec
    }

    /// Opens the changed files of its folder, if they are due. Returns whether other weights answer from now on. What is known of the
    /// model's health stays.
    fn refresh(&mut self, factory: &ModelFactory, events: &dyn EventSink) -> bool {
        let Self { spec, options, candidate, local, folder, replaced } = self;
        let options = ServedOptions { weights_number: *replaced + 1, ..options.clone() };
        let opened = folder.as_mut().and_then(|folder| folder.open_if_due(|| open(factory, spec, &options, events)));
        let Some((_, source, model)) = opened.filter(|(_, source, _)| source.identity() != candidate.source.identity())
        else {
            return false;
        };
        (candidate.source, *local, *replaced) = (source, model, options.weights_number);
        true
    }
}

/// A model's name, what answers for it, and the model itself if it is one of this process.
type Opened = (String, ModelSource, Option<Arc<LocalModel>>);

fn open(
    factory: &ModelFactory,
    spec: &str,
    options: &ServedOptions,
    events: &dyn EventSink,
) -> Result<Opened, AppError> {
    match LocalModelText::of(spec) {
        Some(text) => {
            let model = factory.local(&text, options.weights_number, events)?;
            Ok((folder_name(Path::new(text.folder)), factory.served_local(model.clone()), Some(model)))
        }
        None => factory.served(spec, options, events).map(|(name, source)| (name, source, None)),
    }
}

/// The alias and the model's text of `ALIAS=SPEC`. An address may contain `=`, a kind of model contains none.
fn alias(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((alias, spec)) if !alias.is_empty() && !alias.contains(':') => (Some(alias), spec),
        _ => (None, text),
    }
}

/// Whether a model is served under a name: its alias, or without one the name of its folder.
fn is_called(alias: Option<&str>, spec: &str, name: &str) -> bool {
    let own = || learning_folder(spec).is_some_and(|folder| folder_name(&folder) == name);
    alias.map_or_else(own, |alias| alias == name)
}

/// The text of a model, or of the folder with its newest weights.
fn newest<'a>(spec: &'a str, learned: Option<&LearnedModel>) -> Cow<'a, str> {
    match (LocalModelText::of(spec), learned) {
        // An alias that was given to another model since serves that one.
        (Some(LocalModelText { folder, options, .. }), Some(learned))
            if Path::new(folder).canonicalize().is_ok_and(|folder| folder == learned.base) =>
        {
            learned.folder().map_or(spec.into(), |folder| format!("local:{}{options}", folder.display()).into())
        }
        _ => spec.into(),
    }
}

/// The folder that leads to the version of a model at a service. `None`: the base model answers.
fn version_at_service(spec: &str, learned: Option<&LearnedModel>) -> Option<PathBuf> {
    let tinker = TinkerModel::of(spec).ok().flatten()?;
    let learned = learned.filter(|learned| tinker.folder.canonicalize().is_ok_and(|folder| folder == learned.base))?;
    learned.folder()
}

impl ServedModels {
    /// Opens the models of a request: `SPEC` or `ALIAS=SPEC`. `passes_key`: they get the key of the client that asks. `retries`: further
    /// attempts after one that failed.
    ///
    /// # Errors
    /// A text is no model, or a model cannot be used.
    pub(crate) fn new(
        factory: ModelFactory,
        texts: &[String],
        (passes_key, retries): (bool, u32),
        learned: Option<LearnedModel>,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        let (mut requested, mut routed) = (Vec::new(), Vec::new());
        for text in texts {
            let (alias, spec) = alias(text);
            if let Some(router) = router_name(spec) {
                routed.push((alias.unwrap_or(router).to_owned(), router.to_owned()));
                continue;
            }
            let own = learned.as_ref().filter(|learned| is_called(alias, spec, &learned.alias));
            let version = version_at_service(spec, own);
            let options = ServedOptions { passes_key, version, ..ServedOptions::default() };
            let spec = factory.with_folder(spec)?;
            let spec = newest(&spec, own);
            let (name, mut model) = OpenModel::new(&factory, &spec, &options, events)?;
            model.candidate = model.candidate.retried(retries);
            requested.push((alias.map_or(name, str::to_owned), model));
        }
        Ok(Self {
            factory,
            requested,
            routed,
            routers: ServedRouters::new(),
            sections: BTreeMap::new(),
            configured: BTreeMap::new(),
            own: learned.as_ref().filter(|one| one.is_of_scopes).map(|one| OwnModels::new(one.place.clone())),
            learned,
            embeddings: None,
        })
    }

    /// The plugins of the routers that are opened from now on.
    pub(crate) fn set_router_plugins(&mut self, plugins: RouterPlugins) {
        self.factory.set_router_plugins(plugins);
    }

    /// What chooses models.
    pub(crate) fn routers(&self) -> Vec<Arc<LiveRouter>> {
        self.routers.values().map(|router| router.live().clone()).collect()
    }

    /// The names of the routers that the request or a configuration serves.
    pub(crate) fn router_names(&self, file: &GatewayFile) -> BTreeSet<String> {
        let configured = file.models.values().filter_map(|section| router_name(section.model.as_ref()?));
        self.routed.iter().map(|(_, router)| router.as_str()).chain(configured).map(str::to_owned).collect()
    }

    /// Every model that is open, with its alias or its name in a router's table.
    fn open_models(&mut self) -> (&ModelFactory, impl Iterator<Item = (&String, &mut OpenModel)>) {
        let Self { factory, requested, configured, routers, .. } = self;
        let requested = requested.iter_mut().map(|(alias, model)| (&*alias, model));
        let configured = configured.iter_mut().map(|(alias, (_, model))| (alias, model));
        (factory, requested.chain(configured).chain(routers.values_mut().flat_map(ServedRouter::own)))
    }

    /// Looks at the folders of local models. Returns whether files of one are due.
    pub(crate) fn look(&mut self, is_asked: bool) -> bool {
        // Every folder is looked at.
        let (_, all) = self.open_models();
        let due = all
            .filter_map(|(_, model)| model.folder.as_mut())
            .map(|folder| folder.look(is_asked))
            .filter(|is_due| *is_due)
            .count();
        let own = self.own.as_mut().is_some_and(|own| own.look(is_asked));
        due > 0 || own
    }

    /// Opens the changed files of local models that are due. Returns the aliases of which other weights answer.
    pub(crate) fn refresh(&mut self, events: &dyn EventSink) -> Vec<String> {
        let (factory, all) = self.open_models();
        let mut replaced: Vec<String> =
            all.filter_map(|(alias, model)| model.refresh(factory, events).then(|| alias.clone())).collect();
        let has_others = self.refresh_own();
        if let Some(learned) = self.learned.as_ref().filter(|learned| has_others && !replaced.contains(&learned.alias))
        {
            replaced.push(learned.alias.clone());
        }
        replaced
    }

    /// Opens the adapters that are due, beside the model that they were learned from. Returns whether others answer from now on.
    fn refresh_own(&mut self) -> bool {
        let Self { factory, requested, configured, learned, own, .. } = self;
        let (Some(learned), Some(own)) = (learned, own) else { return false };
        let requested = requested.iter().find(|(alias, _)| *alias == learned.alias).map(|(_, model)| model);
        let model = requested.or_else(|| Some(&configured.get(&learned.alias)?.1));
        // An alias that was given to another model since serves that one.
        let is_base = |model: &&OpenModel| {
            let folder = local_folder(&model.spec).map(Path::new);
            folder.and_then(|folder| folder.canonicalize().ok()).is_some_and(|folder| folder == learned.base)
        };
        own.refresh(factory, model.filter(is_base).and_then(|model| model.local.as_ref()))
    }

    /// The local models whose changed files cannot be used.
    pub(crate) fn former_weights(&self) -> Vec<FormerWeights> {
        let requested = self.requested.iter().map(|(alias, model)| (alias, model));
        let all = requested.chain(self.configured.iter().map(|(alias, (_, model))| (alias, model)));
        all.filter_map(|(alias, model)| {
            let why = model.folder.as_ref()?.problem()?.to_owned();
            Some(FormerWeights { alias: alias.clone(), why })
        })
        .collect()
    }

    /// The aliases of models that are asked over the network and have no prices.
    pub(crate) fn without_prices(&self) -> Vec<String> {
        let requested = self.requested.iter().map(|(alias, model)| (alias, model));
        let all = requested.chain(self.configured.iter().map(|(alias, (_, model))| (alias, model)));
        let unpriced = all.filter(|(_, model)| model.candidate.prices.is_none() && is_endpoint(&model.spec));
        unpriced.map(|(alias, _)| alias.clone()).collect()
    }

    /// All models as they are now.
    pub(crate) fn all(&self) -> Vec<ServedModel> {
        self.listed(&self.sections, &self.configured, &self.routers)
    }

    /// The models of the request, and those of these sections.
    fn listed(
        &self,
        sections: &BTreeMap<String, ModelSection>,
        configured: &Configured,
        routers: &ServedRouters,
    ) -> Vec<ServedModel> {
        let learned = self.learned.as_ref().map(|learned| learned.alias.as_str());
        let own = self.own.as_ref().map(OwnModels::sources).unwrap_or_default();
        let with_own = |alias: &str, candidate: &Candidate| match learned == Some(alias) {
            true => candidate.clone().with_own(own.clone()),
            false => candidate.clone(),
        };
        let named = |alias: &str| {
            let requested = self.requested.iter().find(|(known, _)| known == alias).map(|(_, model)| model);
            let model = requested.or_else(|| Some(&configured.get(alias)?.1))?;
            Some(with_own(alias, &model.candidate))
        };
        let by_router = |alias: &str, router: &str| routers.get(router)?.served(alias, named);
        let requested = self.requested.iter().map(|(alias, model)| ServedModel {
            alias: alias.clone(),
            first: with_own(alias, &model.candidate),
            then: Vec::new(),
            routing: None,
        });
        let routed = self.routed.iter().filter_map(|(alias, router)| by_router(alias, router));
        let of_section =
            |(alias, section): (&String, &ModelSection)| match section.model.as_deref().and_then(router_name) {
                Some(router) => by_router(alias, router),
                None => served(alias, section, |alias| Some(with_own(alias, &configured.get(alias)?.1.candidate))),
            };
        requested.chain(routed).chain(sections.iter().filter_map(of_section)).collect()
    }

    /// All models under a configuration. A model whose section is unchanged is not opened again: it keeps its connections, the weights in
    /// memory, and what is known of its endpoint. One with a key file is, because the file may have another key.
    ///
    /// # Errors
    /// A model cannot be used, there is none, or two have one alias. Then the former ones stay open.
    pub(crate) fn under(&mut self, file: &GatewayFile, events: &dyn EventSink) -> Result<Vec<ServedModel>, AppError> {
        let mut opened = BTreeMap::new();
        for (alias, section) in &file.models {
            let Some(spec) = section.model.as_ref().filter(|spec| router_name(spec).is_none()) else { continue };
            let known = self.configured.get(alias).filter(|(known, _)| known == section && known.key_file.is_none());
            let model = match known {
                Some((_, model)) => model.clone(),
                None => self.open(alias, section, spec, events)?,
            };
            opened.insert(alias.clone(), (section.clone(), model));
        }
        let has_alias = |name: &str| opened.contains_key(name) || self.requested.iter().any(|(alias, _)| alias == name);
        let mut routers = ServedRouters::new();
        for name in self.router_names(file) {
            let router = ServedRouter::open(&name, self.routers.get(&name), has_alias, &self.factory, events)?;
            routers.insert(name, router);
        }
        let models = self.listed(&file.models, &opened, &routers);
        check_models(&models)?;
        let embeddings = self.embeddings_of(&models, file)?;
        // Nothing can fail from here on.
        routers.values_mut().for_each(ServedRouter::take_over);
        (self.sections, self.configured, self.routers) = (file.models.clone(), opened, routers);
        self.embeddings = embeddings;
        if let Some(own) = &mut self.own {
            own.look(true);
        }
        self.refresh_own();
        Ok(self.all())
    }

    /// The model of `skills.embeddings` under the configuration that counts.
    pub(crate) fn embeddings(&self) -> Option<Arc<UpstreamEmbeddings>> {
        self.embeddings.clone()
    }

    /// The model of `skills.embeddings`, among these models. The known one if it is the same, so that its vectors stay.
    fn embeddings_of(
        &self,
        models: &[ServedModel],
        file: &GatewayFile,
    ) -> Result<Option<Arc<UpstreamEmbeddings>>, AppError> {
        let Some(alias) = &file.skills.embeddings else { return Ok(None) };
        let wrong = |what: &str| RequestError::File {
            path: GATEWAY_FILE.to_owned(),
            why: format!("skills.embeddings: {what} `{}`", clawhost_core::escaped(alias, SHOWN_BYTES)),
        };
        let served = models.iter().find(|model| model.alias == *alias).ok_or_else(|| wrong("there is no model"))?;
        let no_api = || wrong("there is no API for /embeddings at");
        let (upstream, model) = served.embeddings().ok_or_else(no_api)?;
        let known = self.embeddings.clone().filter(|known| known.is(upstream, model));
        Ok(Some(known.unwrap_or_else(|| Arc::new(UpstreamEmbeddings::new(upstream.clone(), model)))))
    }

    fn open(
        &self,
        alias: &str,
        section: &ModelSection,
        spec: &str,
        events: &dyn EventSink,
    ) -> Result<OpenModel, AppError> {
        let learned = self.learned.as_ref().filter(|learned| learned.alias == alias);
        let options = ServedOptions {
            key: key_of(alias, section)?,
            version: version_at_service(spec, learned),
            passes_key: section.pass_key,
            timeout_seconds: section.timeout_seconds,
            weights_number: 0,
        };
        let spec = self.factory.with_folder(spec)?;
        let spec = newest(&spec, learned);
        let (_, mut model) = OpenModel::new(&self.factory, &spec, &options, events)?;
        let candidate = model.candidate.retried(section.retries).priced(section.prices());
        model.candidate = candidate.reading(section.max_context_tokens);
        Ok(model)
    }
}

/// The model of a section: one, or others in their order.
fn served(alias: &str, section: &ModelSection, named: impl Fn(&str) -> Option<Candidate>) -> Option<ServedModel> {
    let aliases = std::iter::once(alias).chain(section.first_of.iter().map(String::as_str));
    let mut candidates = aliases.filter_map(named);
    let first = candidates.next()?;
    Some(ServedModel { alias: alias.to_owned(), first, then: candidates.collect(), routing: None })
}

/// The key that a configuration names for a model.
pub(crate) fn key_of(alias: &str, section: &ModelSection) -> Result<Option<Secret>, AppError> {
    if let Some(variable) = &section.key_env {
        let key = std::env::var(variable).ok().and_then(|text| Secret::new(&text));
        let no_key = || RequestError::NoKeyInVariable { alias: alias.to_owned(), variable: variable.clone() };
        return Ok(Some(key.ok_or_else(no_key)?));
    }
    section.key_file.as_deref().map(key_of_file).transpose()
}

/// The key in a file.
///
/// # Errors
/// The file cannot be read, or has no key.
pub(crate) fn key_of_file(path: &str) -> Result<Secret, AppError> {
    let key = key_from_file(Path::new(path))?;
    key.ok_or_else(|| RequestError::EmptyKeyFile { path: path.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Silent;
    use clawhost_core::KnownSecrets;
    use clawhost_providers::Prices;
    use clawhost_run_config::BudgetSpec;

    #[test]
    fn an_alias_stands_before_the_model() {
        let check = |text: &str, expect: (Option<&str>, &str)| assert_eq!(alias(text), expect, "{text}");
        check("openai:m@http://127.0.0.1:1/v1", (None, "openai:m@http://127.0.0.1:1/v1"));
        check("fast=openai:m@http://127.0.0.1:1/v1", (Some("fast"), "openai:m@http://127.0.0.1:1/v1"));
        check("openai:m@http://127.0.0.1:1/v1?a=b", (None, "openai:m@http://127.0.0.1:1/v1?a=b"));
        check("=follower", (None, "=follower"));
        check("local:a=b", (None, "local:a=b"));
    }

    #[test]
    fn learned_weights_serve_in_the_place_of_the_model_that_they_were_learned_from_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [base, other] = ["tiny", "other"].map(|name| folder.path().canonicalize().unwrap().join(name));
        for path in [&base, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let place = LearnedPlace::new(folder.path(), "m");
        let learned = LearnedModel { alias: "m".into(), base: base.clone(), place: place.clone(), is_of_scopes: false };
        let local = |path: &Path| format!("local:{}", path.display());
        let check = |spec: &str, expect: &str| assert_eq!(newest(spec, Some(&learned)), expect);
        check(&local(&base), &local(&place.serving()));
        let of_scopes = LearnedModel { is_of_scopes: true, ..learned.clone() };
        assert_eq!(newest(&local(&base), Some(&of_scopes)), local(&base), "adapters answer beside it");
        // The alias was given to another model.
        check(&local(&other), &local(&other));
        check("openai:m@http://127.0.0.1:1/v1", "openai:m@http://127.0.0.1:1/v1");

        let file = GatewayFile::parse(&format!("[models.f]\nmodel = '{}'\n", local(&other))).unwrap();
        let texts = [format!("m={}", local(&base)), local(&other)];
        let found = |name: &str| configured_model(name, &texts, &file);
        let other = Some(local(&other));
        assert_eq!((found("m"), found("other"), found("f")), (Some(local(&base)), other.clone(), other));
        assert_eq!(found("tiny"), None, "it has an alias");
    }

    #[test]
    fn settings_of_the_file_reach_the_model() {
        let settings = crate::models::ModelSettings::default();
        let factory = ModelFactory::new(settings, &BudgetSpec::default(), 1, KnownSecrets::default());
        let mut served = ServedModels::new(factory, &[], (false, 0), None, &Silent).unwrap();
        let text = "[models.m]\nmodel = \"openai:m@http://127.0.0.1:1/v1\"\nretries = 2\nmax_context_tokens = 4096\n\
                    price_in_per_million = 1.5\nprice_out_per_million = 6\n";
        let models = served.under(&GatewayFile::parse(text).unwrap(), &Silent).unwrap();
        let [ServedModel { first, then, .. }] = models.as_slice() else { panic!("{models:?}") };
        assert_eq!((first.retries, first.max_context, then.len()), (2, Some(4096), 0));
        assert_eq!(first.prices, Some(Prices { input: 1.5, output: 6.0 }));
    }

    #[test]
    fn guidance_is_found_with_a_served_model_that_has_embeddings() {
        let settings = crate::models::ModelSettings::default();
        let factory = ModelFactory::new(settings, &BudgetSpec::default(), 1, KnownSecrets::default());
        let requested =
            ["e=openai:embed@http://127.0.0.1:1/v1".to_owned(), "c=anthropic:c@http://127.0.0.1:1/v1".to_owned()];
        let mut served = ServedModels::new(factory, &requested, (false, 0), None, &Silent).unwrap();
        let mut under =
            |text: &str| served.under(&GatewayFile::parse(text).unwrap(), &Silent).map(|_| served.embeddings());
        assert!(under("").unwrap().is_none());
        let one = under("[skills]\nembeddings = \"e\"").unwrap().unwrap();
        let same = under("[skills]\nembeddings = \"e\"\nbank = true").unwrap().unwrap();
        assert!(Arc::ptr_eq(&one, &same), "its vectors stay");
        let mut refused = |alias: &str| under(&format!("[skills]\nembeddings = \"{alias}\"")).unwrap_err().to_string();
        assert!(refused("other").contains("skills.embeddings: there is no model `other`"));
        assert!(refused("c").contains("skills.embeddings: there is no API for /embeddings at `c`"));
        assert!(under("").unwrap().is_none());
    }
}
