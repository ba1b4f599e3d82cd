//! The ways in which a text can contain a secret: in any case, and with the escapes of JSON, URLs and HTML, also nested.

/// Largest number of backslashes before an escaped character: every nesting of JSON in JSON doubles them.
const BACKSLASHES: usize = 16;
/// Largest number of repeated `25` in a percent escape: every nested escaping adds one.
const PERCENTS: usize = 4;
/// Largest number of leading zeros of a number in an escape.
const ZEROS: usize = 8;
/// Largest number of digits of a character's number after its zeros: enough for ASCII.
const DIGITS: usize = 3;
/// The HTML escape of an ampersand, without its first character.
const AMPERSAND: &[u8] = b"amp;";
/// Largest number of bytes of a repeatedly escaped ampersand.
const LONGEST_AMPERSAND: usize = 1 + 4 * PERCENTS;
/// Named character references of HTML for characters that occur in keys.
const NAMED: [(&[u8], u8); 16] = [
    (b"amp", b'&'),
    (b"colon", b':'),
    (b"comma", b','),
    (b"commat", b'@'),
    (b"dash", b'-'),
    (b"dollar", b'$'),
    (b"equals", b'='),
    (b"excl", b'!'),
    (b"hyphen", b'-'),
    (b"lowbar", b'_'),
    (b"num", b'#'),
    (b"percnt", b'%'),
    (b"period", b'.'),
    (b"plus", b'+'),
    (b"semi", b';'),
    (b"sol", b'/'),
];

/// One way to write a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Spelling {
    bytes: Vec<u8>,
    is_case_exact: bool,
}

/// The result of a search at one position of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The secret, which ends at this position.
    Whole(usize),
    /// A possible beginning of the secret: the text ends before it is complete.
    Beginning,
    /// No secret.
    Nothing,
}

/// A way to decode the text at one position.
enum Reading {
    /// This byte, whose encoding ends at this position.
    Byte(u8, usize),
    /// An escape that is cut off by the end of the text.
    Cut,
}

impl Spelling {
    /// These bytes, ignoring case.
    pub(super) fn any_case(bytes: Vec<u8>) -> Self {
        Self { bytes, is_case_exact: false }
    }

    /// These bytes with exact case.
    pub(super) fn exact(bytes: Vec<u8>) -> Self {
        Self { bytes, is_case_exact: true }
    }

    /// Whether an encoding of this secret can begin with this byte.
    pub(super) fn begins_with(&self, byte: u8) -> bool {
        matches!(byte, b'\\' | b'%' | b'&') || self.bytes.first().is_some_and(|first| self.is(*first, byte))
    }

    fn is(&self, wanted: u8, found: u8) -> bool {
        wanted == found || (!self.is_case_exact && wanted.eq_ignore_ascii_case(&found))
    }

    /// Searches at one position of the text.
    pub(super) fn at(&self, text: &[u8], place: usize) -> Found {
        // Every possible position after the bytes so far. There may be several, because an escape may also be literal text.
        let mut places = vec![place];
        let mut is_cut = false;
        for wanted in &self.bytes {
            let mut next = Vec::new();
            for place in places {
                if place >= text.len() {
                    is_cut = true;
                    continue;
                }
                for reading in readings(text, place) {
                    match reading {
                        Reading::Byte(byte, end) if self.is(*wanted, byte) && !next.contains(&end) => next.push(end),
                        Reading::Byte(..) => {}
                        Reading::Cut => is_cut = true,
                    }
                }
            }
            if next.is_empty() {
                return if is_cut { Found::Beginning } else { Found::Nothing };
            }
            places = next;
        }
        places.into_iter().max().map_or(Found::Nothing, Found::Whole)
    }
}

/// All ways to decode the text at one position: the literal byte, and the decoded escape.
fn readings(text: &[u8], place: usize) -> Vec<Reading> {
    let rest = text.get(place..).unwrap_or_default();
    let Some(first) = rest.first() else { return Vec::new() };
    let Escape { byte, is_cut } = match first {
        b'\\' => backslash(rest),
        b'%' => percent(rest),
        b'&' => entity(rest),
        _ => Escape::NONE,
    };
    let mut found = vec![Reading::Byte(*first, place + 1)];
    found.extend(byte.map(|(byte, length)| Reading::Byte(byte, place + length)));
    found.extend(is_cut.then_some(Reading::Cut));
    found
}

/// A decoded escape.
struct Escape {
    /// The decoded byte, and the length of the escape.
    byte: Option<(u8, usize)>,
    /// Whether the text may end inside the escape.
    is_cut: bool,
}

impl Escape {
    const NONE: Self = Self { byte: None, is_cut: false };
    const CUT: Self = Self { byte: None, is_cut: true };

