//! A model whose weights are at a Tinker service: it is served, learns from its sessions there, and answers with what it learned.

use super::*;
use crate::live_weights::{listed, next, session, sessions};
use crate::serving::Served;
use clawhost_model::TinyModel;
use clawhost_testkit::{TINKER_BASE, TinkerStub};

#[test]
fn a_model_at_a_service_learns_from_its_own_sessions_and_goes_on_after_a_restart() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    let small = TinyModel { width: 16, layers: 1, heads: 2, seed: 5, ..TinyModel::default() }.make().unwrap();
    let folder = bench.data.path().join("texts");
    small.write(&folder).unwrap();
    std::fs::remove_file(folder.join("model.safetensors")).unwrap();
    let stub = TinkerStub::start(small, None);
    let text = "[gateway]\nmode = \"rl\"\n[weights]\nmodel = \"m\"\nfrom = [\"all\"]\nbatch = 4\ndeadline_seconds = 5\nadapter_rank = 2\nrate = 0.01\n";
    let configure =
        |more: &str| std::fs::write(bench.data.path().join("gateway.toml"), format!("{text}{more}")).unwrap();
    configure("");
    let upstream = format!("m=tinker:{TINKER_BASE}={}@{}", folder.display(), stub.address());
    let served = Served::start(&bench, &[&upstream]);
    let first = listed(&served);
    sessions(&served, "one", &[]);
    let second = next(&bench, &served, &first);
    assert_eq!(session(&served, "two-x", "up", &[]), second);
    sessions(&served, "two", &[]);
    let third = next(&bench, &served, &second);
    let output = served.terminate();
    assert!(!stderr(&output).contains("do not learn"), "{}", stderr(&output));
    let version = |number: u64| {
        let file = bench.data.path().join(format!("live-weights/m/versions/{number}/tinker/tinker.json"));
        serde_json::from_slice::<Value>(&std::fs::read(file).unwrap()).unwrap()
    };
    let loaded = version(1)["state"].as_str().unwrap().to_owned();
    let load = stub.requests().into_iter().find(|request| request.path == "load_weights").unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&load.body).unwrap()["path"],
        loaded,
        "the second step goes on from the first"
    );

    let served = Served::start(&bench, &[&upstream]);
    assert_eq!(listed(&served), third);
    bench.out(&["model", "rollback", "m", "--to", "1"]);
    assert_eq!(next(&bench, &served, &third), second);
    served.terminate();

    for (more, part) in [
        ("adapters = \"user\"\n", "weights.adapters: a Tinker service trains one adapter"),
        ("teacher = \"openai:m@http://127.0.0.1:9/v1\"\n", "weights.teacher: with a Tinker service the model itself"),
    ] {
        configure(more);
        bench.refused(&["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream], &[part]);
    }
    std::fs::write(bench.data.path().join("gateway.toml"), text.replace("adapter_rank = 2", "adapter_rank = 0"))
        .unwrap();
    bench.refused(
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream],
        &["weights.adapter_rank: must be more than 0"],
    );
}
