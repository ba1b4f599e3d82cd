//! A registry that is a plain folder: for each module an OCI image layout, in `TEAM/NAME`. Other tools read it, too.

use crate::document::media;
use crate::port::{DOCUMENT_BYTES, length, referrers_tag, unchanged};
use crate::{CONTENT_BYTES, Descriptor, Document, Index, Location, Reference, Registry, RegistryError};
use async_trait::async_trait;
use clawhost_core::Digest;
use clawhost_package::{ModuleName, PluginName};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What marks a folder as an image layout.
const LAYOUT: &str = "oci-layout";
/// Its content.
const LAYOUT_TEXT: &str = "{\"imageLayoutVersion\":\"1.0.0\"}";
/// The list of what a layout contains.
const INDEX: &str = "index.json";
/// The file that one writer at a time locks.
const LOCK: &str = ".lock";
/// The name of a manifest in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Most entries of a folder that are looked at when modules are listed.
const ENTRIES: usize = 100_000;

/// A folder of modules.
#[derive(Debug, Clone)]
pub struct FolderRegistry {
    folder: PathBuf,
    location: Location,
}

impl FolderRegistry {
    /// A folder. It is created by the first publication.
    pub fn new(folder: PathBuf) -> Self {
        let location = Location::Folder(folder.clone());
        Self { folder, location }
    }

    fn layout(&self, module: &ModuleName) -> PathBuf {
        self.folder.join(module.team().as_str()).join(module.name().as_str())
    }

    /// The file of a blob.
    pub fn blob_path(&self, module: &ModuleName, digest: &Digest) -> PathBuf {
        let text = digest.to_string();
        self.layout(module).join("blobs/sha256").join(text.strip_prefix("sha256:").unwrap_or(&text))
    }

    fn index(&self, module: &ModuleName) -> Result<Option<Index>, RegistryError> {
        let path = self.layout(module).join(INDEX);
        match clawhost_files::read(&path, DOCUMENT_BYTES) {
            Ok(bytes) => Index::read(&path.display().to_string(), &bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RegistryError::file(&path, &error)),
        }
    }

    /// Reads a blob that has at most this length. `None`: it is not there.
    fn stored(&self, module: &ModuleName, digest: &Digest, most: u64) -> Result<Option<Vec<u8>>, RegistryError> {
        let path = self.blob_path(module, digest);
        let bytes = match clawhost_files::read(&path, most) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RegistryError::file(&path, &error)),
        };
        unchanged(&path.display().to_string(), digest, &bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a file: all of it, or the old one stays.
    fn write(path: &Path, bytes: &[u8]) -> Result<(), RegistryError> {
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            let mut draft = tempfile::Builder::new().prefix(".clawhost-").tempfile_in(folder)?;
            draft.write_all(bytes)?;
            draft.as_file().sync_all()?;
            #[cfg(unix)]
            {
                // A team shares the folder.
                use std::os::unix::fs::PermissionsExt as _;
                draft.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
            }
            draft.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| RegistryError::file(path, &error))
    }

    /// Changes the index of a module. Writers wait for each other.
    fn change(&self, module: &ModuleName, change: impl FnOnce(&mut Index)) -> Result<(), RegistryError> {
        let layout = self.layout(module);
        let path = layout.join(LOCK);
        let wrong = |error: std::io::Error| RegistryError::file(&path, &error);
        std::fs::create_dir_all(&layout).map_err(wrong)?;
        let lock = File::options().create(true).append(true).open(&path).map_err(wrong)?;
        lock.lock().map_err(wrong)?;
        let mut index = self.index(module)?.unwrap_or_default();
        change(&mut index);
        if !layout.join(LAYOUT).exists() {
            Self::write(&layout.join(LAYOUT), LAYOUT_TEXT.as_bytes())?;
        }
        Self::write(&layout.join(INDEX), &index.bytes())
    }

    fn put(&self, module: &ModuleName, bytes: &[u8]) -> Result<Digest, RegistryError> {
        let digest = Digest::of(bytes);
        let path = self.blob_path(module, &digest);
        // What is there already may be damaged: it is replaced then.
        if !matches!(self.stored(module, &digest, CONTENT_BYTES), Ok(Some(_))) {
            Self::write(&path, bytes)?;
        }
        Ok(digest)
    }
}

