//! Steps that clients submit: one call of a model each, as tokens, as messages, or as both.

use crate::http::Refusal;
use clawhost_core::NewStep;
use clawhost_wire::ErrorKind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most steps of one request.
pub(crate) const STEPS_AT_ONCE: usize = 1_000;

/// A step in a request. Fields that this program does not know are kept.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct StepBody {
    #[serde(default, alias = "position")]
    step_index: Option<u64>,
    #[serde(default)]
    prompt_ids: Option<Vec<u32>>,
    #[serde(default)]
    response_ids: Option<Vec<u32>>,
    #[serde(default, alias = "log_probs")]
    rollout_log_probs: Option<Vec<f64>>,
    #[serde(default)]
    reward: Option<f64>,
    /// Of all its tokens.
    #[serde(default)]
    policy_version: Option<u64>,
    /// Of each of its tokens.
    #[serde(default)]
    policy_versions: Option<Vec<u64>>,
    #[serde(default)]
    trainable: Option<bool>,
    #[serde(default)]
    pub(crate) is_last: bool,
    #[serde(default)]
    pub(crate) trajectory_uid: String,
    #[serde(default)]
    pub(crate) prompt_uid: String,
    #[serde(flatten)]
    other: Map<String, Value>,
}

fn wrong(field: &str, why: &str) -> Refusal {
    Refusal::new(ErrorKind::Unprocessable, format!("{field}: {why}"))
}

impl StepBody {
    /// The step as it is stored. `default_version`: that of its trajectory.
    pub(crate) fn into_step(self, default_version: Option<u64>) -> Result<NewStep, Refusal> {
        let Self { prompt_ids, response_ids, rollout_log_probs, reward, policy_versions, .. } = &self;
        let tokens = response_ids.as_ref().map(Vec::len);
        if tokens.is_none() && !self.other.contains_key("response") {
            return Err(wrong("response_ids", "a step needs the tokens of the response, or `response` as a message"));
        }
        let of_tokens = [
            ("log_probs", rollout_log_probs.as_ref().map(Vec::len)),
            ("policy_versions", policy_versions.as_ref().map(Vec::len)),
        ];
        for (field, length) in of_tokens {
            if length.is_some() && length != tokens {
                let (length, tokens) = (length.unwrap_or(0), tokens.unwrap_or(0));
                return Err(wrong(field, &format!("{length} values for {tokens} tokens of the response")));
            }
        }
        if rollout_log_probs.as_ref().is_some_and(|all| all.iter().any(|one| !one.is_finite())) {
            return Err(wrong("log_probs", "must be finite numbers"));
        }
        if reward.is_some_and(|reward| !reward.is_finite()) {
            return Err(wrong("reward", "must be a finite number"));
        }
        let policy_version = policy_versions
            .as_ref()
            .and_then(|all| all.iter().min().copied())
            .or(self.policy_version)
            .or(default_version);
        let given = [
            ("prompt_ids", prompt_ids.as_ref().map(|ids| json!(ids))),
            ("response_ids", response_ids.as_ref().map(|ids| json!(ids))),
            ("log_probs", rollout_log_probs.as_ref().map(|all| json!(all))),
            ("reward", reward.map(|reward| json!(reward))),
            ("policy_versions", policy_versions.as_ref().map(|all| json!(all))),
        ];
        let mut document: Map<String, Value> =
            given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        document.extend(self.other.into_iter().filter(|(_, value)| !value.is_null()));
        Ok(NewStep {
            position: self.step_index,
            policy_version,
            trainable: self.trainable.unwrap_or(true),
            document: Value::Object(document).to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<NewStep, String> {
        let body: StepBody = serde_json::from_str(text).map_err(|error| error.to_string())?;
        body.into_step(Some(4)).map_err(|refusal| {
            assert_eq!(refusal.kind, ErrorKind::Unprocessable);
            refusal.message
        })
    }

    #[test]
    fn a_step_keeps_what_was_given_and_names_its_oldest_version() {
        let check = |text: &str, version: Option<u64>, document: &str| {
            let step = step(text).unwrap();
            assert_eq!((step.policy_version, step.document.as_str()), (version, document), "{text}");
        };
        let tokens = r#""prompt_ids":[1],"response_ids":[2,3]"#;
        check(&format!("{{{tokens}}}"), Some(4), &format!("{{{tokens}}}"));
        check(&format!(r#"{{{tokens},"policy_version":7}}"#), Some(7), &format!("{{{tokens}}}"));
        let versions = format!(r#"{{{tokens},"policy_versions":[9,8]}}"#);
        check(&versions, Some(8), &versions);
        check(
            &format!(
                r#"{{{tokens},"rollout_log_probs":[-0.5,-1.0],"reward":0.5,"trajectory_uid":"t","x":{{"y":[null]}},"z":null}}"#
            ),
            Some(4),
            &format!(r#"{{{tokens},"log_probs":[-0.5,-1.0],"reward":0.5,"x":{{"y":[null]}}}}"#),
        );
        check(
            r#"{"response":{"role":"assistant","content":"hi"}}"#,
            Some(4),
            r#"{"response":{"role":"assistant","content":"hi"}}"#,
        );
        let placed = step(&format!(r#"{{{tokens},"position":3,"trainable":false}}"#)).unwrap();
        assert_eq!((placed.position, placed.trainable), (Some(3), false));
    }

    #[test]
    fn values_that_do_not_fit_the_tokens_are_refused_by_name() {
        let check = |text: &str, expect: &str| assert_eq!(step(text).unwrap_err(), expect, "{text}");
        let tokens = r#""response_ids":[2,3]"#;
        check(&format!(r#"{{{tokens},"log_probs":[-1]}}"#), "log_probs: 1 values for 2 tokens of the response");
        check(
            &format!(r#"{{{tokens},"policy_versions":[1,2,3]}}"#),
            "policy_versions: 3 values for 2 tokens of the response",
        );
        check("{}", "response_ids: a step needs the tokens of the response, or `response` as a message");
    }
}
