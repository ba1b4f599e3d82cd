//! `clawhost model list`: which models there are.

use super::print_json;
use crate::context::{Context, hub_cache};
use crate::data_folder::size;
use crate::episodes::{print, table};
use crate::exit::Exit;
use clawhost_app::local_models::list_models;
use clawhost_core::escaped;
use std::io::Write as _;

/// Most bytes of a text of others that are shown.
const SHOWN: usize = 200;

pub(super) async fn list(context: &Context) -> anyhow::Result<Exit> {
    let hub = hub_cache();
    let all = list_models(&hub, &crate::modules::modules(context)?).await?;
    if context.json() {
        return print_json(&serde_json::json!({ "format": 1, "hub": hub.folder(), "models": all }));
    }
    let mut out = crate::terminal::stdout();
    if all.is_empty() {
        let hub = hub.folder().map_or_else(|| "no folder".to_owned(), |folder| folder.display().to_string());
        writeln!(
            out,
            "no model in the Hugging Face cache ({hub}), and no adapter was pulled; `hf download OWNER/NAME` gets a model, `clawhost model pull MODULE` an adapter"
        )?;
        return Ok(Exit::Ok);
    }
    let mut rows = table(&["name", "version", "kind", "architecture", "size", "path"]);
    for one in all {
        let revisions =
            if one.revisions.is_empty() { String::new() } else { format!(" ({})", one.revisions.join(", ")) };
        let version: String = one.version.chars().take(12).collect();
        let missing = one.missing.map(|missing| format!("not complete: {missing}"));
        rows.add_row([
            one.name,
            escaped(&format!("{version}{revisions}"), SHOWN),
            one.kind.name().to_owned(),
            one.architecture.unwrap_or_default(),
            size(one.bytes),
            missing.unwrap_or_else(|| one.path.display().to_string()),
        ]);
    }
    print(&mut out, &rows)?;
    Ok(Exit::Ok)
}