    fn of(byte: u8, length: usize) -> Self {
        Self { byte: Some((byte, length)), is_cut: false }
    }
}

/// The number of repetitions of this byte at the beginning of the text, up to a limit.
fn run(text: &[u8], byte: u8, most: usize) -> usize {
    text.iter().take(most).take_while(|found| **found == byte).count()
}

/// Decodes a number, with exactly this number of digits if given. `before`: number of bytes of the escape before it.
fn number(text: &[u8], radix: u32, exactly: Option<usize>, before: usize) -> Escape {
    let most = exactly.unwrap_or_else(|| run(text, b'0', ZEROS) + DIGITS);
    let digits: Vec<u32> = text.iter().take(most).map_while(|byte| char::from(*byte).to_digit(radix)).collect();
    let is_cut = digits.len() == text.len() && digits.len() < most;
    let is_short = digits.is_empty() || exactly.is_some_and(|exactly| digits.len() < exactly);
    let value = digits.iter().try_fold(0_u32, |value, digit| value.checked_mul(radix)?.checked_add(*digit));
    let byte = value.filter(|_| !is_short).and_then(|value| u8::try_from(value).ok()).filter(u8::is_ascii);
    Escape { byte: byte.map(|byte| (byte, before + digits.len())), is_cut }
}

/// `\/`, `\u002f`, `\u{2f}` and `\x2f`, with any number of backslashes.
fn backslash(text: &[u8]) -> Escape {
    let slashes = run(text, b'\\', BACKSLASHES);
    match text.get(slashes..).unwrap_or_default() {
        [] | [b'u' | b'U' | b'x' | b'X'] => Escape::CUT,
        [b'u' | b'U', b'{', digits @ ..] => {
            let Escape { byte, is_cut } = number(digits, 16, None, slashes + 2);
            match byte.map(|(byte, end)| (byte, end, text.get(end))) {
                Some((byte, end, Some(b'}'))) => Escape::of(byte, end + 1),
                Some((_, _, None)) => Escape::CUT,
                _ => Escape { byte: None, is_cut },
            }
        }
        [b'u' | b'U', digits @ ..] => number(digits, 16, Some(4), slashes + 1),
        [b'x' | b'X', digits @ ..] => number(digits, 16, Some(2), slashes + 1),
        [escaped, ..] if escaped.is_ascii_punctuation() => Escape::of(*escaped, slashes + 1),
        _ => Escape::NONE,
    }
}

/// `%2f` and `%252f`.
fn percent(text: &[u8]) -> Escape {
    let mut before = 1;
    for _ in 0..PERCENTS {
        match text.get(before..).unwrap_or_default() {
            [b'2', b'5', _, ..] => before += 2,
            [b'2', b'5'] => return Escape { byte: Some((b'%', before + 2)), is_cut: true },
            _ => break,
        }
    }
    let escape = number(text.get(before..).unwrap_or_default(), 16, Some(2), before);
    match escape {
        // `%25` without further digits is a percent sign.
        Escape { byte: None, is_cut: false } if before > 1 => Escape::of(b'%', before),
        escape => escape,
    }
}

/// `&#47;`, `&#x2f;` and `&sol;`. Browsers also accept numbers without the semicolon.
fn entity(text: &[u8]) -> Escape {
    // `&` itself may be escaped as `&amp;`, repeatedly if the text was escaped several times.
    let mut start = 1;
    while text.get(start..).is_some_and(|rest| rest.starts_with(AMPERSAND)) && start < LONGEST_AMPERSAND {
        start += AMPERSAND.len();
    }
    let rest = text.get(start..).unwrap_or_default();
    let numbered = match rest {
        [] | [b'#'] | [b'#', b'x' | b'X'] => Escape::CUT,
        [b'#', b'x' | b'X', digits @ ..] => number(digits, 16, None, start + 2),
        [b'#', digits @ ..] => number(digits, 10, None, start + 1),
        _ => Escape::NONE,
    };
    if let Some((byte, end)) = numbered.byte {
        let semicolon = usize::from(text.get(end) == Some(&b';'));
        return Escape { byte: Some((byte, end + semicolon)), ..numbered };
    }
    let named = NAMED.iter().find_map(|(name, byte)| {
        let after = rest.strip_prefix(*name)?;
        (after.first() == Some(&b';')).then_some((*byte, start + name.len() + 1))
    });
    let is_cut = numbered.is_cut || AMPERSAND.starts_with(rest) || NAMED.iter().any(|(name, _)| name.starts_with(rest));
    // If only `&amp;` was found, which the loop above skipped, it is an ampersand.
    Escape { byte: named.or((start > 1).then_some((b'&', start))), is_cut }
}
