//! Modules by name: `team/name@version` wherever a path of a plugin can stand.
//!
//! What was pulled is kept in the folder `modules` of the data folder, which is a registry itself: with manifests and signatures, so that each
//! use checks both again, without a network. The lock of the working folder decides between versions.

mod adapter;
mod error;
mod host;
mod project;

pub use adapter::{AdapterFiles, PulledAdapter, adapter_files};
pub use error::ModuleError;
pub use host::ComponentHost;
pub use project::Project;

use crate::AppError;
use clawhost_package::{LockedModule, ModuleKind, ModuleRequest, Named, named};
use clawhost_registry::{
    Facts, FolderRegistry, Found, Location, OciOptions, Published, Pulled, Registry, RegistryError, Trust, find,
    find_pinned, media, pull,
};
use semver::Version;
use std::path::{Path, PathBuf};

/// The folder of pulled modules in a data folder.
const SHELF: &str = "modules";
/// The registry of a data folder, where modules are published if no other is named.
const OWN: &str = "registry";

/// Modules of a data folder and a project.
#[derive(Debug, Clone)]
pub struct Modules {
    data: PathBuf,
    shelf: FolderRegistry,
    project: Project,
    registry: Location,
}

impl Modules {
    /// The modules of a data folder, with the lock of the working folder. `registry`: where modules come from that were not pulled yet;
    /// `None`: the folder `registry` of the data folder.
    pub fn new(data: &Path, registry: Option<&Location>) -> Self {
        let own = || Location::Folder(data.join(OWN));
        Self {
            data: data.to_owned(),
            shelf: FolderRegistry::new(data.join(SHELF)),
            project: Project::here(),
            registry: registry.cloned().unwrap_or_else(own),
        }
    }

    /// What was pulled.
    pub fn shelf(&self) -> &FolderRegistry {
        &self.shelf
    }

    /// The lock of the working folder.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// The registry that is asked if no other is named.
    pub fn registry(&self) -> &Location {
        &self.registry
    }

