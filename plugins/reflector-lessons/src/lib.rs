//! Proposes lessons with a model.
//!
//! The model comes from the operator's grant (`--grant llm:reflector=SPEC`). Its prompt has the playbook with the ids
//! of its entries, the available tools, and 8 episodes with their rewards (of more: the worst, and some of the best): at
//! most 48 000 characters, and 2000 per message; omissions are marked. All of that is fenced and marked as material,
//! because an agent, an environment or an earlier lesson may contain instructions. A fence inside the material is broken
//! up. A reflector sees no references.
//!
//! It answers with one JSON document, optionally in a code fence:
//!
//! ```json
//! {"proposals": [{"change": "add", "id": "", "name": "look first", "when": "size is unknown", "do": "call measure {}",
//!                 "avoid": "guessing", "needs": [], "tags": ["size"], "because": "guesses failed", "episodes": [1, 3]}]}
//! ```
//!
//! If the host asks for another approach, because training found nothing, the prompt says so and shows what was tried in vain.
//!
//! Each proposal is checked. A kind of change other than `add`, `update`, `retire` and `merge`, an entry that the playbook does
//! not have, a lesson without an action, a known lesson, and a text that is too long (1200 characters for a lesson) are
//! refused; the log has the reason, and the other proposals count. If an answer is not such a document, or has
//! proposals of which *none* can be used (except for known ones), the model is asked again with the complaint
//! (`retries`). If that fails too, or the model does not answer, the call fails with the error `model`: it is never an
//! empty success. An empty list is a valid answer: there was nothing to learn.

mod material;
mod reply;
mod settings;

use clawhost_sdk::llm::{Request, complete, error_text};
use clawhost_sdk::{
    Context, Episode, Error, Group, Message, OptionSpec, Playbook, Proposal, Reflector, Result, Role, export_reflector,
    log,
};
use reply::{Complaint, Subject};
use settings::Settings;

/// The reflector.
#[derive(Debug)]
pub struct Lessons;

/// Characters of an invalid answer that are shown to the model again.
const SHOWN_AGAIN: usize = 8000;

impl Reflector for Lessons {
    const NAME: &'static str = "reflector-lessons";
    const SUMMARY: &'static str = "lessons that a granted model draws from episodes";

    fn options() -> Vec<OptionSpec> {
        Settings::specs()
    }

    fn check(context: &Context) -> Result<()> {
        Settings::of(context).map(|_| ())
    }

    fn reflect(group: &Group, playbook: &Playbook, context: &Context) -> Result<Vec<Proposal>> {
        let settings = Settings::of(context)?;
        let episodes: Vec<String> = material::numbered(group).into_iter().map(Episode::id).collect();
        let subject = Subject { playbook, episodes: &episodes };
        let mut conversation = vec![
            Message::text(Role::System, material::instruction(settings.most)),
            Message::user(material::question(group, playbook)),
        ];
        let mut attempt = 0;
        loop {
            let request = Request {
                alias: settings.alias.clone(),
                messages: conversation.clone(),
                tools: Vec::new(),
                max_tokens: settings.max_tokens,
                temperature: settings.temperature,
                seed: Some(context.seed.wrapping_add(u64::from(attempt))),
                stop: Vec::new(),
                extra: Vec::new(),
            };
            let response = complete(&request)
                .map_err(|error| Error::model(format!("the model did not answer: {}", error_text(error))))?;
            let answer = response.message.plain_text();
            let Complaint(why) = match reply::read(&answer, &subject, settings.most) {
                Ok(reply) => {
                    reply.refused.iter().for_each(|why| log::warn(&format!("refused {why}")));
                    return Ok(reply.proposals);
                }
                Err(complaint) => complaint,
            };
            let cut_off = if response.finish == "length" { "; it was cut off at max_tokens" } else { "" };
            if attempt == settings.retries {
                return Err(Error::model(format!("asked {} times: {why}{cut_off}", attempt + 1)));
            }
            attempt += 1;
            // Endpoints refuse empty messages of the assistant.
            if !answer.trim().is_empty() {
                conversation.push(Message::assistant(answer.chars().take(SHOWN_AGAIN).collect::<String>()));
            }
            let again = format!("That cannot be used: {why}{cut_off}. Answer again, with the JSON document alone.");
            conversation.push(Message::user(again));
        }
    }
}

