//! Playbooks that were not learned here: written by hand, imported, shown, compared, rolled back and exported.

use super::*;

/// A bench with a folder for files. Nothing is played, so no plugins are needed.
fn bench() -> Bench {
    Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() }
}

impl Bench {
    /// A file for the program, with its absolute path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.data.path().join("files").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn skill(name: &str, description: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n")
}

/// A document with a section, and one lesson per condition.
fn document(conditions: &[&str]) -> String {
    let lesson = |when: &&str| serde_json::json!({ "lesson": { "skill": { "when": when, "do": "wait" } } });
    let entries: Vec<Value> = conditions.iter().map(lesson).collect();
    let sections = serde_json::json!({ "house": "Be kind.\nBe brief." });
    let whole =
        serde_json::json!({ "format": "clawhost-playbook", "version": 1, "sections": sections, "entries": entries });
    whole.to_string()
}

#[test]
fn handwritten_skills_are_imported_unchanged_and_one_is_a_playbook() {
    let bench = bench();
    let silver = bench.file("skills/silver/SKILL.md", &skill("silver", "When tier is silver.", "call refund {}"));
    bench.file("skills/kind/SKILL.md", &skill("kind", "always.", "be kind"));
    let folder = bench.data.path().join("files/skills").display().to_string();
    let told = bench.out(&["playbook", "import", "hand", &folder]);
    assert!(told.starts_with("hand, version 1 is served from now on: 2 entries\n"), "{told}");
    let shown = bench.out(&["playbook", "show", "--version", "1"]);
    assert_eq!(shown, "- always: be kind\n- when tier is silver: call refund {}\n");
    let told = bench.out(&["playbook", "import", "one", &silver]);
    assert!(told.starts_with("one, version 1 is served from now on: 1 entry\n"), "{told}");
    assert!(bench.out(&["playbook", "show", "one"]).contains("when tier is silver: call refund {}"));
    let loose = bench.file("loose.md", "no head");
    bench.refused(&["playbook", "import", "one", &loose], &["loose.md: ", "line 1: a skill begins"]);
}

#[test]
fn an_imported_playbook_is_shown_as_served() {
    let bench = bench();
    let long = format!("case is {}", "long ".repeat(60));
    let file = bench.file("p.json", &document(&["tier is gold", long.trim()]));
    let told = bench.out(&["playbook", "import", "p", &file]);
    assert!(told.starts_with("p, version 1 is served from now on: 2 entries, 1 section\n"), "{told}");
    let shown = bench.out(&["playbook", "show"]);
    assert!(
        shown.starts_with("p, version 1: imported, 2 entries, 1 section\n\n[house]\nBe kind.\nBe brief.\n\n"),
        "{shown}"
    );
    assert!(shown.contains(&format!("when {}: wait", long.trim())), "output to a pipe is not truncated: {shown}");
    assert!(shown.contains("deployed") && !shown.contains("queued") && shown.contains("times    how often"), "{shown}");
    let rows = bench.json(&["playbook", "show"])["entries"].clone();
    assert_eq!((&rows[0]["status"], &rows[0]["created_by"]), (&"deployed".into(), &"import".into()), "{rows}");
    assert_eq!((&rows[0]["lift"], &rows[0]["interval"]), (&Value::Null, &Value::Null), "{rows}");
}

#[test]
fn all_playbooks_are_listed_with_their_details() {
    let bench = bench();
    assert_eq!(bench.json(&["playbook", "list"]), Value::Array(Vec::new()));
    assert!(bench.out(&["playbook", "list"]).contains("none yet: learn one"));
    let file = bench.file("p.json", &document(&["a is b"]));
    bench.out(&["playbook", "import", "second", &file]);
    bench.out(&["playbook", "import", "first", &file]);
    let list = bench.json(&["playbook", "list"]);
    let told: Vec<(&str, u64, u64, u64, &Value)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let number = |key: &str| one[key].as_u64().unwrap();
            (one["name"].as_str().unwrap(), number("version"), number("entries"), number("sections"), &one["learned"])
        })
        .collect();
    assert_eq!(told, [("first", 1, 1, 1, &Value::Null), ("second", 1, 1, 1, &Value::Null)]);
    let text = bench.out(&["playbook", "list"]);
    let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells[..5], ["first", "1", "1", "-", "-"], "it was not learned here: {text}");
    bench.refused(&["playbook", "show"], &["which playbook? There are first, second"]);
    bench.refused(&["playbook", "diff"], &["which playbook?"]);
}

