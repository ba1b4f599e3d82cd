//! The packed form of a document: incompressible parts are separated from its text.
//!
//! Half of a short episode's bytes are digests, and most of the rest is equal in all episodes except for its numbers. A
//! packed document has three parts: its *text*, in which marks replace digests and numbers; its *numbers*, as bytes;
//! its *atoms*, which are random and incompressible. Text and numbers are compressed together; atoms are stored
//! unchanged.
//!
//! The marks are bytes that UTF-8 never contains. So the text needs no escapes, and a packed document unpacks to exactly
//! one text.

/// Replaces a digest. The atoms have its 32 bytes.
const DIGEST: u8 = 0xff;
/// Replaces a known digest. The next byte of the text is its position in the list.
const KNOWN: u8 = 0xfe;
/// Replaces 16 hexadecimal digits, as in episode ids. The atoms have their 8 bytes.
const HEX: u8 = 0xfd;
/// Replaces a decimal number. The numbers have it.
const NUMBER: u8 = 0xfc;
/// Replaces a decimal number that looks random. The atoms have it.
const LARGE: u8 = 0xfb;

/// Prefix of a digest as text.
const PREFIX: &[u8] = b"sha256:";
/// Hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 64;
/// Length of the longest text that a mark replaces: a digest.
const LONGEST_MARK: usize = PREFIX.len() + DIGEST_DIGITS;
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 16;
/// Numbers with more digits may not fit 64 bits.
const MOST_DIGITS: usize = 19;
/// From here on numbers count as random (seeds). Smaller ones are counts, times and guesses, whose leading bytes
/// repeat.
const RANDOM: u64 = 1 << 44;
/// From here on numbers do not fit the bytes of a seed.
const ABOVE_SEEDS: u64 = 1 << 56;
/// Bytes of a seed.
const SEED_BYTES: usize = 7;
/// Largest number of known digests: a position is one byte.
pub(crate) const MOST_KNOWN: usize = 256;

/// The 32 bytes of a digest, written as `sha256:` and 64 digits.
pub(crate) type Raw = [u8; 32];

/// A document in three parts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) text: Vec<u8>,
    pub(crate) numbers: Vec<u8>,
    pub(crate) atoms: Vec<u8>,
}

/// The parts give no document, or one of another length than declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

/// Packs a document. `known` are digests that many documents of its kind contain.
pub(crate) fn pack(document: &str, known: &[Raw]) -> Packed {
    let bytes = document.as_bytes();
    let mut digests: Vec<Raw> = known.iter().copied().take(MOST_KNOWN).collect();
    let mut packed =
        Packed { text: Vec::with_capacity(bytes.len() / 2), numbers: Vec::new(), atoms: Vec::with_capacity(512) };
    let mut rest = bytes;
    // Every replaced part begins with a digit or has one soon after.
    while let Some(at) = rest.iter().position(u8::is_ascii_digit) {
        let (plain, digits) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        let taken = if let Some(before) = plain.strip_suffix(b"sha")
            && let Some(digest) = digits.strip_prefix(b"256:").and_then(|digits| hex(digits.get(..DIGEST_DIGITS)?))
        {
            packed.text.extend_from_slice(before);
            packed.digest(digest, &mut digests);
            PREFIX.len() - b"sha".len() + DIGEST_DIGITS
        } else {
            packed.word(plain, digits)
        };
        rest = after(digits, taken);
    }
    packed.text.extend_from_slice(rest);
    packed
}

impl Packed {
    fn digest(&mut self, digest: Raw, digests: &mut Vec<Raw>) {
        let position = digests.iter().position(|known| *known == digest);
        if let Some(position) = position.and_then(|position| u8::try_from(position).ok()) {
            self.text.extend_from_slice(&[KNOWN, position]);
            return;
        }
        self.text.push(DIGEST);
        self.atoms.extend_from_slice(&digest);
        if digests.len() < MOST_KNOWN {
            digests.push(digest);
        }
    }

    /// Packs the text before a digit, and the number or id to which the digit belongs. Returns how many bytes of
    /// `digits` were consumed.
    fn word(&mut self, plain: &[u8], digits: &[u8]) -> usize {
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let decimals = digits.get(..end).unwrap_or_default();
        let number = decimal(decimals);
        let is_hex = |byte: Option<&u8>| byte.is_some_and(|byte| value(*byte) < 16);
        if is_hex(plain.last()) || is_hex(digits.get(end)) || (end == ID_DIGITS && number >= Some(ABOVE_SEEDS)) {
            // An id: a run of 16 hexadecimal digits, some of which may precede the first decimal one.
            let letters = plain.iter().rev().take(ID_DIGITS).take_while(|byte| value(**byte) < 16).count();
            let length = digits.iter().take(ID_DIGITS + 1).take_while(|byte| value(**byte) < 16).count();
            let (before, first) = plain.split_at_checked(plain.len() - letters).unwrap_or((plain, &[]));
            if letters + length == ID_DIGITS
                && let Some(id) = hex::<8>(&[first, digits.get(..length).unwrap_or_default()].concat())
            {
                self.text.extend_from_slice(before);
                self.text.push(HEX);
                self.atoms.extend_from_slice(&id);
                return length;
            }
        }
        self.text.extend_from_slice(plain);
        match number {
            Some(number) if (RANDOM..ABOVE_SEEDS).contains(&number) => {
                self.text.push(LARGE);
                self.atoms.extend(number.to_le_bytes().into_iter().take(SEED_BYTES));
            }
            Some(number) => {
                self.text.push(NUMBER);
                write_number(&mut self.numbers, number);
            }
            None => self.text.extend_from_slice(decimals),
        }
        end
    }
}

