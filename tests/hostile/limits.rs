//! Guests that exceed limits or stop: kind of failure, report, and the neighbour instance.

use super::*;
use clawhost_core::{FailureKind, code};

/// Plays a hostile environment and checks how it ends.
async fn check(host: &Host, folder: &Path, guest: &str, kind: FailureKind, code: &str, says: &str) {
    let failure = one_step(host, folder, guest, ModelGrants::default()).await.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_str()), (kind, code), "{guest}: {failure}");
    assert!(failure.message.contains(says), "{guest}: {failure}");
    assert!(failure.message.contains(&guest.replace('_', "-")), "{guest} is named: {failure}");
    assert!(failure.message.len() < 8192, "{guest}: a message for people, not {} bytes", failure.message.len());
    if matches!(kind, FailureKind::Trap | FailureKind::Limit) {
        let report = failure.report.expect("a report");
        assert!(report.to_string().starts_with("cause:"), "the report starts with the cause");
        assert_eq!(report.export, "step");
        assert!(report.budget.fuel_limit > 0);
    }
    next_episode_works(host, folder).await;
}

/// Guests and their expected failures.
const TABLE: [(&str, FailureKind, &str, &str); 16] = [
    ("hostile_loop", FailureKind::Limit, code::FUEL, "too much computing"),
    ("hostile_memory", FailureKind::Limit, code::MEMORY, "over the limit of 65536 KiB"),
    ("hostile_recursion", FailureKind::Limit, code::STACK, "recursed too deeply"),
    ("hostile_string_300", FailureKind::Limit, code::MEMORY, "over the limit of 65536 KiB"),
    ("hostile_string_40", FailureKind::Limit, code::TRANSFER, "larger than may cross"),
    ("hostile_string_1", FailureKind::Invalid, code::LENGTH, "1048577 bytes in an observation"),
    ("hostile_signals", FailureKind::Limit, code::MEMORY, "over the limit of 65536 KiB"),
    ("hostile_signals_200000", FailureKind::Limit, code::TRANSFER, "larger than may cross"),
    ("hostile_signals_300", FailureKind::Invalid, code::LENGTH, "300 signals"),
    ("hostile_nan_signal", FailureKind::Invalid, code::NOT_FINITE, "distance is NaN"),
    ("hostile_panic", FailureKind::Trap, code::UNREACHABLE, "the guest gives up"),
    ("hostile_exit", FailureKind::Trap, code::EXIT, "exit(0)"),
    ("hostile_calls", FailureKind::Limit, code::HOST_CALLS, "more than 10000 calls"),
    ("hostile_pollables", FailureKind::Limit, code::HANDLES, "too many host resources"),
    ("hostile_log_line", FailureKind::Limit, code::TRANSFER, "larger than may cross"),
    ("hostile_start", FailureKind::Plugin, code::PLUGIN_ERROR, "no such task"),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_guest_ends_with_its_failure_and_the_next_episode_works() {
    let Some(folder) = folder("each_ends_in_its_named_failure") else { return };
    let host = pooled();
    for (guest, kind, code, says) in TABLE {
        check(&host, &folder, guest, kind, code, says).await;
    }
    assert_eq!(host.guest_memory(), 0, "all guest memory was returned");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_demand_instances_end_the_same_way() {
    let Some(folder) = folder("on_demand_instances_end_the_same_way") else { return };
    let host = host(Limits::default(), Allocation::OnDemand);
    for (guest, kind, code, says) in TABLE {
        check(&host, &folder, guest, kind, code, says).await;
    }
    assert_eq!(host.guest_memory(), 0, "all guest memory was returned");
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_and_deadline_stop_what_fuel_does_not() {
    let Some(folder) = folder("what_fuel_does_not_stop") else { return };
    let with = |busy_ms, deadline_ms| {
        let step = clawhost_core::CallLimits { fuel: u64::MAX / 2, busy_ms, deadline_ms, ..Limits::default().step };
        host(Limits { step, ..Limits::default() }, Allocation::Pooled)
    };
    check(&with(100, 60_000), &folder, "hostile_loop", FailureKind::Limit, code::BUSY, "kept a processor busy").await;
    check(&with(60_000, 100), &folder, "hostile_loop", FailureKind::Limit, code::DEADLINE, "deadline").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_report_has_message_location_and_frames_escaped() {
    let Some(folder) = folder("a_panic_tells") else { return };
    let failure = one_step(&pooled(), &folder, "hostile_panic", ModelGrants::default()).await.unwrap_err();
    let report = failure.report.unwrap();
    let said = report.last_error_line.clone().unwrap();
    assert!(said.contains("hostile_panic.rs"), "the location: {said}");
    assert!(said.contains("\\u{1b}[2J"), "escapes are shown, not sent: {said}");
    assert!(!report.to_string().contains('\u{1b}'));
    assert!(report.frames.iter().any(|frame| frame.contains("step")), "{:?}", report.frames);
    assert!(report.host_calls.iter().any(|call| call.starts_with("log.write")), "{:?}", report.host_calls);
    assert!(report.plugin.contains("sha256:"), "{}", report.plugin);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_instance_is_never_entered_again() {
    let Some(folder) = folder("an_instance_that_failed") else { return };
    let host = pooled();
    for guest in ["hostile_panic", "hostile_string_40", "hostile_string_1", "hostile_nan_signal"] {
        let plugin = host.environment(guest, &guests::bytes(&folder, guest), ModelGrants::default()).await.unwrap();
        let (mut live, _) = plugin.start(params(1)).await.unwrap();
        live.step(&action("x"), &[]).await.unwrap_err();
        let again = live.step(&action("x"), &[]).await.unwrap_err();
        assert_eq!(again.kind, FailureKind::Host, "{again}");
        assert!(again.message.contains("failed before"), "{again}");
    }
}

/// The types allow an episode to start and end only once. What remains to be checked are calls after the end, after a
/// failure, and after a cancelled step.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_a_cancelled_step_is_never_entered_again() {
    let Some(folder) = folder("a_step_that_nobody_waited_for") else { return };
    let step = clawhost_core::CallLimits { fuel: u64::MAX / 2, ..Limits::default().step };
    let host = host(Limits { step, ..Limits::default() }, Allocation::Pooled);
    let bytes = guests::bytes(&folder, "hostile_loop");
    let plugin = host.environment("hostile_loop", &bytes, ModelGrants::default()).await.unwrap();
    let (mut live, _) = plugin.start(params(1)).await.unwrap();
    let words = action("x");
    tokio::select! {
        biased;
        ended = live.step(&words, &[]) => panic!("{ended:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(live.last_fuel(), None, "unknown after cancellation");
    let again = live.step(&action("x"), &[]).await.unwrap_err();
    assert!(again.message.contains("`step` of an instance that has failed before"), "{again}");
    drop(live);
    assert_eq!(host.guest_memory(), 0);
    next_episode_works(&host, &folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_log_lines_do_not_fail_the_episode() {
    let Some(folder) = folder("a_flood_of_lines") else { return };
    let host = pooled();
    for (guest, lines, answer) in [
        ("hostile_log", 1_000_000, "logged"),
        ("hostile_log_errors", 20_000, "logged"),
        ("hostile_stdout", 100_000, "printed"),
    ] {
        let (result, log) = one_step_logged(&host, &folder, guest, ModelGrants::default()).await;
        assert_eq!(text(&result.unwrap()), answer);
        let kept = log.len() - 1;
        assert!(kept <= 256, "{kept} lines kept");
        assert_eq!(log[kept], format!("host: suppressed {} lines over the quota of the episode", lines - kept));
        assert!(log.iter().map(String::len).sum::<usize>() <= 70_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fuel_is_deterministic_over_instances() {
    let Some(folder) = folder("fuel_is_exact") else { return };
    let mut seen = Vec::new();
    for host in [pooled(), host(Limits::default(), Allocation::OnDemand)] {
        let bytes = guests::bytes(&folder, "odd_thinking");
        let plugin = host.environment("odd_thinking", &bytes, ModelGrants::default()).await.unwrap();
        for _ in 0..2 {
            let (mut live, _) = plugin.start(params(1)).await.unwrap();
            live.step(&action("x"), &[]).await.unwrap();
            seen.push(live.last_fuel().unwrap());
        }
    }
    assert!(seen[0] > 20_000_000, "{seen:?}");
    assert!(seen.iter().all(|fuel| *fuel == seen[0]), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_memory_is_bounded_over_all_instances() {
    let Some(folder) = folder("hosts_memory_is_bounded") else { return };
    // Memory for two small guests (17 pages each), not for three.
    let host = host(Limits { host_memory_bytes: 45 * 65536, ..Limits::default() }, Allocation::Pooled);
    let bytes = guests::bytes(&folder, "hello_guess");
    let plugin = host.environment("hello_guess", &bytes, ModelGrants::default()).await.unwrap();
    let first = plugin.start(params(1)).await.unwrap();
    let second = plugin.start(params(2)).await.unwrap();
    let third = plugin.start(params(3)).await.map(|_| ()).unwrap_err();
    assert_eq!((third.kind, third.code.as_str()), (FailureKind::Host, code::HOST_MEMORY), "{third}");
    drop((first, second));
    plugin.start(params(3)).await.map(|_| ()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_guest_does_not_hold_up_its_neighbours() {
    let Some(folder) = folder("a_busy_guest") else { return };
    let host = pooled();
    // More loops than threads: without yielding, no other task would run before they end.
    let loops: Vec<_> = (0..4)
        .map(|_| {
            let (host, folder) = (host.clone(), folder.clone());
            tokio::spawn(async move { one_step(&host, &folder, "hostile_loop", ModelGrants::default()).await })
        })
        .collect();
    next_episode_works(&host, &folder).await;
    for one in loops {
        assert_eq!(one.await.unwrap().unwrap_err().code, code::FUEL);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_other_guests_does_not_count_towards_the_deadline() {
    let Some(folder) = folder("who_waits_for_others") else { return };
    // Each needs a tenth of a second of computing, together many seconds; the deadline is one second.
    let step = clawhost_core::CallLimits { deadline_ms: 1000, ..Limits::default().step };
    let host = host(Limits { step, live_instances: 128, ..Limits::default() }, Allocation::Pooled);
    let bytes = guests::bytes(&folder, "hostile_loop");
    let plugin = Arc::new(host.environment("hostile_loop", &bytes, ModelGrants::default()).await.unwrap());
    let loops: Vec<_> = (0..100)
        .map(|seed| {
            let plugin = plugin.clone();
            tokio::spawn(async move {
                let (mut live, _) = plugin.start(params(seed)).await.unwrap();
                live.step(&action("on"), &[]).await
            })
        })
        .collect();
    for one in loops {
        assert_eq!(one.await.unwrap().unwrap_err().code, code::FUEL, "it ends by its own fuel limit");
    }
}
