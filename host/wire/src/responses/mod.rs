//! The responses shape of OpenAI's dialect: `POST /responses`.
//!
//! A request is a list of items instead of messages, and may continue a stored response by its id. Client side: [`response`] parses a
//! whole answer, [`StreamReader`] a streamed one. Server side: [`read_request`] parses a request, [`messages`] makes a conversation
//! of items, [`body`] writes a whole answer, [`StreamWriter`] a streamed one.

mod answer;
mod items;
mod read;
mod request;
mod stream;
mod tools;

pub use answer::{body, error_events, failed};
pub use items::{messages, untranslatable, without_encrypted};
pub use read::{StreamReader, response};
pub use request::{ResponsesRequest, read_request};
pub use stream::StreamWriter;
