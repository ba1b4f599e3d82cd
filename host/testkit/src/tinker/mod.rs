//! A service of the Tinker protocol with real learning behind it: a small local model is its base model, and this program's own trainer computes.
//!
//! The suite `sdks` runs the SDK of Tinker against it, so that tests of our client are tests against the protocol. It knows what the SDK and the
//! client send, and refuses the rest. A result is fetched twice: the first time it says "ask again".

mod http;
mod training;

pub use http::{Reply, Request};

use clawhost_model::{HostDecoder, LocalModel, ModelFolder};
use clawhost_wire::tinker::{ForwardBackwardRequest, PROTOBUF};
use http::Server;
use prost::Message as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use training::{Training, sample, sampler};

/// The name of its base model.
pub const TINKER_BASE: &str = "clawhost/tiny";

const JSON: &str = "application/json";

/// What the stub is about to reply: to a request at once (`Posted`), or as the result of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The reply at once.
    Posted,
    /// The result.
    Settled,
}

type Change = dyn Fn(Stage, &str, Reply) -> Reply + Send + Sync;

/// A promise: what was asked for, its result, and how often it was fetched.
struct Promise {
    path: String,
    reply: Reply,
    fetched: u32,
}

enum Saved {
    Training(Vec<u8>),
    Sampler(Box<HostDecoder>),
}

struct Service {
    base: ModelFolder,
    key: Option<String>,
    models: Mutex<BTreeMap<String, Arc<Mutex<Training>>>>,
    saved: Mutex<BTreeMap<String, Saved>>,
    samplers: Mutex<BTreeMap<String, Arc<LocalModel>>>,
    promises: Mutex<BTreeMap<String, Promise>>,
    sessions: Mutex<BTreeSet<String>>,
    /// Sessions and samplers so far.
    count: AtomicU64,
    requests: Mutex<Vec<Request>>,
    change: Mutex<Option<Arc<Change>>>,
}

/// The service. It ends when it is dropped.
pub struct TinkerStub {
    service: Arc<Service>,
    server: Server,
}

fn answer(body: &Value) -> Reply {
    Reply::Http(200, JSON, body.to_string().into_bytes())
}

fn failed(why: &str) -> Reply {
    answer(&json!({ "error": why, "category": "user" }))
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}

impl TinkerStub {
    /// A service whose base model is this one, by the name [`TINKER_BASE`]. `key`: it refuses requests without this key.
    pub fn start(base: ModelFolder, key: Option<&str>) -> Self {
        let service = Arc::new(Service {
            base,
            key: key.map(str::to_owned),
            models: Mutex::default(),
            saved: Mutex::default(),
            samplers: Mutex::default(),
            promises: Mutex::default(),
            sessions: Mutex::default(),
            count: AtomicU64::new(0),
            requests: Mutex::default(),
            change: Mutex::default(),
        });
        let serving = service.clone();
        let server = Server::start(move |request| serving.reply(request));
        Self { service, server }
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    /// Changes every reply from now on.
    pub fn change(&self, change: impl Fn(Stage, &str, Reply) -> Reply + Send + Sync + 'static) {
        *self.service.change.lock().unwrap() = Some(Arc::new(change));
    }

    /// Changes no reply any more.
    pub fn behave(&self) {
        *self.service.change.lock().unwrap() = None;
    }

    /// The requests so far, without the prefix of their paths.
    pub fn requests(&self) -> Vec<Request> {
        self.service.requests.lock().unwrap().clone()
    }

    /// As after a new start of the service: what was kept is there, and nobody is known.
    pub fn restart(&self) {
        self.service.sessions.lock().unwrap().clear();
        self.service.models.lock().unwrap().clear();
        self.service.samplers.lock().unwrap().clear();
        self.service.promises.lock().unwrap().clear();
    }

    /// The weights that were kept for sampling under a path.
    pub fn sampled_from(&self, path: &str) -> HostDecoder {
        match self.service.saved.lock().unwrap().get(path) {
            Some(Saved::Sampler(weights)) => (**weights).clone(),
            _ => panic!("no weights for sampling at {path}"),
        }
    }
}

impl Service {
    fn reply(&self, mut request: Request) -> Reply {
        let Some(path) = request.path.strip_prefix("/api/v1/").map(str::to_owned) else {
            return Reply::Http(404, JSON, b"{\"detail\": \"not found\"}".to_vec());
        };
        request.path.clone_from(&path);
        let has_key = self.key.as_deref().is_none_or(|key| request.header("x-api-key") == Some(key));
        let (stage, path, reply) = if !has_key {
            (Stage::Posted, path, Reply::Http(401, JSON, b"{\"detail\": \"unknown key\"}".to_vec()))
        } else if path == "retrieve_future" {
            self.fetched(&request)
        } else {
            let reply = self.posted(&path, &request);
            (Stage::Posted, path, reply)
        };
        self.requests.lock().unwrap().push(request);
        let change = self.change.lock().unwrap().clone();
        match change {
            Some(change) => change(stage, &path, reply),
            None => reply,
        }
    }

