//! Rules counted over many tasks.

use super::*;
use clawhost_sdk::testing::{Recording, reflect};
use clawhost_sdk::{Change, Ending, Episode, Message, Task};

/// What the policy does without a rule.
const HABIT: &str = "wait";

/// An episode of its own task: the opening states the facts, the policy acts, and a wrong action gets a review.
struct Wall<'a> {
    colour: &'a str,
    size: &'a str,
    did: &'a str,
    right: &'a str,
    because: &'a str,
}

impl Wall<'_> {
    fn episode(&self, number: usize) -> Episode {
        self.ended(number, Ending::Terminated)
    }

    fn ended(&self, number: usize, ending: Ending) -> Episode {
        let played = Recording::of(Task::new("train", format!("t{number}"), ""))
            .named(format!("e{number}"))
            .observed(format!("A wall.\ncolour: {}\nsize: {}\nheight: unknown", self.colour, self.size))
            .acted(Message::calling("c", self.did, "{}"))
            .answered("c", "done");
        let closing = match self.did == self.right {
            true => "Good.".to_owned(),
            false => format!("No.\nexpected: call {} {{}}\nbecause: {}", self.right, self.because),
        };
        played.observed(closing).ended(ending)
    }
}

fn wall<'a>(colour: &'a str, size: &'a str, did: &'a str, right: &'a str, because: &'a str) -> Wall<'a> {
    Wall { colour, size, did, right, because }
}

fn bundled(entries: &[&str]) -> Playbook {
    let entry = |text: &&str| {
        let id = format!("id of {text}");
        Entry { id, ..Entry::new(*text) }.with_extra("status", "bundled")
    };
    Playbook::new(entries.iter().map(entry).collect())
}

