//! Shadow answers: a request of a session that has ended is answered again, with a lesson on trial and without it, and a judge says which answer it
//! prefers. Nobody sees either answer.
//!
//! ```text
//! ended session ─▶ pair of requests ─▶ budget ─▶ two answers ─▶ judge ─▶ counts of the lesson
//! ```
//!
//! [`section`] is the configuration, [`pair`] makes two requests of a session, [`budget`] says what a day may cost, [`judging`] asks the judge, [`state`] is
//! what is kept, and [`background`] does all of it beside a gateway. [`page`] shows it.

mod background;
mod budget;
mod judging;
mod page;
mod pair;
mod section;
mod state;

pub(crate) use background::ShadowAnswers;
pub(crate) use page::ShadowPage;
pub(crate) use section::ShadowPlan;
pub use section::ShadowSection;
pub(crate) use state::forget_shadow_lessons;
