//! A model in training at a service.

use super::body::extended;
use super::service::{Body, Connection, Refusal, Repeat, TinkerService};
use clawhost_core::ModelError;
use clawhost_wire::tinker::{Datum, ForwardBackwardOutput, ForwardBackwardRequest, read};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Data that are sent at once, and their bytes: as the SDK of Tinker.
const DATA_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 5_000_000;
/// Bytes of a token in a request: its id, its target and its weight.
const TOKEN_BYTES: usize = 16;
/// What the answer about a datum takes beside its log-probs, in numbers.
const DATUM_NUMBERS: usize = 16;
/// The loss of every pass: the weighted sum of log-probs, whose derivatives are the weights.
const LOSS: &str = "cross_entropy";

/// What a step of the optimiser (AdamW) does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamParams {
    /// The learning rate.
    pub rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the square root of the second moment.
    pub epsilon: f64,
    /// Weight decay as a share of the rate.
    pub weight_decay: f64,
    /// The gradient's norm is clipped to it. 0: it is not.
    pub clip: f64,
}

/// A model in training. It learns an adapter (LoRA) of a base model.
#[derive(Debug)]
pub struct TinkerTraining {
    service: Arc<TinkerService>,
    id: String,
    /// The number of the next request: the service takes them in order.
    next: AtomicI32,
}

/// The log-probs of each datum's targets, if they are as many as were sent, and numbers.
fn checked(connection: &Connection, bytes: &[u8], sent: &[usize]) -> Result<Vec<Vec<f64>>, ModelError> {
    let invalid = |why: String| connection.invalid(&why);
    let output: ForwardBackwardOutput = read(bytes).map_err(|error| invalid(error.to_string()))?;
    let all = output.logprobs().map_err(|error| invalid(error.to_string()))?;
    if all.len() != sent.len() {
        return Err(invalid(format!("log-probs of {} sequences, and {} were sent", all.len(), sent.len())));
    }
    for (found, sent) in all.iter().zip(sent) {
        if found.len() != *sent {
            return Err(invalid(format!("{} log-probs of a sequence with {sent} targets", found.len())));
        }
        if let Some(number) = found.iter().find(|number| !number.is_finite()) {
            return Err(invalid(format!("{number} as a log-prob")));
        }
    }
    // Rounding may leave a certain token above 0.
    Ok(all.into_iter().map(|one| one.into_iter().map(|number| f64::from(number).min(0.0)).collect()).collect())
}

/// Data in parts that are sent at once.
fn parts(data: Vec<Datum>) -> Vec<Vec<Datum>> {
    let (mut parts, mut bytes) = (Vec::<Vec<Datum>>::new(), 0);
    for datum in data {
        let own = datum.input().map_or(0, |input| input.len() * TOKEN_BYTES);
        bytes += own;
        match parts.last_mut().filter(|part| part.len() < DATA_AT_ONCE && bytes <= BYTES_AT_ONCE) {
            Some(part) => part.push(datum),
            None => {
                bytes = own;
                parts.push(vec![datum]);
            }
        }
    }
    parts
}

impl TinkerService {
    /// A new adapter of this rank for a base model, by the service's name of it. `seed`: of its first weights.
    ///
    /// # Errors
    /// The service does not know the model, or does not answer.
    pub async fn create_model(
        self: &Arc<Self>,
        base_model: &str,
        (rank, seed): (usize, u64),
    ) -> Result<TinkerTraining, ModelError> {
        let base_model = base_model.to_owned();
        let id = self.run(move |connection| async move {
            let session = connection.session().await?;
            let body = json!({
                "session_id": session, "model_seq_id": connection.next_model(), "base_model": base_model,
                "lora_config": { "rank": rank, "seed": seed, "train_attn": true, "train_mlp": true, "train_unembed": false },
                "type": "create_model",
            });
            let answer = connection.settled_json("create_model", Body::Json(body), Repeat::Harmless).await?;
            connection.text(&answer, "model_id")
        });
        Ok(TinkerTraining { service: self.clone(), id: id.await?, next: AtomicI32::new(1) })
    }
}

