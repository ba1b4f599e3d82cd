//! The entry point of the process that interprets the texts of a model folder.

use super::library::Library;
use super::limits::{LOAD_SECONDS, MEMORY_BYTES, REPLY_BYTES, REQUEST_SECONDS};
use super::order::{Ask, Told};
use std::io::{BufRead, Read as _, Write};

/// Exit code of a process whose libraries panicked.
pub(super) const PANICKED: u8 = 70;

/// Answers questions, one line each, until the input ends. The first one gives the texts. Call it in a process of its own: it limits the
/// memory of that process to two gigabytes, and its processor time for every question. Returns the exit code.
pub fn serve_texts(mut input: impl BufRead, mut output: impl Write) -> u8 {
    clawhost_child::bound_memory(MEMORY_BYTES);
    clawhost_child::bound_processor_time(LOAD_SECONDS);
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(&mut input, &mut output)));
    match served {
        Ok(Ok(())) => 0,
        Ok(Err(_)) => 1,
        Err(_) => PANICKED,
    }
}

fn serve(input: &mut impl BufRead, output: &mut impl Write) -> std::io::Result<()> {
    let mut library: Option<Library> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        input.by_ref().take(REPLY_BYTES).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        let ask: Ask<'_> = serde_json::from_slice(&line)?;
        let told = match (&ask, &library) {
            (Ask::Load(sources), _) => match Library::load(sources) {
                Ok(loaded) => {
                    let told = Told::Loaded(loaded.facts().clone());
                    library = Some(loaded);
                    told
                }
                Err(refused) => refused,
            },
            (_, None) => Told::Tokenizer("nothing was loaded".to_owned()),
            (_, Some(library)) => {
                clawhost_child::bound_processor_time(REQUEST_SECONDS);
                library.answer(&ask)
            }
        };
        serde_json::to_writer(&mut *output, &told)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}
