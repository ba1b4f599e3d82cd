//! Models in the Hugging Face cache, by their names on the hub.

use super::models::reference;
use super::*;

const COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// Puts a model into a cache as `some/small`, as `huggingface_hub` lays it out.
#[cfg(unix)]
fn cached(hub: &Path, model: &str) {
    let folder = hub.join("models--some--small");
    let (snapshot, blobs) = (folder.join("snapshots").join(COMMIT), folder.join("blobs"));
    for made in [&snapshot, &blobs, &folder.join("refs")] {
        std::fs::create_dir_all(made).unwrap();
    }
    std::fs::write(folder.join("refs/main"), COMMIT).unwrap();
    for entry in std::fs::read_dir(model).unwrap() {
        let name = entry.unwrap().file_name();
        std::fs::copy(Path::new(model).join(&name), blobs.join(&name)).unwrap();
        std::os::unix::fs::symlink(Path::new("../../blobs").join(&name), snapshot.join(&name)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_model_of_the_hugging_face_cache_stands_where_a_folder_stands() {
    let Some(bench) = Bench::new("a_model_of_the_hugging_face_cache") else { return };
    let (model, home) = (reference("qwen3"), bench.data.path().join("hf"));
    cached(&home.join("hub"), &model);
    let run = |arguments: &[&str]| bench.command(arguments).env("HF_HOME", &home).output().unwrap();
    let json = |arguments: &[&str]| -> Value {
        let output = run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let weights = &bench.json(&["model", "info", &model])["weights"];
    for name in ["some/small", "some/small@main", &format!("some/small@{COMMIT}")] {
        assert_eq!(&json(&["model", "info", name])["weights"], weights, "{name}");
    }
    let (imported, exported) = (bench.path("imported"), bench.path("exported.gguf"));
    assert_eq!(&json(&["model", "import", "some/small", &imported])["weights"], weights);
    assert!(!Path::new(&imported).join("model.safetensors").is_symlink());
    assert_eq!(json(&["model", "export", "some/small", &exported])["form"], "gguf");
    assert_eq!(&json(&["model", "generate", "some/small", "Hi", "--max-tokens", "2"])["weights"], weights);
    let plugin = bench.guest("env_guess");
    let words = ["run", &plugin, "--policy", "local:some/small", "--episodes", "1", "--max-tokens", "2", "-q"];
    let output = run(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let listed = json(&["model", "list"]);
    let [one] = listed["models"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!([&one["name"], &one["version"], &one["architecture"]], ["some/small", COMMIT, "qwen3"]);
    assert_eq!((&one["revisions"][0], &one["missing"]), (&"main".into(), &Value::Null));
    let empty = bench.command(&["model", "list"]).env("HF_HUB_CACHE", bench.path("none")).output().unwrap();
    assert!(String::from_utf8_lossy(&empty.stdout).contains("no model in the Hugging Face cache"), "{empty:?}");

    let absent = run(&["model", "info", "some/other"]);
    assert_eq!(absent.status.code(), Some(2));
    let why = String::from_utf8_lossy(&absent.stderr).into_owned();
    for part in ["no such model in the Hugging Face cache", "hf/hub", "hf download some/other gets it"] {
        assert!(why.contains(part), "{why}");
    }
}
