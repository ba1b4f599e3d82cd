//! The demo as somebody meets it who has just built the program: what it proves, and what it says where it proves nothing.

use super::*;
use crate::client::request;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
#[cfg(target_os = "linux")]
use std::num::NonZero;

impl Bench {
    fn demo(&self, more: &[&str]) -> Command {
        let guests = self.guests.display().to_string();
        let mut command = self.command(&[&["demo", "harness", "--plugins", &guests], more].concat());
        command.current_dir(self.data.path());
        command
    }
}

/// Whether the proofs that take many minutes without optimisation are wanted. Release builds give them in `cargo xtask demo`.
fn wants_long_proofs() -> bool {
    std::env::var_os("CLAWHOST_PROOFS").is_some()
}

#[test]
fn the_harness_demo_gives_its_proof() {
    let Some(bench) = Bench::new("the_demo_of_the_harness") else { return };
    let (mut lifts, mut small_lifts) = (Vec::new(), Vec::new());
    let seeds: &[&str] = if wants_long_proofs() { &["1", "2", "3", "4", "5"] } else { &["3"] };
    for seed in seeds.iter().copied() {
        let plot = bench.data.path().join("curve.svg");
        let guests = bench.guests.display().to_string();
        let words = ["demo", "harness", "--seed", seed, "--plugins", &guests, "--svg", plot.to_str().unwrap(), "-q"];
        let document = bench.json(&words);
        let harness = &document["harness"];
        let mean = |key: &str| harness[key]["mean"].as_f64().unwrap();
        lifts.push(mean("heldout_after") - mean("heldout_before"));
        assert_eq!(harness["planted_entry"]["support"], 0, "planting does not count as a proposal");
        assert_eq!(harness["planted_entry_retired"], true, "seed {seed}: {}", harness["planted_entry"]);
        let planted = &harness["planted_made_of"];
        assert!(planted["plant_is_right"].as_f64().unwrap() > 0.05, "right in some cases: {planted}");
        assert_eq!(mean("silent_after"), mean("heldout_before"), "without proposals nothing changes");
        assert!(mean("shuffled_after") < mean("heldout_after"), "the content of lessons matters");
        assert!(mean("admit_all_after") < mean("heldout_after"), "the measurement matters");
        assert!(mean("oracle") > mean("heldout_after"), "the oracle is the upper bound");
        let small = harness["small_budgets"].as_array().unwrap();
        let budgets: Vec<u64> = small.iter().filter_map(|point| point["plan"]["budget"].as_u64()).collect();
        assert_eq!(budgets, [100, 150, 300]);
        for point in small {
            let of = |arm: &str, value: &str| point[arm][value]["mean"].as_f64().unwrap();
            assert_eq!(of("silent", "lift"), 0.0, "without proposals nothing changes: {point}");
            assert!(of("shuffled", "lift") < 0.05, "the content of lessons matters: {point}");
            let played = &point["rules"]["episodes"];
            let spent = played["train"].as_u64().unwrap() + played["gate"].as_u64().unwrap();
            assert!(spent <= point["plan"]["budget"].as_u64().unwrap(), "{point}");
            small_lifts.push(of("rules", "lift"));
        }
        assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
        assert_eq!(harness["seeds"], serde_json::json!([seed.parse::<u64>().unwrap()]));
    }
    let lift = lifts.iter().sum::<f64>() / lifts.len() as f64;
    assert!(lift >= 0.3, "{lifts:?}");
    let small = small_lifts.iter().sum::<f64>() / small_lifts.len() as f64;
    assert!(small >= 0.4, "{small_lifts:?}");
}

#[test]
fn a_demo_with_the_same_seed_gives_the_same_document_however_many_episodes_it_plays_at_once() {
    let Some(bench) = Bench::new("a_demo_with_the_same_seed") else { return };
    let document = |concurrency: &str| {
        let more = ["--iterations", "4", "--seed", "1", "--concurrency", concurrency, "-q", "--json"];
        let output = bench.demo(&more).output().unwrap();
        let mut document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        document.as_object_mut().unwrap().remove("timing");
        document
    };
    assert_eq!(document("1"), document("2"));
}

