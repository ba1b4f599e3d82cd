//! Guidance that is found by meaning: a gateway, an endpoint that answers, and one that gives embeddings, over HTTP.

use crate::client::{Answer, post};
use crate::stub::{Received, Reply, Stub, chat};
use clawhost_app::{ServeRequest, Serving, Silent, Workspace, WorkspaceSettings, serve};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How the endpoint answers a request for the vector of a single text: what a session asks.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Single {
    Vector,
    Error,
    Garbage,
    Never,
}

/// A gateway with two skills: about damaged goods, and about gardens.
struct Bench {
    serving: Serving,
    chat: Stub,
    embeddings: Stub,
    single: Arc<AtomicU8>,
    sessions: u64,
    _folder: tempfile::TempDir,
}

/// Sessions until the vectors must have been made. Each waits for an answer over HTTP.
const SESSIONS: u64 = 3_000;

/// What a text is about: damage, gardens, or neither.
fn vector(text: &str) -> Value {
    match () {
        () if text.contains("damaged") || text.contains("pieces") => json!([1.0, 0.1, 0.0]),
        () if text.contains("garden") => json!([0.0, 0.1, 1.0]),
        () => json!([0.0, 1.0, 0.0]),
    }
}

fn embedded(request: &Received, single: &AtomicU8) -> Reply {
    let texts: Vec<String> = serde_json::from_value(request.body["input"].clone()).unwrap();
    let now = single.load(Ordering::Relaxed);
    if texts.len() == 1 && now != Single::Vector as u8 {
        return match now {
            now if now == Single::Error as u8 => Reply::Http(500, vec![], "out of order".into()),
            now if now == Single::Garbage as u8 => {
                Reply::Http(200, vec![], "{\"data\": [{\"embedding\": [0]}]}".into())
            }
            _ => Reply::Stall,
        };
    }
    let data: Vec<Value> = texts.iter().map(|text| json!({"embedding": vector(text)})).collect();
    Reply::Http(200, vec![], json!({"data": data}).to_string())
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let single = Arc::new(AtomicU8::new(Single::Vector as u8));
        let now = single.clone();
        let (chat, embeddings) = (Stub::start(|_, _| chat("ok")), Stub::start(move |_, asked| embedded(asked, &now)));
        for (name, when) in [("broken", "When goods arrive damaged"), ("roses", "When asked about a garden")] {
            let path = folder.path().join("skills").join(name);
            std::fs::create_dir_all(&path).unwrap();
            let text = format!("---\nname: {name}\ndescription: {when}\n---\nLook at the rules.\n");
            std::fs::write(path.join("SKILL.md"), text).unwrap();
        }
        let skills = folder.path().join("skills").display().to_string();
        let config = format!(
            "[gateway]\nmode = \"skills\"\n[skills]\nfolders = ['{skills}']\nembeddings = \"e\"\n\
             [models.m]\nmodel = \"openai:m@{}\"\n[models.e]\nmodel = \"openai:e@{}\"\n",
            chat.base_url(),
            embeddings.base_url()
        );
        std::fs::write(folder.path().join("gateway.toml"), config).unwrap();
        let workspace = Workspace::open(WorkspaceSettings::new(folder.path())).unwrap();
        let request = ServeRequest { listen: Some("127.0.0.1:0".into()), ..ServeRequest::default() };
        let serving = serve(&workspace, request, &Silent).await.unwrap();
        Self { serving, chat, embeddings, single, sessions: 0, _folder: folder }
    }

    /// The first request of a new session.
    async fn session(&mut self, text: &str) -> Answer {
        self.sessions += 1;
        let name = format!("s-{}", self.sessions);
        let headers = [("x-session-id", name.as_str()), ("x-clawhost-guidance", "show")];
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]});
        let answer = post(&self.serving.address().to_string(), "/v1/chat/completions", &headers, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    /// The guidance of a new session.
    async fn shown(&mut self, text: &str) -> String {
        self.session(text).await.header("x-clawhost-guidance").to_owned()
    }

    /// Waits until the skills have vectors.
    async fn embedded(&mut self) {
        for _ in 0..SESSIONS {
            if self.shown("My mug came in pieces.").await == "skill/broken" {
                return;
            }
        }
        panic!("no skill is found by its meaning: {:?}", self.embeddings.requests());
    }

    /// The texts that were asked about alone: those of sessions.
    fn single_requests(&self) -> usize {
        self.embeddings.requests().iter().filter(|asked| asked.body["input"].as_array().unwrap().len() == 1).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paraphrase_finds_a_skill_that_shares_no_word_with_it() {
    let mut bench = Bench::new().await;
    bench.embedded().await;
    assert_eq!(bench.shown("What is the capital of France?").await, "", "what is near nothing gets nothing");
    assert_eq!(bench.shown("Roses for my garden").await, "skill/roses");
    let batches: Vec<Value> = bench.embeddings.requests().iter().map(|asked| asked.body["input"].clone()).collect();
    let batches: Vec<&Value> = batches.iter().filter(|texts| texts.as_array().unwrap().len() > 1).collect();
    assert_eq!(batches, [&json!(["goods arrive damaged", "asked about a garden"])], "each text once");
    assert!(
        bench.chat.requests().iter().all(|asked| asked.path.ends_with("/chat/completions")),
        "it goes nowhere else"
    );
    bench.serving.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_guided_by_words_while_the_endpoint_fails() {
    for single in [Single::Error, Single::Garbage, Single::Never] {
        let mut bench = Bench::new().await;
        bench.embedded().await;
        bench.single.store(single as u8, Ordering::Relaxed);
        let before = bench.single_requests();
        assert_eq!(bench.shown("My mug came in pieces.").await, "");
        assert_eq!(bench.shown("My mug arrived damaged.").await, "skill/broken", "words find it");
        assert_eq!(bench.single_requests(), before + 1, "an endpoint that failed is left alone for a while");
        bench.serving.stop().await;
    }
}
