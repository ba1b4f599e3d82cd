//! Takes changed files over while a gateway runs: the keys of clients, its configuration, and the weights of local models.

use crate::background::{Aliases, Announced, FormerWeights};
use crate::data::Expiry;
use crate::events::Silent;
use crate::gateway_file::{GATEWAY_FILE, GatewayFile, TlsSection};
use crate::keys::{FILE as KEYS_FILE, client_keys};
use crate::live::LiveGuide;
use crate::routers::{RouterPluginSource, RouterPlugins, Settling, component_of, router_name, routers_folder};
use crate::served_models::ServedModels;
use crate::tls::identity;
use crate::{AppError, RequestError, ServeRequest};
use clawhost_core::{Digest, EmbeddingModel};
use clawhost_gateway::{GatewayChange, Running, ServedModel};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// How often the files are looked at.
const CHECK: Duration = Duration::from_secs(1);

/// By what a change of a file is seen.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    std::fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok()
}

/// The certificate: of the request, or of the file.
fn tls<'c>(request: &'c ServeRequest, file: &'c GatewayFile) -> Option<&'c TlsSection> {
    request.tls.as_ref().or(file.tls.as_ref())
}

/// The files of a gateway as they were at one moment. Taken before the files are read, so that no later change is missed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    keys: Stamp,
    /// `gateway.toml`, and what it reads beside.
    files: Vec<Stamp>,
}

impl Stamps {
    /// The files of a data folder now.
    pub(crate) fn of(folder: &Path, request: &ServeRequest) -> Self {
        let files = std::iter::once(folder.join(GATEWAY_FILE)).chain(files(folder, request));
        Self { keys: stamp(&folder.join(KEYS_FILE)), files: files.map(|path| stamp(&path)).collect() }
    }
}

/// The files that the configuration reads beside `gateway.toml`, and that change while the gateway runs.
fn files(folder: &Path, request: &ServeRequest) -> Vec<PathBuf> {
    let file = GatewayFile::of(folder).unwrap_or_default();
    let tls = tls(request, &file).into_iter().flat_map(|tls| [&tls.certificate, &tls.key]);
    let named =
        request.upstreams.iter().map(String::as_str).chain(file.models.values().filter_map(|one| one.model.as_deref()));
    let routers = named.filter_map(|text| router_name(text.split_once('=').map_or(text, |(_, spec)| spec)));
    let routers = routers.flat_map(|name| {
        let path = routers_folder(folder).join(format!("{name}.toml"));
        std::iter::once(path).chain(component_of(&routers_folder(folder), name))
    });
    tls.map(PathBuf::from).chain(routers).collect()
}

/// The configuration that a gateway runs with.
pub(crate) struct Configuration {
    folder: PathBuf,
    /// What comes before the file.
    request: ServeRequest,
    models: ServedModels,
    /// The file as it was at the start: what cannot change while the gateway runs.
    started: GatewayFile,
    /// Milliseconds after which a session ends, if nothing is said.
    idle_ms: u64,
}

impl Configuration {
    /// A configuration at the start of a gateway.
    pub(crate) fn new(
        folder: PathBuf,
        request: ServeRequest,
        models: ServedModels,
        started: GatewayFile,
        idle_ms: u64,
    ) -> Self {
        Self { folder, request, models, started, idle_ms }
    }

    /// The aliases of its models.
    pub(crate) fn aliases(&self) -> Aliases {
        let all = self.models.all().into_iter().map(|model| model.alias).collect();
        Aliases { all, without_prices: self.models.without_prices() }
    }

    /// The model of `skills.embeddings`.
    pub(crate) fn embeddings(&self) -> Option<Arc<dyn EmbeddingModel>> {
        self.models.embeddings().map(|model| model as Arc<dyn EmbeddingModel>)
    }

    /// What the file says, beside the request.
    pub(crate) fn change(
        &mut self,
        file: &GatewayFile,
        events: &dyn crate::EventSink,
    ) -> Result<GatewayChange, AppError> {
        let idle_seconds = self.request.session_idle.or(file.gateway.session_idle_seconds);
        Ok(GatewayChange {
            models: self.models.under(file, events)?,
            tls: tls(&self.request, file).map(identity).transpose()?,
            hosts: self.request.hosts.iter().chain(&file.gateway.hosts).cloned().collect(),
            record: file.gateway.record,
            session_idle_ms: idle_seconds.map_or(self.idle_ms, |seconds| seconds.saturating_mul(1000)),
        })
    }

