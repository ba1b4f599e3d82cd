//! A model folder may come from anybody: its chat template, its tokenizer and its weights have limits, whatever is done with it.

use super::*;
use serde_json::json;

/// A folder with a model made with `transformers`, in which some files differ.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference/qwen2");
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(from).unwrap().flatten().filter(|file| file.path().is_file()) {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        Self(folder)
    }

    fn with_template(template: &str) -> Self {
        let made = Self::new();
        made.write("chat_template.jinja", template);
        made
    }

    fn with_tokenizer(change: impl FnOnce(&mut Value)) -> Self {
        let made = Self::new();
        let file = made.0.path().join("tokenizer.json");
        let mut tokenizer: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        change(&mut tokenizer);
        made.write("tokenizer.json", &tokenizer.to_string());
        made
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn name(&self) -> String {
        self.0.path().display().to_string()
    }
}

fn bench() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

/// Checks that a folder is refused with this message when it is described.
fn refused(folder: &Folder, expect: &str) {
    bench().refused(&["model", "info", &folder.name()], &[expect]);
}

#[test]
fn a_template_that_fails_in_a_conversation_is_named_with_its_folder() {
    use std::io::Write as _;
    let folder = Folder::with_template("{{ messages[0].content.nothing() }}");
    let said = |input: &[u8]| {
        let mut child = bench()
            .command(&["model", "chat", &folder.name(), "--max-tokens", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have ended before it reads.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    };
    let output = said(b"hi\n");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{}: chat template: ", folder.name())), "{}", stderr(&output));
}

#[test]
fn an_import_copies_nothing_of_a_model_that_cannot_answer() {
    let (bench, folder) = (bench(), Folder::with_template(&(doubled(22) + "{{ ns.x }}")));
    let target = bench.data.path().join("imported").display().to_string();
    let expect = "the chat template of the model folder writes more than 32 MiB";
    bench.refused(&["model", "import", &folder.name(), &target], &[expect]);
    assert!(!Path::new(&target).exists());
}

/// The beginning of a template that doubles a text `TIMES` times.
const DOUBLED: &str =
    "{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(TIMES) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";

fn doubled(times: u32) -> String {
    DOUBLED.replace("TIMES", &times.to_string())
}

#[test]
fn a_chat_template_has_limited_steps_text_memory_and_time() {
    let check = |template: &str, expect: &str| refused(&Folder::with_template(template), expect);
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    check(loops, "the chat template of the model folder takes more than 5000000 steps");
    check(&(doubled(22) + "{{ ns.x }}"), "the chat template of the model folder writes more than 32 MiB");
    check(&doubled(40), "the chat template of the model folder took more than 2048 MiB of memory, or its stack");
    let slow = doubled(22) + "{% for a in range(9999) %}{% set y = ns.x | replace('a', 'bb') %}{% endfor %}";
    check(&slow, "the chat template of the model folder took more than 10 s of processor time");
    check(&"x".repeat((1 << 20) + 1), "chat template: 1048577 bytes; at most 1 MiB are read");
}

#[test]
fn a_tokenizer_has_limited_growth_vocabulary_memory_and_time() {
    let double = json!({ "type": "Replace", "pattern": { "String": "1" }, "content": "11" });
    let steps = json!({ "type": "Sequence", "normalizers": vec![double; 32] });
    let check = |change: &dyn Fn(&mut Value), expect: &str| refused(&Folder::with_tokenizer(change), expect);
    check(
        &|tokenizer| tokenizer["normalizer"] = steps.clone(),
        "the normalizer can make a text more than 64 times longer",
    );
    let added = |id: u32| {
        json!({
            "id": id, "content": format!("<|{id}|>"), "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false,
        })
    };
    let many: Value = (1000..301_000).map(added).collect();
    check(&|tokenizer| tokenizer["added_tokens"] = many.clone(), "300000 added tokens; at most 16384 are read");
    // A regular expression that takes exponential time: the library gives up, or the clock of the processor ends it.
    let nested = json!({ "type": "Split", "pattern": { "Regex": "(?:(?=(1+))\\1)+$x" }, "behavior": "Isolated", "invert": false });
    let folder = Folder::with_tokenizer(|tokenizer| tokenizer["pre_tokenizer"] = nested);
    let output = bench().run(&["model", "info", &folder.name()]);
    assert!(output.status.code().is_some_and(|code| code < 3), "{}", stderr(&output));
    // As large as it may be, and not a tokenizer.
    let large = Folder::new();
    large.write("tokenizer.json", &format!("[{}0]", "0,".repeat(40 << 20)));
    refused(&large, "tokenizer.json");
}

#[test]
fn a_template_that_evades_the_probe_fails_some_episodes_and_the_others_are_played() {
    let Some(bench) = Bench::new("a_template_that_evades_the_probe") else { return };
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if '7' in messages[-1].content %}".to_owned()
        + &doubled(40)
        + "{% endif %}";
    let folder = Folder::with_template(&template);
    let policy = format!("local:{}", folder.name());
    let math = format!("{}?kind=arithmetic", bench.guest("env_math"));
    let arguments =
        ["run", &math, "--policy", &policy, "--episodes", "8", "--max-tokens", "2", "--failure-budget", "1"];
    let summary = bench.json(&arguments);
    let failed = summary["endings"]["failed: llm(refused)"].as_u64();
    assert!(failed.is_some_and(|failed| (1..8).contains(&failed)), "{}", summary["endings"]);
    // Otherwise every conversation could take the time of a limit.
    let many = ["run", &math, "--policy", &policy, "--episodes", "60", "--max-tokens", "2", "--failure-budget", "1"];
    bench.json(&many);
    let told = bench.out(&["episodes", "export"]);
    let limits = told.matches("took more than 2048 MiB of memory").count();
    assert!(told.contains("reached its limits 3 times and is not asked any more") && limits >= 3, "{limits}");
}

/// The process that interprets texts for a process, once it is there.
#[cfg(target_os = "linux")]
fn interpreter_of(process: u32) -> u32 {
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<u32> =
            children.flat_map(|line| line.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
        let interprets = |child: &&u32| {
            std::fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.ends_with(b"interpret-texts\0"))
        };
        if let Some(child) = children.iter().find(interprets) {
            return *child;
        }
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// A conversation of which the model's texts are interpreted by a process that was stopped, so that an answer never comes.
#[cfg(target_os = "linux")]
fn stuck(bench: &Bench, folder: &Folder) -> (std::process::Child, u32) {
    let (math, policy) = (bench.guest("env_math"), format!("local:{}", folder.name()));
    let arguments = ["run", &math, "--policy", &policy, "--episodes", "100000", "--max-tokens", "2"];
    let runs = || bench.json(&["runs", "list"]).as_array().unwrap().len();
    let before = runs();
    let child = bench.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // When the run is recorded, it plays.
    while runs() == before {
        std::thread::yield_now();
    }
    let interpreter = interpreter_of(child.id());
    signal("-STOP", interpreter);
    (child, interpreter)
}

#[cfg(target_os = "linux")]
#[test]
fn the_second_signal_ends_the_program_whatever_it_waits_for() {
    use std::io::BufRead as _;
    let Some(bench) = Bench::new("the_second_signal_ends_the_program") else { return };
    let folder = Folder::new();
    // The plugin is compiled, so that the run begins at once.
    bench.out(&["run", &bench.guest("env_math"), "--episodes", "1"]);
    let (mut child, interpreter) = stuck(&bench, &folder);
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    let mut told = String::new();
    signal("-INT", child.id());
    for line in lines.by_ref() {
        told += &line.unwrap();
        if told.contains("press Ctrl-C again") {
            break;
        }
    }
    signal("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    // It cannot see by itself that the program has ended, because it was stopped.
    signal("-KILL", interpreter);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(output.stdout.is_empty(), "no summary: it ended at once, {}", stdout(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn children_end_with_a_parent_that_was_killed() {
    let Some(bench) = Bench::new("children_end_with_a_parent_that_was_killed") else { return };
    bench.out(&["run", &bench.guest("env_math"), "--episodes", "1"]);
    let folder = Folder::new();
    let (mut child, interpreter) = stuck(&bench, &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    signal("-CONT", interpreter);
    let place = format!("/proc/{interpreter}/cmdline");
    // A process that has ended has no command line any more.
    while std::fs::read(&place).is_ok_and(|line| !line.is_empty()) {
        std::thread::yield_now();
    }
}

#[cfg(unix)]
#[test]
fn children_with_an_open_input_end_with_their_parent() {
    use std::io::Read as _;
    let program = env!("CARGO_BIN_EXE_clawhost");
    for command in ["compile-component", "interpret-texts"] {
        // The shell is the parent, and kills itself. The input stays open, so that its end is not the reason.
        let script = format!("CLAWHOST_PARENT=$$ {program} {command} <&3 & kill -9 $$");
        let mut shell = Command::new("sh")
            .args(["-c", &format!("exec 3<&0; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _open = shell.stdin.take();
        let mut output = shell.stdout.take().unwrap();
        shell.wait().unwrap();
        // The child has the only other end of this pipe: it ends when the child ends.
        let mut said = Vec::new();
        output.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"", "{command}");
    }
}

#[test]
fn weights_that_overflow_are_an_error_by_name() {
    use clawhost_model::ModelFolder;
    use clawhost_model::tokens::TextHost;
    let check = |value: f32, expect: &str| {
        let folder = Folder::new();
        ModelFolder::read(folder.0.path(), &TextHost::InProcess).unwrap().write(folder.0.path()).unwrap();
        // After the length of the header and the header, the file has the numbers of all weights.
        let file = folder.0.path().join("model.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        let header = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        bytes[header..].chunks_exact_mut(4).for_each(|number| number.copy_from_slice(&value.to_le_bytes()));
        std::fs::write(&file, bytes).unwrap();
        refused(&folder, expect);
    };
    let folder = Folder::new();
    let file = folder.0.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config["rms_norm_eps"] = 1e308.into();
    folder.write("config.json", &config.to_string());
    refused(&folder, "config.json: rms_norm_eps is ");
    check(3e38, "holds a value that is not finite, or above 1e9");
    check(9e8, "the model's logits are not finite");
}