/// Unpacks a document. `length` is its size in bytes; any other size is an error.
pub(crate) fn unpack(packed: &Packed, known: &[Raw], length: usize) -> Result<String, Broken> {
    // Before memory is reserved: no text gives a document of this length.
    if length > packed.text.len().saturating_mul(LONGEST_MARK) {
        return Err(Broken);
    }
    let mut digests: Vec<Raw> = known.iter().copied().take(MOST_KNOWN).collect();
    let (mut numbers, mut atoms) = (packed.numbers.as_slice(), packed.atoms.as_slice());
    let mut document = Vec::with_capacity(length);
    let mut rest = packed.text.as_slice();
    while let Some(&first) = rest.first() {
        let mut taken = 1;
        match first {
            DIGEST => {
                let digest: Raw = take(&mut atoms)?;
                write_digest(&mut document, &digest);
                if digests.len() < MOST_KNOWN {
                    digests.push(digest);
                }
            }
            KNOWN => {
                let position = rest.get(1).ok_or(Broken)?;
                write_digest(&mut document, digests.get(usize::from(*position)).ok_or(Broken)?);
                taken = 2;
            }
            HEX => write_hex(&mut document, &take::<8>(&mut atoms)?),
            NUMBER => write_decimal(&mut document, read_number(&mut numbers)?),
            LARGE => write_decimal(&mut document, read_large(&mut atoms)?),
            _ => {
                taken = rest.iter().position(|byte| *byte >= LARGE).unwrap_or(rest.len());
                document.extend_from_slice(rest.get(..taken).unwrap_or_default());
            }
        }
        if document.len() > length {
            return Err(Broken);
        }
        rest = after(rest, taken);
    }
    if document.len() != length || !numbers.is_empty() || !atoms.is_empty() {
        return Err(Broken);
    }
    String::from_utf8(document).map_err(|_| Broken)
}

fn after(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(count..).unwrap_or_default()
}

/// The digest at the beginning of a text.
pub(crate) fn digest(text: &[u8]) -> Option<Raw> {
    hex(text.strip_prefix(PREFIX)?.get(..DIGEST_DIGITS)?)
}

/// The value of each byte as a hexadecimal digit; above 15: it is not one. A table, because half of all bytes are such
/// digits.
#[allow(clippy::indexing_slicing, reason = "the compiler computes it, and finds what is out of range")]
static VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The hexadecimal digits.
const DIGITS: [u8; 16] = *b"0123456789abcdef";

fn value(digit: u8) -> u8 {
    VALUES.get(usize::from(digit)).copied().unwrap_or(0xff)
}

fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let mut seen = 0;
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        let (high, low) = (value(high), value(low));
        seen |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (seen < 16).then_some(bytes)
}

fn write_hex<const N: usize>(document: &mut Vec<u8>, bytes: &[u8; N]) {
    let digit = |value: u8| DIGITS.get(usize::from(value & 0xf)).copied().unwrap_or_default();
    let pairs = bytes.map(|byte| [digit(byte >> 4), digit(byte)]);
    document.extend_from_slice(pairs.as_flattened());
}

/// Writes a number in decimal digits.
fn write_decimal(document: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; MOST_DIGITS + 1];
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    document.extend_from_slice(digits.get(digits.len() - length..).unwrap_or_default());
}

fn write_digest(document: &mut Vec<u8>, digest: &Raw) {
    document.extend_from_slice(PREFIX);
    write_hex(document, digest);
}

fn read_large(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let seed: [u8; SEED_BYTES] = take(bytes)?;
    let mut number = [0; 8];
    number.iter_mut().zip(seed).for_each(|(to, from)| *to = from);
    Ok(u64::from_le_bytes(number))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Broken> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(Broken)?;
    *bytes = rest;
    Ok(*taken)
}

/// The number of decimal digits. `None`: they have leading zeros, or the number may not fit.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.len() > MOST_DIGITS || (digits.len() > 1 && digits.first() == Some(&b'0')) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit.checked_sub(b'0').filter(|value| *value < 10)?))
    })
}