#[test]
fn the_quick_weights_demo_gives_its_proof() {
    let Some(bench) = Bench::new("the_demo_of_the_weights") else { return };
    let guests = bench.guests.display().to_string();
    let seeds: &[&str] = if wants_long_proofs() { &["1", "2", "3"] } else { &["2"] };
    for seed in seeds.iter().copied() {
        let plot = bench.data.path().join("weights.svg");
        let words = ["demo", "weights", "--quick", "--seed", seed, "--plugins", &guests, "--svg"];
        let document = bench.json(&[&words[..], &[plot.to_str().unwrap(), "-q"]].concat());
        // The clumsy player's games are too poor to reach the target of guesses: those demonstrations end by their number.
        for (part, taught, reaches) in [("guess", 0.4, None), ("addition", 0.5, Some(true))] {
            let told = &document["weights"][part];
            let number = |when: &str, what: &str| told[when][what].as_f64().unwrap();
            assert!(number("after", "low") > number("before", "high"), "seed {seed}, {part}: {told}");
            assert!(number("after", "greedy") > number("before", "greedy"), "seed {seed}, {part}: {told}");
            let shown = &told["imitation"];
            let last = shown["looks"].as_array().unwrap().last().unwrap()[1].as_f64();
            assert!(reaches.is_none_or(|reaches| shown["reached"] == reaches) && last >= Some(taught), "{shown}");
            assert_eq!(told["curve"].as_array().unwrap().len() as u64, told["iterations"].as_u64().unwrap());
            assert_eq!((&told["learned"], &told["control_sft"]), (&told["iterations"], &Value::Null));
            assert_eq!(told["seeds"], serde_json::json!([seed.parse::<u64>().unwrap()]));
        }
        let turns = document["weights"]["guess"]["turns"].as_f64().unwrap();
        assert!(turns < 5.3, "the model needs few guesses: {document}");
        assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
    }
}

#[test]
fn the_demo_of_all_layers_gives_its_proof() {
    if !wants_long_proofs() {
        eprintln!("skipped the_demo_of_all_layers_gives_its_proof: set CLAWHOST_PROOFS=1");
        return;
    }
    let Some(bench) = Bench::new("the_demo_of_all_layers") else { return };
    let guests = bench.guests.display().to_string();
    let document = bench.json(&["demo", "full", "--plugins", &guests, "-q"]);
    let full = &document["full"];
    let evaluation = &full["learn"]["evaluation"];
    let arms = evaluation["arms"].as_array().unwrap();
    let alone: Vec<&Value> = arms.iter().filter(|arm| arm["layers"].as_array().unwrap().len() == 1).collect();
    assert_eq!((arms.len(), alone.len()), (7, 3), "every set of layers plays the test");
    for arm in alone {
        assert!(arm["behind"]["low"].as_f64().unwrap() > 0.0, "all layers are better by interval: {arm}");
    }
    assert_eq!(full["learn"]["outcome"], "improved");
    let effects = evaluation["effects"].as_array().unwrap();
    assert!(effects.len() == 3 && effects.iter().all(|effect| effect["outcome"].is_string()), "{effects:?}");
    let foreign = &full["foreign_playbook"]["lift"];
    assert!(foreign["high"].as_f64().unwrap() < 0.0, "the playbook of another house harms: {foreign}");
    let routing = full["routing"].as_array().unwrap();
    let utility =
        |name: &str| routing.iter().find(|one| one["routing"] == name).and_then(|one| one["utility"].as_f64()).unwrap();
    assert!(utility("learned") > utility("random") && utility("learned") > utility("tiny"), "{routing:?}");
    // Every set of layers plays as many episodes.
    assert_eq!(full["episodes"]["test"], 8 * 200);
}