    /// Whose signatures count.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn trust(&self) -> Result<Trust, ModuleError> {
        Ok(Trust::read(&self.data)?)
    }

    /// The data folder.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What a text in the place of a plugin names: a module, or `None` for a path.
    ///
    /// # Errors
    /// It is both, or has a version behind what is no name.
    pub fn named(text: &str) -> Result<Option<ModuleRequest>, ModuleError> {
        match named(text, Path::new(text).exists())? {
            Named::Path => Ok(None),
            Named::Module(request) => Ok(Some(request)),
        }
    }

    /// The pin of the lock, if it has one for a module.
    fn pinned(&self, request: &ModuleRequest) -> Result<Option<LockedModule>, ModuleError> {
        let lock = self.project.lock()?;
        match (lock.module(&request.name), lock.fitting(request)) {
            (Some(_), Some(pinned)) => Ok(Some(pinned.clone())),
            (Some(other), None) => {
                Err(ModuleError::PinnedOther { pinned: other.version.clone(), wanted: request.clone() })
            }
            (None, _) => Ok(None),
        }
    }

    /// Finds a module: the version that the lock pins, else the newest that was pulled, else the newest in the registry, which is pulled then.
    ///
    /// # Errors
    /// There is none, it is not what the lock pins, or its signatures do not suffice.
    pub async fn find(&self, request: &ModuleRequest) -> Result<Found, ModuleError> {
        let trust = self.trust()?;
        let absent =
            |error: &RegistryError| matches!(error, RegistryError::NoModule { .. } | RegistryError::NoVersion { .. });
        let pinned = self.pinned(request)?;
        let here = match &pinned {
            Some(pin) => find_pinned(&self.shelf, (&pin.name, &pin.version), &pin.manifest, &trust).await,
            None => find(&self.shelf, request, &trust).await,
        };
        match here {
            Ok(found) => return Ok(found),
            Err(error) if !absent(&error) => return Err(error.into()),
            Err(_) => {}
        }
        let location = match &pinned {
            Some(pin) => pin.registry.parse()?,
            None => self.registry.clone(),
        };
        let registry = clawhost_registry::open(&location, OciOptions::default())?;
        let there = match &pinned {
            Some(pin) => find_pinned(&*registry, (&pin.name, &pin.version), &pin.manifest, &trust).await,
            None => find(&*registry, request, &trust).await,
        };
        let there = match there {
            Err(error)
                if absent(&error)
                    || matches!(error, RegistryError::Unreachable { .. } | RegistryError::Silent { .. }) =>
            {
                return Err(ModuleError::NotPulled { wanted: request.clone(), why: error.to_string() });
            }
            there => there?,
        };
        let pulled = pull(&*registry, there).await?;
        pulled.keep(&self.shelf).await?;
        Ok(pulled.found)
    }

    /// Reads the component of a module.
    ///
    /// # Errors
    /// As [`Self::read`], or it is no component.
    pub async fn component(&self, request: &ModuleRequest) -> Result<Vec<u8>, ModuleError> {
        self.content(request, "a component", |kind| kind.plugin().is_some()).await
    }

    /// Reads the playbook of a module.
    ///
    /// # Errors
    /// As [`Self::read`], or it is no playbook.
    pub async fn playbook(&self, request: &ModuleRequest) -> Result<Vec<u8>, ModuleError> {
        self.content(request, "a playbook", |kind| kind == ModuleKind::Playbook).await
    }

    /// Reads the files of an adapter that is a module, and puts them into a folder that is removed with the returned value.
    ///
    /// # Errors
    /// As [`Self::read`], it is no adapter, or no folder can be made.
    pub async fn adapter(&self, request: &ModuleRequest) -> Result<AdapterFiles, ModuleError> {
        let published = self.read(request).await?;
        let Facts { name, version, kind, .. } = published.facts.clone();
        match kind {
            ModuleKind::Adapter => AdapterFiles::write(&published),
            _ => Err(ModuleError::OtherKind { name, version, kind, needed: "an adapter" }),
        }
    }

    /// The readme that was published with a module. `None`: there is none.
    ///
    /// # Errors
    /// As [`Self::find`], or it was changed on the disk.
    pub async fn readme(&self, request: &ModuleRequest) -> Result<Option<String>, ModuleError> {
        let found = self.find(request).await?;
        let pulled = pull(&self.shelf, found).await?;
        let readme = pulled.attachments.into_iter().find(|one| one.artifact_type == media::README);
        Ok(readme.map(|one| String::from_utf8_lossy(&one.bytes).into_owned()))
    }

    async fn content(
        &self,
        request: &ModuleRequest,
        needed: &'static str,
        fits: impl Fn(ModuleKind) -> bool,
    ) -> Result<Vec<u8>, ModuleError> {
        let published = self.read(request).await?;
        let Facts { name, version, kind, .. } = published.facts.clone();
        match published.only() {
            Some(bytes) if fits(kind) => Ok(bytes.to_vec()),
            _ => Err(ModuleError::OtherKind { name, version, kind, needed }),
        }
    }

    /// Reads a module.
    ///
    /// # Errors
    /// As [`Self::find`], or it was changed on the disk.
    pub async fn read(&self, request: &ModuleRequest) -> Result<Published, ModuleError> {
        let found = self.find(request).await?;
        let (name, version) = (found.facts.name.clone(), found.facts.version.clone());
        let published = Published::read(&self.shelf, &name, found.document).await?;
        if let Some(pin) = self.pinned(request)?.filter(|pin| pin.content != published.content()) {
            let why = format!("its content is {}, pinned is {}", published.content(), pin.content);
            return Err(RegistryError::Unpinned { module: name, version, why }.into());
        }
        Ok(published)
    }

    /// Fails if texts in the place of plugins ask for two versions of one module. Paths among them are passed over.
    ///
    /// # Errors
    /// They do, or a module cannot be found.
    pub async fn one_version_each<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Result<(), ModuleError> {
        let mut seen: Vec<(ModuleRequest, Version)> = Vec::new();
        for text in texts {
            let Some(request) = Self::named(text)? else { continue };
            if seen.iter().any(|(known, _)| *known == request) {
                continue;
            }
            let version = self.find(&request).await?.facts.version;
            if let Some((_, one)) = seen.iter().find(|(known, one)| known.name == request.name && *one != version) {
                return Err(ModuleError::TwoVersions { name: request.name, versions: format!("{one} and {version}") });
            }
            seen.push((request, version));
        }
        Ok(())
    }

    /// Pulls a module from a registry, and keeps it. Pins nothing.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn pull(&self, registry: &dyn Registry, request: &ModuleRequest) -> Result<Pulled, ModuleError> {
        let found = find(registry, request, &self.trust()?).await?;
        let pulled = pull(registry, found).await?;
        pulled.keep(&self.shelf).await?;
        Ok(pulled)
    }
}

/// The lock entry of a pulled module.
pub fn pin_of(pulled: &Pulled, request: &ModuleRequest, registry: &Location) -> LockedModule {
    let facts = &pulled.found.facts;
    // A folder is found from everywhere.
    let registry = match registry {
        Location::Folder(folder) => {
            Location::Folder(std::path::absolute(folder).unwrap_or_else(|_| folder.clone())).to_string()
        }
        other => other.to_string(),
    };
    LockedModule {
        name: facts.name.clone(),
        version: facts.version.clone(),
        versions: request.versions.clone(),
        kind: facts.kind,
        registry,
        manifest: pulled.found.manifest,
        content: pulled.published.content(),
        bytes: pulled.published.bytes(),
        signed_by: pulled.found.signer.as_ref().map(|signer| signer.fingerprint),
    }
}

impl From<ModuleError> for AppError {
    fn from(error: ModuleError) -> Self {
        Self::Module(Box::new(error))
    }
}

impl From<RegistryError> for AppError {
    fn from(error: RegistryError) -> Self {
        ModuleError::from(error).into()
    }
}
