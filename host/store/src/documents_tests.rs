use super::*;
use proptest::prelude::*;

/// Samples with many common parts.
fn samples() -> Vec<String> {
    let one = |number: u64| {
        let digest = clawhost_core::Digest::of(&number.to_be_bytes());
        let shared = clawhost_core::Digest::of(b"shared");
        format!(
            r#"{{"request":"{digest}","environment":"{shared}","finish":"stop","said":"It is lower than {}. Reply with a whole number.","fuel":{}}}"#,
            number % 100,
            30_000 + number * 7
        )
    };
    (0..300).map(one).collect()
}

fn dictionary() -> Arc<Dictionary> {
    Arc::new(Dictionary::train(Kind::Episode, "guess", &samples()).unwrap())
}

fn around(head: &str, tail: &str) -> Around {
    Around { head: head.into(), tail: tail.into() }
}

/// Checks that a document reads back. Returns its stored size.
fn check(document: &str, around: &Around, dictionary: Option<&Arc<Dictionary>>) -> usize {
    let stored = encode(Kind::Episode, document, around, dictionary).unwrap();
    let used = stored.dictionary.as_deref();
    assert_eq!(decode(Kind::Episode, &stored.form, around, used).as_deref(), Ok(document));
    stored.form.len()
}

fn blob(stored: &Stored) -> Vec<u8> {
    match &stored.form {
        Form::Packed(bytes) => bytes.clone(),
        Form::Plain(text) => panic!("`{text}` was not compressed"),
    }
}

#[test]
fn documents_of_all_sizes_read_back_with_and_without_a_dictionary() {
    let dictionary = dictionary();
    let random: String = {
        let bytes: Vec<String> =
            (0..4_000_u32).map(|number| clawhost_core::Digest::of(&number.to_be_bytes()).hex()).collect();
        bytes.concat()
    };
    let large = samples().concat().repeat(40);
    for dictionary in [None, Some(&dictionary)] {
        for document in ["", "{}", &samples()[7], "no sample at all: \u{1f600} \u{0}", &random, &large] {
            check(document, &Around::default(), dictionary);
        }
        assert!(check(&large, &Around::default(), dictionary) < large.len() / 2);
    }
    let sample = &samples()[7];
    let (with, without) =
        (check(sample, &Around::default(), Some(&dictionary)), check(sample, &Around::default(), None));
    assert!(with * 2 < without && with * 4 < sample.len(), "{with} {without}");
}

#[test]
fn an_incompressible_document_is_stored_unchanged() {
    for document in ["", "{}", "0123456789"] {
        let stored = encode(Kind::Verdict, document, &Around::default(), Some(&dictionary())).unwrap();
        assert_eq!(stored.form, Form::Plain(document.into()));
        assert!(stored.dictionary.is_none(), "it needs no dictionary");
    }
}

#[test]
fn parts_that_the_row_determines_are_omitted() {
    let document = format!("{{\"id\":\"{0}\",{0},\"at\":5}}", "words that are the same ".repeat(9));
    let whole = check(&document, &Around::default(), None);
    assert!(check(&document, &around("{\"id\":", ",\"at\":5}"), None) < whole);
    for other in [around("{\"at\":", ",\"id\":5}"), around(&document, &document), around("{", "}")] {
        check(&document, &other, None);
    }
    // A row that was changed after writing.
    let stored = encode(Kind::Episode, &document, &around("{\"id\":", ""), None).unwrap();
    assert_eq!(decode(Kind::Episode, &stored.form, &around("{\"ID\":", ""), None), Err(Unreadable::Changed));
}

