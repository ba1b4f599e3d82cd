//! `clawhost playbook export|import`: JSON files, and skills in the format of other agents.

use super::{print_json, workspace};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use clawhost_app::{AppError, Modules, playbooks};
use clawhost_core::{counted, escaped};
use std::io::Write as _;
use std::path::Path;

/// Refuses paths that look like standard output or an option.
fn check_path(path: &Path) -> Result<(), UsageError> {
    if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('-')) {
        return Err(UsageError(format!(
            "`{}`: nothing is written to standard output, and no name begins with `-`; name a file ending in .json, or a folder for a \
             SKILL.md of every lesson",
            escaped(&path.to_string_lossy(), 200)
        )));
    }
    Ok(())
}

pub(super) fn export(context: &Context, name: &str, path: &Path, number: Option<u64>) -> anyhow::Result<Exit> {
    check_path(path)?;
    let reader = context.reader()?;
    let name = playbooks::chosen(reader.as_ref(), Some(name))?;
    let exported = playbooks::export(reader.as_ref(), &name, number, path)?;
    if context.json() {
        return print_json(&exported);
    }
    let said = playbooks::contents(exported.entries, exported.sections);
    let path = exported.path.display();
    writeln!(crate::terminal::stdout(), "{name}, version {}: {said} in {path}", exported.version)?;
    Ok(Exit::Ok)
}

pub(super) async fn import(context: &Context, name: &str, path: &Path) -> anyhow::Result<Exit> {
    // A data folder is not created for an import that fails.
    playbooks::check_name(name)?;
    let text = path.to_string_lossy();
    let playbook = match Modules::named(&text).map_err(AppError::from)? {
        Some(module) => {
            let modules = Modules::new(&context.folder()?, context.registry()?.as_ref());
            let bytes = modules.playbook(&module).await.map_err(AppError::from)?;
            playbooks::playbook_of(&text, bytes)?
        }
        None => playbooks::read_playbook(path)?,
    };
    let imported = playbooks::import(&workspace(context)?, name, &playbook).await?;
    if context.json() {
        return print_json(&imported);
    }
    let said = playbooks::contents(imported.entries, imported.sections);
    let number = imported.version;
    let mut out = crate::terminal::stdout();
    if imported.added {
        writeln!(out, "{name}, version {number} is served from now on: {said}")?;
        if let Some((before, entries)) = imported.replaced {
            let back = format!("`clawhost playbook rollback {name} --to {before}` brings it back");
            writeln!(out, "it takes the place of version {before} with {}; {back}", counted(entries as u64, "entry"))?;
        }
        let how = format!("see `clawhost eval PLUGIN.wasm --reward R.wasm --playbook {name}`");
        writeln!(out, "their effects are not measured yet: {how}")?;
    } else {
        writeln!(out, "{name}: version {number} is served already: {said}")?;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_look_like_standard_output_or_options_are_refused() {
        let check = |path: &str, expect: Option<&str>| match (check_path(Path::new(path)), expect) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => assert!(error.0.contains(part) && error.0.contains(".json"), "{path}: {error}"),
            (got, _) => panic!("{path}: {got:?}"),
        };
        check("p.json", None);
        check("skills/", None);
        check("-folder/p.json", None);
        check("-", Some("nothing is written to standard output"));
        check("folder/-x.json", Some("no name begins with `-`"));
    }
}
