//! Who waited for whom, by thread and site.

use convoy_profile::Process;

use super::objects::Objects;
use super::sites::Sites;
use super::threads::Threads;
use crate::{Pair, Site};

/// The pairs of one process, ordered by object, site, thread, peer.
pub(super) fn collect(
    process: &Process,
    objects: &Objects,
    threads: &Threads,
    sites: &mut Sites<'_>,
    all_sites: &mut Vec<Site>,
) -> Vec<Pair> {
    let mut pairs = Vec::with_capacity(process.pairs.len());
    for pair in &process.pairs {
        let (Some(object), Some(thread)) = (objects.id(pair.object), threads.id(pair.thread))
        else {
            continue;
        };
        pairs.push(Pair {
            object,
            site: sites.of_stack(pair.stack, all_sites),
            thread,
            peer: pair.peer.and_then(|peer| threads.id(peer)),
            peer_acquired_at: pair
                .peer_frame
                .map_or_else(Vec::new, |frame| sites.expand(frame)),
            peer_site: sites.known(pair.peer_stack, all_sites),
            waits: pair.n,
            wait_ns: pair.wait_sum_ns,
            wait_max_ns: pair.wait_max_ns,
        });
    }
    pairs.sort_by_key(|pair| {
        (
            pair.object,
            pair.site,
            pair.thread,
            pair.peer,
            pair.peer_site,
        )
    });
    pairs
}
