//! `convoy __replay-native`: the process of a native replay, started by convoy itself.

use std::io;

use crate::exit::Status;
use crate::message::Message;

/// Serves the one request on standard input.
pub fn serve() -> Status {
    match convoy_replayer::child::serve(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => Status::Success,
        Err(error) => {
            let found = format!("no replay was asked for on standard input: {error}");
            Message::new(found, "nothing was replayed", "use convoy replay").print();
            Status::Failure
        }
    }
}
