//! The program's gateway in the mode `auto`, while the weights of a local model learn in the background on the gateway's core.

use crate::load::{Heard, Plan};
use crate::parts::{Bench, Measured, median};
use crate::process::{GATEWAY, Server, load};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Sessions of a step, and how often each is learned from: so much that one step lasts longer than the measurement.
const SESSIONS: usize = 256;
const EPOCHS: usize = 32;
/// Seconds within which a step has begun.
const BEGINS: u32 = 120;
/// Requests per second of the loads at a fixed rate.
const RATES: [f64; 3] = [100.0, 500.0, 1_000.0];
/// Requests to the model that learns, while it does.
const ANSWERS: usize = 32;

/// A gateway with a model that learns, beside the model of the load.
fn learning(program: &str, mock: &str) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let (data, model) = (folder.path().join("data"), folder.path().join("tutor").display().to_string());
    let made = std::process::Command::new(program)
        .args(["model", "init", &model, "--width", "128", "--layers", "4", "--context", "512"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::create_dir_all(&data).unwrap();
    let text = format!(
        "[gateway]\nmode = \"auto\"\n[weights]\nmodel = \"tutor\"\nfrom = \"all\"\nsignal = \"binary\"\nbatch = {SESSIONS}\nepochs = {EPOCHS}\n\
         deadline_seconds = 1\n"
    );
    std::fs::write(data.join("gateway.toml"), text).unwrap();
    let (data, tutor, bench) =
        (data.display().to_string(), format!("tutor=local:{model}"), format!("bench=openai:bench@http://{mock}/v1"));
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", &data, "--upstream", &bench, "--upstream", &tutor];
    let server = Server::start(GATEWAY, program, &arguments);
    Measured { name: "clawhost, auto", server, headers: vec![], is_own: true, _folder: folder }
}

/// Posts JSON on a connection of its own. Returns whether it succeeded.
fn post(address: &str, path: &str, session: &str, body: &serde_json::Value) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-clawhost-session: {session}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
}

/// Asks the model that learns. Returns whether it answered.
fn ask(address: &str, session: &str) -> bool {
    let body = serde_json::json!({
        "model": "tutor", "max_tokens": 48, "temperature": 1.0,
        "messages": [{"role": "user", "content": format!("What is the capital of Norway, and since when? This is {session}.")}],
    });
    post(address, "/v1/chat/completions", session, &body)
}

/// Gives the model that learns a batch of sessions, half of them with a good word.
fn teach(address: &str) {
    for number in 0..SESSIONS {
        let session = format!("session-{number}");
        assert!(ask(address, &session), "the model that learns does not answer");
        let thumb = if number % 2 == 0 { "up" } else { "down" };
        let feedback = serde_json::json!({"session": session, "thumb": thumb});
        assert!(post(address, "/v1/feedback", &session, &feedback), "feedback was not taken");
        assert!(post(address, &format!("/s/{session}/end"), &session, &serde_json::json!({})), "no end of a session");
    }
}

/// Seconds of the threads that train, if there are any, and of all others.
fn seconds(server: &Server) -> (Option<f64>, f64) {
    let threads = server.by_thread();
    let (training, others): (Vec<_>, Vec<_>) = threads.into_iter().partition(|(name, _)| name.starts_with("train-"));
    let sum = |threads: &[(String, f64)]| threads.iter().map(|(_, seconds)| seconds).sum::<f64>();
    ((!training.is_empty()).then(|| sum(&training)), sum(&others))
}

impl Bench {
    /// The latency that a gateway adds before its model learns, and while it does.
    pub(crate) fn training(&mut self) {
        let Some(program) = self.setup.program.clone() else {
            println!("\nThe part `training` needs `--program PATH`.");
            return;
        };
        println!("\n### Beside training on the gateway's core: added p50 and p99 in microseconds\n");
        println!(
            "| state | one at a time: p50 | p99 | {} | CPU-ms per request, one at a time | failed | training's share of the core |",
            RATES.map(|rate| format!("{rate}/s: p99")).join(" | ")
        );
        println!("|---|---|---|{}---|---|---|", "---|".repeat(RATES.len()));
        self.gateways.push(learning(&program, &self.mock.address));
        let at = self.gateways.len() - 1;
        let plan = self.plan(Some(at), 4, 2_000);
        assert_eq!(load(&plan).failed, 0);
        self.rest(at);
        self.beside(at, "at rest");
        teach(&self.gateways[at].server.address);
        let begun = (0..BEGINS * 10).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            seconds(&self.gateways[at].server).0.is_some_and(|spent| spent > 0.1)
        });
        assert!(begun, "no step began within {BEGINS} s");
        self.beside(at, "training");
        let address = self.gateways[at].server.address.clone();
        let answered = (0..ANSWERS).filter(|number| ask(&address, &format!("beside-{number}"))).count();
        let goes_on = seconds(&self.gateways[at].server).0.is_some();
        assert!(goes_on, "the step ended before the measurement did; let it have more epochs");
        println!("\nThe model that learns answered {answered} of {ANSWERS} requests during the step.");
        drop(self.gateways.pop());
    }

    fn beside(&mut self, at: usize, state: &str) {
        let started = std::time::Instant::now();
        let (trained, _) = seconds(&self.gateways[at].server);
        let (mut rows, mut failed) = (Vec::new(), 0);
        let mut both = |bench: &mut Self, connections: usize, requests: u64, rate: f64| -> (Heard, Heard) {
            let direct = load(&Plan { rate, ..bench.plan(None, connections, requests) });
            let through = load(&Plan { rate, ..bench.plan(Some(at), connections, requests) });
            failed += through.failed;
            (direct, through)
        };
        for _ in 0..5 {
            let (_, before) = seconds(&self.gateways[at].server);
            let (direct, through) = both(self, 1, 2_000, 0.0);
            // Its records are written behind the answers.
            std::thread::sleep(Duration::from_secs(1));
            let (_, after) = seconds(&self.gateways[at].server);
            let added = |share| through.time(share) - direct.time(share);
            rows.push([added(0.5), added(0.99), (after - before) * 1000.0 / through.answered.max(1) as f64]);
        }
        let rates = RATES.map(|rate| {
            let (direct, through) = both(self, 64, (rate * 4.0) as u64, rate);
            format!("{:.0}", through.time(0.99) - direct.time(0.99))
        });
        let middle = |column: usize| median(rows.iter().map(|row| row[column]).collect());
        let [p50, p99, cost] = [0, 1, 2].map(middle);
        let share = match (trained, seconds(&self.gateways[at].server).0) {
            (Some(before), Some(after)) => format!("{:.2}", (after - before) / started.elapsed().as_secs_f64()),
            _ => "-".to_owned(),
        };
        println!("| {state} | {p50:.0} | {p99:.0} | {} | {cost:.3} | {failed} | {share} |", rates.join(" | "));
    }
}
