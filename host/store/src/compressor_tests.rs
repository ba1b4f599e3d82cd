use super::*;
use clawhost_core::Digest;

fn document(form: &str, number: usize) -> String {
    let digest = Digest::of(&number.to_be_bytes());
    format!(
        r#"{{"request":"{digest}","{form}":"It is lower than {}. Reply with a whole number.","fuel":{number}}}"#,
        number % 100
    )
}

/// A compressor that has compressed these documents, after its training has ended.
fn seen(documents: impl Iterator<Item = String>) -> (Compressor, Vec<Stored>) {
    let compressor = Compressor::default();
    let stored = documents.map(|document| encode(&compressor, &document)).collect();
    (compressor, stored)
}

fn encode(compressor: &Compressor, document: &str) -> Stored {
    let stored = compressor.encode(Kind::Episode, "guess", document, &Around::default()).unwrap();
    while compressor.subjects().values().any(|subject| subject.doing == SubjectState::Training) {
        std::thread::yield_now();
    }
    stored
}

fn digests(stored: &[Stored]) -> Vec<String> {
    let mut found: Vec<String> =
        stored.iter().flat_map(|stored| &stored.dictionary).map(|d| format!("{d:?}")).collect();
    found.dedup();
    found
}

#[test]
fn the_first_documents_of_a_subject_train_a_dictionary_for_later_ones() {
    let (_, stored) = seen((0..2 * SAMPLES).map(|number| document("said", number)));
    assert!(stored[..SAMPLES].iter().all(|stored| stored.dictionary.is_none()));
    assert!(stored[SAMPLES..].iter().all(|stored| stored.dictionary.is_some()));
    assert_eq!(digests(&stored).len(), 1);
    assert!(stored[SAMPLES].form.len() * 3 < stored[SAMPLES - 1].form.len() * 2, "the dictionary saves space");
}

#[test]
fn a_dictionary_that_no_longer_fits_is_replaced() {
    let words = |seed: u8| (0..8).map(|number| Digest::of(&[seed, number]).hex()).collect::<String>();
    let form = |seed: u8, count: usize| (0..count).map(move |number| document(&words(seed), number));
    let (_, stored) = seen(form(1, 2 * SAMPLES).chain(form(2, 8 * SAMPLES)));
    assert_eq!(digests(&stored).len(), 2, "one dictionary for each form");
}

#[test]
fn dictionaries_are_separate_by_kind_and_subject_and_limited_in_number() {
    let compressor = Compressor::default();
    for subject in 0..SUBJECTS + 4 {
        let document = document("said", subject);
        compressor.encode(Kind::Episode, &subject.to_string(), &document, &Around::default()).unwrap();
    }
    assert_eq!(compressor.subjects().len(), SUBJECTS);
}

#[test]
fn documents_without_common_parts_make_no_dictionary_worse() {
    let (_, stored) = seen((0..3 * SAMPLES).map(|number| Digest::of(&number.to_be_bytes()).hex()));
    for (number, stored) in stored.iter().enumerate() {
        assert!(stored.form.len() <= 64, "{number}");
    }
}