    /// Reads the file. Returns what it changes, and its keys that count from the next start only.
    ///
    /// # Errors
    /// The file is invalid, or a model cannot be used.
    fn read(&mut self) -> Result<(GatewayChange, Vec<String>), AppError> {
        let file = GatewayFile::of(&self.folder)?;
        let waiting = file.needs_restart(&self.started, (self.request.listen.is_some(), self.request.tls.is_some()));
        Ok((self.change(&file, &Silent)?, waiting))
    }

    /// The names of the routers under the file as it is now. None if the file is invalid; the reader that opens the models reports the reason.
    fn router_names(&self) -> BTreeSet<String> {
        self.models.router_names(&GatewayFile::of(&self.folder).unwrap_or_default())
    }

    /// Reads changed weights, and the file if plugins were loaded for its routers. An invalid file does not keep weights from changing.
    fn take(&mut self, plugins: Option<Result<RouterPlugins, AppError>>) -> Taken {
        let replaced = self.models.refresh(&Silent);
        let file = plugins.map(|plugins| {
            self.models.set_router_plugins(plugins?);
            self.read()
        });
        let (models, former) = (self.models.all(), self.models.former_weights());
        Taken { file, replaced, models, former, aliases: self.aliases() }
    }
}

/// What was read because files have changed.
struct Taken {
    /// What the configuration changes, with its keys that count from the next start only. `None`: it was not read.
    file: Option<Result<(GatewayChange, Vec<String>), AppError>>,
    /// The aliases of local models of which other weights answer.
    replaced: Vec<String>,
    /// The models under the configuration that counts.
    models: Vec<ServedModel>,
    /// Local models whose changed files cannot be used.
    former: Vec<FormerWeights>,
    aliases: Aliases,
}

/// The guidance of sessions, which a new version of the playbook and changed skills change.
pub(crate) struct WatchedGuide {
    guide: Arc<LiveGuide>,
    /// The configuration that it was made for.
    file: GatewayFile,
    /// What was reported last, so that it is reported once.
    problem: Option<String>,
}

impl WatchedGuide {
    /// Guidance as it is now.
    pub(crate) fn new(guide: Arc<LiveGuide>, file: GatewayFile) -> Self {
        Self { guide, file, problem: None }
    }

