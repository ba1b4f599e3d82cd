//! Warns after the first iteration about rewards that found nothing to read.

use crate::events::{Event, EventSink, Warning};
use clawhost_play::{Readings, ScoringRule};
use std::sync::{Mutex, PoisonError};

/// Forwards events. Searches the episodes of the first iteration for the parts that the rewards read.
pub(super) struct FirstReadings<'a> {
    events: &'a dyn EventSink,
    /// `None`: the first iteration has ended.
    readings: Mutex<Option<Readings>>,
}

impl<'a> FirstReadings<'a> {
    /// Searches for the parts that these rewards read.
    pub(super) fn new(events: &'a dyn EventSink, rewards: &[ScoringRule]) -> Self {
        Self { events, readings: Mutex::new(Some(Readings::of(rewards))) }
    }
}

impl EventSink for FirstReadings<'_> {
    fn event(&self, event: Event) {
        if let Event::Played { episodes, .. } = &event {
            let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut readings) = readings {
                episodes.iter().for_each(|episode| readings.add(episode));
                let unread = readings.unread().into_iter();
                unread.for_each(|unread| self.events.event(Event::Warning(Warning::NothingToRead(unread))));
            }
        }
        self.events.event(event);
    }
}