#[test]
fn a_failed_proof_has_its_reasons_and_counts_every_lesson() {
    let Some(bench) = Bench::new("a_demo_that_proves_nothing") else { return };
    let output = bench.demo(&["--iterations", "2", "-q", "--json"]).output().unwrap();
    let why = "error: the proof failed: the test reward did not measurably improve, and the planted entry is still on trial after 5 groups; \
               --iterations 2 is few, the default of 100 shows it\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), why));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let harness = &document["harness"];
    assert_eq!((&harness["playbook"], &harness["planted_entry"]["support"]), (&serde_json::json!([]), &Value::from(0)));
    let entries = harness["entries"].as_array().unwrap();
    let number = |status: &str| entries.iter().filter(|entry| entry["status"] == status).count();
    let (trial, waiting) = (number("on trial"), number("queued"));
    assert_eq!(trial + waiting, entries.len(), "no lesson is decided after two iterations");

    let output = bench.demo(&["--iterations", "2", "-q"]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), why));
    let text = stdout(&output);
    let (all, proposed) = (entries.len(), entries.len() - 1);
    for part in [
        "The playbook is empty: no lesson was admitted yet.\n",
        &format!(
            "{all} lessons in all ({proposed} proposed, 1 planted): {trial} on trial, {waiting} waiting for a trial\n"
        ),
        "verdict     no significant change (nothing changed: there was no candidate for the gate)\n",
        "--iterations 100 --seed 1 --data ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("e-value"), "no empty table: {text}");
    assert!(!bench.data.path().join("clawhost.sqlite").exists(), "nothing is recorded");
}

