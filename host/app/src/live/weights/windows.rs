//! Times of the week in which something may run.

use std::str::FromStr;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u32 = 24 * 60;
/// The first of January 1970 was a Thursday.
const FIRST_DAY: u64 = 3;

/// Times of the week, in UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Windows(Vec<Window>);

/// When a batch is trained on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Times {
    /// Milliseconds without a request after which it is time. `None`: without windows it is time as soon as the batch is there.
    pub(crate) idle_ms: Option<u64>,
    /// Windows in which it is time even if requests come: training runs behind them.
    pub(crate) quiet: Windows,
    /// Milliseconds after which a batch that is due is trained on in any case.
    pub(crate) overdue_ms: u64,
}

impl Times {
    /// Whether a batch is trained on now, that became due at a time and when the last request came at another one. All are milliseconds since 1970.
    pub(crate) fn allow(&self, now: u64, last_request_at: u64, due_at: u64) -> bool {
        let is_overdue = now >= due_at.saturating_add(self.overdue_ms);
        let is_idle = match self.idle_ms {
            Some(idle) => now.saturating_sub(last_request_at) >= idle,
            None => self.quiet.is_empty(),
        };
        is_overdue || is_idle || self.quiet.is_open(now)
    }
}

/// A time of day on some days of the week.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    /// From Monday on.
    days: [bool; 7],
    /// Minutes since midnight. One that ends before it begins goes over midnight.
    from: u32,
    to: u32,
}

impl Windows {
    /// Times of the week from texts. The error says which is none.
    pub(crate) fn of(texts: &[String]) -> Result<Self, String> {
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is open at a time in milliseconds since 1970.
    pub(crate) fn is_open(&self, at_ms: u64) -> bool {
        let minutes = at_ms / 60_000;
        let (day, minute) = (minutes / u64::from(DAY_MINUTES), (minutes % u64::from(DAY_MINUTES)) as u32);
        let day = ((day + FIRST_DAY) % 7) as usize;
        self.0.iter().any(|window| window.is_open(day, minute))
    }
}

impl Window {
    fn is_open(&self, day: usize, minute: u32) -> bool {
        let is_on = |day: usize| self.days.get(day).copied().unwrap_or(false);
        if self.from < self.to {
            return is_on(day) && (self.from..self.to).contains(&minute);
        }
        // Behind midnight it belongs to the day on which it began.
        (is_on(day) && minute >= self.from) || (is_on((day + 6) % 7) && minute < self.to)
    }
}

/// Minutes since midnight of `HH:MM`.
fn minutes(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let is_number = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    Some(hours * 60 + minutes).filter(|all| minutes < 60 && *all <= DAY_MINUTES)
}

/// Days of `mon,tue` or `mon-fri`.
fn days(text: &str) -> Option<[bool; 7]> {
    let place = |name: &str| DAYS.iter().position(|day| *day == name);
    let mut all = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (place(first)?, place(last)?);
        let length = (last + 7 - first) % 7;
        for day in (0..=length).map(|step| (first + step) % 7) {
            *all.get_mut(day)? = true;
        }
    }
    Some(all)
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = clawhost_core::escaped(text, 60);
            format!("`{text}` is no time of the week; write 22:00-06:00, or sat,sun 00:00-24:00, in UTC")
        };
        let (named, hours) = match text.trim().rsplit_once(' ') {
            Some((named, hours)) => (days(&named.trim().to_lowercase()).ok_or_else(wrong)?, hours),
            None => ([true; 7], text.trim()),
        };
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minutes(from).ok_or_else(wrong)?, minutes(to).ok_or_else(wrong)?);
        if from == to || from == DAY_MINUTES {
            return Err(wrong());
        }
        Ok(Self { days: named, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time in a week whose Monday was the fifth of January 1970.
    fn at(day: u64, hours: u64, minutes: u64) -> u64 {
        ((4 + day) * 24 * 60 + hours * 60 + minutes) * 60_000
    }

    #[test]
    fn a_time_of_the_week_is_open_or_not() {
        let check = |text: &str, day: u64, hours: u64, minutes: u64, expect: bool| {
            let windows = Windows::of(&[text.to_owned()]).unwrap();
            assert_eq!(windows.is_open(at(day, hours, minutes)), expect, "{text} {day} {hours}:{minutes}");
        };
        check("09:00-17:30", 0, 9, 0, true);
        check("09:00-17:30", 0, 17, 30, false);
        check("22:00-06:00", 2, 23, 0, true);
        check("22:00-06:00", 2, 5, 59, true);
        check("22:00-06:00", 2, 6, 0, false);
        check("sat,sun 00:00-24:00", 5, 0, 0, true);
        check("sat,sun 00:00-24:00", 4, 23, 59, false);
        check("fri 22:00-06:00", 5, 5, 0, true);
        check("fri 22:00-06:00", 4, 5, 0, false);
        check("fri-mon 10:00-11:00", 0, 10, 0, true);
        check("fri-mon 10:00-11:00", 1, 10, 0, false);
        assert!(!Windows::default().is_open(at(3, 3, 3)));
    }

    #[test]
    fn a_batch_is_trained_on_when_it_is_quiet_or_idle_or_overdue() {
        const MINUTE: u64 = 60_000;
        // A batch that became due a number of minutes ago, on a Monday, with the last request some minutes ago.
        let check = |quiet: &[&str], idle: Option<u64>, hours: u64, (requested, due): (u64, u64), expect: bool| {
            let texts: Vec<String> = quiet.iter().map(|text| (*text).to_owned()).collect();
            let times = Times {
                idle_ms: idle.map(|minutes| minutes * MINUTE),
                quiet: Windows::of(&texts).unwrap(),
                overdue_ms: 600 * MINUTE,
            };
            let now = at(0, hours, 0);
            let found = times.allow(now, now - requested * MINUTE, now - due * MINUTE);
            assert_eq!(found, expect, "{quiet:?} {idle:?} at {hours}, request {requested} and due {due} minutes ago");
        };
        let night: &[&str] = &["22:00-06:00"];
        // Without hours and without a time to be idle: as soon as the batch is there.
        check(&[], None, 12, (0, 0), true);
        // Without hours, idleness decides, or that the batch is overdue.
        check(&[], Some(5), 12, (4, 0), false);
        check(&[], Some(5), 12, (5, 0), true);
        check(&[], Some(5), 12, (0, 599), false);
        check(&[], Some(5), 12, (0, 600), true);
        // In the hours requests keep nothing from it, whatever the time to be idle is.
        check(night, None, 23, (0, 0), true);
        check(night, Some(5), 23, (0, 0), true);
        check(&["sat 10:00-11:00", "mon 12:00-13:00"], None, 12, (0, 0), true);
        // Outside of them an overdue batch alone, or idleness if it is asked for.
        check(night, None, 12, (599, 0), false);
        check(night, None, 12, (0, 600), true);
        check(night, Some(5), 12, (4, 0), false);
        check(night, Some(5), 12, (5, 0), true);
    }

    #[test]
    fn a_text_that_is_no_time_is_refused() {
        for text in [
            "",
            "nights",
            "22-06",
            "25:00-26:00",
            "10:00-10:00",
            "24:00-06:00",
            "sam 10:00-11:00",
            "10:60-11:00",
            "1:00-2:00",
        ] {
            let why = Windows::of(&[text.to_owned()]).unwrap_err();
            assert!(why.contains("is no time of the week"), "{text}: {why}");
        }
    }
}
