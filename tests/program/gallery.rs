//! The gallery of plugins that ship: what `clawhost inspect` says of each, as a page.

use super::*;
use std::fmt::Write as _;

/// The plugins that ship, by world, in the order of the page.
const SHIPPED: [(&str, &[&str]); 4] = [
    ("Environments", &["env_guess", "env_math", "env_shop", "env_clean", "env_cave", "env_worlds"]),
    (
        "Rewards",
        &["reward_exact", "reward_signal", "reward_state", "reward_execution", "reward_format", "reward_judge"],
    ),
    ("Reflectors", &["reflector_rules", "reflector_lessons"]),
    ("Routers", &["router_length"]),
];

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// What the page says of a plugin.
fn entry(page: &mut String, folder: &str, plugin: &Value) {
    let about = &plugin["about"];
    let (name, version) = (about["name"].as_str().unwrap(), about["version"].as_str().unwrap());
    writeln!(page, "### [{name}]({folder}) {version}\n\n{}.\n", about["summary"].as_str().unwrap()).unwrap();
    let mut rows: Vec<(&str, String)> = Vec::new();
    let splits = plugin["splits"].as_array().into_iter().flatten();
    let splits: Vec<String> =
        splits.map(|split| format!("{} {}", split["name"].as_str().unwrap(), split["tasks"])).collect();
    rows.push(("tasks", splits.join(", ")));
    rows.push(("gives", texts(&plugin["gives"]).join(", ")));
    if let Some(range) = plugin["range"].as_array() {
        let (source, scope) = (plugin["source"].as_str().unwrap(), plugin["scope"].as_str().unwrap());
        rows.push(("range", format!("{} to {}; source `{source}`, of {scope}", range[0], range[1])));
    }
    let reads: Vec<String> = texts(&plugin["reads"]).iter().map(|one| format!("`{one}`")).collect();
    rows.push(("reads", reads.join(", ")));
    rows.push(("features", texts(&about["features"]).join(", ")));
    let grants = plugin["permissions"].as_array().into_iter().flatten().filter_map(|one| one["grant"].as_str());
    rows.push(("asks for", grants.map(|grant| format!("`{grant}`")).collect::<Vec<_>>().join(", ")));
    for (label, text) in rows.into_iter().filter(|(_, text)| !text.is_empty()) {
        writeln!(page, "- {label}: {text}").unwrap();
    }
    let options = about["options"].as_array().unwrap();
    if !options.is_empty() {
        writeln!(page, "\n| option | default | meaning |\n|---|---|---|").unwrap();
    }
    for option in options {
        let text = |key: &str| cell(option[key].as_str().unwrap());
        let usual = Some(text("default_value")).filter(|usual| !usual.is_empty());
        let usual = usual.map(|usual| format!("`{usual}`")).unwrap_or_default();
        writeln!(page, "| `{}` | {usual} | {} |", text("name"), text("summary")).unwrap();
    }
    page.push('\n');
}

#[test]
fn the_gallery_shows_what_inspect_says_of_every_plugin_that_ships() {
    let Some(bench) = Bench::new("the_gallery_shows_what_inspect_says_of_every_plugin_that_ships") else { return };
    let mut page =
        "# Plugins that ship\n\nWhat `clawhost inspect` says of each. A test makes this page and compares it: \
        `UPDATE_GENERATED=1 cargo test -p clawhost-cli --test program gallery` writes it anew.\n\n"
            .to_owned();
    let mut folders = std::collections::BTreeSet::new();
    for (title, guests) in SHIPPED {
        writeln!(page, "## {title}\n").unwrap();
        for guest in guests {
            let folder = guest.replace('_', "-");
            entry(&mut page, &folder, &bench.json(&["inspect", &bench.guest(guest)])["plugin"]);
            folders.insert(folder);
        }
    }
    let page = format!("{}\n", page.trim_end());
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let there = std::fs::read_dir(&plugins).unwrap().flatten().filter(|entry| entry.path().is_dir());
    let there: std::collections::BTreeSet<String> =
        there.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(folders, there, "every plugin is in the gallery");
    let file = plugins.join("README.md");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let shipped = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        shipped == page,
        "plugins/README.md differs from what `clawhost inspect` says; UPDATE_GENERATED=1 writes it"
    );
}