#[cfg(unix)]
#[test]
fn a_demo_ends_with_commands_that_can_be_pasted() {
    let Some(bench) = Bench::empty("a_demo_ends_with_commands") else { return };
    let home = bench.data.path().join("it's a home");
    std::fs::create_dir(&home).unwrap();
    compiled::lend(&home);
    let guests = bench.data.path().join("my guests");
    std::fs::create_dir(&guests).unwrap();
    for name in ["env_shop", "reward_state", "reflector_rules"] {
        std::fs::copy(bench.guest(name), guests.join(format!("{name}.wasm"))).unwrap();
    }
    let more = ["--data", home.to_str().unwrap(), "--plugins", guests.to_str().unwrap(), "--iterations", "30", "-q"];
    let output =
        bench.command(&[&["demo", "harness"], &more[..]].concat()).current_dir(bench.data.path()).output().unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("verdict     improved (the playbook alone changed: model and prompt are the same)"),
        "{text}"
    );
    let commands: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("Learn like this")).collect();
    let [_, learn, _, evaluate] = commands[..] else { panic!("{text}") };
    let drawing = home.join("demo").join("harness.svg");
    assert!(std::fs::read_to_string(&drawing).unwrap().starts_with("<svg"), "the drawing is in the data folder");
    assert!(text.contains(&format!("curve       {}\n", drawing.display())), "{text}");
    let left: Vec<_> = std::fs::read_dir(bench.data.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "it's a home" || name == "my guests"), "no other files remain: {left:?}");
    assert!(learn.contains("--iterations 30 --seed 1") && evaluate.contains("--seed 1"), "{learn}\n{evaluate}");
    for command in [learn, evaluate] {
        let pasted = Command::new("sh").args(["-c", command]).env_clear().output().unwrap();
        assert!(pasted.status.success(), "{command}: {}", stderr(&pasted));
        assert!(stdout(&pasted).contains("verdict     improved"), "{}", stdout(&pasted));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_demo_stops_and_reports_that_nothing_is_recorded() {
    use std::io::{BufRead as _, BufReader};
    let Some(bench) = Bench::new("a_demo_that_is_interrupted") else { return };
    let mut child = bench.demo(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut says = |part: &str| assert!(lines.by_ref().any(|line| line.contains(part)), "`{part}` was not printed");
    says(" %  1,200 episodes without a playbook");
    says(" %  arm 1 of 4: reflector, credit and gate, which is to be proved");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let said: Vec<String> = lines.filter(|line| !line.contains(" %  ")).collect();
    assert_eq!(said, ["stopping (the demo records nothing)", "interrupted: start it again"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(130), ""));
    assert!(!bench.data.path().join("demo/harness.svg").exists(), "there is no drawing");
}

#[test]
fn a_demo_whose_episodes_fail_is_no_failed_proof() {
    let Some(mut bench) = Bench::new("a_demo_whose_episodes_fail") else { return };
    let guests = tempfile::tempdir().unwrap();
    for (name, stands_for) in
        [("odd_failing", "env_shop"), ("reward_state", "reward_state"), ("reflector_rules", "reflector_rules")]
    {
        std::fs::copy(bench.guest(name), guests.path().join(format!("{stands_for}.wasm"))).unwrap();
    }
    bench.guests = guests.path().to_owned();
    let output = bench.demo(&["-q"]).output().unwrap();
    let why = "an episode failed, so nothing is proved; build the plugins again with `cargo xtask guests`\n";
    assert_eq!((output.status.code(), stderr(&output).as_str(), stdout(&output).as_str()), (Some(4), why, ""));
}

#[test]
fn a_demo_asks_where_its_drawing_goes_before_it_plays() {
    let Some(bench) = Bench::new("a_demo_asks_where_its_drawing_goes") else { return };
    for (file, says) in [("-", "name one that ends in .svg"), (".", "is a folder"), ("a.png", "name it a.svg")] {
        let output = bench.demo(&["--iterations", "1", "--svg", file]).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{file}: {}", stderr(&output));
        assert!(
            stderr(&output).starts_with("error: ") && stderr(&output).contains(says),
            "{file}: {}",
            stderr(&output)
        );
    }
    let help = stdout(&bench.run(&["demo", "harness", "--help"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Nothing is recorded",
        "1 the proof failed",
        "130 interrupted",
        "overwritten [default: demo/harness.svg in the data folder]",
    ] {
        assert!(words.contains(part), "{part}: {help}");
    }
}

/// What a terminal shows of a demo in the end, with all that has scrolled away.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_view_stays_in_place_and_ends_in_the_summary() {
    let Some(bench) = Bench::new("on_a_terminal_the_view") else { return };
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: on_a_terminal_the_view_stays_in_place: there is no `script`");
        return;
    }
    let (program, guests) = (env!("CARGO_BIN_EXE_clawhost"), bench.guests.display().to_string());
    let demo = format!("stty cols 120 rows 150; '{program}' demo harness --plugins '{guests}' --iterations 6");
    let mut script = Command::new("script");
    script.args(["-qec", &demo, "/dev/null"]).stdin(Stdio::null());
    script.env("CLAWHOST_HOME", bench.data.path()).env("TERM", "xterm-256color");
    let output = script.output().unwrap();
    let mut terminal = vt100::Parser::new(NonZero::new(150).unwrap(), NonZero::new(120).unwrap(), 10_000);
    terminal.process(&output.stdout);
    let drawn = String::from_utf8_lossy(&output.stdout);
    for part in ["arm 2 of 4: a silent reflector", " of 6", " %  ", " so far", "reward 0."] {
        assert!(drawn.contains(part), "the view says {part}: {drawn}");
    }
    let left = terminal.screen().contents();
    assert!(
        left.trim_start().starts_with("A playbook learned from nothing"),
        "what is left begins with the summary: {left}"
    );
    assert!(!left.contains("iteration 6 of 6") && !left.contains("so far"), "the view is gone: {left}");
    assert!(left.contains("the proof failed"), "six iterations prove nothing: {left}");
}

#[test]
fn in_a_log_a_demo_says_how_far_it_is_every_few_seconds() {
    let Some(bench) = Bench::new("in_a_log_a_demo") else { return };
    let began = std::time::Instant::now();
    let output = bench.demo(&["--iterations", "6"]).output().unwrap();
    let took = began.elapsed().as_secs();
    let told = stderr(&output);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(" %  ")).collect();
    assert_eq!(
        lines.first(),
        Some(&"  0 %  1,200 episodes without a playbook, to make a harmful lesson from"),
        "{told}"
    );
    assert!(lines.len() as u64 <= 2 + took / 5, "{} lines in {took} s: {told}", lines.len());
}

/// Sessions that end between two looks at a page while a demo runs.
const SESSIONS: usize = 100;

/// What the page of a live demo shows, to somebody who follows the line that the demo says.
struct Watching {
    /// Host and port.
    address: String,
    key: String,
    /// Of a browser that has shown the key.
    cookie: String,
}

impl Watching {
    /// Reads what a demo says until it names its page, and logs in there.
    fn new(told: &mut impl BufRead) -> Self {
        let mut line = String::new();
        while !line.contains("watch it learn: ") {
            line.clear();
            assert_ne!(told.read_line(&mut line).unwrap(), 0, "it names no page");
        }
        let (_, rest) = line.trim_end().split_once("http://").unwrap();
        let (page, key) = rest.trim_end_matches(')').split_once(" (key ").unwrap();
        let address = page.strip_suffix("/dashboard/playbook").unwrap().to_owned();
        let form = [("content-type", "application/x-www-form-urlencoded")];
        let answer = request("POST", &address, "/dashboard/login", &form, format!("key={key}").as_bytes()).answer();
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        Self { address, key: key.to_owned(), cookie }
    }

    /// A page. `None`: the gateway of the demo ends.
    fn page(&self, path: &str) -> Option<String> {
        // A gateway that ends closes its connections: what it did not answer is no page.
        let (address, path, cookie) = (self.address.clone(), path.to_owned(), self.cookie.clone());
        TcpStream::connect(&address).ok()?;
        let asked = move || request("GET", &address, &path, &[("cookie", &cookie)], b"").answer();
        let answer = std::thread::spawn(asked).join().ok()?;
        (answer.status == 200).then_some(answer.body)
    }

    /// Waits until sessions have ended, or the gateway.
    fn sessions_end(&self) {
        let (address, key) = (self.address.clone(), self.key.clone());
        let waits = move || {
            let mut events = request("GET", &address, "/v1/events", &[("x-api-key", &key)], b"");
            (0..SESSIONS).all(|_| events.event("session_ended"))
        };
        // A gateway that has ended takes no connection: there is nothing to wait for.
        let _ = std::thread::spawn(waits).join();
    }
}

#[test]
fn the_live_demo_proves_that_a_gateway_learns_from_its_users_and_its_page_shows_it() {
    let Some(bench) = Bench::new("the_whole_live_demo") else { return };
    let guests = bench.guests.display().to_string();
    let mut command = bench.command(&["demo", "live", "--plugins", &guests, "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let watching = Watching::new(&mut told);
    let rest = std::thread::spawn(move || std::io::read_to_string(told).unwrap());
    // The pages as they were last.
    let (mut playbook, mut sessions) = (String::new(), String::new());
    while let (Some(learned), Some(held)) = (watching.page("/dashboard/playbook"), watching.page("/dashboard")) {
        (playbook, sessions) = (learned, held);
        watching.sessions_end();
    }
    let output = child.wait_with_output().unwrap();
    let said = rest.join().unwrap();
    assert!(output.status.success(), "{said}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let live = &shown["live"];
    let of = |arm: &str, name: &str| live[arm][name].as_f64().unwrap_or_else(|| panic!("{arm} {name}: {live}"));
    for control in ["heldout_before", "shuffled_after", "skills_off_after", "silent_after"] {
        assert!(of("heldout_after", "low") > of(control, "high"), "{control}: {live}");
    }
    assert_eq!(live["requests_refused"], 0);
    assert!(shown["timing"]["wall_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{shown}");

    let lessons: Vec<&str> = live["lessons"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let entries = playbook.split_once("data-key=\"entries\"").unwrap().1.split_once("</section>").unwrap().0;
    let is_shown = |lesson: &&&str| entries.contains(&format!("<th scope=\"row\">{lesson}</th>"));
    assert!(lessons.iter().filter(is_shown).count() > 0, "none of {lessons:?} in {entries}");
    let versions = playbook.split_once("data-key=\"versions\"").unwrap().1;
    assert!(playbook.contains("<h1>Playbook live, version ") && versions.contains(">now<"), "{versions}");
    let ended = sessions.split_once("data-key=\"ended\"").unwrap().1;
    assert!(ended.matches("<tr data-key=").count() > 100, "{ended}");
}

#[test]
fn a_live_demo_of_one_round_has_all_figures_and_proves_nothing() {
    let Some(bench) = Bench::new("the_live_demo") else { return };
    let guests = bench.guests.display().to_string();
    let ran = bench.command(&["demo", "live", "--plugins", &guests, "--rounds", "1", "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("watch it learn: http://127.0.0.1:"), "{said}");
    assert!(said.contains("the proof failed: ") && said.contains("--rounds 1 is few"), "{said}");
    let shown: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let live = &shown["live"];
    for arm in ["heldout_before", "heldout_after", "shuffled_after", "skills_off_after", "silent_after"] {
        let of = |name: &str| live[arm][name].as_f64().unwrap_or_else(|| panic!("{arm} {name}: {live}"));
        assert!(of("low") <= of("mean") && of("mean") <= of("high"), "{live}");
        assert!(of("high") < 0.5, "nothing is learned in a round: {live}");
    }
    assert_eq!(live["requests_refused"], 0);
    assert!(live["requests"].as_u64().unwrap() > 4_000, "{live}");
}
