//! The SDK of Tinker against the stub that tests of our client use.

use super::{bench, installed, python};
use clawhost_model::TinyModel;
use clawhost_testkit::{TINKER_BASE, TinkerStub};
use std::process::Stdio;

#[test]
fn the_sdk_of_tinker_trains_and_samples_with_the_stub_of_our_own_tests() {
    let Some(folder) = installed("the_sdk_of_tinker", "sdks", "tinker") else { return };
    let stub = TinkerStub::start(TinyModel::default().make().unwrap(), Some("tml-test-key-of-the-suite"));
    let mut client = python(&folder, "tinker_client.py");
    client.args([&stub.address(), TINKER_BASE]);
    // It must not look for other credentials, or report anything elsewhere.
    client.env_remove("TINKER_API_KEY").env_remove("TINKER_BASE_URL");
    let output = client.stdin(Stdio::null()).output().unwrap();
    let said = bench::stdout(&output) + &bench::stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 18, "{said}");
}
