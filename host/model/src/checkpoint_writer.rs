//! Writes learned weights into folders that open like the original model.

use crate::{HostDecoder, LocalModelError, ModelFolder};
use clawhost_learn::CheckpointKind;
use std::path::{Path, PathBuf};

/// Writes one folder per kind of checkpoint. A new checkpoint replaces the last one of its kind.
#[derive(Debug)]
pub struct CheckpointWriter {
    folder: PathBuf,
    /// Everything except the weights.
    model: ModelFolder,
}

fn name(kept: CheckpointKind) -> &'static str {
    match kept {
        CheckpointKind::Best => "best",
        CheckpointKind::Last => "last",
    }
}

/// Completes a replacement that a killed process left between the two moves below. At that point the new folder was
/// complete.
fn complete_replacement([place, new, old]: [&Path; 3]) -> std::io::Result<()> {
    match !place.exists() && old.exists() {
        true => std::fs::rename(if new.exists() { new } else { old }, place),
        false => Ok(()),
    }
}

impl CheckpointWriter {
    /// A writer of models like this one, into this folder.
    pub fn new(folder: &Path, model: ModelFolder) -> Self {
        Self { folder: folder.to_owned(), model }
    }

    /// The folder of a kind of checkpoint.
    pub fn place(folder: &Path, kept: CheckpointKind) -> PathBuf {
        folder.join(name(kept))
    }

    /// Writes these weights. If the process is killed meanwhile, the previous checkpoint remains, or both remain.
    pub(crate) fn write(&mut self, kept: CheckpointKind, weights: &HostDecoder) -> Result<(), LocalModelError> {
        let failed = |path: &Path, error: std::io::Error| LocalModelError::File {
            path: path.to_owned(),
            why: format!("{error}; is there room, and may it be written to?"),
        };
        let place = Self::place(&self.folder, kept);
        let [new, old] = ["new", "old"].map(|state| self.folder.join(format!(".{}.{state}", name(kept))));
        complete_replacement([&place, &new, &old]).map_err(|error| failed(&place, error))?;
        for left in [&new, &old] {
            if left.exists() {
                std::fs::remove_dir_all(left).map_err(|error| failed(left, error))?;
            }
        }
        self.model.weights = weights.clone();
        self.model.write(&new)?;
        if place.exists() {
            std::fs::rename(&place, &old).map_err(|error| failed(&place, error))?;
        }
        std::fs::rename(&new, &place).map_err(|error| failed(&place, error))?;
        if old.exists() {
            std::fs::remove_dir_all(&old).map_err(|error| failed(&old, error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TinyModel, digest};

    #[test]
    fn a_replacement_that_was_killed_between_its_moves_is_completed() {
        let check = |there: &[&str], expect: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let [place, new, old] = ["place", "new", "old"].map(|name| folder.path().join(name));
            for name in there {
                std::fs::create_dir(folder.path().join(name)).unwrap();
                std::fs::write(folder.path().join(name).join("which"), name).unwrap();
            }
            complete_replacement([&place, &new, &old]).unwrap();
            assert_eq!(std::fs::read_to_string(place.join("which")).ok().as_deref(), expect, "{there:?}");
        };
        check(&["new", "old"], Some("new"));
        check(&["old"], Some("old"));
        check(&["place", "new", "old"], Some("place"));
        // The process was killed while it wrote the first: its contents are undefined.
        check(&["new"], None);
        check(&[], None);
    }

    #[test]
    fn a_checkpoint_replaces_the_last_one_and_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let made = |seed| TinyModel { seed, ..TinyModel::default() }.make().unwrap();
        let mut checkpoints = CheckpointWriter::new(folder.path(), made(1));
        // The rest of a killed process.
        std::fs::create_dir(folder.path().join(".last.new")).unwrap();
        for seed in [2, 3] {
            checkpoints.write(CheckpointKind::Last, &made(seed).weights).unwrap();
            let read = ModelFolder::read(
                &CheckpointWriter::place(folder.path(), CheckpointKind::Last),
                &crate::tokens::TextHost::InProcess,
            )
            .unwrap();
            assert_eq!(digest(&read.weights), digest(&made(seed).weights), "{seed}");
        }
        checkpoints.write(CheckpointKind::Best, &made(4).weights).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["best", "last"]);
    }
}
