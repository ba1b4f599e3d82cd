//! The place of a request in a trace: the header `traceparent` of W3C Trace Context.

use axum::http::{HeaderMap, HeaderValue};

/// The header.
pub(crate) const TRACE_PARENT: &str = "traceparent";
/// Characters of a header of version 00.
const LENGTH: usize = 55;

/// A trace, and the ids of the two spans that a request has in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// 32 hexadecimal digits.
    pub(crate) trace: String,
    /// The span of the caller, if it has one: 16 hexadecimal digits.
    pub(crate) parent: Option<String>,
    /// The span of the request.
    pub(crate) request: String,
    /// The span of the model's part.
    pub(crate) model: String,
    /// Whether the caller, or this gateway without one, wants it recorded.
    pub(crate) is_sampled: bool,
}

/// A trace, a span and whether it is sampled, from a header.
fn read(header: &str) -> Option<(String, String, bool)> {
    // Later versions may have more behind the same beginning.
    if header.len() < LENGTH || !header.is_ascii() {
        return None;
    }
    let mut parts = header.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let is_whole = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    if !is_whole || version == "ff" || is_zero(trace) || is_zero(span) || (version == "00" && header.len() != LENGTH) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((trace.to_owned(), span.to_owned(), flags & 1 == 1))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl TraceContext {
    /// Continues the trace of a request, or begins one. `None`: there is no randomness.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        let (trace, spans) = random.split_at(16);
        let (request, model) = spans.split_at(8);
        let given = headers.get(TRACE_PARENT).and_then(|value| value.to_str().ok()).and_then(read);
        let (trace, parent, is_sampled) = match given {
            Some((trace, parent, is_sampled)) => (trace, Some(parent), is_sampled),
            None => (hex(trace), None, true),
        };
        Some(Self { trace, parent, request: hex(request), model: hex(model), is_sampled })
    }

    /// The header of a request to the model: its part is the parent there.
    pub(crate) fn header(&self) -> HeaderValue {
        let flags = if self.is_sampled { "01" } else { "00" };
        let text = format!("00-{}-{}-{flags}", self.trace, self.model);
        // Hexadecimal digits and hyphens are a header.
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_whole_headers_are_continued() {
        let check = |header: String, expect: Option<bool>| {
            let found = read(&header);
            assert_eq!(found.as_ref().map(|(_, _, sampled)| *sampled), expect, "{header}");
            assert!(found.is_none_or(|(trace, span, _)| trace == TRACE && span == SPAN));
        };
        check(format!("00-{TRACE}-{SPAN}-01"), Some(true));
        check(format!("00-{TRACE}-{SPAN}-00"), Some(false));
        check(format!("00-{TRACE}-{SPAN}-03"), Some(true));
        check(format!("01-{TRACE}-{SPAN}-01-more"), Some(true));
        check(format!("00-{TRACE}-{SPAN}-01-more"), None);
        check(format!("ff-{TRACE}-{SPAN}-01"), None);
        check(format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None);
        check(format!("00-{}-{SPAN}-01", "0".repeat(32)), None);
        check(format!("00-{TRACE}-{}-01", "0".repeat(16)), None);
        check(format!("00-{TRACE}-{SPAN}"), None);
        check(String::new(), None);
        check("é".repeat(40), None);
    }

    #[test]
    fn a_request_without_a_trace_begins_one_with_its_own_ids() {
        let (one, two) = (TraceContext::of(&HeaderMap::new()).unwrap(), TraceContext::of(&HeaderMap::new()).unwrap());
        assert_eq!((one.trace.len(), one.request.len(), one.parent.is_none(), one.is_sampled), (32, 16, true, true));
        assert!(one.trace != two.trace && one.request != one.model);
        let (trace, span, is_sampled) = read(one.header().to_str().unwrap()).unwrap();
        assert_eq!((trace, span, is_sampled), (one.trace, one.model, true));
    }
}
