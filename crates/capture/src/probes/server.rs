//! The process that holds probes: serves requests until its standard input ends, then takes
//! everything out.

use std::io::{self, Read, Write};

use convoy_inject::{Owner, Probes, Refusal};

use super::wire::{receive, send, Reply, Request};
use crate::injector::stand_alone;

/// Argument of `convoy` that makes it hold probes; the process to probe follows.
pub const ARGUMENT: &str = "__probe";

/// Serves one convoy.
///
/// # Errors
/// Nobody reads the replies.
pub fn serve(pid: u32) -> io::Result<()> {
    stand_alone();
    let (mut requests, mut replies) = (io::stdin().lock(), io::stdout());
    match Probes::begin(pid, Owner::this()) {
        Err(refusal) => send(&mut replies, &Reply::Refused(refusal)),
        Ok(mut probes) => {
            let told = send(&mut replies, &Reply::Done)
                .and_then(|()| serve_requests(&mut probes, &mut requests, &mut replies));
            // In any case: nobody wants them any more.
            let ended = probes.end().map_or_else(Reply::Refused, |()| Reply::Done);
            told.and_then(|()| send(&mut replies, &ended))
        }
    }
}

fn serve_requests(
    probes: &mut Probes,
    requests: &mut impl Read,
    replies: &mut impl Write,
) -> io::Result<()> {
    loop {
        let request = match receive(requests) {
            Ok(request) => request,
            // Convoy has ended.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(e),
        };
        let reply: Result<Reply, Refusal> = match request {
            Request::End => return Ok(()),
            Request::Insert(all) => probes.insert(&all).map(Reply::Inserted),
            Request::Remove(rows) => probes.remove(&rows).map(|()| Reply::Done),
            Request::Read => probes.read().map(|counts| Reply::from(&counts)),
        };
        send(replies, &reply.unwrap_or_else(Reply::Refused))?;
    }
}
