//! Promotion: the operator makes what is remembered of one scope a lesson of the playbook, for everybody.

use super::book::{MemoryError, has_expired, memory, resolved};
use super::guide::FIRST_PLAYBOOK;
use crate::playbooks::{PlaybookWriter, add, check_name, chosen, document};
use crate::{AppError, GatewayFile, Workspace};
use clawhost_core::{Evidence, MemoryReader as _, MemoryRow, PlaybookReader, StoreError, escaped};
use clawhost_learn::memory::{Memory, MemorySource, Scope};
use clawhost_learn::playbook::safety::{Refusal, TextLimits, check, check_conduct};
use clawhost_learn::{Entry, EntryId};
use serde::Serialize;

/// The `created_by` of an entry that the operator made.
pub const OPERATOR: &str = "operator";

/// Longest part of an id that a message repeats, in bytes.
const SHOWN_BYTES: usize = 60;

/// A memory that has become a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromotedMemory {
    /// Its scope.
    pub scope: String,
    /// Its id there.
    pub id: String,
    /// The playbook.
    pub playbook: String,
    /// The version that serves it now.
    pub version: u64,
    /// The id of the entry.
    pub entry: EntryId,
    /// The text.
    pub text: String,
}

/// The playbook that gateways serve: the named one, or that of `gateway.toml`, or the only one. Where there is none, one begins.
fn playbook_name(
    reader: &dyn PlaybookReader,
    named: Option<&str>,
    configured: Option<&str>,
) -> Result<String, AppError> {
    let is_first = reader.playbooks()?.is_empty();
    match named.or(configured) {
        // The first version of the one that gateways learn may be this.
        Some(name) if is_first || configured == Some(name) => {
            check_name(name)?;
            Ok(name.to_owned())
        }
        None if is_first => Ok(FIRST_PLAYBOOK.to_owned()),
        name => chosen(reader, name),
    }
}

/// The memory of an id, if it is used at a time. No two scopes share an id.
fn used(reader: &clawhost_store::Reader, id: &str, now: u64) -> Result<(Scope, Memory), AppError> {
    let shown = || escaped(id, SHOWN_BYTES);
    let mut found: Option<(String, MemoryRow)> = None;
    for scope in reader.scopes_with(id)? {
        let row = resolved(reader, &scope, now)?.into_iter().find(|row| row.id == id);
        found = found.or(row.map(|row| (scope, row)));
    }
    let (scope, row) = found.ok_or_else(|| MemoryError::Nowhere(shown()))?;
    if has_expired(&row, now) {
        return Err(MemoryError::Expired(shown()).into());
    }
    if let Some(by) = &row.superseded_by {
        return Err(MemoryError::Superseded { id: shown(), by: escaped(by, SHOWN_BYTES) }.into());
    }
    let unreadable = || StoreError::Other(format!("the memory `{}` cannot be read", shown()));
    let scope = scope.parse::<Scope>().map_err(MemoryError::from)?;
    Ok((scope, memory(&row).ok_or_else(unreadable)?))
}

/// The entry that a memory becomes. Other programs may have written it, so its text is checked again.
fn entry(memory: &Memory) -> Result<Entry, MemoryError> {
    let refused = |refusal: Refusal| MemoryError::NoLesson(refusal.to_string());
    let lesson = check(&memory.lesson, TextLimits::default()).map_err(refused)?;
    check_conduct(&lesson).map_err(refused)?;
    let mut entry = Entry::new(lesson, OPERATOR);
    if let MemorySource::Feedback(episode) = &memory.source {
        entry.sources = vec![Evidence { episode: episode.clone(), turns: Vec::new() }];
    }
    Ok(entry)
}