    /// Takes over what has changed. What cannot be read is logged once, and leaves the guidance as it is. Returns why it could not be changed.
    async fn look(&mut self, folder: &Path, request: &ServeRequest, reads_file: bool) -> Option<String> {
        if reads_file && let Ok(file) = GatewayFile::of(folder) {
            self.file = file;
        }
        let (mode, section) = request.live(&self.file);
        let guide = self.guide.clone();
        // Reading skills would hold up the answers of others.
        let looked = tokio::task::spawn_blocking(move || guide.refresh(mode, &section)).await;
        let problem = match looked {
            Ok(Ok(changed)) => {
                if changed {
                    tracing::info!("new sessions get the guidance as it is now");
                }
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = problem.as_ref().filter(|_| problem != self.problem) {
            tracing::error!("the guidance of sessions was not changed: {why}");
        }
        self.problem.clone_from(&problem);
        problem
    }
}

/// What the watch works with.
pub(crate) struct Watch {
    pub(crate) running: Weak<Running>,
    pub(crate) configuration: Configuration,
    /// The files from before the gateway read them.
    pub(crate) known: Stamps,
    /// Removes what is too old.
    pub(crate) expiry: Expiry,
    /// Loads the plugins of routers.
    pub(crate) router_plugins: RouterPluginSource,
    /// Settles the decisions of routers.
    pub(crate) settling: Settling,
    pub(crate) guide: WatchedGuide,
    pub(crate) announced: Arc<Announced>,
    /// Tells it to look at once.
    pub(crate) asked: Arc<Notify>,
}

/// Takes changed files over until the gateway ends, and removes what is too old. A file that cannot be used leaves everything as it is.
pub(crate) async fn watch(watch: Watch) {
    let Watch {
        running,
        configuration,
        mut known,
        mut expiry,
        mut router_plugins,
        mut settling,
        mut guide,
        announced,
        asked,
    } = watch;
    let (folder, request) = (configuration.folder.clone(), configuration.request.clone());
    let configuration = Arc::new(Mutex::new(configuration));
    let weights_due = |configuration: &Mutex<Configuration>, is_asked| {
        configuration.lock().unwrap_or_else(PoisonError::into_inner).models.look(is_asked)
    };
    let mut clock = tokio::time::interval(CHECK);
    loop {
        let is_asked = tokio::select! {
            _ = clock.tick() => false,
            () = asked.notified() => true,
        };
        expiry.look().await;
        let routers = configuration.lock().unwrap_or_else(PoisonError::into_inner).models.routers();
        settling.look(&routers, is_asked).await;
        let Some(running) = running.upgrade() else { return };
        let now = Stamps::of(&folder, &request);
        if is_asked || now.keys != known.keys {
            match client_keys(&folder) {
                Ok(keys) => running.set_keys(keys),
                Err(error) => tracing::error!("the keys were not taken over: {error}"),
            }
        }
        let reads_file = is_asked || now.files != known.files;
        known = now;
        let unguided = guide.look(&folder, &request, reads_file).await;
        if weights_due(&configuration, is_asked) || reads_file {
            let plugins = match reads_file {
                true => {
                    let routers = configuration.lock().unwrap_or_else(PoisonError::into_inner).router_names();
                    Some(router_plugins.load(routers.iter().map(String::as_str), &Silent).await)
                }
                false => None,
            };
            take_over(&configuration, plugins, &running, (&announced, unguided)).await;
            let embeddings = configuration.lock().unwrap_or_else(PoisonError::into_inner).embeddings();
            guide.guide.set_embeddings(embeddings);
        }
    }
}

/// Takes changed weights over, and the configuration if its files have changed, with the plugins of its routers. Says what became of them.
async fn take_over(
    configuration: &Arc<Mutex<Configuration>>,
    plugins: Option<Result<RouterPlugins, AppError>>,
    running: &Running,
    (announced, unguided): (&Announced, Option<String>),
) {
    let configuration = configuration.clone();
    // Weights of local models are read here, while requests go on.
    let read = move || configuration.lock().unwrap_or_else(PoisonError::into_inner).take(plugins);
    let (file, replaced, models, former, aliases) = match tokio::task::spawn_blocking(read).await {
        Ok(Taken { file, replaced, models, former, aliases }) => {
            (file.map(|read| read.map_err(|error| error.to_string())), replaced, models, former, Some(aliases))
        }
        // A panic was reported, and changed nothing.
        Err(error) => (Some(Err(error.to_string())), Vec::new(), Vec::new(), Vec::new(), None),
    };
    let mut certificate = None;
    let taken = file.map(|read| {
        let (change, waiting) = read?;
        certificate = change.tls.as_ref().map(|tls| Digest::of(tls.certificate()));
        running.change(change).map(|()| waiting).map_err(|error| error.to_string())
    });
    let taken = match (taken, unguided) {
        (Some(Ok(_)), Some(why)) => Some(Err(format!("the guidance of sessions was not changed: {why}"))),
        (taken, _) => taken,
    };
    // What the configuration did not bring with it.
    if !replaced.is_empty()
        && !matches!(taken, Some(Ok(_)))
        && let Err(error) = running.set_models(models)
    {
        tracing::error!("changed weights were not taken over: {error}");
    }
    replaced.iter().for_each(|alias| tracing::info!("`{alias}` answers with the changed files of its folder"));
    former.iter().for_each(|former| tracing::error!("{}", RequestError::from(former.clone())));
    match &taken {
        None => {}
        Some(Err(why)) => tracing::error!("{GATEWAY_FILE} was not taken over: {why}"),
        Some(Ok(waiting)) if waiting.is_empty() => tracing::info!("{GATEWAY_FILE} was taken over"),
        Some(Ok(waiting)) => {
            let waiting = waiting.join(", ");
            tracing::warn!("{GATEWAY_FILE} was taken over, except for {waiting}: from the next start");
        }
    }
    let told = match taken {
        Some(taken) => announced.configured(taken, certificate, former, aliases),
        None => announced.weights(former),
    };
    if let Err(error) = told {
        tracing::error!("the state of the configuration cannot be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{ModelFactory, ModelSettings};
    use crate::{Workspace, WorkspaceSettings, running_gateway, serve};
    use clawhost_core::KnownSecrets;
    use clawhost_gateway::RecordPolicy;
    use clawhost_run_config::BudgetSpec;

    /// Looks at what the gateway says of itself until it must have seen its file.
    const LOOKS: u32 = 300_000;

    /// The configuration of a folder with this file, and the file.
    fn configuration(text: &str, request: ServeRequest) -> (tempfile::TempDir, Configuration, GatewayFile) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(GATEWAY_FILE), text).unwrap();
        let file = GatewayFile::of(folder.path()).unwrap();
        let secrets = KnownSecrets::default();
        let factory = ModelFactory::new(ModelSettings::default(), &BudgetSpec::default(), 1, secrets);
        let models = ServedModels::new(factory, &request.upstreams, (false, 0), None, &Silent).unwrap();
        let configuration = Configuration::new(folder.path().to_owned(), request, models, file.clone(), 7);
        (folder, configuration, file)
    }

    fn request(hosts: &[&str], session_idle: Option<u64>) -> ServeRequest {
        ServeRequest {
            listen: None,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            upstreams: vec!["m=openai:m@http://127.0.0.1:1/v1".into()],
            session_idle,
            tls: None,
            pass_key: false,
            retries: 0,
            access_log: false,
            rewards: Vec::new(),
            mode: None,
            playbook: None,
            skills: Vec::new(),
            skill_bank: false,
        }
    }

    #[test]
    fn the_file_counts_beside_the_request() {
        let text = "[gateway]\nhosts = [\"b.example\"]\nrecord = \"no-train\"\nsession_idle_seconds = 5\n";
        let check = |text: &str, request: ServeRequest, expect: (&[&str], RecordPolicy, u64)| {
            let (_folder, mut configuration, file) = configuration(text, request);
            let change = configuration.change(&file, &Silent).unwrap();
            let hosts: Vec<&str> = change.hosts.iter().map(String::as_str).collect();
            assert_eq!((hosts.as_slice(), change.record, change.session_idle_ms), expect, "{text}");
            assert_eq!(change.models.len(), 1);
        };
        check("", request(&["a.example"], None), (&["a.example"], RecordPolicy::All, 7));
        check(text, request(&["a.example"], None), (&["a.example", "b.example"], RecordPolicy::NoTrain, 5_000));
        check(text, request(&[], Some(9)), (&["b.example"], RecordPolicy::NoTrain, 9_000));
    }

    #[test]
    fn a_renewed_certificate_is_seen_by_its_files() {
        let text = "[tls]\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\n";
        let (folder, ..) = configuration(text, request(&[], None));
        let of_file = files(folder.path(), &request(&[], None));
        assert_eq!(of_file, [PathBuf::from("chain.pem"), PathBuf::from("key.pem")]);
        let own = TlsSection { certificate: "own.pem".into(), key: "own-key.pem".into() };
        let of_request = files(folder.path(), &ServeRequest { tls: Some(own), ..request(&[], None) });
        assert_eq!(of_request, [PathBuf::from("own.pem"), PathBuf::from("own-key.pem")]);
    }

    #[test]
    fn a_changed_router_or_its_plugin_is_seen_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let routers = routers_folder(folder.path());
        std::fs::create_dir(&routers).unwrap();
        let text = "plugin = \"route.wasm?floor=1\"\n[models.m]\nmodel = \"follower\"\nprice = 1\n";
        std::fs::write(routers.join("two.toml"), text).unwrap();
        let text = "[models.a]\nmodel = \"router:two\"\n[models.b]\nmodel = \"router:none\"\n";
        std::fs::write(folder.path().join(GATEWAY_FILE), text).unwrap();
        let found = files(folder.path(), &ServeRequest { upstreams: Vec::new(), ..request(&[], None) });
        assert_eq!(found, ["two.toml", "route.wasm", "none.toml"].map(|name| routers.join(name)));
    }

    #[tokio::test]
    async fn a_change_before_the_first_look_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path())).unwrap();
        let request = ServeRequest { listen: Some("127.0.0.1:0".into()), ..request(&[], None) };
        let serving = serve(&workspace, request, &Silent).await.unwrap();
        // One thread runs everything, so that the watch has not looked yet.
        std::fs::write(folder.path().join(GATEWAY_FILE), "[models.new]\nmodel = \"openai:m@http://127.0.0.1:1/v1\"\n")
            .unwrap();
        let models = || running_gateway(folder.path()).unwrap().unwrap().configuration.models;
        for _ in 0..LOOKS {
            if models().len() == 2 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(models(), ["m", "new"]);
        serving.stop().await;
    }
}
