//! The guidance of a session. It is chosen once and stays: another one would lose the endpoint's cache of the conversation, and the model
//! would see other advice in the middle of its work. It is chosen anew where that costs nothing: when the client has rewritten the
//! history, or after the cache has ended.

use crate::guiding::{Draws, GuidanceChoice, Guide, Guiding};
use clawhost_capture::{Exchange, Guided};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// The choice for a session.
#[derive(Debug, Clone)]
struct Pin {
    /// With its text. `None`: the session has none.
    guided: Option<Guided>,
    /// Whether a record of the session has the text.
    is_recorded: bool,
    /// Unix time in milliseconds of the last request that got it.
    used_ms: u64,
}

/// The guidance of a session. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guides {
    pin: Arc<Mutex<Option<Pin>>>,
    /// Held while guidance is chosen, so that requests at the same time get the same.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// That of the session from which this one came, if it was not chosen yet.
    from: Option<Arc<Self>>,
}

/// The turn to choose guidance. Others wait for its end.
pub(super) type GuidesTurn = OwnedMutexGuard<()>;

/// A request of a session.
pub(crate) struct GuidedRequest<'a> {
    pub(crate) guiding: Guiding<'a>,
    /// Whether it is the first of its session.
    pub(crate) is_first: bool,
    /// Whether the client has rewritten the history.
    pub(crate) is_rewritten: bool,
}

impl Guides {
    fn lock(&self) -> MutexGuard<'_, Option<Pin>> {
        self.pin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a session that comes from this one. Its record needs the text again.
    pub(crate) fn inherited(&self) -> Self {
        let pin = self.for_another();
        let from = pin.is_none().then(|| Arc::new(self.clone()));
        Self { pin: Arc::new(Mutex::new(pin)), from, ..Self::default() }
    }

    /// What a session gets that comes from this one.
    fn for_another(&self) -> Option<Pin> {
        self.lock().clone().map(|pin| Pin { is_recorded: false, ..pin })
    }

    /// The turn to choose, if nobody has it.
    pub(super) fn turn(&self) -> Option<GuidesTurn> {
        self.asking.clone().try_lock_owned().ok()
    }

    /// That which records of a session have.
    pub(crate) fn recorded(exchanges: &[Exchange]) -> Self {
        let used_ms = exchanges.last().map_or(0, |last| last.at);
        let last = exchanges.iter().filter_map(|exchange| exchange.guided.as_ref()).rfind(|one| one.text.is_some());
        let pin = Pin { guided: last.cloned(), is_recorded: true, used_ms };
        Self { pin: Arc::new(Mutex::new(Some(pin))), ..Self::default() }
    }

    /// What a request gets. It has its text, and so has the record unless an earlier one has it. Draws are those that were made just now.
    /// `turn`: the turn of this session, if the request has it.
    pub(crate) async fn of(
        &self,
        guide: &dyn Guide,
        asked: &GuidedRequest<'_>,
        turn: Option<GuidesTurn>,
    ) -> GuidanceChoice {
        let _turn = match turn {
            Some(turn) => turn,
            None => self.asking.clone().lock_owned().await,
        };
        let now = asked.guiding.at_ms;
        let mut known = self.lock().clone();
        if let (None, Some(from)) = (&known, &self.from) {
            let _chosen = from.asking.lock().await;
            known = from.for_another();
        }
        let stays = |pin: &Pin| !asked.is_rewritten && now.saturating_sub(pin.used_ms) < guide.cache_ms();
        let began = known.as_ref().filter(|pin| !stays(pin)).and_then(|pin| pin.guided.clone());
        let draws = match (&known, asked.guiding.draws) {
            (None, draws) => draws,
            (Some(_), _) => Draws::Kept {
                entries: began.as_ref().map_or(&[], |guided| guided.drawn.as_slice()),
                version: began.as_ref().and_then(|guided| guided.by.as_ref()).map(|by| by.version),
            },
        };
        let guiding = Guiding { draws, ..asked.guiding };
        let mut drawn = None;
        let mut choose = async || {
            let guidance = guide.guide(&guiding).await;
            drawn = guidance.drawn;
            guidance.guided
        };
        let pin = match known {
            Some(pin) if stays(&pin) => Pin { used_ms: now, ..pin },
            // It began without guidance.
            None if !asked.is_first && !asked.is_rewritten => Pin { guided: None, is_recorded: true, used_ms: now },
            Some(former) => {
                let guided = choose().await;
                let digest = |guided: &Option<Guided>| guided.as_ref().map(|guided| guided.digest);
                let is_same = digest(&guided) == digest(&former.guided);
                Pin { is_recorded: former.is_recorded && is_same, guided, used_ms: now }
            }
            None => Pin { guided: choose().await, is_recorded: false, used_ms: now },
        };
        let guided = pin.guided.clone();
        *self.lock() = Some(pin);
        GuidanceChoice { guided, drawn }
    }

