//! Routers from the command line: the demo, and what it leaves behind shown, explained and judged.

use super::*;
use std::sync::OnceLock;

fn bench() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

/// What the demo said, and the router and the log that it wrote: of one run for all tests.
struct Demonstrated {
    document: Value,
    state: Vec<u8>,
    log: Vec<u8>,
}

const DEMO: [&str; 5] = ["demo", "router", "-q", "--seed", "21"];

fn demonstration() -> &'static Demonstrated {
    static ONCE: OnceLock<Demonstrated> = OnceLock::new();
    ONCE.get_or_init(|| {
        let bench = bench();
        let document = bench.json(&DEMO);
        assert!(!bench.data.path().join("clawhost.sqlite").exists(), "no episode is recorded");
        let [state, log] = ["demo.json", "demo.jsonl"].map(|name| std::fs::read(bench.router_file(name)).unwrap());
        Demonstrated { document, state, log }
    })
}

/// A bench with the router that the demo writes.
fn demonstrated() -> Bench {
    let (bench, Demonstrated { state, log, .. }) = (bench(), demonstration());
    std::fs::create_dir(bench.router_file("")).unwrap();
    std::fs::write(bench.router_file("demo.json"), state).unwrap();
    std::fs::write(bench.router_file("demo.jsonl"), log).unwrap();
    bench
}

impl Bench {
    pub(crate) fn router_file(&self, name: &str) -> PathBuf {
        self.data.path().join("routers").join(name)
    }
}

#[test]
fn the_router_demo_gives_its_proof_on_seeds_that_nothing_was_chosen_by() {
    let document = &demonstration().document;
    let router = &document["router"];
    for trial in ["models", "escalation"] {
        let shares: Vec<f64> =
            router[trial]["recovered"].as_array().unwrap().iter().map(|share| share.as_f64().unwrap()).collect();
        assert_eq!(shares.len(), 10);
        assert!(shares.iter().filter(|share| **share >= 0.9).count() >= 9, "{trial}: {shares:?}");
        let means = router[trial]["mean"].as_array().unwrap();
        let utility = |policy: &str| {
            let row = means.iter().find(|row| row["policy"] == policy).unwrap_or_else(|| panic!("{policy}: {means:?}"));
            row["utility"].as_f64().unwrap()
        };
        for control in ["always cheap", "always dear", "random", "tiers", "router without features"] {
            assert!(utility("router") > utility(control), "{trial}: {control}");
        }
        assert!(utility("best feature policy") >= utility("router"));
    }
    let slopes: Vec<f64> =
        router["regret"].as_array().unwrap().iter().map(|world| world["slope"].as_f64().unwrap()).collect();
    assert!(slopes.iter().filter(|slope| **slope <= 0.6).count() >= 9, "{slopes:?}");
    assert!(document["timing"]["decision_microseconds"]["median"].as_f64().unwrap() > 0.0);
    let again = bench().json(&DEMO);
    assert_eq!(without_timing(again).0, without_timing(document.clone()).0, "equal seeds give equal documents");
}

#[test]
fn the_router_demo_prints_controls_and_commands_that_can_be_pasted() {
    let bench = bench();
    let folder = bench.data.path().join("a folder");
    let output = bench.run(&["demo", "router", "-q", "--into", folder.to_str().unwrap()]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    for part in [
        "always cheap > dear",
        "tiers",
        "router without features",
        "oracle by class",
        "best feature policy",
        "at least 0.90 in ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let commands: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Look into")).skip(1).collect();
    assert_eq!(commands.len(), 3, "{text}");
    for command in commands {
        let pasted = Command::new("sh").args(["-c", command]).env_clear().output().unwrap();
        assert!(pasted.status.success(), "{command}: {}", stderr(&pasted));
    }
}

