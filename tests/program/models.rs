//! Local models on the command line: create, describe, generate, chat, import and export.

use super::*;

pub(crate) fn bench() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

/// A model made with `transformers`.
pub(crate) fn reference(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/transformers/reference").join(name).display().to_string()
}

impl Bench {
    pub(crate) fn path(&self, name: &str) -> String {
        self.data.path().join(name).display().to_string()
    }

    fn tiny(&self, name: &str, more: &[&str]) -> String {
        let folder = self.path(name);
        let small = ["--width", "16", "--context", "32", "--alphabet", "0123456789+=<>?#"];
        self.out(&[&["model", "init", &folder], &small[..], more].concat());
        folder
    }

    /// The program's output for lines on standard input.
    fn told(&self, arguments: &[&str], input: &str) -> Output {
        use std::io::Write as _;
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

#[test]
fn a_model_follows_from_its_seed_and_is_described() {
    let bench = bench();
    let [one, same, other] =
        [("one", "7"), ("same", "7"), ("other", "8")].map(|(name, seed)| bench.tiny(name, &["--seed", seed]));
    let info = |folder: &str| bench.json(&["model", "info", folder]);
    let told = info(&one);
    assert_eq!(told["weights"], info(&same)["weights"]);
    assert_ne!(told["weights"], info(&other)["weights"]);
    assert_eq!((&told["architecture"], &told["chat_template"]), (&"qwen3".into(), &true.into()));
    assert_eq!((&told["shape"]["width"], &told["context"], &told["adapter"]), (&16.into(), &32.into(), &Value::Null));
    assert_eq!(told["memory_bytes"].as_u64(), told["parameters"].as_u64().map(|count| 4 * count));
    let text = bench.out(&["model", "info", &one]);
    assert!(text.contains("context        32 tokens") && text.contains("chat template  yes"), "{text}");
    bench.refused(&["model", "init", &one], &["is not empty", "--force"]);
    bench.tiny("one", &["--seed", "8", "--force"]);
    assert_eq!(info(&one)["weights"], info(&other)["weights"]);
    let wrong = bench.run(&["model", "init", &bench.path("x"), "--heads", "3"]);
    let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(why.contains("a width of 64 for 3 heads") && !why.contains("config.json"), "{why}");
}

#[test]
fn equal_seeds_give_equal_completions() {
    let bench = bench();
    let tiny = bench.tiny("tiny", &[]);
    let arguments = ["model", "generate", &tiny, "1+1=", "--max-tokens", "9", "--seed", "4"];
    let told = bench.json(&[&arguments[..], &["--n", "3"]].concat());
    let samples = told["samples"].as_array().unwrap();
    assert_eq!((samples.len(), &told["prompt_tokens"]), (3, &serde_json::json!([1, 10, 1, 11])));
    assert_ne!(samples[0]["tokens"], samples[1]["tokens"]);
    for sample in samples {
        let (tokens, logprobs) = (sample["tokens"].as_array().unwrap(), sample["logprobs"].as_array().unwrap());
        assert!(!tokens.is_empty() && tokens.len() == logprobs.len());
        assert!(logprobs.iter().all(|logprob| logprob.as_f64().unwrap() < 0.0));
    }
    // A single answer is streamed, several are numbered; the document has the same texts.
    let first = samples[0]["text"].as_str().unwrap();
    assert_eq!(bench.out(&arguments), format!("{first}\n"));
    let several = bench.out(&[&arguments[..], &["--n", "3"]].concat());
    assert!(several.starts_with(&format!("1: {first}\n2: ")), "{several}");
    let piped = bench.told(&["model", "generate", &tiny, "--max-tokens", "9", "--seed", "4"], "1+1=\n");
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), format!("{first}\n"));
    // Up to a stop text, without it.
    let stop: String = first.chars().skip(1).take(2).collect();
    let cut = bench.json(&[&arguments[..], &["--stop", &stop]].concat());
    assert_eq!(cut["samples"][0]["text"].as_str().unwrap(), &first[..first.find(&stop).unwrap()]);
    assert_eq!(cut["samples"][0]["finish"], "stop");
    assert!(cut["samples"][0]["tokens"].as_array().unwrap().len() < samples[0]["tokens"].as_array().unwrap().len());
    assert_eq!(
        bench.out(&[&arguments[..], &["--stop", &stop]].concat()).trim_end(),
        &first[..first.find(&stop).unwrap()]
    );
}

