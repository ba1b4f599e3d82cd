//! The result of the live demo, as text and as JSON.

use clawhost_app::demo::{LiveDemo, LiveProof, Satisfaction};
use clawhost_app::time;
use clawhost_core::thousands;
use std::io::Write;

pub(super) fn json(demo: &LiveDemo, found: &LiveProof) -> anyhow::Result<()> {
    let mut live = serde_json::json!(found);
    if let Some(object) = live.as_object_mut() {
        object.insert("seed".to_owned(), demo.seed.into());
    }
    let timing = serde_json::json!({ "started": time(found.started_ms), "wall_seconds": found.wall.as_secs_f64() });
    crate::terminal::json(&serde_json::json!({ "format": 1, "live": live, "timing": timing }))?;
    Ok(())
}

pub(super) fn text(found: &LiveProof) -> anyhow::Result<()> {
    let mut out = crate::terminal::stdout();
    writeln!(out, "Share of answers that held-out users, who give no feedback, want:")?;
    let mut table = crate::episodes::table(&["gateway", "share", "95 % interval"]);
    let rows = [
        ("before", found.heldout_before),
        ("after it has learned from a crowd", found.heldout_after),
        ("control: shuffled feedback", found.shuffled_after),
        ("control: no skills", found.skills_off_after),
        ("control: silent reflector", found.silent_after),
    ];
    for (name, satisfaction) in rows {
        let Satisfaction { mean, low, high } = satisfaction;
        table.add_row([name.to_owned(), format!("{mean:.2}"), format!("{low:.2} to {high:.2}")]);
    }
    writeln!(out, "{table}")?;
    writeln!(out, "Lessons that it serves now:")?;
    for lesson in &found.lessons {
        writeln!(out, "  {lesson}")?;
    }
    let (requests, refused) = (thousands(found.requests), thousands(found.requests_refused));
    writeln!(out, "{requests} requests, {refused} refused, in {:.0} s", found.wall.as_secs_f64())?;
    Ok(())
}