    fn fetched(&self, request: &Request) -> (Stage, String, Reply) {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut promises = self.promises.lock().unwrap();
        let Some(promise) = promises.get_mut(&text(&body, "request_id")) else {
            return (Stage::Settled, String::new(), Reply::Http(410, JSON, b"{\"detail\": \"lost\"}".to_vec()));
        };
        promise.fetched += 1;
        if promise.fetched == 1 {
            let body = json!({ "type": "try_again", "request_id": text(&body, "request_id"), "queue_state": "active" });
            return (Stage::Posted, "retrieve_future".into(), Reply::Http(408, JSON, body.to_string().into_bytes()));
        }
        (Stage::Settled, promise.path.clone(), promise.reply.clone())
    }

    fn promised(&self, path: &str, more: Value, reply: Reply) -> Reply {
        let mut promises = self.promises.lock().unwrap();
        let id = format!("r-{}", self.count.fetch_add(1, Ordering::Relaxed));
        promises.insert(id.clone(), Promise { path: path.to_owned(), reply, fetched: 0 });
        let mut promise = more;
        promise["request_id"] = id.into();
        answer(&promise)
    }

    fn posted(&self, path: &str, request: &Request) -> Reply {
        if path == "forward_backward" {
            let Ok(pass) = ForwardBackwardRequest::read(&request.body) else {
                return Reply::Http(400, JSON, b"{\"detail\": \"no protocol buffer\"}".to_vec());
            };
            let reply = self.in_order(&pass.model_id, i64::from(pass.seq_id), |model| {
                let output = model.pass(&pass)?;
                Ok(Reply::Http(200, PROTOBUF, output.encode_to_vec()))
            });
            return self.promised(path, json!({}), reply);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if let Some(id) = path.strip_prefix("samplers/").filter(|id| self.samplers.lock().unwrap().contains_key(*id)) {
            return answer(&json!({ "sampler_id": id, "base_model": TINKER_BASE, "model_path": null }));
        }
        match path {
            "client/config" | "client/dynamic_config" => answer(&json!({})),
            "healthz" => answer(&json!({ "status": "ok" })),
            "get_server_capabilities" => answer(&json!({ "supported_models": [{ "model_name": TINKER_BASE }] })),
            "create_session" => {
                let id = format!("s-{}", self.count.fetch_add(1, Ordering::Relaxed));
                self.sessions.lock().unwrap().insert(id.clone());
                answer(&json!({ "session_id": id, "type": "create_session" }))
            }
            "session_heartbeat" | "create_sampling_session" | "create_model"
                if !self.sessions.lock().unwrap().contains(&text(&body, "session_id")) =>
            {
                Reply::Http(404, JSON, b"{\"detail\": \"there is no such session\"}".to_vec())
            }
            "session_heartbeat" => answer(&json!({ "type": "session_heartbeat" })),
            "telemetry" => answer(&json!({ "status": "accepted" })),
            "create_model" => self.created(&body),
            "get_info" => self.info(&text(&body, "model_id")),
            "unload_model" => {
                self.models.lock().unwrap().remove(&text(&body, "model_id"));
                self.promised(path, json!({}), answer(&json!({ "model_id": body["model_id"], "type": path })))
            }
            "optim_step" => {
                let step = |model: &mut Training| {
                    model.step(&body["adam_params"])?;
                    Ok(answer(&json!({ "metrics": {}, "type": "optim_step" })))
                };
                let reply = self.of_model(&body, step);
                self.promised(path, json!({}), reply)
            }
            "save_weights" => {
                let reply = self.of_model(&body, |model| {
                    let at = format!("tinker://{}/weights/{}", text(&body, "model_id"), text(&body, "path"));
                    self.saved.lock().unwrap().insert(at.clone(), Saved::Training(model.saved()));
                    Ok(answer(&json!({ "path": at, "type": "save_weights" })))
                });
                self.promised(path, json!({}), reply)
            }
            "save_weights_for_sampler" => {
                let reply = self.of_model(&body, |model| self.saved_for_sampler(&body, model));
                self.promised(path, json!({}), reply)
            }
            "load_weights" => {
                let reply = self.of_model(&body, |model| match self.saved.lock().unwrap().get(&text(&body, "path")) {
                    Some(Saved::Training(saved)) => {
                        model.load(saved);
                        Ok(answer(&json!({ "path": body["path"], "type": "load_weights" })))
                    }
                    _ => Err("there are no such weights".to_owned()),
                });
                self.promised(path, json!({}), reply)
            }
            "create_sampling_session" => self.sampling_session(&body),
            "asample" => self.sampled(&body),
            _ => Reply::Http(404, JSON, b"{\"detail\": \"not found\"}".to_vec()),
        }
    }

    fn created(&self, body: &Value) -> Reply {
        if body["base_model"] != TINKER_BASE {
            return self.promised("create_model", json!({}), failed("there is no such base model"));
        }
        let id = format!("{}:train:{}", text(body, "session_id"), body["model_seq_id"]);
        let (rank, seed) = (body["lora_config"]["rank"].as_u64(), body["lora_config"]["seed"].as_u64());
        let model = Training::new(&self.base, rank.unwrap_or(8) as usize, seed.unwrap_or(0));
        self.models.lock().unwrap().insert(id.clone(), Arc::new(Mutex::new(model)));
        self.promised("create_model", json!({}), answer(&json!({ "model_id": id, "type": "create_model" })))
    }

    fn info(&self, id: &str) -> Reply {
        let models = self.models.lock().unwrap();
        let Some(model) = models.get(id) else { return Reply::Http(404, JSON, b"{\"detail\": \"no model\"}".to_vec()) };
        let data = json!({ "arch": "tiny", "model_name": TINKER_BASE, "tokenizer_id": TINKER_BASE });
        let rank = model.lock().unwrap().rank;
        answer(&json!({
            "type": "get_info", "model_data": data, "model_id": id, "is_lora": true, "lora_rank": rank, "model_name": TINKER_BASE,
        }))
    }

    fn of_model(&self, body: &Value, act: impl FnOnce(&mut Training) -> Result<Reply, String>) -> Reply {
        self.in_order(&text(body, "model_id"), body["seq_id"].as_i64().unwrap_or_default(), act)
    }

    fn in_order(&self, id: &str, number: i64, act: impl FnOnce(&mut Training) -> Result<Reply, String>) -> Reply {
        let Some(model) = self.models.lock().unwrap().get(id).cloned() else {
            return Reply::Http(404, JSON, b"{\"detail\": \"there is no such model\"}".to_vec());
        };
        let mut model = model.lock().unwrap();
        model.take(number).and_then(|()| act(&mut model)).unwrap_or_else(|why| failed(&why))
    }

    fn saved_for_sampler(&self, body: &Value, model: &Training) -> Result<Reply, String> {
        let weights = model.weights();
        if body["path"].is_null() {
            // Weights that one client samples from at once, without a name.
            let id = format!("sampling-{}-{}", text(body, "model_id"), body["sampling_session_seq_id"]);
            self.samplers.lock().unwrap().insert(id.clone(), sampler(&self.base, weights));
            return Ok(answer(&json!({ "sampling_session_id": id, "type": "save_weights_for_sampler" })));
        }
        let at = format!("tinker://{}/sampler_weights/{}", text(body, "model_id"), text(body, "path"));
        self.saved.lock().unwrap().insert(at.clone(), Saved::Sampler(Box::new(weights)));
        Ok(answer(&json!({ "path": at, "type": "save_weights_for_sampler" })))
    }

    fn sampling_session(&self, body: &Value) -> Reply {
        let weights = match body["model_path"].as_str() {
            None if body["base_model"] == TINKER_BASE => Some(self.base.weights.clone()),
            None => None,
            Some(path) => match self.saved.lock().unwrap().get(path) {
                Some(Saved::Sampler(weights)) => Some((**weights).clone()),
                _ => None,
            },
        };
        let Some(weights) = weights else {
            return Reply::Http(404, JSON, b"{\"detail\": \"there are no such weights\"}".to_vec());
        };
        let id = format!("sampling-{}", self.count.fetch_add(1, Ordering::Relaxed));
        self.samplers.lock().unwrap().insert(id.clone(), sampler(&self.base, weights));
        answer(&json!({ "sampling_session_id": id, "type": "create_sampling_session" }))
    }

    fn sampled(&self, body: &Value) -> Reply {
        let Some(model) = self.samplers.lock().unwrap().get(&text(body, "sampling_session_id")).cloned() else {
            return Reply::Http(404, JSON, b"{\"detail\": \"there is no such sampling session\"}".to_vec());
        };
        let reply = match sample(&model, body) {
            Ok(response) => Reply::Http(200, PROTOBUF, response.encode_to_vec()),
            Err(why) => failed(&why),
        };
        let count = body["num_samples"].as_u64().unwrap_or(1);
        let ids: Vec<String> = (0..count).map(|number| format!("{}-{number}", body["seq_id"])).collect();
        self.promised("asample", json!({ "sample_sequence_ids": ids }), reply)
    }
}