fn tag_of(descriptor: &Descriptor) -> Option<&str> {
    descriptor.annotations.get(REF_NAME).map(String::as_str)
}

/// The names in a folder that are names of plugins, sorted.
fn names(folder: &Path) -> Result<Vec<PluginName>, RegistryError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RegistryError::file(folder, &error)),
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut names: Vec<PluginName> = entries.take(ENTRIES).flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

#[async_trait]
impl Registry for FolderRegistry {
    fn location(&self) -> &Location {
        &self.location
    }

    async fn tags(&self, module: &ModuleName) -> Result<Option<Vec<String>>, RegistryError> {
        let index = self.index(module)?;
        Ok(index.map(|index| index.manifests.iter().filter_map(tag_of).map(str::to_owned).collect()))
    }

    async fn manifest(&self, module: &ModuleName, reference: &Reference) -> Result<Option<Vec<u8>>, RegistryError> {
        let digest = match reference {
            Reference::Digest(digest) => *digest,
            Reference::Tag(tag) => {
                let Some(index) = self.index(module)? else { return Ok(None) };
                match index.manifests.iter().find(|one| tag_of(one) == Some(tag)) {
                    Some(descriptor) => descriptor.digest,
                    None => return Ok(None),
                }
            }
        };
        self.stored(module, &digest, DOCUMENT_BYTES)
    }

    async fn blob(&self, module: &ModuleName, descriptor: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        let what = format!("{} of {module}", descriptor.digest);
        length(&what, descriptor.size)?;
        let path = self.blob_path(module, &descriptor.digest);
        let bytes = clawhost_files::read(&path, CONTENT_BYTES).map_err(|error| RegistryError::file(&path, &error))?;
        let found = bytes.len() as u64;
        if found != descriptor.size {
            let why = format!("it has {found} bytes, announced were {}", descriptor.size);
            return Err(RegistryError::Size { what, why });
        }
        unchanged(&what, &descriptor.digest, &bytes)?;
        Ok(bytes)
    }

    async fn push_blob(&self, module: &ModuleName, content: &[u8]) -> Result<(), RegistryError> {
        self.put(module, content).map(|_| ())
    }

    async fn push_manifest(
        &self,
        module: &ModuleName,
        media_type: &str,
        tag: Option<&str>,
        bytes: &[u8],
    ) -> Result<(), RegistryError> {
        self.put(module, bytes)?;
        let mut descriptor = Descriptor::of(media_type, bytes);
        self.change(module, |index| match tag {
            Some(tag) => {
                descriptor = descriptor.with(REF_NAME, tag);
                index.manifests.retain(|one| tag_of(one) != Some(tag));
                index.manifests.push(descriptor);
            }
            None => index.add(descriptor),
        })
    }

    async fn referrers(&self, module: &ModuleName, subject: &Digest) -> Result<Vec<Descriptor>, RegistryError> {
        let tag = Reference::Tag(referrers_tag(subject));
        match self.manifest(module, &tag).await? {
            Some(bytes) => Ok(Index::read(&format!("the referrers of {subject}"), &bytes)?.manifests),
            None => Ok(Vec::new()),
        }
    }

    async fn attach(&self, module: &ModuleName, subject: &Digest, bytes: &[u8]) -> Result<(), RegistryError> {
        let document = Document::read("an attachment", bytes)?;
        self.put(module, bytes)?;
        let mut index = Index { manifests: self.referrers(module, subject).await?, ..Index::default() };
        let mut descriptor = Descriptor::of(media::MANIFEST, bytes);
        descriptor.artifact_type = document.artifact_type;
        descriptor.annotations = document.annotations;
        index.add(descriptor);
        self.push_manifest(module, media::INDEX, Some(&referrers_tag(subject)), &index.bytes()).await
    }

    async fn modules(&self) -> Result<Vec<ModuleName>, RegistryError> {
        let mut modules = Vec::new();
        for team in names(&self.folder)? {
            for name in names(&self.folder.join(team.as_str()))? {
                let module = ModuleName::new(team.clone(), name);
                if self.layout(&module).join(INDEX).exists() {
                    modules.push(module);
                }
            }
        }
        Ok(modules)
    }
}
