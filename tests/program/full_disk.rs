//! A gateway whose disk is full: a file system in memory that it has for itself.

use super::*;
use crate::client::{Answer, chat, send, user};
use crate::serving::Served;

/// Bytes of the file system, and of a file that is removed later.
const DISK: &str = "4m";
const FILLER: &str = "1500000";
/// More requests of 100 KB than it has room for.
const REQUESTS: usize = 30;

fn ask(address: &str, text: String) -> Answer {
    send(address, "/v1/chat/completions", &[], chat(&[user(&text)]).to_string().as_bytes()).answer()
}

/// Text that cannot be compressed much, another one for each number.
fn noise(number: u64) -> String {
    let mut state = number + 1;
    let mut text = format!("{number}: ");
    while text.len() < 100_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:08x}", state >> 32));
    }
    text
}

#[test]
fn a_full_disk_is_told_and_counted_and_recording_goes_on_when_there_is_room() {
    let bench = Bench { guests: PathBuf::new(), data: tempfile::tempdir().unwrap() };
    // A file system of its own needs a namespace, which not every machine allows.
    let allowed = Command::new("unshare").args(["-rm", "true"]).output().is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("skipped a_full_disk: `unshare -rm` is not allowed here");
        return;
    }
    let stub = stub::Stub::start(|_, request| stub::says(request, "ok", &[]));
    let script = format!(
        "mount -t tmpfs -o size={DISK} tmpfs \"$0\" && head -c {FILLER} /dev/zero >\"$0/filler\" && exec \"$@\""
    );
    let model = format!("m=openai:stub@{}", stub.base_url());
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).arg(bench.data.path()).arg(env!("CARGO_BIN_EXE_clawhost"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--upstream", &model]);
    command.env("CLAWHOST_HOME", bench.data.path()).stdin(Stdio::null());
    let served = Served::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    // Its folder is seen through its process.
    let disk = PathBuf::from(format!("/proc/{}/root{}", served.id(), bench.data.path().display()));

    let mut missed = 0;
    for number in 0..REQUESTS {
        let answer = ask(&served.address, noise(number as u64));
        assert_eq!(answer.status, 200, "agents are served on: {answer:?}");
        missed += usize::from(answer.header("x-clawhost-record").starts_with("missed: "));
    }
    assert!((1..REQUESTS).contains(&missed), "{missed} of {REQUESTS} were missed");
    std::fs::remove_file(disk.join("filler")).unwrap();
    let last = ask(&served.address, "there is room".to_owned());
    assert_eq!((last.status, last.header("x-clawhost-record")), (200, ""));

    let recorded = REQUESTS + 1 - missed;
    let ended = served.terminate();
    let counts = format!("recorded {recorded} exchanges, missed {missed}");
    assert!(stderr(&ended).contains(&counts), "{counts}: {}", stderr(&ended));
    assert!(stderr(&ended).contains("No space left on device"), "{}", stderr(&ended));
}