    /// As a record has it.
    pub(crate) fn for_record(&self, guided: Guided) -> Guided {
        let is_recorded = self.lock().as_ref().is_some_and(|pin| {
            pin.is_recorded && pin.guided.as_ref().is_some_and(|known| known.digest == guided.digest)
        });
        if is_recorded { guided.without_text() } else { guided }
    }

    /// A record has the text.
    pub(crate) fn keep(&self, recorded: &Guided) {
        if let Some(pin) = self.lock().as_mut()
            && recorded.text.is_some()
            && pin.guided.as_ref().is_some_and(|known| known.digest == recorded.digest)
        {
            pin.is_recorded = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use clawhost_core::{Drawn, LiveSession, ModelRequest, SessionDraw};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Chooses another text each time.
    #[derive(Default)]
    struct Counting(AtomicU64);

    #[async_trait]
    impl Guide for Counting {
        fn is_on(&self) -> bool {
            true
        }

        async fn guide(&self, guiding: &Guiding<'_>) -> GuidanceChoice {
            let text = self.0.fetch_add(1, Ordering::Relaxed).to_string();
            let draw = |entry: &str| Drawn { entry: entry.to_owned(), shown: true, propensity: Some(0.5) };
            let (entries, drawn) = match guiding.draws {
                Draws::New => (vec![draw(&text)], Some(SessionDraw { playbook: "p".into(), document: text.clone() })),
                Draws::Kept { entries, .. } => (entries.to_vec(), None),
            };
            let guided = Guided::new(None, vec![text.clone()], text).with_drawn(entries);
            GuidanceChoice { guided: Some(guided), drawn }
        }

        fn cache_ms(&self) -> u64 {
            100
        }
    }

    async fn of(
        guides: &Guides,
        guide: &Counting,
        (at_ms, is_first, is_rewritten): (u64, bool, bool),
    ) -> GuidanceChoice {
        let (request, session) = (ModelRequest::default(), LiveSession::new("s", "a", "m"));
        let draws = if is_first { Draws::New } else { Draws::Kept { entries: &[], version: None } };
        let episode = "run/episode";
        let guiding = Guiding { request: &request, session: &session, owner: "", team: None, episode, draws, at_ms };
        guides.of(guide, &GuidedRequest { guiding, is_first, is_rewritten }, None).await
    }

    async fn text(guides: &Guides, guide: &Counting, asked: (u64, bool, bool)) -> String {
        let guidance = of(guides, guide, asked).await;
        guidance.guided.and_then(|guided| guided.text).unwrap_or_default()
    }

    #[tokio::test]
    async fn draws_are_given_once_and_to_no_branch() {
        let (guides, guide) = (Guides::default(), Counting::default());
        assert!(of(&guides, &guide, (0, true, false)).await.drawn.is_some());
        assert_eq!(of(&guides, &guide, (1, false, false)).await.drawn, None);
        assert_eq!(of(&guides.inherited(), &guide, (2, true, false)).await.drawn, None);
    }

    #[tokio::test]
    async fn guidance_that_is_chosen_anew_has_the_draws_of_the_beginning() {
        let (guides, guide) = (Guides::default(), Counting::default());
        let draws = async |guides: &Guides, asked: (u64, bool, bool)| {
            let guided = of(guides, &guide, asked).await.guided.unwrap();
            let entries: Vec<String> = guided.drawn.iter().map(|drawn| drawn.entry.clone()).collect();
            (guided.text.unwrap(), entries)
        };
        let kept = vec!["0".to_owned()];
        assert_eq!(draws(&guides, (0, true, false)).await, ("0".to_owned(), kept.clone()));
        assert_eq!(draws(&guides, (1, false, true)).await, ("1".to_owned(), kept.clone()), "the history is rewritten");
        assert_eq!(draws(&guides, (500, false, false)).await, ("2".to_owned(), kept.clone()), "the cache has ended");
        assert_eq!(draws(&guides.inherited(), (900, true, false)).await, ("3".to_owned(), kept), "a branch");
    }

    #[tokio::test]
    async fn what_comes_from_a_session_waits_for_the_guidance_of_its_first_request() {
        let (guides, guide) = (Guides::default(), Counting::default());
        let turn = guides.turn().unwrap();
        let (side, other) = (guides.inherited(), guides.inherited());
        let mut early = std::pin::pin!(text(&side, &guide, (1, true, false)));
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(early.as_mut().poll(cx).is_pending())).await);
        let (request, session) = (ModelRequest::default(), LiveSession::new("s", "a", "m"));
        let guiding = Guiding {
            request: &request,
            session: &session,
            owner: "",
            team: None,
            episode: "run/episode",
            draws: Draws::New,
            at_ms: 0,
        };
        let first = GuidedRequest { guiding, is_first: true, is_rewritten: false };
        assert_eq!(guides.of(&guide, &first, Some(turn)).await.guided.unwrap().text.unwrap(), "0");
        assert_eq!(early.await, "0");
        // One whose session never got any chooses its own.
        let empty = Guides::default().inherited();
        assert_eq!(text(&other, &guide, (2, true, false)).await, "0");
        assert_eq!(text(&empty, &guide, (2, true, false)).await, "1");
    }

