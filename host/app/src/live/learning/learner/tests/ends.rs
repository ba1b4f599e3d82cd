//! When reflectors see a session that has ended.

use super::*;

#[tokio::test]
async fn a_session_that_ended_by_idle_time_is_reflected_on_after_its_late_verdicts() {
    let mut bench = Bench::new("").await;
    bench.learn().await;
    let session = bench.session("ada", None).await;
    // Its last answer was half an hour ago when its end is seen for the first time.
    bench.pass_time(30 * 60 * 1000);
    bench.learn().await;
    bench.correct(session.id, "Use metres.").await;
    bench.pass_time(SETTLE_MS - 1);
    bench.learn().await;
    assert_eq!(bench.reflector.calls.load(Ordering::Relaxed), 0, "more feedback may come");
    bench.pass_time(1);
    bench.learn().await;
    assert_eq!((bench.reflector.calls.load(Ordering::Relaxed), bench.trials().candidates().len()), (1, 1));
}

#[tokio::test]
async fn feedback_that_was_given_before_the_end_of_its_session_is_reflected_on() {
    let mut bench = Bench::new("").await;
    bench.learn().await;
    bench.open = true;
    let session = bench.session("ada", None).await;
    let record = Feedback::correction("Use metres.").unwrap().record();
    let (run, episode, at) = (RunId(RUN.into()), EpisodeId(format!("ep-{}", session.id)), bench.clock.now_ms());
    let waiting = WaitingFeedback { number: 0, run, episode, record, at, key: None };
    bench.workspace.store().keep_feedback(waiting).await.unwrap();
    bench.settle().await;
    bench
        .end(session.id, LiveSession { user: Some("ada".into()), ..LiveSession::new("s-0", "a", "m") }, None, at)
        .await;
    bench.settle().await;
    assert_eq!((bench.reflector.calls.load(Ordering::Relaxed), bench.trials().candidates().len()), (1, 1));
}

#[tokio::test]
async fn a_session_is_reflected_on_when_its_expected_verdicts_are_there_or_late() {
    for is_late in [false, true] {
        let mut bench = Bench::new("").await;
        bench.learn().await;
        bench.expects = vec![ExpectedVerdict { source: RewardSource::Judge, until: bench.clock.now_ms() + 600_000 }];
        let session = bench.session("ada", None).await;
        bench.correct(session.id, "Use metres.").await;
        bench.settle().await;
        bench.settle().await;
        assert_eq!(bench.reflector.calls.load(Ordering::Relaxed), 0, "a judge is expected");
        if is_late {
            bench.pass_time(600_000);
        } else {
            let about = RewardRecord { source: RewardSource::Judge, reward: identity("judge"), ..thumb() };
            bench.judge(session.id, about).await;
        }
        bench.learn().await;
        assert_eq!(bench.reflector.calls.load(Ordering::Relaxed), 1, "{is_late}");
    }
}