export_reflector!(Lessons);

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_sdk::llm::{LlmError, Response};
    use clawhost_sdk::testing::{Recording, logs, reflect, set_llm};
    use clawhost_sdk::{Change, Ending, Entry, Task, Usage};
    use std::cell::RefCell;
    use std::rc::Rc;

    const GOOD: &str = r#"{"proposals": [{"change": "add", "do": "wait", "episodes": [1]}]}"#;

    fn episode() -> Episode {
        Recording::of(Task::new("train", "t", ""))
            .named("ep-1")
            .observed("Wait.")
            .acted(Message::assistant("No."))
            .observed("That was wrong.")
            .ended(Ending::Terminated)
    }

    fn response(text: &str, finish: &str) -> Response {
        let usage = Usage { prompt_tokens: 1, completion_tokens: 1, cached_tokens: 0, extra: vec![] };
        Response { message: Message::assistant(text), usage, finish: finish.into(), extra: vec![] }
    }

    /// The result of these answers, given in order, and the questions.
    fn asked(answers: &[&str], options: &[(&str, &str)]) -> (Result<Vec<Proposal>>, Vec<Request>) {
        let requests = Rc::new(RefCell::new(Vec::new()));
        let (kept, mut next) =
            (Rc::clone(&requests), answers.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>().into_iter());
        set_llm(move |request| {
            kept.borrow_mut().push(request.clone());
            let text = next.next().ok_or_else(|| LlmError::BudgetExhausted("all tokens are used".into()))?;
            Ok(response(&text, if text.ends_with("...") { "length" } else { "stop" }))
        });
        let playbook = Playbook::new(vec![Entry { id: "e-1".into(), ..Entry::new("always: run") }]);
        let proposals = reflect::<Lessons>(vec![episode()], &playbook, options);
        let requests = requests.borrow().clone();
        (proposals, requests)
    }

    /// The number of proposals from these answers, or the error, and the number of questions.
    fn check(answers: &[&str], options: &[(&str, &str)], expect: Result<usize, &str>, times: usize) {
        let (proposals, requests) = asked(answers, options);
        assert_eq!(requests.len(), times, "{answers:?} {options:?}");
        match (proposals, expect) {
            (Ok(proposals), Ok(expect)) => assert_eq!(proposals.len(), expect, "{answers:?}"),
            (Err(error), Err(says)) => {
                assert!(error.is_of_model() && error.message().contains(says), "{answers:?}: {error:?}");
            }
            (proposals, expect) => panic!("{answers:?}: {proposals:?}, not {expect:?}"),
        }
    }

    #[test]
    fn an_answer_becomes_proposals_and_an_empty_list_is_one() {
        check(&[GOOD], &[], Ok(1), 1);
        check(&[r#"{"proposals": []}"#], &[], Ok(0), 1);
        let (proposals, _) =
            asked(&[r#"{"proposals": [{"change": "retire", "id": "e-1", "episodes": [1]}, {"change": "x"}]}"#], &[]);
        let proposals = proposals.unwrap();
        assert!(matches!(&proposals[0].change, Change::Retire(id) if id == "e-1"));
        assert_eq!((proposals.len(), proposals[0].evidence[0].episode.as_str()), (1, "ep-1"));
        assert!(logs().iter().any(|line| line.contains("refused proposal 2")), "the log says what was refused");
    }

    #[test]
    fn an_invalid_answer_is_never_an_empty_success() {
        check(&["I see.", GOOD], &[], Ok(1), 2);
        check(&["I see.", "Hm."], &[], Err("asked 2 times: the answer is no JSON document"), 2);
        check(&["I see."], &[("retries", "0")], Err("asked 1 times"), 1);
        check(&["", "", "", GOOD], &[("retries", "3")], Ok(1), 4);
        check(&["{\"proposals\": [..."], &[("retries", "0")], Err("cut off at max_tokens"), 1);
        check(&[r#"{"proposals": [{"change": "burn"}]}"#, GOOD], &[], Ok(1), 2);
        check(&["I see."], &[], Err("did not answer: all tokens are used"), 2);
        check(&[], &[], Err("did not answer: all tokens are used"), 1);
    }

    #[test]
    fn a_retry_shows_the_complaint_under_another_seed() {
        let (_, requests) = asked(&["I see.", GOOD], &[("model", "big"), ("temperature", "0.5"), ("max_tokens", "99")]);
        let texts: Vec<String> = requests[1].messages.iter().map(Message::plain_text).collect();
        assert_eq!((texts.len(), texts[2].as_str()), (4, "I see."));
        assert!(texts[3].contains("That cannot be used: the answer is no JSON document"), "{}", texts[3]);
        assert!(requests[1].messages[3].role == Role::User && requests[1].messages[2].role == Role::Assistant);
        assert_eq!(requests.iter().map(|request| request.seed).collect::<Vec<_>>(), [Some(0), Some(1)]);
        for request in &requests {
            assert_eq!((request.alias.as_str(), request.temperature, request.max_tokens), ("big", Some(0.5), 99));
        }
        let (_, requests) = asked(&["", GOOD], &[]);
        assert_eq!((requests[1].messages.len(), requests[1].alias.as_str()), (3, "reflector"), "nothing was said");
        assert_eq!(requests[1].temperature, None);
        let (_, requests) = asked(&[&"x".repeat(9000), GOOD], &[]);
        assert_eq!(requests[1].messages[2].plain_text().len(), SHOWN_AGAIN);
    }

    #[test]
    fn the_model_is_shown_the_rules_and_then_the_material() {
        let (_, requests) = asked(&[GOOD], &[("most", "5")]);
        let [system, user] = &requests[0].messages[..] else { panic!("{requests:?}") };
        assert!(system.role == Role::System && system.plain_text().contains("At most 5 proposals"));
        assert!(user.plain_text().contains("[entry e-1] always: run") && user.plain_text().contains("That was wrong."));
    }

    #[test]
    fn options_are_checked_before_anything_is_asked() {
        set_llm(|_| panic!("asked"));
        assert!(Lessons::check(&Context::new(0, vec![("retries".into(), "9".into())])).is_err());
        assert!(reflect::<Lessons>(vec![episode()], &Playbook::new(vec![]), &[("most", "0")]).is_err());
    }
}
