//! Renders the page. The templates escape every value; nothing of a client reaches a page otherwise.

use super::cost::CostShown;
use super::login::Visitor;
use super::pages::{Overview, SessionShown, address, escaped, time};
use super::playbook::PlaybookShown;
use super::training::TrainingShown;
use crate::learned::{LearnedView, WeightsView};
use clawhost_core::{counted, thousands};
use minijinja::{Environment, context};
use serde::Serialize;
use std::sync::LazyLock;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    // Names that end with .html are escaped as HTML.
    let all = [
        ("page.html", include_str!("templates/page.html")),
        ("login.html", include_str!("templates/login.html")),
        ("message.html", include_str!("templates/message.html")),
        ("overview.html", include_str!("templates/overview.html")),
        ("session.html", include_str!("templates/session.html")),
        ("playbook.html", include_str!("templates/playbook.html")),
        ("rollback.html", include_str!("templates/rollback.html")),
        ("training.html", include_str!("templates/training.html")),
        ("weights_rollback.html", include_str!("templates/weights_rollback.html")),
        ("cost.html", include_str!("templates/cost.html")),
    ];
    templates.add_filter("time", |at_ms: u64| time(at_ms));
    templates.add_filter("in_address", |text: String| escaped(&text));
    templates.add_filter("thousands", |number: u64| thousands(number));
    templates.add_filter("counted", |number: u64, noun: String| counted(number, &noun));
    templates.add_filter("address", |name: String| name.split_once('/').map(|(run, episode)| address(run, episode)));
    for (name, text) in all {
        // A test renders each.
        let _ = templates.add_template(name, text);
    }
    templates
});

fn render(name: &str, values: impl Serialize) -> String {
    let rendered = TEMPLATES.get_template(name).and_then(|template| template.render(values));
    rendered.unwrap_or_else(|error| {
        tracing::error!("the page {name} cannot be rendered: {error}");
        "this page cannot be rendered; the log of the gateway says why".to_owned()
    })
}

/// The form in which to show the admin's key. `why`: what was wrong with the one before.
pub(super) fn login(why: Option<&str>) -> String {
    render("login.html", context! { why })
}

/// A message.
pub(super) fn message(text: &str) -> String {
    render("message.html", context! { text })
}

/// The first page.
pub(super) fn overview(shown: &Overview, visitor: &Visitor) -> String {
    render("overview.html", context! { shown, proof => visitor.proof, from => visitor.from })
}

/// A session.
pub(super) fn session(shown: &SessionShown, visitor: &Visitor) -> String {
    render("session.html", context! { shown, proof => visitor.proof, from => visitor.from })
}

/// The playbook.
pub(super) fn playbook(shown: &PlaybookShown, visitor: &Visitor) -> String {
    render("playbook.html", context! { shown, proof => visitor.proof, from => visitor.from })
}

/// The question whether an older version shall be served again.
pub(super) fn rollback(learned: &LearnedView, number: u64, visitor: &Visitor) -> String {
    render("rollback.html", context! { learned, number, proof => visitor.proof })
}

/// Cost.
pub(super) fn cost(shown: &CostShown, visitor: &Visitor) -> String {
    render("cost.html", context! { shown, proof => visitor.proof, from => visitor.from })
}

/// Training.
pub(super) fn training(shown: &TrainingShown, visitor: &Visitor) -> String {
    render("training.html", context! { shown, proof => visitor.proof, from => visitor.from })
}

/// The question whether an earlier version of weights shall be served again.
pub(super) fn weights_rollback(weights: &WeightsView, scope: Option<&str>, number: u64, visitor: &Visitor) -> String {
    render("weights_rollback.html", context! { weights, scope, number, proof => visitor.proof, from => visitor.from })
}
