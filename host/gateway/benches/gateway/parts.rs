//! The parts of the measurement, and their tables.

use crate::load::{Heard, Plan};
use crate::process::{GATEWAY, OTHERS, Server, load};

use std::time::Duration;

/// What is measured.
pub(crate) struct Setup {
    parts: Vec<String>,
    pub(crate) program: Option<String>,
    litellm: Option<String>,
    portkey: Option<String>,
    /// Requests of the memory part.
    requests: u64,
}

impl Setup {
    fn of(arguments: &[String]) -> Self {
        let mut setup = Self { parts: vec![], program: None, litellm: None, portkey: None, requests: 100_000 };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--program" => setup.program = arguments.next().cloned(),
                "--litellm" => setup.litellm = arguments.next().cloned(),
                "--portkey" => setup.portkey = arguments.next().cloned(),
                "--requests" => setup.requests = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(100_000),
                part => setup.parts.push(part.to_owned()),
            }
        }
        setup
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

/// A gateway that is measured.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
    pub(crate) headers: Vec<(String, String)>,
    /// Whether it is this project's.
    pub(crate) is_own: bool,
    /// Its data.
    pub(crate) _folder: tempfile::TempDir,
}

fn program() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

fn own(setup: &Setup, mock: &str) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().display().to_string();
    let server = match &setup.program {
        None => Server::start(GATEWAY, &program(), &["own", mock, &data]),
        Some(program) => {
            let openai = format!("bench=openai:bench@http://{mock}/v1");
            let anthropic = format!("claude=anthropic:bench@http://{mock}/v1");
            let arguments =
                ["serve", "--listen", "127.0.0.1:0", "--data", &data, "--upstream", &openai, "--upstream", &anthropic];
            Server::start(GATEWAY, program, &arguments)
        }
    };
    Measured { name: "clawhost, captures", server, headers: vec![], is_own: true, _folder: folder }
}

/// Entries of the playbook of a gateway that serves one.
const ENTRIES: usize = 1_000;

/// The program's gateway in the mode `skills`, with a playbook of [`ENTRIES`] entries. Each applies to a topic of its own, and all share words
/// with the requests, so that each is a candidate.
fn skilled(program: &str, mock: &str) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let (data, skills) = (folder.path().join("data"), folder.path().join("skills"));
    for entry in 0..ENTRIES {
        let skill = skills.join(format!("entry-{entry:04}"));
        std::fs::create_dir_all(&skill).unwrap();
        let text = format!(
            "---\nname: entry-{entry:04}\ndescription: When asked about request {entry} of topic {}.\n---\n\nSay what is known of \
             topic {entry}, in one sentence, with its source.\n",
            entry % 97
        );
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
    }
    let (data, skills) = (data.display().to_string(), skills.display().to_string());
    let imported = std::process::Command::new(program)
        .args(["playbook", "import", "bench", &skills, "--data", &data])
        .output()
        .unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let (openai, anthropic) =
        (format!("bench=openai:bench@http://{mock}/v1"), format!("claude=anthropic:bench@http://{mock}/v1"));
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        &data,
        "--upstream",
        &openai,
        "--upstream",
        &anthropic,
        "--mode",
        "skills",
        "--playbook",
        "bench",
    ];
    let server = Server::start(GATEWAY, program, &arguments);
    Measured { name: "clawhost, skills of 1,000 entries", server, headers: vec![], is_own: true, _folder: folder }
}

fn litellm(program: &str, mock: &str) -> Option<Measured> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    let model = |name: &str| {
        format!(
            "  - model_name: {name}\n    litellm_params:\n      model: openai/bench\n      api_base: http://{mock}/v1\n      api_key: none\n"
        )
    };
    std::fs::write(&config, format!("model_list:\n{}{}", model("bench"), model("claude"))).unwrap();
    let port = free_port();
    let (config, text) = (config.display().to_string(), port.to_string());
    // It does not start without a key.
    let key = "LITELLM_MASTER_KEY=sk-bench";
    // It would get its prices from the network.
    let prices = "LITELLM_LOCAL_MODEL_COST_MAP=True";
    let arguments =
        [key, prices, program, "--config", &config, "--host", "127.0.0.1", "--port", &text, "--num_workers", "1"];
    let server = Server::start_at(GATEWAY, port, "env", &arguments)?;
    let headers = vec![("authorization".to_owned(), "Bearer sk-bench".to_owned())];
    Some(Measured { name: "LiteLLM proxy", server, headers, is_own: false, _folder: folder })
}

