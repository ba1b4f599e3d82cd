//! Invalid input: a clear error with a remedy, the right exit code, and no loss of data.

use super::*;

/// Runs and checks exit code and message.
fn check(bench: &Bench, arguments: &[&str], code: i32, says: &[&str]) {
    let output = bench.run(arguments);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    for part in says {
        assert!(text.contains(part), "{arguments:?}: `{part}` in {text}");
    }
    assert!(!text.contains("thread 'main'"), "the host panicked: {text}");
    assert_eq!(stdout(&output), "", "standard output is empty");
}

/// Every option that names a file gets a pipe that no process writes to, and a device without an end.
#[cfg(unix)]
#[test]
fn no_file_makes_the_program_wait() {
    let Some(bench) = Bench::new("no_file_makes_the_program_wait") else { return };
    let at = |name: &str| bench.data.path().join(name).display().to_string();
    let (guess, exact) = (bench.guest("env_guess"), bench.guest("reward_exact"));
    bench.json(&["run", &guess, "--episodes", "1"]);
    std::fs::create_dir(at("model")).unwrap();
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(at(name)).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo is part of every unix");
        at(name)
    };
    let (wasm, toml, text) = (pipe("pipe.wasm"), pipe("pipe.toml"), pipe("pipe.txt"));
    let (script, markdown) = (format!("script:{text}"), pipe("skill.md"));
    pipe("model/config.json");
    for name in ["model.safetensors", "tokenizer.json"] {
        std::fs::write(bench.data.path().join("model").join(name), "").unwrap();
    }
    let model = format!("local:{}", at("model"));
    let endpoint = "openai:m@http://127.0.0.1:9/v1";
    let refused: [&[&str]; 10] = [
        &["run", &wasm],
        &["inspect", &wasm],
        &["tasks", &wasm],
        &["run", &guess, "--reward", &wasm],
        &["run", &toml],
        &["run", &guess, "--policy", &script],
        &["run", &guess, "--policy", &model],
        &["run", &guess, "--system-prompt-file", &text],
        &["run", &guess, "--policy", endpoint, "--api-key-file", &text],
        &["playbook", "import", "shop", &markdown],
    ];
    for arguments in refused {
        let output = bench.run(arguments);
        let told = stderr(&output);
        assert!(!output.status.success() && told.contains("a pipe, not a regular file"), "{arguments:?}: {told}");
    }
    let zero = "/dev/zero";
    check(
        &bench,
        &["run", &guess, "--reward", &exact, "--system-prompt-file", zero],
        2,
        &["a device, not a regular file"],
    );
    check(&bench, &["inspect", zero], 3, &["a device, not a regular file"]);
    let key = bench.data.path().join("host.key");
    std::fs::remove_file(&key).unwrap();
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    check(&bench, &["run", &guess, "--episodes", "1"], 5, &["host.key", "a pipe, not a regular file"]);
}

