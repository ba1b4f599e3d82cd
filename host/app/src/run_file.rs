//! Run files. One from a stranger may name any file of this machine, as a prompt for example, which then goes to a model.

use clawhost_run_config::{Problems, RunSpecPatch};
use std::path::Path;

/// Checks that the files that a run file names lie in its folder. Links count as what they lead to, also inside of the
/// folder of a model.
///
/// # Errors
/// All options that name another file.
pub fn check_run_file(file: &Path, options: &RunSpecPatch) -> Result<(), Problems> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A path that cannot be followed is not allowed either.
    options.check_paths(|path| clawhost_files::all_lies_in(folder, Path::new(path)).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_file_lie_in_its_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        std::fs::create_dir_all(folder.join("inside")).unwrap();
        std::fs::write(place.path().join("secret.txt"), "a secret").unwrap();
        std::fs::write(folder.join("prompt.txt"), "a prompt").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("../secret.txt", folder.join("link.txt")).unwrap();
            std::os::unix::fs::symlink("../nowhere", folder.join("dangling")).unwrap();
            std::os::unix::fs::symlink("prompt.txt", folder.join("own.txt")).unwrap();
            std::fs::create_dir_all(folder.join("tiny")).unwrap();
            std::os::unix::fs::symlink("../../secret.txt", folder.join("tiny/chat_template.jinja")).unwrap();
            std::fs::create_dir_all(folder.join("sound")).unwrap();
            std::os::unix::fs::symlink("../prompt.txt", folder.join("sound/chat_template.jinja")).unwrap();
        }
        let secret = place.path().join("secret.txt").display().to_string();
        let check = |line: &str, expect: Option<&str>| {
            let text = format!("version = 1\nplugin = \"env.wasm?file=../x\"\n{line}\n");
            let options = RunSpecPatch::from_toml(&text, &folder.display().to_string()).unwrap();
            let found = check_run_file(&folder.join("run.toml"), &options).map_err(|problems| problems.to_string());
            match (found, expect) {
                (Ok(()), None) => {}
                (Err(why), Some(key)) => {
                    assert!(why.starts_with(&format!("line 3: {key}: `")), "{why}");
                    assert!(why.ends_with("lies outside of the folder of this file"), "{why}");
                }
                (found, _) => panic!("{line}: {found:?}"),
            }
        };
        check("system_prompt_file = \"prompt.txt\"", None);
        check("system_prompt_file = \"inside/../prompt.txt\"", None);
        check("system_prompt_file = \"../secret.txt\"", Some("system_prompt_file"));
        check(&format!("system_prompt_file = {secret:?}"), Some("system_prompt_file"));
        check("policy = \"script:../secret.txt\"", Some("policy"));
        check("policy = \"local:/\"", Some("policy"));
        check("policy = \"openai:m@http://h/v1\"", None);
        check("model = \"..\"", Some("model"));
        check("rewards = [\"r.wasm#weight=1\", \"../r.wasm\"]", Some("rewards"));
        check("grants = [\"kv\", \"llm:a=script:../secret.txt\"]", Some("grants"));
        check("grants = [\"llm:a=script:answers.txt\"]", None);
        check("system_prompt_file = \"nowhere/p.txt\"", None);
        check("system_prompt_file = \"nowhere/../../secret.txt\"", Some("system_prompt_file"));
        if cfg!(unix) {
            check("policy = \"local:tiny\"", Some("policy"));
            check("model = \"sound\"", None);
            check("system_prompt_file = \"link.txt\"", Some("system_prompt_file"));
            check("system_prompt_file = \"dangling\"", Some("system_prompt_file"));
            check("system_prompt_file = \"own.txt\"", None);
        }
    }
}