#[test]
fn equal_content_makes_no_new_version() {
    let bench = bench();
    let (one, two) = (bench.file("1.json", &document(&["a is b"])), bench.file("2.json", &document(&["a is c"])));
    let versions = || bench.json(&["playbook", "log"]).as_array().unwrap().len();
    bench.out(&["playbook", "import", "p", &one]);
    let told = bench.out(&["playbook", "import", "p", &one]);
    assert_eq!((told.as_str(), versions()), ("p: version 1 is served already: 1 entry, 1 section\n", 1));
    bench.out(&["playbook", "import", "p", &two]);
    let told = bench.json(&["playbook", "rollback", "p", "--to", "2"]);
    assert_eq!((&told["version"], &told["added"], versions()), (&2.into(), &false.into(), 2));
    assert_eq!(bench.out(&["playbook", "rollback", "p"]), "p: version 3 has the content of version 1\n");
    let told = bench.out(&["playbook", "rollback", "p", "--to", "1"]);
    assert_eq!(told, "p: version 3 is served already, with the content of version 1\n");
    assert!(bench.out(&["playbook", "log"]).starts_with("p\n version"), "{}", bench.out(&["playbook", "log"]));
}

#[test]
fn versions_are_compared_also_with_the_empty_playbook() {
    let bench = bench();
    bench.out(&["playbook", "import", "p", &bench.file("1.json", &document(&["a is b"]))]);
    bench.out(&["playbook", "import", "p", &bench.file("2.json", &document(&["a is b", "a is c"]))]);
    let check = |arguments: &[&str], between: (u64, u64), differences: usize| {
        let told = bench.json(&[&["playbook", "diff"], arguments].concat());
        assert_eq!((&told["from"], &told["to"]), (&between.0.into(), &between.1.into()), "{told}");
        assert_eq!(told["differences"].as_array().unwrap().len(), differences, "{told}");
    };
    check(&[], (1, 2), 1);
    check(&["p"], (1, 2), 1);
    check(&["p", "0"], (0, 2), 3);
    check(&["p", "0", "1"], (0, 1), 2);
    check(&["0", "1"], (0, 1), 2);
    check(&["p", "1", "0"], (1, 0), 2);
    check(&["p", "2", "2"], (2, 2), 0);
    bench.refused(&["playbook", "diff", "p", "0", "3"], &["playbook p has no version 3; it has 2, 1"]);
}

#[test]
fn a_playbook_is_exported_as_json_or_skills_without_other_files() {
    let bench = bench();
    bench.out(&["playbook", "import", "p", &bench.file("1.json", &document(&["a is b"]))]);
    let at = |name: &str| bench.data.path().join("files").join(name).display().to_string();
    for (path, says) in
        [("-", "standard output"), ("p.yaml", "not written in this format"), ("SKILL.md", "a file ending in .json")]
    {
        let path = if path == "-" { path.to_owned() } else { at(path) };
        bench.refused(&["playbook", "export", "p", &path], &[says, "or a folder"]);
        assert!(!Path::new(&path).exists(), "{path}");
    }
    let told = bench.out(&["playbook", "export", "p", &at("back.json")]);
    assert!(told.starts_with("p, version 1: 1 entry, 1 section in "), "{told}");
    bench.out(&["playbook", "export", "p", &at("skills.d/")]);
    for path in [at("back.json"), at("skills.d")] {
        let told = bench.out(&["playbook", "import", "p", &path]);
        assert!(told.contains("version 1 is served already"), "it comes back equal: {told}");
    }
}
