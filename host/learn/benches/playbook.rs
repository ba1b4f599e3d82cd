//! Time of the playbook operations: `cargo bench -p clawhost-learn --bench playbook`.

#![allow(clippy::print_stdout, reason = "it prints figures")]

use clawhost_learn::guidance::{GUIDANCE_TOKENS, GuidanceSources, ServedPlaybook};
use clawhost_learn::memory::{Memory, MemoryKind, MemorySource, Scope, ScopeLevel, ScopeMemory};
use clawhost_learn::playbook::safety::escape;
use clawhost_learn::playbook::{Index, Playbook, render};
use clawhost_learn::{Entry, Lesson};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// Runs of operations per episode, and of operations per playbook.
const RUNS: usize = 501;
const FEW_RUNS: usize = 21;

/// Median of many runs, in microseconds.
fn measure(name: &str, work: impl FnMut() -> usize) {
    measure_runs(RUNS, name, work);
}

fn measure_runs(runs: usize, name: &str, mut work: impl FnMut() -> usize) {
    let mut times: Vec<f64> = Vec::with_capacity(runs);
    let mut size = 0;
    for _ in 0..runs {
        let start = Instant::now();
        size = black_box(work());
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(runs * share / 100).copied().unwrap_or_default();
    println!("{name:<64} median {:>8.1} us   p99 {:>8.1} us   ({size})", at(50), at(99));
}

const TOPICS: [&str; 12] = [
    "refund",
    "shipping",
    "invoice",
    "password",
    "delivery",
    "voucher",
    "subscription",
    "warranty",
    "account",
    "address",
    "payment",
    "return",
];

const VERBS: [&str; 8] = ["verify", "check", "confirm", "explain", "escalate", "record", "summarise", "compare"];

fn pick<'a>(from: &[&'a str], at: usize) -> &'a str {
    from.get(at % from.len()).copied().unwrap_or_default()
}

/// A prose lesson of about twenty words, some of them rare.
fn prose(n: usize) -> Lesson {
    let (verb, topic, other) = (pick(&VERBS, n), pick(&TOPICS, n / 8), pick(&TOPICS, n / 96 + 5));
    Lesson::Text(format!(
        "Before you {verb} the {topic} with the customer, look at the {other} of case{} and at detail{}; \
         never promise anything that the policy number {} does not allow.",
        n % 700,
        n,
        n % 90
    ))
}

/// A rule over 40 facts with 12 values each.
fn conditional(n: usize) -> Lesson {
    Lesson::read(&format!(
        "when fact{} is value{} and fact{} is value{}: call act {{\"id\": \"<order>\", \"n\": {n}}}",
        n % 40,
        n / 40 % 12,
        (n * 7 + 1) % 40,
        n % 12
    ))
}

fn entries(count: usize, lesson: impl Fn(usize) -> Lesson) -> Vec<Entry> {
    (0..count).map(|n| Entry::new(lesson(n), "bench")).collect()
}

/// An observation of about 200 words with 20 facts, two of them unknown.
fn observation() -> String {
    let facts: Vec<String> = (0..20)
        .map(|n| if n < 2 { format!("fact{n}: not asked yet") } else { format!("fact{n}: value{}", n % 12) })
        .collect();
    let story =
        "The customer writes: my refund has not arrived, and the delivery to my new address never came. ".repeat(9);
    format!("{}\n\n{story}\nPlease confirm the payment of case17 and the warranty, policy number 3.", facts.join("\n"))
}

fn main() {
    let text = observation();
    let mixed = entries(10_000, |n| if n % 2 == 0 { conditional(n) } else { prose(n) });
    let index = Index::new(&mixed);
    measure("retrieval: 10,000 entries, half conditions, half prose", || index.relevant(&text).len());
    let rules = Index::new(&entries(10_000, conditional));
    measure("retrieval: 10,000 entries with conditions", || rules.relevant(&text).len());
    let texts = Index::new(&entries(10_000, prose));
    measure("retrieval: 10,000 entries of prose", || texts.relevant(&text).len());
    let distinct = |n| Lesson::read(&format!("when fact{n} is x: act"));
    let facts = Index::new(&entries(10_000, distinct));
    measure("retrieval: 10,000 entries, each about another fact", || facts.relevant(&text).len());
    let open = Index::new(&entries(10_000, |n| Lesson::read(&format!("when fact0 is value{n}: act"))));
    measure("retrieval: 10,000 entries about one fact that is open", || open.relevant(&text).len());
    measure_runs(FEW_RUNS, "index of 10,000 entries, half conditions, half prose (built)", || {
        black_box(Index::new(&mixed));
        mixed.len()
    });

    let thousand = Playbook { sections: BTreeMap::new(), entries: mixed.iter().take(1_000).cloned().collect() };
    measure("digest of 1,000 entries", || thousand.digest().prefix_u64() as usize % 10);

    let memories: Vec<Memory> = (0..20)
        .filter_map(|n| {
            Memory::read(MemoryKind::Fact, &format!("The number of thing{n} is {n}."), MemorySource::Written).ok()
        })
        .collect();
    let scope = Scope::new(ScopeLevel::User, "", "ada");
    let memory: Vec<ScopeMemory> =
        scope.into_iter().map(|scope| ScopeMemory { scope, memories: memories.clone() }).collect();
    let skills = entries(40, |n| prose(20_000 + n));
    let sources = GuidanceSources::new(
        Some(ServedPlaybook { playbook: thousand.clone(), worth: &BTreeMap::new(), trials: vec![] }),
        skills,
        GUIDANCE_TOKENS,
    );
    let question = "Question 7: what is the capital of Norway, and since when?";
    measure("guidance of a session: 1,000 entries, 40 skills, 20 memories", || {
        sources.guide(&memory, (0, question), |_| None).text.len()
    });
    measure("  for a text of 200 words with 20 facts", || sources.guide(&memory, (0, &text), |_| None).text.len());

    let hundred: Vec<&Entry> = mixed.iter().take(100).collect();
    let sections = BTreeMap::from([("house rules".to_owned(), "Be polite and brief.\n".repeat(20))]);
    measure("render of 100 entries", || render(&hundred, &sections).len());
    let rendered = render(&hundred, &sections);
    measure("  of which escaping", || escape(&rendered).len());
}
