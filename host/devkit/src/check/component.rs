//! Checks of the component itself, against its manifest.

use super::report::Checked;
use super::{Checking, Results};
use clawhost_core::About;
use clawhost_engine::ComponentOutline;
use clawhost_package::{Kind, Manifest};

/// The interfaces of services that an operator grants, with the keys of [grants] that ask for them.
const SERVICES: [(&str, &str); 2] = [("clawhost:kv/kv", "kv"), ("clawhost:llm/llm", "llm")];

/// All checks of the component. `outline`, with the length in bytes: it was loaded, so its world fits and its structure was walked.
pub(super) fn checks(
    checking: &Checking<'_>,
    results: &mut Results<'_>,
    kind: Kind,
    about: &About,
    (outline, bytes): (&ComponentOutline, usize),
) {
    let says = format!("{} {}: {}, {} KiB", about.name, about.version, outline.interface, bytes.div_ceil(1024));
    results.push(Checked::passed("component", says).with([("bytes", bytes as f64)]));
    let Some(manifest) = checking.manifest else {
        results.push(match checking.folder {
            None => {
                Checked::skipped("manifest", "there is no claw.toml in the component", "`clawhost build` puts it there")
            }
            Some(_) => {
                let says = "there is no claw.toml in the component, so nobody is held to it";
                Checked::failed("manifest", says, "`clawhost build` puts it there")
            }
        });
        return;
    };
    results.push(agreement(checking, manifest, kind, about, outline));
    let asked = |key: &str| match key {
        "kv" => manifest.grants.kv,
        _ => !manifest.grants.llm.is_empty(),
    };
    let silent: Vec<&str> = SERVICES
        .iter()
        .filter(|(interface, key)| outline.wants(interface) && !asked(key))
        .map(|(_, key)| *key)
        .collect();
    results.push(match silent.is_empty() {
        true => Checked::passed("grants", "the component imports no service that claw.toml does not ask for"),
        false => {
            let says = format!("the component imports {}, for which claw.toml does not ask", silent.join(" and "));
            Checked::failed(
                "grants",
                says,
                "ask for it in [grants], so that operators see it before they run the plugin",
            )
        }
    });
    results.push(match manifest.limits.above(kind, checking.bench.limits()).first() {
        None => Checked::passed("limits", "its limits are not above the host's"),
        Some(above) => Checked::failed("limits", above.to_string(), "lower it"),
    });
}

/// How claw.toml and a component agree again.
const SAME: &str = "write the same in claw.toml and in the source, where name and version stand side by side (in Rust: NAME and VERSION), and build again";

/// What claw.toml says, in the component and beside it, and what the component says of itself.
fn agreement(
    checking: &Checking<'_>,
    manifest: &Manifest,
    kind: Kind,
    about: &About,
    outline: &ComponentOutline,
) -> Checked {
    const CHECK: &str = "manifest";
    if checking.folder.is_some_and(|folder| folder.manifest() != manifest) {
        let says = "claw.toml is another one than the one in the component";
        return Checked::failed(CHECK, says, "build again");
    }
    let plugin = &manifest.plugin;
    let track = outline.interface.rsplit_once('@').map_or("", |(_, version)| version);
    let differences: Vec<String> = [
        ("name", plugin.name.as_str(), about.name.as_str()),
        ("version", &plugin.version.to_string(), about.version.as_str()),
        ("kind", plugin.kind.name(), kind.name()),
        ("track", plugin.track.as_str(), of_track(track)),
    ]
    .into_iter()
    .filter(|(_, said, is)| said != is)
    .map(|(key, said, is)| format!("{key} is `{said}` in claw.toml and `{is}` in the component"))
    .collect();
    match differences.is_empty() {
        true => Checked::passed(CHECK, "name, version, kind and track are those of the component"),
        false => Checked::failed(CHECK, differences.join("; "), SAME),
    }
}

/// The track of a version: its first two numbers.
fn of_track(version: &str) -> &str {
    match version.match_indices('.').nth(1) {
        Some((at, _)) => version.get(..at).unwrap_or(version),
        None => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_track_is_the_first_two_numbers_of_a_version() {
        for (version, track) in [("0.1.0", "0.1"), ("1.12.3", "1.12"), ("0.1", "0.1"), ("", "")] {
            assert_eq!(of_track(version), track);
        }
    }
}
