//! Wait set of the listener thread: orders from the recorder, and a source that signals what cannot
//! wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll;
use rustix::event::{eventfd, EventfdFlags, Timespec};
use rustix::io::{Errno, Result};

const ORDER: u64 = 1;
const SOURCE: u64 = 2;

/// The listener sleeps on it.
#[derive(Debug)]
pub(super) struct WaitSet {
    epoll: OwnedFd,
    orders: Arc<OwnedFd>,
}

/// Wakes the listening thread up.
#[derive(Debug, Clone)]
pub(super) struct Notifier(Arc<OwnedFd>);

impl WaitSet {
    /// For the descriptor of a source that becomes readable anew each time that it calls; `None`: it does not call.
    pub fn new(source: Option<BorrowedFd<'_>>) -> Result<(Self, Notifier)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let orders = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let add = |fd: BorrowedFd<'_>, whose| {
            // Not as long as there is something to read: a source has always something.
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, fd, epoll::EventData::new_u64(whose), flags)
        };
        add(orders.as_fd(), ORDER)?;
        if let Some(source) = source {
            add(source, SOURCE)?;
        }
        let notifier = Notifier(Arc::clone(&orders));
        Ok((Self { epoll, orders }, notifier))
    }

    /// Sleeps for so long, to the next millisecond, or until there is an order; `true`: until the source has called.
    pub fn sleep(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).ok();
        let mut heard = Vec::with_capacity(2);
        let woken = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut heard),
            limit.as_ref(),
        );
        if woken.is_err_and(|e| e != Errno::INTR) {
            // Nothing that is known leads here; it must not turn without a pause.
            std::thread::sleep(Duration::from_millis(1));
        }
        let whose = |event: &epoll::Event| event.data.u64();
        if heard.iter().any(|event| whose(event) == ORDER) {
            // The order itself is elsewhere.
            let _ = rustix::io::read(&*self.orders, &mut [0; 8]);
        }
        heard.iter().any(|event| whose(event) == SOURCE)
    }
}

impl Notifier {
    /// There is an order.
    pub fn ring(&self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn an_order_and_a_call_end_the_sleep() {
        let source = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let (wait_set, notifier) = WaitSet::new(Some(source.as_fd())).unwrap();
        let begun = Instant::now();
        notifier.ring();
        assert!(!wait_set.sleep(LONG), "an order is no call");
        for _ in 0..2 {
            // Nobody reads it: each call is heard once all the same.
            rustix::io::write(&source, &1u64.to_ne_bytes()).unwrap();
            assert!(wait_set.sleep(LONG));
        }
        assert!(begun.elapsed() < LONG);
        assert!(!wait_set.sleep(Duration::from_millis(1)), "nothing new");
    }

    #[test]
    fn an_order_that_came_before_is_heard() {
        let (wait_set, notifier) = WaitSet::new(None).unwrap();
        let begun = Instant::now();
        let other = std::thread::spawn(move || notifier.ring());
        other.join().unwrap();
        assert!(!wait_set.sleep(LONG));
        assert!(begun.elapsed() < LONG);
    }
}