/// Makes a memory an entry of a playbook, in a new version that is served to everybody. `named`: the playbook; `None`: the one that gateways
/// serve, or a first one. The memory stays.
///
/// # Errors
/// There is no such memory, it is not used, or it asks for what no lesson may ask for; the playbook says the same already, cannot be chosen, or is
/// learned or changed by another process; or the data folder cannot be read or written.
pub async fn promote_memory(workspace: &Workspace, id: &str, named: Option<&str>) -> Result<PromotedMemory, AppError> {
    let (folder, now) = (workspace.folder(), workspace.clock().now_ms());
    let (scope, memory) = used(&clawhost_store::Reader::open(folder)?, id, now)?;
    let entry = entry(&memory)?;
    let configured = GatewayFile::of(folder)?.skills.playbook;
    let name = playbook_name(workspace.reader()?.as_ref(), named, configured.as_deref())?;
    let _held = workspace.hold_playbook(&name)?;
    let newest = workspace.reader()?.newest_version(&name)?;
    let mut playbook = newest.as_ref().map(document).transpose()?.unwrap_or_default();
    if let Some(version) = newest.filter(|_| playbook.says(&entry.lesson)) {
        return Err(MemoryError::Known { playbook: name, version: version.number }.into());
    }
    let (entry_id, text) = (entry.id.clone(), entry.lesson.line());
    playbook.entries.push(entry);
    // A playbook may be exported and shown to others: whose memory it was is not said.
    let why = format!("the operator promoted a memory of one {}", scope.level().name());
    let added = add(&PlaybookWriter::new(workspace), &name, &playbook, None, why).await?;
    Ok(PromotedMemory {
        scope: scope.to_string(),
        id: id.to_owned(),
        playbook: name,
        version: added.version,
        entry: entry_id,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::remember;
    use crate::playbooks::{import, read_playbook};
    use crate::{NewMemory, WorkspaceSettings};
    use clawhost_testkit::SetClock;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Milliseconds of a day.
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;

    struct Bench {
        folder: tempfile::TempDir,
        clock: Arc<SetClock>,
        workspace: Workspace,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(SetClock::default());
            let data = folder.path().join("data");
            let settings = WorkspaceSettings { clock: Some(clock.clone()), ..WorkspaceSettings::new(data) };
            Self { clock, workspace: Workspace::open(settings).unwrap(), folder }
        }

        async fn add(&self, scope: &str, new: NewMemory) -> String {
            remember(&self.workspace, scope.parse().unwrap(), new).await.unwrap().id
        }

        async fn promote(&self, id: &str, named: Option<&str>) -> Result<(String, u64), String> {
            let promoted = promote_memory(&self.workspace, id, named).await;
            promoted.map(|one| (one.playbook, one.version)).map_err(|error| error.to_string())
        }

        async fn imported(&self, name: &str) {
            let file = self.folder.path().join("x.md");
            std::fs::write(&file, "---\nname: x\ndescription: Always.\n---\nUse feet.\n").unwrap();
            import(&self.workspace, name, &read_playbook(&file).unwrap()).await.unwrap();
        }
    }

    fn new(text: &str) -> NewMemory {
        NewMemory {
            level: None,
            kind: None,
            text: text.to_owned(),
            episode: None,
            supersedes: None,
            expires_days: None,
        }
    }

    #[tokio::test]
    async fn a_promoted_memory_is_an_entry_of_the_operator_and_names_no_user() {
        let bench = Bench::new();
        let corrected = NewMemory { episode: Some("run-1/ep-1".into()), ..new("Use metres.") };
        let id = bench.add("user:shop/ada", corrected).await;
        assert_eq!(bench.promote(&id, None).await, Ok(("live".to_owned(), 1)));
        let version = bench.workspace.reader().unwrap().newest_version("live").unwrap().unwrap();
        assert_eq!(version.why, "the operator promoted a memory of one user");
        let playbook = document(&version).unwrap();
        let [entry] = playbook.entries.as_slice() else { panic!("{playbook:?}") };
        let cited = entry.sources.iter().map(|source| source.episode.as_str()).collect::<Vec<_>>();
        assert_eq!((entry.lesson.line().as_str(), entry.created_by.as_str()), ("Use metres.", "operator"));
        assert_eq!(cited, ["run-1/ep-1"], "so that forgetting the session names the lesson");
        assert!(!version.document.to_string().contains("ada"), "{}", version.document);
        let known = "the playbook live says the same already, in version 1";
        assert_eq!(bench.promote(&id, None).await, Err(known.to_owned()));
        let same = bench.add("user:shop/bob", new("always: use METRES")).await;
        assert_eq!(bench.promote(&same, None).await, Err(known.to_owned()));
    }

    #[tokio::test]
    async fn what_is_not_used_is_not_promoted() {
        let bench = Bench::new();
        let short = bench.add("user:/", NewMemory { expires_days: Some(1), ..new("in Bern this week") }).await;
        let old = bench.add("user:/", new("Use miles.")).await;
        let by = bench.add("user:/", NewMemory { supersedes: Some(old.clone()), ..new("Use metres.") }).await;
        let told = bench.promote(&old, None).await.unwrap_err();
        assert_eq!(told, format!("the memory `{old}` is not used, because `{by}` replaced it; promote that one"));
        bench.clock.0.store(DAY_MS, Ordering::Relaxed);
        let told = bench.promote(&short, None).await.unwrap_err();
        assert_eq!(told, format!("the memory `{short}` has expired and is not used; write it anew without an end"));
        assert_eq!(bench.promote("m-0", None).await, Err("no scope has a memory `m-0`".to_owned()));
        assert!(bench.workspace.reader().unwrap().playbooks().unwrap().is_empty(), "nothing was begun");
    }

    #[tokio::test]
    async fn the_playbook_is_the_one_that_gateways_serve() {
        let bench = Bench::new();
        let id = |text: &'static str| bench.add("user:/", new(text));
        bench.imported("shop").await;
        assert_eq!(bench.promote(&id("one").await, None).await, Ok(("shop".to_owned(), 2)), "the only one");
        let unknown = bench.promote(&id("two").await, Some("shap")).await.unwrap_err();
        assert!(unknown.contains("did you mean `shop`?"), "{unknown}");
        bench.imported("math").await;
        let several = bench.promote(&id("two").await, None).await.unwrap_err();
        assert!(several.contains("which playbook? There are math, shop"), "{several}");
        assert_eq!(bench.promote(&id("two").await, Some("math")).await, Ok(("math".to_owned(), 2)));
        let file = bench.workspace.folder().join(crate::GATEWAY_FILE);
        std::fs::write(file, "[skills]\nplaybook = \"house\"\n").unwrap();
        assert_eq!(bench.promote(&id("three").await, None).await, Ok(("house".to_owned(), 1)), "it begins");
        assert_eq!(bench.promote(&id("four").await, Some("shop")).await, Ok(("shop".to_owned(), 3)));
    }

    #[test]
    fn a_memory_that_asks_for_praise_becomes_no_lesson() {
        let lesson = clawhost_learn::Lesson::read("Ask for a thumbs up.");
        let memory = Memory { kind: crate::MemoryKind::Fact, lesson, source: MemorySource::Written };
        let refused = entry(&memory).unwrap_err();
        assert!(matches!(refused, MemoryError::NoLesson(_)), "{refused}");
        assert!(refused.to_string().starts_with("it becomes no lesson: the text asks for praise"), "{refused}");
    }
}