fn portkey(script: &str, mock: &str) -> Option<Measured> {
    let port = free_port();
    let server = Server::start_at(GATEWAY, port, "node", &[script, "--headless", &format!("--port={port}")])?;
    let headers = vec![
        ("x-portkey-provider".to_owned(), "openai".to_owned()),
        ("x-portkey-custom-host".to_owned(), format!("http://{mock}/v1")),
        ("authorization".to_owned(), "Bearer none".to_owned()),
    ];
    Some(Measured { name: "Portkey gateway", server, headers, is_own: false, _folder: tempfile::tempdir().unwrap() })
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Numbers of requests, so that no conversation comes twice.
struct Numbers(u64);

impl Numbers {
    fn take(&mut self, count: u64) -> u64 {
        self.0 += count;
        self.0 - count
    }
}

pub(crate) struct Bench {
    pub(crate) setup: Setup,
    pub(crate) mock: Server,
    pub(crate) gateways: Vec<Measured>,
    numbers: Numbers,
}

impl Bench {
    pub(crate) fn plan(&mut self, gateway: Option<usize>, connections: usize, requests: u64) -> Plan {
        let (address, headers) = match gateway.and_then(|at| self.gateways.get(at)) {
            Some(gateway) => (gateway.server.address.clone(), gateway.headers.clone()),
            None => (self.mock.address.clone(), vec![]),
        };
        Plan {
            address,
            path: "/v1/chat/completions".into(),
            model: "bench".into(),
            headers,
            connections,
            requests,
            rate: 0.0,
            stream: false,
            first: self.numbers.take(requests),
        }
    }

    /// Milliseconds of the gateway's processor time per request of a load, once it is at rest.
    fn cost(&mut self, at: usize, plan: &Plan) -> (Heard, f64) {
        let before = self.gateways[at].server.seconds();
        let heard = load(plan);
        self.rest(at);
        let seconds = self.gateways[at].server.seconds() - before;
        let answered = heard.answered.max(1) as f64;
        (heard, seconds * 1000.0 / answered)
    }

    /// Waits until a gateway does nothing: what it still has to do is part of what a request costs.
    pub(crate) fn rest(&self, at: usize) {
        if !self.gateways[at].is_own {
            // It records nothing, and some are never quite idle.
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
        let mut last = self.gateways[at].server.seconds();
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(500));
            let now = self.gateways[at].server.seconds();
            if now - last < 0.015 {
                return;
            }
            last = now;
        }
    }

    fn warm_up(&mut self) {
        for at in 0..self.gateways.len() {
            let count = if self.gateways[at].is_own { 2_000 } else { 100 };
            let plan = self.plan(Some(at), 4, count);
            let heard = load(&plan);
            let name = self.gateways[at].name;
            assert!(heard.failed == 0, "{name}: {} of {count} requests failed", heard.failed);
        }
    }

    fn single(&mut self) {
        println!("\n### One request at a time: latency in microseconds, direct and through the gateway in turns\n");
        println!("| gateway | direct p50 | added p50 | added p99 | CPU-ms per request |\n|---|---|---|---|---|");
        for at in 0..self.gateways.len() {
            let (count, rounds) = if self.gateways[at].is_own { (2_000, 5) } else { (150, 3) };
            let mut rows = Vec::new();
            for _ in 0..rounds {
                let direct = self.plan(None, 1, count);
                let direct = load(&direct);
                let plan = self.plan(Some(at), 1, count);
                let (through, cost) = self.cost(at, &plan);
                let added = |share| through.time(share) - direct.time(share);
                rows.push([direct.time(0.5), added(0.5), added(0.99), cost]);
            }
            let middle = |column: usize| median(rows.iter().map(|row| row[column]).collect());
            let [direct, p50, p99, cost] = [0, 1, 2, 3].map(middle);
            println!("| {} | {direct:.0} | {p50:.0} | {p99:.0} | {cost:.3} |", self.gateways[at].name);
        }
    }

    fn busy(&mut self) {
        println!("\n### 32 connections, each with its next request at once\n");
        println!("| gateway | requests/s | p50 us | p99 us | CPU-ms per request | failed |\n|---|---|---|---|---|---|");
        for at in 0..self.gateways.len() {
            let count = if self.gateways[at].is_own { 20_000 } else { 1_000 };
            let plan = self.plan(Some(at), 32, count);
            let threads = self.gateways[at].server.by_thread();
            let (heard, cost) = self.cost(at, &plan);
            println!(
                "| {} | {:.0} | {:.0} | {:.0} | {cost:.3} | {} |",
                self.gateways[at].name,
                heard.answered as f64 / heard.seconds,
                heard.time(0.5),
                heard.time(0.99),
                heard.failed
            );
            if self.gateways[at].is_own {
                let after = self.gateways[at].server.by_thread();
                let spent = |name: &str| {
                    let before = threads.iter().find(|(known, _)| known == name).map_or(0.0, |(_, seconds)| *seconds);
                    after.iter().find(|(known, _)| known == name).map_or(0.0, |(_, seconds)| seconds - before)
                };
                let mut parts: Vec<String> = Vec::new();
                for (name, _) in &after {
                    let cost = spent(name) * 1000.0 / heard.answered as f64;
                    if cost > 0.0005 {
                        parts.push(format!("{name} {cost:.3}"));
                    }
                }
                println!("\nCPU-ms by thread (threads that ended are left out): {}\n", parts.join(", "));
            }
        }
    }

    fn rates(&mut self) {
        println!("\n### Added p99 in microseconds at fixed rates, 2 s each on 64 connections\n");
        let rates =
            [50.0, 100.0, 250.0, 500.0, 1_000.0, 1_500.0, 2_000.0, 3_000.0, 4_000.0, 6_000.0, 10_000.0, 20_000.0];
        println!(
            "| gateway | {} | below 1 ms up to | 5 ms | 10 ms |",
            rates.map(|rate| format!("{rate}/s")).join(" | ")
        );
        println!("|---|{}---|---|---|", "---|".repeat(rates.len()));
        for at in 0..self.gateways.len() {
            let (mut cells, mut best, mut over) = (Vec::new(), [0.0_f64; 3], 0);
            for rate in rates {
                if over > 1 {
                    cells.push("-".to_owned());
                    continue;
                }
                let requests = (rate * 2.0) as u64;
                let direct = Plan { rate, ..self.plan(None, 64, requests) };
                let direct = load(&direct);
                let plan = Plan { rate, ..self.plan(Some(at), 64, requests) };
                let through = load(&plan);
                self.rest(at);
                let added = through.time(0.99) - direct.time(0.99);
                let answers = through.failed == 0;
                for (best, limit) in best.iter_mut().zip([1_000.0, 5_000.0, 10_000.0]) {
                    if answers && added < limit {
                        *best = rate;
                    }
                }
                // Beyond its limit a peer only waits.
                let beyond = !answers || added > 20_000.0;
                over += if beyond && !self.gateways[at].is_own { 2 } else { u32::from(beyond) };
                cells.push(format!("{added:.0}"));
            }
            let best = best.map(|rate| format!("{rate:.0}/s")).join(" | ");
            println!("| {} | {} | {best} |", self.gateways[at].name, cells.join(" | "));
        }
    }

    fn streams(&mut self) {
        println!("\n### Streams of {} events, 20 ms apart\n", crate::mock::EVENTS);
        println!(
            "| gateway | streams at once | whole | added to the first event, p50 us | p99 us | added to a gap, p99 us | CPU-ms per stream |"
        );
        println!("|---|---|---|---|---|---|---|");
        for at in 0..self.gateways.len() {
            for streams in [1_usize, 50, 200, 1_000] {
                if !self.gateways[at].is_own && streams > 50 {
                    continue;
                }
                let direct = Plan { stream: true, ..self.plan(None, streams, streams as u64) };
                let direct = load(&direct);
                let plan = Plan { stream: true, ..self.plan(Some(at), streams, streams as u64) };
                let (through, cost) = self.cost(at, &plan);
                println!(
                    "| {} | {streams} | {} | {:.0} | {:.0} | {:.0} | {cost:.2} |",
                    self.gateways[at].name,
                    through.whole,
                    through.time(0.5) - direct.time(0.5),
                    through.time(0.99) - direct.time(0.99),
                    through.gap(0.99) - direct.gap(0.99),
                );
            }
        }
    }

    fn translation(&mut self) {
        println!("\n### Translated and forwarded requests, one at a time\n");
        println!("| client, model | added p50 us | CPU-ms per request |\n|---|---|---|");
        let routes = [
            ("OpenAI, OpenAI", "/v1/chat/completions", "bench"),
            ("Anthropic, Anthropic", "/v1/messages", "claude"),
            ("OpenAI, Anthropic", "/v1/chat/completions", "claude"),
            ("Anthropic, OpenAI", "/v1/messages", "bench"),
        ];
        for (name, path, model) in routes {
            let direct = self.plan(None, 1, 1_000);
            let direct = load(&direct);
            let plan = Plan { path: path.into(), model: model.into(), ..self.plan(Some(0), 1, 2_000) };
            let (through, cost) = self.cost(0, &plan);
            assert_eq!(through.failed, 0, "{name}");
            println!("| {name} | {:.0} | {cost:.3} |", through.time(0.5) - direct.time(0.5));
        }
    }

    fn memory(&mut self) {
        let total = self.setup.requests;
        println!("\n### Memory of a fresh gateway over {total} requests on 32 connections\n");
        println!("| after | VmRSS MiB |\n|---|---|");
        let fresh = own(&self.setup, &self.mock.address);
        self.gateways.push(fresh);
        let at = self.gateways.len() - 1;
        println!("| start | {:.1} |", self.gateways[at].server.memory());
        let mut answered = 0;
        for part in 1..=10 {
            let plan = self.plan(Some(at), 32, total / 10);
            let heard = load(&plan);
            answered += heard.answered;
            println!("| {} | {:.1} |", part * total / 10, self.gateways[at].server.memory());
        }
        self.rest(at);
        println!("| rest | {:.1} |", self.gateways[at].server.memory());
        let Some(measured) = self.gateways.pop() else { return };
        let counts = measured.server.end();
        println!("\n{answered} answered; recorded and missed: {}", counts.trim());
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn main(arguments: &[String]) {
    let setup = Setup::of(arguments);
    let mock = Server::start(OTHERS, &program(), &["mock"]);
    let bare = Server::start(GATEWAY, &program(), &["bare", &mock.address]);
    let folder = tempfile::tempdir().unwrap();
    let bare = Measured { name: "bare proxy", server: bare, headers: vec![], is_own: true, _folder: folder };
    let mut gateways = vec![own(&setup, &mock.address), bare];
    gateways.extend(setup.program.as_deref().map(|program| skilled(program, &mock.address)));
    gateways.extend(setup.litellm.as_deref().and_then(|program| litellm(program, &mock.address)));
    gateways.extend(setup.portkey.as_deref().and_then(|script| portkey(script, &mock.address)));
    let mut bench = Bench { setup, mock, gateways, numbers: Numbers(0) };
    bench.warm_up();
    let parts: [(&str, fn(&mut Bench)); 7] = [
        ("single", Bench::single),
        ("busy", Bench::busy),
        ("rates", Bench::rates),
        ("streams", Bench::streams),
        ("translation", Bench::translation),
        ("memory", Bench::memory),
        ("training", Bench::training),
    ];
    for (name, part) in parts {
        if bench.setup.wants(name) {
            part(&mut bench);
        }
    }
}