#[test]
fn a_router_is_shown_with_its_models_outcomes_and_weights() {
    let bench = demonstrated();
    let shown = bench.json(&["router", "show"]);
    assert_eq!(
        (&shown["router"], &shown["learned"], &shown["warm_up_left"]),
        (&"demo".into(), &2000.into(), &0.into())
    );
    assert_eq!(
        shown["models"],
        serde_json::json!([{"model": "cheap", "price": 1.0}, {"model": "dear", "price": 10.0}])
    );
    let actions = shown["actions"].as_array().unwrap();
    let outcomes: u64 = actions.iter().map(|action| action["outcomes"].as_u64().unwrap()).sum();
    assert_eq!((actions.len(), outcomes), (3, 2000));
    assert!(actions.iter().all(|action| action["weights"].as_array().unwrap().len() == 12));
    let file = bench.router_file("demo.json").display().to_string();
    assert_eq!(bench.json(&["router", "show", &file])["identity"], shown["identity"]);
    let text = bench.out(&["router", "show", "demo"]);
    for part in ["demo, version 2,000", "what was learned, with exploration", "cheap > dear", "complexity", "log-odds"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    bench.refused(&["router", "show", "dmo"], &["there is no router `dmo`; there is demo; did you mean `demo`?"]);
    let other = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    other.refused(&["router", "show"], &["there is no router yet; `clawhost demo router` makes one"]);
}

#[test]
fn a_router_goes_back_to_a_version_and_forward_again() {
    let bench = demonstrated();
    let served = bench.json(&["router", "show"])["identity"].clone();
    bench
        .refused(&["router", "rollback", "demo"], &["router demo has no earlier version to go back to; kept are none"]);
    // A version that was kept when 1500 outcomes were known.
    let state = String::from_utf8(demonstration().state.clone()).unwrap();
    let earlier = ["version", "learned"].iter().fold(state, |state, field| {
        let (now, then) = (format!("\"{field}\":2000"), format!("\"{field}\":1500"));
        assert_eq!(state.matches(&now).count(), 1, "{field}");
        state.replace(&now, &then)
    });
    std::fs::write(bench.router_file("demo.v1500.state"), earlier).unwrap();
    let list = || -> Vec<(u64, u64, bool)> {
        let document = bench.json(&["router", "versions"]);
        let one = |one: &Value| {
            let number = |key: &str| one[key].as_u64().unwrap();
            (number("version"), number("learned"), one["served"].as_bool().unwrap())
        };
        document["versions"].as_array().unwrap().iter().map(one).collect()
    };
    assert_eq!(list(), [(2000, 2000, true), (1500, 1500, false)]);
    bench.refused(
        &["router", "rollback", "demo", "--to", "7"],
        &["router demo has no version 7 to go back to; kept are 1500"],
    );

    // Counts of live decisions belong to the router, not to a version.
    let state = std::fs::read_to_string(bench.router_file("demo.json")).unwrap();
    assert_eq!(state.matches("\"expired\": 0").count(), 1);
    std::fs::write(bench.router_file("demo.json"), state.replace("\"expired\": 0", "\"expired\": 3")).unwrap();
    let done = bench.json(&["router", "rollback", "demo"]);
    assert_eq!(bench.json(&["router", "show"])["expired"], 3);
    assert_eq!((&done["before"]["version"], &done["to"]["version"]), (&2000.into(), &1500.into()), "{done}");
    assert_eq!(done["to"]["identity"], done["now"]["identity"], "it decides as the version did");
    assert_ne!(done["now"]["identity"], served);
    // No number names two states.
    assert_eq!(list(), [(2001, 1500, true), (2000, 2000, false), (1500, 1500, false)]);

    let told = bench.out(&["router", "rollback", "demo"]);
    assert!(told.contains("demo serves version 2000 again, as version 2002"), "{told}");
    assert_eq!(bench.json(&["router", "show"])["identity"], served, "a second rollback undoes the first");
    let table = bench.out(&["router", "versions", "demo"]);
    assert!(table.lines().any(|line| line.contains("2002") && line.contains("served")), "{table}");
    bench.refused(&["router", "rollback", "demo.json"], &["demo.json is a file; name a router in the data folder"]);
}

#[test]
fn a_decision_about_a_request_is_explained() {
    use std::io::Write as _;
    let bench = demonstrated();
    let body = r#"{"model":"m","max_tokens":9,"system":"Be kind.","tools":[{"name":"f","input_schema":{}}],
        "messages":[{"role":"user","content":"Prove step by step: ```x```"}]}"#;
    let path = bench.data.path().join("body.json");
    std::fs::write(&path, body).unwrap();
    let told = bench.json(&["router", "explain", path.to_str().unwrap()]);
    assert_eq!((&told["request"], &told["features"]["code"]), (&"anthropic".into(), &1.0.into()));
    assert_eq!(told["features"]["tools"].as_f64().unwrap(), 2.0_f64.ln());
    let actions = told["actions"].as_array().unwrap();
    let sum: f64 = actions.iter().map(|action| action["propensity"].as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let best = told["best"].as_u64().unwrap() as usize;
    let utility = |at: usize| actions[at]["utility"].as_f64().unwrap();
    assert!((0..3).all(|at| utility(at) <= utility(best)));

    let mut child = bench
        .command(&["router", "explain", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let piped: Value = serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(piped, told, "from standard input as from a file");

    let text = bench.out(&["router", "explain", "hello"]);
    for part in ["characters", "chosen      ", "instead     "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Some seed explores, and says so.
    let reasons: Vec<Value> = (0..40)
        .map(|seed| bench.json(&["router", "explain", "hello", "--seed", &seed.to_string()])["reason"].clone())
        .collect();
    assert!(reasons.contains(&"best".into()), "{reasons:?}");
    bench.refused(&["router", "explain", "missing.json"], &["missing.json: "]);
    std::fs::write(&path, r#"{"model":"m","messages":7}"#).unwrap();
    bench.refused(&["router", "explain", path.to_str().unwrap()], &["the request cannot be read: messages: "]);
}

#[test]
fn a_log_is_judged_and_what_it_cannot_tell_is_refused() {
    let bench = demonstrated();
    let log = bench.router_file("demo.jsonl");
    let found = bench.json(&["router", "replay", log.to_str().unwrap()]);
    let policies: Vec<&str> =
        found["policies"].as_array().unwrap().iter().map(|one| one["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["greedy", "random", "always cheap", "always dear"]);
    assert_eq!((&found["outcomes"], &found["judged"], &found["format"]), (&2000.into(), &800.into(), &1.into()));
    assert_eq!(found["policies"][0]["refusal"], Value::Null, "{found}");
    assert!(bench.out(&["router", "replay", log.to_str().unwrap()]).contains("verdict     "));
    assert_eq!(bench.json(&["router", "replay", "demo"]), found, "by the name of the router");

    let text = std::fs::read_to_string(&log).unwrap();
    let short: String = text.lines().take(100).flat_map(|line| [line, "\n"]).collect();
    let few = bench.router_file("few.jsonl");
    std::fs::write(&few, &short).unwrap();
    let told = bench.out(&["router", "replay", few.to_str().unwrap(), "--router", "demo"]);
    assert!(
        told.contains("refused: an effective sample of ") && told.contains("this log cannot compare greedy"),
        "{told}"
    );
    bench.refused(&["router", "replay", few.to_str().unwrap()], &["few.json: there is no such file"]);
    let state = bench.router_file("demo.json").display().to_string();
    bench.refused(&["router", "replay", &state], &["name the router of this log with --router"]);

    let replay = |change: fn(&str) -> String, says: &str| {
        std::fs::write(&few, change(&short)).unwrap();
        bench.refused(&["router", "replay", few.to_str().unwrap(), "--router", "demo"], &["few.jsonl: line 1: ", says]);
    };
    replay(
        |text| text.replacen("\"format\":1", "\"format\":3", 1),
        "a decision of format 3; this version reads format 1",
    );
    replay(
        |text| {
            let at = text.find("\"characters\",").unwrap() + "\"characters\",".len();
            format!("{}NaN{}", &text[..at], &text[at + text[at..].find(']').unwrap()..])
        },
        "feature characters is NaN",
    );
}

#[cfg(unix)]
#[test]
fn no_file_of_a_router_makes_the_program_wait() {
    let bench = bench();
    std::fs::create_dir(bench.router_file("")).unwrap();
    for name in ["pipe.json", "pipe.jsonl"] {
        assert!(Command::new("mkfifo").arg(bench.router_file(name)).status().unwrap().success());
    }
    let (state, log) = (bench.router_file("pipe.json"), bench.router_file("pipe.jsonl"));
    bench.refused(&["router", "show", "pipe"], &["a pipe, not a regular file"]);
    bench.refused(&["router", "show", state.to_str().unwrap()], &["a pipe, not a regular file"]);
    let other = demonstrated();
    let router = other.router_file("demo.json").display().to_string();
    other.refused(&["router", "replay", log.to_str().unwrap(), "--router", &router], &["a pipe, not a regular file"]);
    other.refused(&["router", "explain", state.to_str().unwrap()], &["a pipe, not a regular file"]);
}

/// Two models: one that answers at random and costs nothing, and one that calculates.
pub(crate) const TWO: &str = "incumbent = \"guesses\"\n[models.guesses]\nmodel = \"random\"\nprice = 0\n\
    [models.calculates]\nmodel = \"follower\"\nprice = 1\n";

impl Bench {
    /// Writes the models of a router.
    pub(crate) fn route(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.router_file("")).unwrap();
        std::fs::write(self.router_file(&format!("{name}.toml")), text).unwrap();
    }

    fn math(&self) -> Vec<String> {
        let words = [&format!("{}?kind=arithmetic", self.guest("env_math")), "--reward", &self.guest("reward_exact")];
        words.map(str::to_owned).to_vec()
    }

    /// A command on arithmetic problems with a router.
    pub(crate) fn routed(&self, command: &str, more: &[&str]) -> Vec<String> {
        let more = more.iter().map(|word| (*word).to_owned());
        [command.to_owned()].into_iter().chain(self.math()).chain(more).collect()
    }
}

/// Options of a learning run of the router `two`.
pub(crate) fn learning(iterations: u64, episodes: u64, seed: u64) -> Vec<String> {
    let fixed = ["--layer", "router", "--policy", "router:two", "--test-pairs", "0"].map(str::to_owned);
    let chosen = [("--iterations", iterations), ("--episodes", episodes), ("--seed", seed)];
    fixed.into_iter().chain(chosen.into_iter().flat_map(|(key, value)| [key.to_owned(), value.to_string()])).collect()
}

pub(crate) fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn a_router_learns_in_a_run_and_goes_on_in_the_next() {
    let Some(bench) = Bench::new("a_router_learns_in_a_run") else { return };
    bench.route("two", TWO);
    let options = [
        "--layer",
        "router",
        "--policy",
        "router:two",
        "--iterations",
        "8",
        "--episodes",
        "64",
        "--test-pairs",
        "64",
        "--seed",
        "5",
    ];
    let learn = bench.routed("learn", &options);
    let document = bench.json(&words(&learn));
    let mean = |key: &str| document[key]["mean"].as_f64().unwrap();
    assert!(mean("heldout_before") < 0.4 && mean("heldout_after") > 0.8, "{document}");
    let shown = bench.json(&["router", "show", "two"]);
    assert_eq!((&shown["learned"], &shown["version"], &shown["warm_up_left"]), (&512.into(), &8.into(), &0.into()));
    let log = bench.router_file("two.jsonl");
    let decisions = || std::fs::read_to_string(&log).unwrap().lines().count();
    assert_eq!(decisions(), 512);
    bench.json(&["router", "replay", log.to_str().unwrap()]);
    let told = bench.json(&["router", "explain", "What is 2 + 2?"]);
    assert_eq!(told["actions"][told["best"].as_u64().unwrap() as usize]["model"], "calculates");

    let play = bench.routed("run", &["--policy", "router:two", "--episodes", "50", "--seed", "9"]);
    let played = bench.json(&words(&play));
    assert!(played["reward_mean"].as_f64().unwrap() > 0.8, "{played}");
    let episode = bench.json(&["episodes", "show", played["episodes"][0]["id"].as_str().unwrap()]);
    let by = episode["turns"][0]["answered_by"]["model"].as_str().unwrap();
    assert!(["guesses", "calculates"].contains(&by));
    assert_eq!(
        (&episode["policy"]["model"]["provider"], &episode["policy"]["model"]["model"]),
        (&"router".into(), &"two".into())
    );
    assert_eq!(decisions(), 512, "playing learns nothing");

    // Another run of other tasks begins where this one ended, and replaces nothing.
    let options = learning(1, 64, 6);
    let told = bench.out(&words(&bench.routed("learn", &words(&options))));
    for part in [
        "verdict     not measured (the router alone changed)",
        "router      two: see `clawhost router show two`",
        "what it learned is a candidate, and nothing is replaced; `clawhost router promote two` judges it",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let now = bench.json(&["router", "show", "two"]);
    assert_eq!((&now["identity"], &now["learned"], decisions()), (&shown["identity"], &512.into(), 576));
    let candidate = &now["candidate"];
    assert_eq!(
        (&candidate["learned"], &candidate["logged"], &candidate["later"]),
        (&576.into(), &576.into(), &0.into())
    );

    // A model leaves, another comes, and a price changes: what was learned about the rest stays.
    bench.route(
        "two",
        &TWO.replace("models.guesses", "models.new")
            .replace("\"guesses\"", "\"new\"")
            .replace("price = 1", "price = 2"),
    );
    bench.json(&words(&bench.routed("learn", &words(&learning(1, 64, 7)))));
    let changed = bench.json(&["router", "show", "two"]);
    assert_eq!((&changed["candidate"]["later"], &changed["behind"]["learned"]), (&64.into(), &576.into()));
    let judged = bench.run(&["router", "promote", "two"]);
    assert!(stderr(&judged).contains("not promoted: an effective sample of"), "{}", stderr(&judged));
}

#[test]
fn a_run_that_stops_early_leaves_the_router_as_it_was() {
    let Some(bench) = Bench::new("a_run_that_stops_early_leaves_the_router") else { return };
    // Nobody listens there.
    bench.route("broken", "[models.none]\nmodel = \"openai:m@http://127.0.0.1:9/v1\"\nprice = 1\n");
    let learn = bench
        .routed("learn", &["--layer", "router", "--policy", "router:broken", "--iterations", "2", "--retries", "0"]);
    let output = bench.run(&words(&learn));
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(!bench.router_file("broken.json").exists() && !bench.router_file("broken.jsonl").exists());
}

#[test]
fn routers_that_cannot_be_used_are_refused_before_anything_is_played() {
    let Some(bench) = Bench::new("routers_that_cannot_be_used") else { return };
    bench.route("two", TWO);
    bench.route("ring", "[models.a]\nmodel = \"router:two\"\nprice = 1\n");
    bench.route("odd", "[models.a]\nmodel = \"folower\"\nprice = 1\n");
    let learn = |policy: &str| bench.routed("learn", &["--layer", "router", "--policy", policy, "--iterations", "1"]);
    bench.refused(&words(&learn("follower")), &["--policy: names no router; where one learns, write \"router:NAME\""]);
    bench.refused(&words(&learn("router:ring")), &["ring.toml: the model `a` is a router itself"]);
    bench.refused(&words(&learn("router:odd")), &["`folower` is not a model", "did you mean `follower`?"]);
    bench.refused(
        &words(&learn("router:none")),
        &["there is no router `none` for a policy; name its models in ", "none.toml"],
    );
    bench.refused(&words(&learn("router:../two")), &["there is no router `../two` for a policy"]);
    let both = bench.routed("learn", &["--layer", "router", "--layer", "weights", "--policy", "router:two"]);
    bench.refused(&words(&both), &["--policy: "]);
    assert!(!bench.router_file("two.json").exists());
}
