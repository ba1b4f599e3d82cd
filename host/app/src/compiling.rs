//! Reports compilation while plugins are loaded. It takes seconds to minutes, once per machine and version.

use crate::events::{Event, EventSink};
use clawhost_engine::{Compiling, Host};
use std::time::Duration;
use tokio::sync::watch;

/// Time after which a long compilation is reported again. Components of compiled languages take less.
const PATIENCE: Duration = Duration::from_secs(3);

/// Awaits the loading of a component, and reports if the component is compiled.
pub(crate) async fn announced<T>(host: &Host, events: &dyn EventSink, loading: impl Future<Output = T>) -> T {
    reported(host.compiling(), events, loading).await
}

/// As [`announced`], with the host's current compilation as an argument.
async fn reported<T>(
    mut compiling: watch::Receiver<Option<Compiling>>,
    events: &dyn EventSink,
    loading: impl Future<Output = T>,
) -> T {
    tokio::pin!(loading);
    let mut at_work: Option<Compiling> = None;
    let mut is_slow = false;
    loop {
        tokio::select! {
            biased;
            changed = compiling.changed() => {
                // The host is gone: there are no more reports.
                let now = if changed.is_ok() { compiling.borrow_and_update().clone() } else { None };
                if at_work.is_some() {
                    events.event(Event::Compiled);
                }
                (at_work, is_slow) = (now, false);
                report(events, at_work.as_ref(), is_slow);
                if changed.is_err() {
                    return loading.await;
                }
            }
            loaded = &mut loading => {
                if at_work.is_some() {
                    events.event(Event::Compiled);
                }
                return loaded;
            }
            () = tokio::time::sleep(PATIENCE), if at_work.is_some() && !is_slow => {
                is_slow = true;
                report(events, at_work.as_ref(), is_slow);
            }
        }
    }
}

fn report(events: &dyn EventSink, compiling: Option<&Compiling>, is_slow: bool) {
    if let Some(Compiling { name, bytes }) = compiling {
        events.event(Event::Compiling { plugin: name.clone(), bytes: *bytes as u64, is_slow });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::sync::oneshot;

    /// Checks the reports for a component that is compiled, loaded from the cache, or compiled slowly. The test clock
    /// advances when all tasks wait.
    async fn check(steps: &[&str], expect: &[&str]) {
        let sender = watch::Sender::new(None);
        let so_far = Mutex::new(Vec::new());
        let sink = |event: Event| {
            let words = match event {
                Event::Compiling { plugin, bytes, is_slow } => format!("{plugin} {bytes} {is_slow}"),
                Event::Compiled => "compiled".to_owned(),
                other => panic!("{other:?}"),
            };
            so_far.lock().unwrap().push(words);
        };
        let (done, loaded) = oneshot::channel::<u8>();
        let receiver = sender.subscribe();
        let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
        let host = tokio::spawn(async move {
            for step in steps {
                match step.as_str() {
                    "begin" => drop(sender.send(Some(Compiling { name: "env.wasm".into(), bytes: 7 }))),
                    "end" => drop(sender.send(None)),
                    _ => tokio::time::sleep(4 * PATIENCE).await,
                }
                tokio::task::yield_now().await;
            }
            done.send(3).unwrap();
        });
        assert_eq!(reported(receiver, &sink, loaded).await, Ok(3));
        host.await.unwrap();
        assert_eq!(*so_far.lock().unwrap(), expect);
    }

    #[tokio::test(start_paused = true)]
    async fn only_compilations_are_reported_and_long_ones_twice() {
        check(&[], &[]).await;
        check(&["long"], &[]).await;
        check(&["begin", "end"], &["env.wasm 7 false", "compiled"]).await;
        check(&["begin"], &["env.wasm 7 false", "compiled"]).await;
        check(&["begin", "long", "end"], &["env.wasm 7 false", "env.wasm 7 true", "compiled"]).await;
    }
}