#[test]
fn invalid_prompts_are_refused() {
    let bench = bench();
    let tiny = bench.tiny("tiny", &[]);
    let check = |arguments: &[&str], expect: &str| {
        let output = bench.run(&[&["model"], arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(expect), "{error}");
    };
    check(&["generate", &tiny, ""], "an empty prompt");
    check(&["generate", &tiny, "1+x="], "the alphabet has no 'x'");
    check(
        &["chat", &tiny, "--system", "1"],
        "the option --system would have no effect: the chat template of this model",
    );
    check(
        &["generate", &tiny, &"1".repeat(32)],
        "the prompt has 32 tokens, and the model's context holds 32; shorten it",
    );
    check(&["info", &bench.path("nowhere")], "it is not a model's folder; `clawhost model init DIR` makes a tiny one");
    check(&["import", &bench.path("nowhere"), &bench.path("y")], "is not a folder; download all files");
    check(&["export", &tiny, &bench.path("y"), "--merge"], "has no adapter to merge");
    check(&["generate", &tiny, "1", "--adapter", &reference("adapter")], "it belongs to another model");
    std::fs::remove_file(Path::new(&tiny).join("chat_template.jinja")).unwrap();
    check(&["chat", &tiny], "put a chat_template.jinja into the model's folder");
}

#[test]
fn a_conversation_continues_line_by_line_and_reports_dropped_messages() {
    let bench = bench();
    let tiny = bench.tiny("tiny", &[]);
    let arguments = ["model", "chat", &tiny, "--max-tokens", "6", "--json"];
    let output = bench.told(&arguments, "1+1=\n\n2+2=\n3+3=\n4+4=\n");
    let lines: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines[0]["left_out"], 0);
    assert!(lines[3]["left_out"].as_u64().unwrap() >= 2, "{lines:?}");
    let plain = bench.told(&arguments[..5], "1+1=\n");
    assert_eq!(String::from_utf8(plain.stdout).unwrap(), format!("{}\n", lines[0]["answer"].as_str().unwrap()));
    // The same with a model that was made elsewhere.
    let system = ["model", "chat", &reference("qwen2"), "--system", "Be brief.", "--max-tokens", "4", "--json"];
    let output = bench.told(&system, "Hi\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A person at a terminal may rephrase. Lines of a file end there.
#[cfg(target_os = "linux")]
#[test]
fn unreadable_input_can_be_rephrased() {
    let bench = bench();
    let tiny = bench.tiny("tiny", &[]);
    let piped = bench.told(&["model", "chat", &tiny, "--max-tokens", "6"], "1+x=\n1+1=\n");
    assert!(!piped.status.success() && piped.stdout.is_empty(), "{}", stderr(&piped));
    let Ok(there) = Command::new("script").arg("--version").output() else {
        eprintln!("skipped: unreadable_input_can_be_rephrased on a terminal: there is no `script`");
        return;
    };
    assert!(there.status.success());
    let chat = format!("exec '{}' model chat '{tiny}' --max-tokens 6 --temperature 0", env!("CARGO_BIN_EXE_clawhost"));
    let terminal = |lines: &str| {
        use std::io::Write as _;
        let mut script = Command::new("script");
        script.args(["-qec", &chat, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        stdout(&child.wait_with_output().unwrap())
    };
    let told = terminal("1+x=\n1+1=\n\u{4}");
    assert!(told.contains("error: ") && told.contains("the alphabet has no 'x'"), "{told}");
    // Input may be echoed before or after the prompt.
    let words = |line: &str| line.trim_start_matches("> ").trim().to_owned();
    let answer = |told: &str| told.lines().rev().map(words).find(|words| !words.is_empty());
    assert_eq!(answer(&told), answer(&terminal("1+1=\n\u{4}")), "a refused message is not in the conversation");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_an_answer_and_the_conversation_continues_with_its_shown_part() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let bench = bench();
    let slow = bench.path("slow");
    bench.out(&["model", "init", &slow, "--width", "256", "--layers", "8"]);
    // The most likely token of initial weights is always the same: without Ctrl-C there would be 1,900 of them.
    let arguments = ["model", "chat", &slow, "--max-tokens", "1900", "--temperature", "0"];
    let spawn = |arguments: &[&str]| {
        let piped =
            bench.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = piped.unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        (child, input, output)
    };
    let interrupt = |child: &std::process::Child| {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    };
    let (mut child, mut input, mut output) = spawn(&arguments);
    for _ in 0..2 {
        input.write_all(b"Hello\n").unwrap();
        let mut first = [0];
        output.read_exact(&mut first).unwrap();
        interrupt(&child);
        let mut rest = String::new();
        output.read_line(&mut rest).unwrap();
        assert!(rest.ends_with('\n') && rest.chars().count() < 1900, "{rest}");
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130), "between answers Ctrl-C ends the conversation");

    // With JSON an answer is printed when it ends, so its beginning is not visible. A conversation that began later and
    // streams its answer shows the progress: when it has this many bytes, this one has some too.
    let told = (0..10).find_map(|doubled| {
        let (mut child, mut input, mut output) = spawn(&[&arguments[..], &["--json"]].concat());
        input.write_all(b"Hello\n").unwrap();
        let (mut beside, mut beside_input, mut beside_output) = spawn(&arguments);
        beside_input.write_all(b"Hello\n").unwrap();
        beside_output.read_exact(&mut vec![0; 1 << doubled]).unwrap();
        interrupt(&child);
        beside.kill().unwrap();
        beside.wait().unwrap();
        drop(input);
        let mut said = String::new();
        output.read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        let told = serde_json::from_str::<Value>(&said).ok()?;
        (told["finish"] == "interrupted" && told["answer"].as_str().is_some_and(|answer| !answer.is_empty()))
            .then_some(told)
    });
    assert!(told.is_some(), "no answer was interrupted");
}

#[test]
fn numbers_of_sampling_that_are_below_zero_are_refused_as_numbers() {
    let bench = bench();
    let check = |option: &str, expect: &str| {
        let output = bench.run(&["model", "generate", &reference("qwen3"), "Hello", option, "-1"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(&format!("invalid value '-1' for '{option}")) && error.contains(expect), "{error}");
    };
    check("--temperature", "expected a number between 0 and 2");
    check("--top-p", "expected a number between 0 and 1");
    check("--top-k", "-1 is not in 0..");
    check("--repetition-penalty", "");
}

#[test]
fn models_are_imported_and_exported_with_their_adapters() {
    let bench = bench();
    let [folder, merged, again] = ["in", "merged", "again"].map(|name| bench.path(name));
    let told = bench.json(&["model", "import", &reference("qwen3"), &folder, "--adapter", &reference("adapter")]);
    assert_eq!((&told["adapter"], &told["architecture"]), (&true.into(), &"qwen3".into()));
    let info = bench.json(&["model", "info", &folder]);
    assert_eq!((&info["adapter"]["rank"], &info["adapter"]["alpha"]), (&2.into(), &4.0.into()));
    assert_eq!((&info["sampling"]["temperature"], &info["weights"]), (&0.6.into(), &told["weights"]));
    bench.out(&["model", "export", &folder, &merged, "--merge", "--max-shard-size", "40KB"]);
    assert!(
        Path::new(&merged).join("model.safetensors.index.json").exists()
            && !Path::new(&merged).join("adapter").exists()
    );
    // Merged or not: the same answer.
    let ask = |folder: &str, more: &[&str]| {
        let greedy = ["model", "generate", folder, "Hello", "--temperature", "0", "--max-tokens", "12"];
        bench.json(&[&greedy[..], more].concat())["samples"][0]["tokens"].clone()
    };
    assert_eq!(ask(&merged, &[]), ask(&folder, &[]));
    assert_eq!(ask(&reference("qwen3"), &["--adapter", &reference("adapter")]), ask(&folder, &[]));
    assert_ne!(ask(&reference("qwen3"), &[]), ask(&folder, &[]));
    bench.out(&["model", "export", &folder, &again, "--dtype", "bf16"]);
    assert_eq!(
        bench.json(&["model", "info", &again])["weights"],
        info["weights"],
        "the weights were stored as bf16 before"
    );
    bench.refused(&["model", "import", &reference("llama"), &folder], &["is not empty; name a new folder"]);
}

#[test]
fn folders_without_a_valid_model_are_refused_with_the_reason() {
    let bench = bench();
    let check = |name: &str, damage: &dyn Fn(&Path), expect: &[&str]| {
        let folder = bench.path(name);
        bench.out(&["model", "import", &reference("llama"), &folder]);
        damage(Path::new(&folder));
        let output = bench.run(&["model", "import", &folder, &bench.path("target")]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(expect.iter().all(|part| error.contains(part)), "{error}");
        assert!(error.matches(&folder).count() <= 1, "the folder is named once: {error}");
        assert!(!Path::new(&bench.path("target")).exists(), "no file of {name} is written");
    };
    let second = "model-00002-of-00002.safetensors";
    check("missing", &|folder| std::fs::remove_file(folder.join(second)).unwrap(), &[second, "a shard of the model"]);
    let cut = |folder: &Path| {
        let bytes = std::fs::read(folder.join(second)).unwrap();
        std::fs::write(folder.join(second), &bytes[..bytes.len() - 9]).unwrap();
    };
    check("cut", &cut, &[second, "is the download complete?"]);
    let edit = |find: &'static str, put: &'static str| {
        move |folder: &Path| {
            let path = folder.join("config.json");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(find), "{text}");
            std::fs::write(&path, text.replace(find, put)).unwrap();
        }
    };
    check("kind", &edit("\"llama\"", "\"mamba\""), &["model_type is `mamba`; this version runs llama"]);
    let shape = ["the weight model.layers.0.mlp.gate_proj.weight has the shape [48, 32]", "implies [52, 32]"];
    check("shape", &edit("\"intermediate_size\": 48", "\"intermediate_size\": 52"), &shape);
    check(
        "fewer",
        &edit("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
        &["model.layers.1.", "does not occur in the model"],
    );
}
