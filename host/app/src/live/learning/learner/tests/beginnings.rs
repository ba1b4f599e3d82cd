//! What is drawn for a session when it begins, and how long it holds.

use super::*;

#[tokio::test]
async fn guidance_that_is_chosen_anew_keeps_the_draws_of_the_beginning_whatever_was_decided_since() {
    let mut bench = Bench::new("").await;
    bench.learn().await;
    bench.taught("Use metres.").await;
    let entry = bench.trials().on_trial()[0].entry.id.0.clone();
    let text = |choice: &GuidanceChoice| choice.guided.as_ref().and_then(|one| one.text.clone()).unwrap_or_default();
    let mut began = Vec::new();
    for number in 0..20 {
        let user = format!("early{number}");
        let choice = bench.guided((&user, &format!("{RUN}/early-{number}")), Draws::New).await;
        assert!(choice.drawn.is_some());
        began.push((user, choice.guided.unwrap()));
    }
    let hidden = began.iter().filter(|(_, guided)| !guided.drawn[0].shown).count();
    assert!((1..20).contains(&hidden), "{hidden} of 20 do not get it");
    bench.crowd(300, likes_metres).await;
    assert_eq!(bench.versions().len(), 1, "it is served now, to nine of ten");
    for (user, guided) in &began {
        let draws = Draws::Kept { entries: &guided.drawn, version: guided.by.as_ref().map(|by| by.version) };
        let again = bench.guided((user, "run/another"), draws).await;
        assert_eq!(text(&again), guided.text.clone().unwrap_or_default(), "{user}");
        assert_eq!((again.drawn, &again.guided.unwrap().drawn), (None, &guided.drawn));
    }
    // A session that began when nothing was drawn is served what is served, and is part of no trial.
    bench.taught("Answer in German.").await;
    while bench.trials().on_trial().is_empty() {
        // Reflectors are asked about some sessions at a time, in their order.
        bench.learn().await;
    }
    let kept = Draws::Kept { entries: &[], version: None };
    for number in 0..20 {
        let choice = bench.guided((&format!("other{number}"), &format!("{RUN}/other-{number}")), kept).await;
        assert!(text(&choice).contains("Use metres.") && !text(&choice).contains("German"), "{choice:?}");
        assert_eq!(choice.drawn, None);
    }
    assert!(began.iter().all(|(_, guided)| guided.drawn[0].entry == entry));
}

#[tokio::test]
async fn a_session_stays_on_the_version_with_which_it_began() {
    let mut bench = Bench::new("previous_share = 0.5\n").await;
    bench.workspace.store().add_version(version(&["when in Rome: be kind"]), None).await.unwrap();
    bench.learn().await;
    bench.workspace.store().add_version(version(&["when in Rome: be rude"]), None).await.unwrap();
    bench.learn().await;
    let mut served = BTreeSet::new();
    for number in 0..20 {
        let began = bench.guided(("ada", &format!("{RUN}/ep-{number}")), Draws::New).await.guided.unwrap();
        let number = began.by.as_ref().unwrap().version;
        let kept = Draws::Kept { entries: &began.drawn, version: Some(number) };
        // The name of a branch is another one.
        let again = bench.guided(("ada", "run/branch"), kept).await.guided.unwrap();
        assert_eq!((again.by.unwrap().version, again.text), (number, began.text));
        served.insert(number);
    }
    assert_eq!(served, [1, 2].into());
}

#[tokio::test]
async fn a_version_that_changes_the_manner_of_answers_is_drawn_once_for_each_user() {
    for (lessons, is_manner) in [(["Be kind.", "Be brief."], true), (["Be kind.", "when in Rome: be brief"], false)] {
        let mut bench = Bench::new("previous_share = 0.5\n").await;
        bench.workspace.store().add_version(version(&lessons[..1]), None).await.unwrap();
        bench.learn().await;
        bench.workspace.store().add_version(version(&lessons), None).await.unwrap();
        bench.learn().await;
        let mut of_users = BTreeMap::<String, BTreeSet<u64>>::new();
        for number in 0..120 {
            let user = format!("u{}", number % 12);
            let choice = bench.guided((&user, &format!("{RUN}/ep-{number}")), Draws::New).await;
            of_users.entry(user).or_default().insert(choice.guided.unwrap().by.unwrap().version);
        }
        assert_eq!(of_users.values().all(|versions| versions.len() == 1), is_manner, "{of_users:?}");
        let all: BTreeSet<u64> = of_users.into_values().flatten().collect();
        assert_eq!(all, [1, 2].into(), "both are served");
    }
}

#[tokio::test]
async fn a_lesson_about_the_manner_of_answers_is_drawn_once_for_each_user() {
    let mut bench = Bench::new("").await;
    bench.learn().await;
    for (lesson, is_manner) in [("Use metres.", true), ("when asked how far: use metres", false)] {
        bench.taught(lesson).await;
        let entry = bench.trials().on_trial().last().unwrap().entry.id.0.clone();
        let mut of_users = BTreeMap::<String, BTreeSet<bool>>::new();
        for number in 0..200 {
            let user = format!("u{}", number % 20);
            let guided = bench.guided((&user, &format!("{RUN}/new-{number}")), Draws::New).await.guided.unwrap();
            let draws = guided.drawn.iter().filter(|draw| draw.entry == entry).map(|draw| draw.shown);
            of_users.entry(user).or_default().extend(draws);
        }
        assert_eq!(of_users.values().all(|draws| draws.len() < 2), is_manner, "{of_users:?}");
        let all: BTreeSet<bool> = of_users.into_values().flatten().collect();
        assert_eq!(all.len(), 2, "some get it, and others do not");
    }
}

#[tokio::test]
async fn sessions_of_those_who_are_not_named_neither_teach_lessons_nor_try_them() {
    let mut bench = Bench::new("from = [\"user:/ada\", \"user:/ben\", \"user:/cy\"]\n").await;
    bench.learn().await;
    for user in ["dan", "eve", "fay"] {
        let session = bench.session(user, None).await;
        bench.correct(session.id, "Answer in verse.").await;
    }
    bench.taught("Use metres.").await;
    let trials = bench.trials();
    assert_eq!((trials.candidates().len(), trials.on_trial().len()), (0, 1));
    assert_eq!(trials.on_trial()[0].entry.lesson.line(), "Use metres.");
    assert!(bench.session("ada", None).await.drawn);
    assert!(!bench.session("dan", None).await.drawn);
}