#[test]
fn every_changed_or_missing_byte_is_an_error() {
    let dictionary = dictionary();
    let sample = &samples()[7];
    for dictionary in [None, Some(&dictionary)] {
        let whole = blob(&encode(Kind::Episode, sample, &Around::default(), dictionary).unwrap());
        let read = |bytes: Vec<u8>| {
            decode(Kind::Episode, &Form::Packed(bytes), &Around::default(), dictionary.map(Arc::as_ref))
        };
        assert_eq!(read(whole.clone()).as_deref(), Ok(sample.as_str()));
        for at in 0..whole.len() {
            assert!(read(whole[..at].to_vec()).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                // Some bits of a frame have no effect: changing them leads to the same text.
                if let Ok(text) = read(changed) {
                    assert_eq!(text, *sample, "bit {bit} of byte {at}");
                }
            }
        }
        assert_eq!(read([whole, vec![0; 4]].concat()), Err(Unreadable::Broken));
    }
}

#[test]
fn a_document_read_with_another_dictionary_is_an_error() {
    let (first, second) = (dictionary(), {
        let samples: Vec<String> = samples().iter().map(|sample| sample.to_uppercase()).collect();
        Dictionary::train(Kind::Episode, "shop", &samples).unwrap()
    });
    let stored = encode(Kind::Episode, &samples()[7], &Around::default(), Some(&first)).unwrap();
    for other in [None, Some(&second)] {
        assert!(decode(Kind::Episode, &stored.form, &Around::default(), other).is_err());
    }
}

/// A BLOB that declares these lengths of its document, its text and its atoms.
fn claiming(lengths: [u64; 3], frame: &[u8]) -> Form {
    let mut bytes = vec![0; 5];
    lengths.iter().for_each(|length| write_number(&mut bytes, *length));
    bytes.extend_from_slice(frame);
    Form::Packed(bytes)
}

#[test]
fn declared_and_actual_sizes_above_the_limit_are_refused_early() {
    let limit = Kind::Verdict.limit();
    let read = |form| decode(Kind::Verdict, &form, &Around::default(), None);
    let too_long = Err(Unreadable::TooLong { kind: Kind::Verdict, limit });
    for lengths in [[limit as u64 + 1, 0, 0], [0, u64::MAX, 0], [0, 0, u64::MAX]] {
        assert_eq!(read(claiming(lengths, &[])), too_long, "{lengths:?}");
    }
    // A frame of 1 GiB of one byte takes a few dozen KiB. It is refused because of its declared length, which exceeds
    // what 10 bytes can need.
    let bomb = frame(&vec![b'x'; 64 << 20], None).unwrap();
    assert_eq!(read(claiming([10, 10, 0], &bomb[MAGIC.len()..])), Err(Unreadable::Broken));
    // Without a declared length, or with a wrong one.
    let mut honest = frame(b"ten bytes.", None).unwrap();
    assert_eq!(read(claiming([10, 10, 0], &honest[MAGIC.len()..])), Err(Unreadable::Changed), "a checksum of 0");
    honest[5] = 9;
    assert_eq!(read(claiming([10, 10, 0], &honest[MAGIC.len()..])), Err(Unreadable::Broken));
    assert_eq!(
        read(claiming([limit as u64, 10, 0], &frame(b"ten bytes.", None).unwrap()[4..])),
        Err(Unreadable::Broken)
    );
}

#[test]
fn a_document_above_the_limit_is_not_written() {
    let kind = Kind::Report;
    let document = "0".repeat(kind.limit() + 1);
    let error = encode_alone(kind, &document).unwrap_err().to_string();
    assert_eq!(error, "134217729 bytes; a document of kind report has at most 134217728");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_document_reads_back(parts in prop::collection::vec(prop_oneof![".{0,40}", "[0-9]{1,20}"], 0..60)) {
        let document = parts.concat();
        let dictionary = TRAINED.with(Arc::clone);
        check(&document, &Around::default(), None);
        check(&document, &Around::default(), Some(&dictionary));
    }

    #[test]
    fn any_bytes_give_a_document_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let dictionary = TRAINED.with(Arc::clone);
        let _ = decode(Kind::Episode, &Form::Packed(bytes), &Around::default(), Some(&dictionary));
    }
}

thread_local! {
    static TRAINED: Arc<Dictionary> = dictionary();
}