    #[tokio::test]
    async fn guidance_stays_until_the_history_is_rewritten_or_the_cache_has_ended() {
        let (guides, guide) = (Guides::default(), Counting::default());
        assert_eq!(text(&guides, &guide, (0, true, false)).await, "0");
        assert_eq!(text(&guides, &guide, (99, false, false)).await, "0");
        assert_eq!(text(&guides, &guide, (198, false, false)).await, "0", "each request keeps the cache");
        assert_eq!(text(&guides, &guide, (298, false, false)).await, "1");
        assert_eq!(text(&guides, &guide, (299, false, true)).await, "2");
        let branch = guides.inherited();
        assert_eq!(text(&branch, &guide, (300, true, false)).await, "2");
        assert_eq!(text(&branch, &guide, (301, false, true)).await, "3");
        assert_eq!(text(&guides, &guide, (302, false, false)).await, "2", "a branch changes its own");
    }

    #[tokio::test]
    async fn a_session_that_began_without_guidance_gets_none_at_once() {
        let (guides, guide) = (Guides::default(), Counting::default());
        assert_eq!(text(&guides, &guide, (0, false, false)).await, "");
        assert_eq!(text(&guides, &guide, (1, false, false)).await, "");
        assert_eq!(text(&guides, &guide, (200, false, false)).await, "0");
    }

    #[tokio::test]
    async fn the_text_is_recorded_once_for_each_session() {
        let (guides, guide) = (Guides::default(), Counting::default());
        text(&guides, &guide, (0, true, false)).await;
        let guided = || Guided::new(None, vec!["0".into()], "0".into());
        let record = |guides: &Guides| guides.for_record(guided()).text.is_some();
        assert!(record(&guides) && record(&guides), "until a record has it");
        guides.keep(&guided());
        assert!(!record(&guides));
        assert!(record(&guides.inherited()));
    }
}