/// Seven bits per byte, the lowest first. The top bit means that more bytes follow.
pub(crate) fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads the output of [`write_number`].
pub(crate) fn read_number(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take::<1>(bytes)?;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << shift;
        if shifted >> shift != bits {
            return Err(Broken);
        }
        number |= shifted;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONE: Raw = [0xab; 32];

    fn shown(digest: &Raw) -> String {
        let mut text = Vec::new();
        write_digest(&mut text, digest);
        String::from_utf8(text).unwrap()
    }

    /// Packs and unpacks. Compares the text, and the sizes of numbers and atoms.
    fn check(document: &str, known: &[Raw], parts: (&[u8], usize, usize)) {
        let packed = pack(document, known);
        assert_eq!(unpack(&packed, known, document.len()).as_deref(), Ok(document));
        assert_eq!((packed.text.as_slice(), packed.numbers.len(), packed.atoms.len()), parts, "{document}");
    }

    #[test]
    fn only_digests_ids_and_numbers_are_replaced() {
        check("", &[], (b"", 0, 0));
        check("words alone", &[], (b"words alone", 0, 0));
        check(r#"{"a":50}"#, &[], (b"{\"a\":\xfc}", 1, 0));
        check("1.50", &[], (b"\xfc.\xfc", 2, 0));
        check("0.007", &[], (b"\xfc.007", 1, 0));
        check("ep-00000000000000a1", &[], (b"ep-\xfd", 0, 8));
        check("ep-00000000000000a1b", &[], (b"ep-00000000000000a\xfcb", 1, 0));
        check("9007199254740991", &[], (b"\xfb", 0, 7));
        check("17592186044416", &[], (b"\xfb", 0, 7));
        check("9999999999999999", &[], (b"\xfb", 0, 7));
        check("18446744073709551615", &[], (b"18446744073709551615", 0, 0));
        check("72057594037927936", &[], (b"\xfc", 9, 0));
        check("18446744073709551616", &[], (b"18446744073709551616", 0, 0));
        let text = shown(&LONE);
        check(&text, &[], (b"\xff", 0, 32));
        check(&text, &[LONE], (b"\xfe\x00", 0, 0));
        check(&format!("{text}{text}"), &[], (b"\xff\xfe\x00", 0, 32));
        check(
            &text.to_uppercase(),
            &[],
            (b"SHA\xfc:ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB", 2, 0),
        );
        let cut = &text[..text.len() - 1];
        assert_eq!(unpack(&pack(cut, &[]), &[], cut.len()).as_deref(), Ok(cut));
    }

    #[test]
    fn more_known_digests_than_a_byte_can_index_are_handled() {
        let digest = |number: usize| shown(&std::array::from_fn(|at| (number >> (at % 2 * 8)) as u8));
        let document: String = (0..2 * MOST_KNOWN).chain(0..2 * MOST_KNOWN).map(digest).collect();
        let packed = pack(&document, &[LONE]);
        assert_eq!(unpack(&packed, &[LONE], document.len()).as_deref(), Ok(document.as_str()));
    }

    #[test]
    fn a_wrong_declared_length_is_an_error() {
        let document = format!("{} and 17", shown(&LONE));
        let packed = pack(&document, &[]);
        for length in [0, document.len() - 1, document.len() + 1, usize::MAX] {
            assert_eq!(unpack(&packed, &[], length), Err(Broken), "{length}");
        }
    }

    /// Texts with many replaceable parts, and with bytes that resemble them.
    fn document() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<u64>().prop_map(|number| number.to_string()),
            any::<[u8; 32]>().prop_map(|digest| shown(&digest)),
            Just(shown(&LONE)),
            any::<u64>().prop_map(|id| format!("ep-{id:016x}")),
            "[0-9a-f]{0,20}",
            "sha256:[0-9a-f]{60,68}",
            any::<f64>().prop_map(|number| number.to_string()),
            ".{0,12}",
        ];
        prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_text_round_trips(document in document(), is_known in any::<bool>()) {
            let known = if is_known { &[LONE][..] } else { &[] };
            prop_assert_eq!(unpack(&pack(&document, known), known, document.len()), Ok(document));
        }

        #[test]
        fn any_parts_give_a_text_or_an_error(
            text in prop::collection::vec(prop_oneof![any::<u8>(), LARGE..=DIGEST], 0..40),
            numbers in prop::collection::vec(any::<u8>(), 0..20),
            atoms in prop::collection::vec(any::<u8>(), 0..80),
            length in 0..400_usize,
        ) {
            let packed = Packed { text, numbers, atoms };
            if let Ok(document) = unpack(&packed, &[LONE], length) {
                prop_assert_eq!(document.len(), length);
            }
        }
    }
}
