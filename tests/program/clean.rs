//! Data cleaning with tools and partial credit, on real components.

use super::hidden_rules::Hidden;
use super::*;

const CLEAN: Hidden = Hidden { guest: "env_clean", world: "house", options: "", signal: "share", read: "share" };
const HINTED: Hidden = Hidden { options: "&hints=on", ..CLEAN };

#[test]
fn cleaning_is_known_from_its_handbook_alone_and_equal_everywhere() {
    let Some(bench) = Bench::new("cleaning_is_known") else { return };
    CLEAN.check(&bench, 301);
}

#[test]
fn three_hundred_episodes_teach_house_styles_that_nobody_tuned_on() {
    let Some(bench) = Bench::new("three_hundred_episodes_styles") else { return };
    let lift = CLEAN.lift(&bench, 301..303, 300, "rules");
    assert!(lift >= 0.4, "{lift}");
    let hinted = HINTED.lift(&bench, 301..303, 150, "rules");
    assert!(hinted >= 0.5, "with hints half of the episodes are enough: {hinted}");
    let placebo = CLEAN.lift(&bench, 301..303, 100, "shuffled");
    assert!(placebo < 0.05, "{placebo}");
}
