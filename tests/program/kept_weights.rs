//! Formats of weights: in memory, and in GGUF files.

use super::models::{bench, reference};
use super::*;

#[test]
fn weights_are_kept_as_they_are_stored_or_as_asked_for_and_the_digest_tells() {
    let bench = bench();
    let model = reference("qwen3");
    let info = |more: &[&str]| bench.json(&[&["model", "info", &model], more].concat());
    let (stored, plain, rounded) = (info(&[]), info(&["--dtype", "f32"]), info(&["--dtype", "int8"]));
    assert_eq!([&stored["dtype"], &plain["dtype"], &rounded["dtype"]], ["bf16", "f32", "int8"]);
    let bytes = |told: &Value| told["memory_bytes"].as_u64().unwrap();
    assert!(bytes(&rounded) < bytes(&stored) && bytes(&stored) < bytes(&plain));
    assert_eq!(stored["weights"], plain["weights"], "the numbers are the same");
    assert_ne!(rounded["weights"], plain["weights"]);

    let answer = |more: &[&str]| {
        let words = ["model", "generate", &model, "Hello", "--max-tokens", "8", "--temperature", "0"];
        bench.json(&[&words[..], more].concat())
    };
    assert_eq!(answer(&[])["samples"], answer(&["--dtype", "f32"])["samples"], "bits of the same numbers");
    let rounded = answer(&["--dtype", "int8"]);
    assert_eq!(rounded["samples"][0]["tokens"].as_array().unwrap().len(), 8);
    assert_eq!(rounded, answer(&["--dtype", "int8"]));
    bench.refused(&["model", "info", &model, "--dtype", "int4"], &["int4"]);
}

#[test]
fn a_gguf_file_stands_where_a_folder_stands() {
    let bench = bench();
    let model = reference("gguf/qwen3-q8_0.gguf");
    let told = bench.json(&["model", "info", &model]);
    assert_eq!(
        (&told["dtype"], &told["architecture"], &told["chat_template"]),
        (&"int8".into(), &"qwen3".into(), &true.into())
    );
    let answer = bench.json(&["model", "generate", &model, "Hello", "--max-tokens", "4"]);
    assert_eq!(answer["weights"], told["weights"]);
    let folder = bench.path("exported");
    bench.out(&["model", "export", &model, &folder, "--dtype", "f32"]);
    let plain = bench.json(&["model", "info", &model, "--dtype", "f32"]);
    assert_eq!(bench.json(&["model", "info", &folder])["weights"], plain["weights"]);
    let other = bench.path("other.gguf");
    std::fs::write(&other, "no model").unwrap();
    bench.refused(
        &["model", "generate", &other, "Hello"],
        &["other.gguf", "no GGUF file that is read here", "is the download complete?"],
    );
    let empty = bench.path("empty");
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(Path::new(&empty).join("pytorch_model.bin"), "").unwrap();
    bench.refused(
        &["model", "generate", &empty, "Hello"],
        &["PyTorch's own format (pytorch_model.bin)", "save_pretrained"],
    );
}

#[test]
fn a_model_is_exported_as_a_gguf_file_whole_or_its_adapter_alone() {
    let bench = bench();
    let (model, whole) = (reference("llama"), bench.path("whole.gguf"));
    let said = bench.json(&["model", "export", &model, &whole, "--dtype", "bf16"]);
    assert_eq!((&said["form"], &said["adapter"]), (&"gguf".into(), &false.into()));
    let read = bench.json(&["model", "info", &whole]);
    assert_eq!([&read["dtype"], &read["architecture"]], ["bf16", "llama"]);
    assert_eq!(read["chat_template"], true);
    let qwen = reference("qwen3");
    let adapter = bench.json(&["model", "export", &qwen, &bench.path("a.gguf"), "--adapter", &reference("adapter")]);
    assert_eq!((&adapter["form"], &adapter["adapter"]), (&"gguf-adapter".into(), &true.into()));
    bench.refused(&["model", "info", &bench.path("a.gguf")], &["it holds an adapter without its model"]);
    let merged = bench.path("merged.gguf");
    let merge = ["model", "export", &qwen, &merged, "--adapter", &reference("adapter"), "--merge", "--dtype", "q8_0"];
    assert_eq!(bench.json(&merge)["form"], "gguf");
    assert_eq!(bench.json(&["model", "info", &merged])["dtype"], "int8");
    bench.refused(&["model", "export", &qwen, &whole], &["exists already; name a new file"]);
    bench.refused(
        &["model", "export", &qwen, &bench.path("q8"), "--dtype", "q8_0"],
        &["name a target that ends in .gguf"],
    );
}