impl TinkerTraining {
    /// The service's name of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn next(&self) -> i32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn pass(&self, data: Vec<Datum>, forward_only: bool) -> Result<Vec<Vec<f64>>, ModelError> {
        let mut all = Vec::with_capacity(data.len());
        for data in parts(data) {
            let sent: Vec<usize> = data.iter().map(|datum| datum.input().map_or(0, |input| input.len())).collect();
            let request = ForwardBackwardRequest {
                model_id: self.id.clone(),
                seq_id: self.next(),
                data,
                loss_fn: LOSS.to_owned(),
                forward_only,
            };
            let numbers = sent.iter().map(|count| count.saturating_add(DATUM_NUMBERS)).sum();
            let repeat = if forward_only { Repeat::Harmless } else { Repeat::Never };
            let pass = self.service.run(move |connection| async move {
                let body = Body::Protobuf(request.to_bytes());
                let settled = connection.settled_bytes("forward_backward", body, repeat, numbers).await;
                let bytes = settled.map_err(Refusal::passing)?;
                checked(&connection, &bytes, &sent)
            });
            all.extend(pass.await?);
        }
        Ok(all)
    }

    /// Log-probs of the targets of data under the current weights. Nothing changes.
    ///
    /// # Errors
    /// The service does not answer, or with something else.
    pub async fn forward(&self, data: Vec<Datum>) -> Result<Vec<Vec<f64>>, ModelError> {
        self.pass(data, true).await
    }

    /// Adds the gradients of the cross entropy of data, `-sum(weight * logprob)`, to those that wait for a step. Returns the log-probs.
    ///
    /// # Errors
    /// The service does not answer, or with something else. Gradients may have been added or not.
    pub async fn forward_backward(&self, data: Vec<Datum>) -> Result<Vec<Vec<f64>>, ModelError> {
        self.pass(data, false).await
    }

    async fn change(&self, path: &'static str, body: Value, repeat: Repeat) -> Result<Value, ModelError> {
        let body = extended(body, json!({ "model_id": self.id, "seq_id": self.next(), "type": path }));
        self.service
            .run(move |connection| async move {
                connection.settled_json(path, Body::Json(body), repeat).await.map_err(Refusal::passing)
            })
            .await
    }

    async fn saved(&self, path: &'static str, body: Value) -> Result<String, ModelError> {
        let answer = self.change(path, body, Repeat::Harmless).await?;
        self.service.run(move |connection| async move { connection.text(&answer, "path") }).await
    }

    /// Takes a step with the gradients that wait.
    ///
    /// # Errors
    /// The service does not answer. The step may have been taken or not.
    pub async fn optim_step(&self, params: AdamParams) -> Result<(), ModelError> {
        let AdamParams { rate, beta1, beta2, epsilon, weight_decay, clip } = params;
        let adam = json!({
            "learning_rate": rate, "beta1": beta1, "beta2": beta2, "eps": epsilon, "weight_decay": weight_decay, "grad_clip_norm": clip,
        });
        self.change("optim_step", json!({ "adam_params": adam }), Repeat::Never).await.map(drop)
    }

    /// Keeps weights and optimiser under a name. Returns the path to load them by.
    ///
    /// # Errors
    /// The service does not answer.
    pub async fn save(&self, name: &str) -> Result<String, ModelError> {
        self.saved("save_weights", json!({ "path": name, "overwrite": true })).await
    }

    /// Keeps weights for sampling under a name. Returns the path to sample by.
    ///
    /// # Errors
    /// The service does not answer.
    pub async fn save_for_sampler(&self, name: &str) -> Result<String, ModelError> {
        self.saved("save_weights_for_sampler", json!({ "path": name })).await
    }

    /// Goes back to weights and optimiser that were kept.
    ///
    /// # Errors
    /// The service does not have them, or does not answer.
    pub async fn load(&self, path: &str) -> Result<(), ModelError> {
        self.change("load_weights", json!({ "path": path, "optimizer": true }), Repeat::Harmless).await.map(drop)
    }

    /// Frees the memory of the service. What was kept stays. A failure is ignored: the service frees it when the session ends.
    pub async fn unload(&self) {
        let body = Body::Json(json!({ "model_id": self.id, "type": "unload_model" }));
        let done = self.service.run(move |connection| async move {
            Ok(connection.settled_json("unload_model", body, Repeat::Harmless).await?)
        });
        if let Err(error) = done.await {
            tracing::debug!("a model of a Tinker service stays in its memory: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_divided_by_number_and_size() {
        let datum = |length: usize| Datum::weighted(&vec![0; length], &vec![0; length], &vec![0.0; length]);
        let sizes = |data: Vec<Datum>| parts(data).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![datum(1); 2050]), [1024, 1024, 2]);
        assert_eq!(sizes(vec![datum(200_000); 3]), [1, 1, 1]);
        assert_eq!(sizes(vec![datum(1_000_000), datum(1), datum(1)]), [1, 2]);
        assert!(parts(Vec::new()).is_empty());
    }
}