#[test]
fn files_that_are_not_plugins_are_refused() {
    let Some(bench) = Bench::new("files_that_are_not_plugins_are_refused") else { return };
    let file = |name: &str, bytes: &[u8]| {
        let path = bench.data.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    check(&bench, &["run", "missing.wasm"], 3, &["missing.wasm", "check the path"]);
    check(&bench, &["inspect", "missing.wasm"], 3, &["missing.wasm"]);
    check(
        &bench,
        &["run", &bench.data.path().display().to_string()],
        2,
        &["a folder without claw.toml, so it is no plugin"],
    );
    check(&bench, &["run", &file("core.wasm", b"\0asm\x01\0\0\0")], 3, &["a core module, not a component"]);
    check(&bench, &["run", &file("text.wasm", b"hello")], 3, &["not a WebAssembly component"]);
    let whole = std::fs::read(bench.guest("env_guess")).unwrap();
    check(&bench, &["run", &file("cut.wasm", &whole[..whole.len() / 2])], 3, &["damaged at byte"]);
    check(&bench, &["run", &bench.guest("reward_exact")], 3, &["is a reward, but an environment is needed"]);
    let guess = bench.guest("env_guess");
    check(&bench, &["run", &guess, "--reward", &guess], 3, &["is an environment, but a reward is needed"]);
    check(&bench, &["run", &guess, "--reward", &guess], 3, &["choose another --reward"]);
    check(&bench, &["run", &bench.guest("reward_exact")], 3, &["choose another PLUGIN.wasm"]);
    let learn = ["learn", &guess, "--reward", &bench.guest("reward_exact"), "--layer", "harness", "--reflector"];
    check(&bench, &[&learn[..], &[guess.as_str()]].concat(), 3, &["choose another --reflector"]);
    check(&bench, &["run", &guess, "--grant", "llm:judge=folower"], 2, &["is not a model", "choose another --grant"]);
    let text = format!(
        "plugin = '{guess}'\nrewards = ['{}']\n[[learn]]\nlayer = 'harness'\nreflectors = ['{guess}']\n",
        bench.guest("reward_exact")
    );
    let run = file("run.toml", text.as_bytes());
    check(
        &bench,
        &["learn", &run, "--trust-run-file"],
        3,
        &[&format!("error: {run}, line 5: [[learn]] harness, reflectors: ")],
    );
    let untold = ["run", &guess, "--reward", &bench.guest("reward_signal")];
    check(&bench, &untold, 2, &["reward-signal refuses its options: name the signal: name=distance"]);
    check(&bench, &["run", &bench.guest("hostile_describe")], 3, &["`describe` gave no usable answer", "limit(fuel)"]);
    check(&bench, &["run", &bench.guest("hostile_describe_trap")], 3, &["I would rather not say"]);
}

#[test]
fn a_plugin_that_was_built_here_is_found_by_its_name() {
    let Some(bench) = Bench::new("a_plugin_that_was_built_here") else { return };
    let built = bench.data.path().join("target/guests");
    std::fs::create_dir_all(&built).unwrap();
    std::fs::copy(bench.guest("env_guess"), built.join("env_guess.wasm")).unwrap();
    let run = |name: &str| stderr(&bench.command(&["run", name]).current_dir(bench.data.path()).output().unwrap());
    let found = run("plugins/env_guess.wasm");
    assert!(
        found.contains("check the path (guests built here lie in target/guests: target/guests/env_guess.wasm)"),
        "{found}"
    );
    let missing = run("env_gess.wasm");
    assert!(missing.contains("check the path") && !missing.contains("target/guests"), "{missing}");
}

#[cfg(unix)]
#[test]
fn paths_that_are_not_files_are_refused() {
    let Some(bench) = Bench::new("what_is_no_file") else { return };
    check(&bench, &["inspect", "/dev/zero"], 3, &["/dev/zero: a device, not a regular file"]);
    let pipe = bench.data.path().join("pipe.wasm").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    check(&bench, &["inspect", &pipe], 3, &["not a regular file"]);
}

#[test]
fn invalid_options_and_texts_are_refused() {
    let Some(bench) = Bench::new("invalid_options_and_texts_are_refused") else { return };
    let guess = bench.guest("env_guess");
    check(&bench, &["run", &format!("{guess}?sizes=10")], 2, &["no option `sizes`", "did you mean `size`?"]);
    check(&bench, &["run", &format!("{guess}?size")], 2, &["write NAME=VALUE"]);
    check(
        &bench,
        &["run", &format!("{guess}?size=many")],
        2,
        &["env-guess refuses its options", "write it as in size=100"],
    );
    let judge = format!("{}?votes=0", bench.guest("reward_judge"));
    check(
        &bench,
        &["run", &guess, "--reward", &judge],
        2,
        &["reward-judge refuses its options: votes must be 1 to 15"],
    );
    check(&bench, &["run", &guess, "--seed", "9007199254740992"], 2, &["--seed"]);
    check(
        &bench,
        &["run", &guess, "--group", "1", "--branch-at", "2"],
        2,
        &["--branch-at: needs --group of at least 2"],
    );
    let late = ["run", &guess, "--group", "2", "--branch-at", "5", "--max-turns", "5"];
    check(&bench, &late, 2, &["--branch-at: found 5; expected less than --max-turns, which is 5"]);
    let exact = bench.guest("reward_exact");
    let typo = format!("{exact}?tolerence=1");
    check(&bench, &["run", &guess, "--reward", &typo], 2, &["did you mean `tolerance`?"]);
    check(&bench, &["run", &guess, "--reward", &exact, "--reward", &exact], 2, &["given twice"]);
    check(&bench, &["run", &guess, "--policy", "folower"], 2, &["is not a model", "did you mean `follower`?"]);
    check(
        &bench,
        &["run", &guess, "--policy", "anthropic:@http://127.0.0.1:1"],
        2,
        &["names no model", "anthropic:MODEL@"],
    );
    check(&bench, &["run", &guess, "--reward", &format!("{exact}#source=mine")], 2, &["`mine` is not a source"]);
    check(
        &bench,
        &["run", &format!("{guess}#weight=2")],
        2,
        &["only rewards of a run (#weight=W&source=S&for=PART) and environments that are mixed in"],
    );
    check(
        &bench,
        &["run", &guess, "--grant", "llm:a b=follower"],
        2,
        &["llm:a b=follower", "expected an alias of letters"],
    );
    let empty = bench.data.path().join("empty.key").display().to_string();
    std::fs::write(&empty, "\n").unwrap();
    let policy = ["run", &guess, "--policy", "openai:m@http://127.0.0.1:1/v1", "--api-key-file"];
    check(&bench, &[&policy[..], &[&empty]].concat(), 2, &["the key file is empty", "choose another --api-key-file"]);
    check(
        &bench,
        &[&policy[..], &["openai=missing.key"]].concat(),
        2,
        &["missing.key", "a key file is a text file with only the key"],
    );
    let prompt = ["run", guess.as_str(), "--system-prompt-file", "missing.txt"];
    check(
        &bench,
        &prompt,
        2,
        &["missing.txt: the system prompt cannot be read", "choose another --system-prompt-file"],
    );
    check(&bench, &["run", &guess, "--policy", "openai:m@nowhere"], 2, &["is not an http or https address"]);
    check(&bench, &["run", &guess, "--policy", "script:missing.txt"], 2, &["one answer per line"]);
    check(&bench, &["run", &guess, "--tasks", "trial"], 2, &["no split `trial`; it has train, val, test"]);
    check(&bench, &["run", &bench.guest("odd_no_tasks")], 2, &["gives no tasks"]);
    check(&bench, &["run", &guess, "--grant", "files"], 2, &["expected kv, or llm:ALIAS=SPEC"]);
    check(&bench, &["run", &guess, "--episods", "3"], 2, &["--episodes"]);
    check(&bench, &["run", &guess, "--episodes", "0"], 2, &["--episodes: found 0; expected a whole number from 1"]);
    check(&bench, &["run", &guess, "--temperature", "hot"], 2, &["expected a number from 0 to 2"]);
    check(&bench, &["rum"], 2, &["run"]);
}

#[test]
fn scoring_needs_recorded_episodes() {
    let Some(bench) = Bench::new("judging_needs_something") else { return };
    let exact = bench.guest("reward_exact");
    check(&bench, &["score", "--reward", &exact], 5, &["no episodes here yet"]);
    // A refused run leaves a database without runs.
    drop(bench.run(&["run", "missing.wasm"]));
    check(&bench, &["score", "--reward", &exact], 2, &["no runs here yet"]);
    drop(bench.run(&["run", &bench.guest("env_math"), "--episodes", "1"]));
    check(&bench, &["score", "--reward", &exact, "--run", "run-none"], 2, &["no run `run-none`", "runs list"]);
    check(&bench, &["score"], 2, &["--reward"]);
    check(&bench, &["score", "--reward", &bench.guest("env_math")], 3, &["is an environment, but a reward is needed"]);
    check(&bench, &["score", "--reward", &format!("{exact}?tolerence=1")], 2, &["did you mean `tolerance`?"]);
}

#[test]
fn an_unusable_data_folder_is_reported() {
    let Some(bench) = Bench::new("an_unusable_data_folder_is_reported") else { return };
    let guess = bench.guest("env_guess");
    let in_folder = |name: &str| bench.data.path().join(name).display().to_string();
    std::fs::write(in_folder("file"), "no folder").unwrap();
    check(&bench, &["run", &guess, "--data", &in_folder("file")], 5, &["choose another --data folder"]);
    std::fs::create_dir(in_folder("corrupt")).unwrap();
    std::fs::write(in_folder("corrupt/clawhost.sqlite"), "no database".repeat(1000)).unwrap();
    check(
        &bench,
        &["run", &guess, "--data", &in_folder("corrupt")],
        5,
        &["not a usable database", "move the file away"],
    );
    check(&bench, &["episodes", "list", "--data", &in_folder("corrupt")], 5, &["not a usable database"]);
    check(&bench, &["episodes", "list", "--data", &in_folder("empty")], 5, &["no episodes here yet"]);

    let full = ["run", &guess, "--episodes", "5000", "--store-limit", "1", "--quiet", "--data", &in_folder("full")];
    check(
        &bench,
        &full,
        5,
        &["no room left", "the size limit of the store is reached", "what was recorded before is safe"],
    );
    let list = bench.json(&["episodes", "list", "--limit", "10000", "--data", &in_folder("full")]);
    assert!(!list.as_array().unwrap().is_empty(), "earlier records are intact");
    check(&bench, &["episodes", "show", "ep-none", "--data", &in_folder("full")], 2, &["no episode `ep-none`"]);
    check(&bench, &["episodes", "list", "--run", "run-none", "--data", &in_folder("full")], 2, &["no run `run-none`"]);
}
