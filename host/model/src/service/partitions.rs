//! What a model remembers of conversations is found within a partition alone.

use super::*;
use clawhost_core::Partition;

fn said(role: Role, text: &str) -> Message {
    Message::text(role, Origin::User, text)
}

fn asked(partition: Partition, messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages, max_tokens: 8, seed: Some(5), logprobs: Some(0), partition, ..ModelRequest::default() }
}

/// What does not depend on what was remembered.
fn answered(response: &ModelResponse) -> (&Message, &[u32], &[f32], &[f32], &[TokenLogprob], u64) {
    let record = response.tokens.as_ref().unwrap();
    let tokens = (record.tokens.as_slice(), record.logprob_model.as_slice(), record.logprob_sampled.as_slice());
    (&response.message, tokens.0, tokens.1, tokens.2, &response.logprobs, response.usage.prompt_tokens)
}

#[tokio::test]
async fn a_conversation_continues_in_its_tokens_within_its_partition_alone() {
    let folder = crate::TinyModel { seed: 4, ..crate::TinyModel::default() }.make().unwrap();
    let model = folder.open("tiny", &crate::device::ComputeDevice::processor()).unwrap();
    let [a, b] = ["a", "b"].map(Partition::of_client);
    let question = said(Role::User, "12+34=");
    let first = model.complete(&asked(a, vec![question.clone()])).await.unwrap();
    let again = model.complete(&asked(b, vec![question.clone()])).await.unwrap();
    assert_eq!((&first, first.usage.cached_tokens), (&again, 0));

    let next = |answer: &Message| vec![question.clone(), answer.clone(), said(Role::User, "1+1=")];
    let fresh = folder.open("tiny", &crate::device::ComputeDevice::processor()).unwrap();
    let right = fresh.complete(&asked(a, next(&first.message))).await.unwrap();
    assert_eq!(right.usage.cached_tokens, 0, "another model remembers nothing");
    let whole = first.usage.tokens();
    for (partition, cached) in
        [(Partition::OWN, 0), (Partition::of_client(""), 0), (Partition::of_client("c"), 0), (a, whole)]
    {
        let response = model.complete(&asked(partition, next(&first.message))).await.unwrap();
        assert_eq!(response.usage.cached_tokens, cached, "{partition:?}");
        assert_eq!(response.tokens.as_ref().unwrap().shared as u64, cached);
        assert_eq!(answered(&response), answered(&right), "sharing changes no bit");
    }
}