fn changes(walls: &[Wall<'_>], playbook: &Playbook, options: &[(&str, &str)]) -> Vec<String> {
    let episodes = walls.iter().enumerate().map(|(number, wall)| wall.episode(number)).collect();
    let show = |proposal: Proposal| match proposal.change {
        Change::Add(entry) => entry.text,
        Change::Retire(id) => format!("retire {id}"),
        other => panic!("{other:?}"),
    };
    reflect::<Rules>(episodes, playbook, options).unwrap().into_iter().map(show).collect()
}

fn check(walls: &[Wall<'_>], expect: &[&str]) {
    assert_eq!(changes(walls, &bundled(&[]), &[]), expect);
}

#[test]
fn a_rule_that_makes_more_decisions_right_than_wrong_is_proposed() {
    let red = || (0..4).map(|_| wall("red", "small", HABIT, "paint", "colour is red"));
    check(&red().collect::<Vec<_>>(), &["when colour is red: call paint {}"]);
    // Two decisions are chance.
    check(&red().take(2).collect::<Vec<_>>(), &[]);
    // The habit was right as often: nothing is won.
    let habit = || (0..4).map(|_| wall("red", "large", HABIT, HABIT, ""));
    check(&red().chain(habit()).collect::<Vec<_>>(), &[]);
}

#[test]
fn an_exception_stands_beside_its_rule() {
    let mut walls: Vec<Wall<'_>> = (0..6).map(|_| wall("red", "small", HABIT, "paint", "colour is red")).collect();
    let both = "colour is red and size is large";
    walls.extend((0..4).map(|_| wall("red", "large", HABIT, "wash", both)));
    walls.extend((0..4).map(|_| wall("blue", "large", HABIT, HABIT, "")));
    check(&walls, &["when colour is red: call paint {}", "when colour is red and size is large: call wash {}"]);
}

#[test]
fn a_coincidence_gives_way_to_a_rule_and_its_exception() {
    let of = |count: usize, wall: fn() -> Wall<'static>| (0..count).map(move |_| wall());
    let walls: Vec<Wall<'_>> = of(6, || wall("green", "large", HABIT, "wash", "colour is green"))
        .chain(of(5, || wall("red", "large", HABIT, "wash", "colour is red and size is large")))
        .chain(of(4, || wall("red", "small", HABIT, "paint", "colour is red")))
        .chain(of(3, || wall("blue", "large", HABIT, HABIT, "")))
        .collect();
    // Most large walls are washed, so that this rule wins most by itself.
    check(
        &walls,
        &[
            "when colour is green: call wash {}",
            "when colour is red: call paint {}",
            "when colour is red and size is large: call wash {}",
        ],
    );
}

#[test]
fn an_episode_that_was_cut_off_is_no_success() {
    let red = wall("red", "small", HABIT, "paint", "colour is red");
    let cut_off = wall("red", "small", HABIT, HABIT, "");
    let mut episodes: Vec<Episode> = (0..4).map(|number| red.episode(number)).collect();
    episodes.extend((4..8).map(|number| cut_off.ended(number, Ending::Truncated("turns".into()))));
    let proposals = reflect::<Rules>(episodes, &bundled(&[]), &[]).unwrap();
    assert_eq!(proposals.len(), 1, "{proposals:?}");
}

#[test]
fn a_reason_that_only_coincides_adds_nothing() {
    let mut walls: Vec<Wall<'_>> =
        (0..5).map(|_| wall("red", "small", HABIT, "paint", "colour is red and size is small")).collect();
    walls.extend((0..5).map(|_| wall("blue", "small", HABIT, HABIT, "")));
    walls.extend((0..3).map(|_| wall("red", "large", HABIT, "paint", "colour is red and size is large")));
    check(&walls, &["when colour is red: call paint {}"]);
}

#[test]
fn successes_count_for_a_rule_that_was_played() {
    // Played with the rule, and right: no review. Without it the habit would have been wrong.
    let mut walls: Vec<Wall<'_>> = (0..2).map(|_| wall("red", "small", HABIT, "paint", "colour is red")).collect();
    walls.extend((0..3).map(|_| wall("blue", "small", HABIT, HABIT, "")));
    check(&walls, &[]);
    walls.extend((0..4).map(|_| wall("red", "small", "paint", "paint", "")));
    let rule = "when colour is red: call paint {}";
    assert_eq!(changes(&walls, &bundled(&[rule]), &[]), [rule]);
}

#[test]
fn a_bundled_rule_that_holds_no_more_is_retired() {
    let mut walls: Vec<Wall<'_>> = (0..4).map(|_| wall("red", "small", HABIT, "paint", "colour is red")).collect();
    walls.extend((0..4).map(|_| wall("blue", "small", "wash", HABIT, "colour is blue")));
    walls.extend((0..9).map(|_| wall("green", "small", HABIT, HABIT, "")));
    let told = changes(&walls, &bundled(&["when colour is blue: call wash {}"]), &[]);
    assert_eq!(told, ["retire id of when colour is blue: call wash {}", "when colour is red: call paint {}"]);
}

#[test]
fn look_ups_stand_after_the_rules_so_that_they_come_first() {
    let closing = "No.\nexpected: call paint {}\nbecause: colour is red and height is low\n\
         not looked up: height, which call measure {} shows";
    let episode = |number: usize| {
        Recording::of(Task::new("train", format!("t{number}"), ""))
            .named(format!("e{number}"))
            .observed("A wall.\ncolour: red\nheight: unknown")
            .acted(Message::calling("c", HABIT, "{}"))
            .observed(closing)
            .ended(Ending::Terminated)
    };
    let proposals = reflect::<Rules>((0..4).map(episode).collect(), &bundled(&[]), &[]).unwrap();
    let texts: Vec<String> = proposals
        .into_iter()
        .filter_map(|proposal| match proposal.change {
            Change::Add(entry) => Some(entry.text),
            _ => None,
        })
        .collect();
    assert_eq!(texts.last().map(String::as_str), Some("when height is unknown: call measure {}"), "{texts:?}");
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[test]
fn placebos_have_other_actions_or_none() {
    let walls = || (0..4).map(|_| wall("red", "small", HABIT, "paint", "colour is red")).collect::<Vec<_>>();
    assert!(changes(&walls(), &bundled(&[]), &[("mode", "silent")]).is_empty());
    let shuffled = changes(&walls(), &bundled(&[]), &[("mode", "shuffled")]);
    assert!(shuffled.iter().all(|rule| !rule.contains("call paint")), "{shuffled:?}");
}

#[test]
fn without_reviews_nothing_is_proposed() {
    let walls: Vec<Wall<'_>> = (0..9).map(|_| wall("red", "small", HABIT, HABIT, "")).collect();
    check(&walls, &[]);
}
