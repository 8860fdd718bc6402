//! The thread that takes the events of a source as they come.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use convoy_profile::SchedSource;

use super::listener_priority::{self, with_normal_priority, ListenerPriority, SchedClass};
use super::pipeline::{Collected, Pipeline};
use super::raw::EventSource;
use super::wait_set::{Notifier, WaitSet};
use crate::clock::monotonic_ns;

/// Between two deliveries of a source that does not call when something cannot wait, and of one that does after its call.
const SOON: Duration = Duration::from_millis(10);
/// What has come in is delivered when it is so old: the source keeps what is younger back, for the sake of order.
const SETTLED: Duration = Duration::from_millis(3);
/// Between two deliveries of a source that calls and has not. Who seldom gets a processor for a moment keeps a busy program from it less than who gets
/// it often, and finds its own data in the caches.
const PAUSE: Duration = Duration::from_millis(50);
/// The least between two looks at what does not call.
const SHORTEST: Duration = Duration::from_millis(5);

/// The run is cut into at most twice as many pieces.
const BINS: usize = 1000;

/// A source that is being listened to.
#[derive(Debug)]
pub(crate) struct Listener {
    orders: mpsc::Sender<Order>,
    notifier: Notifier,
    thread: JoinHandle<Collected>,
}

/// What the listening thread is told.
enum Order {
    /// The recording ended at this time.
    Stop(u64),
    /// Do this with the source, between two looks.
    With(Deed),
}

type Deed = Box<dyn FnOnce(&mut dyn EventSource) + Send>;

impl Listener {
    /// Begins to listen. `sample_period_ns` as the source samples; `intervals` of the timeline are kept. If that
    /// fails, the source is closed.
    pub fn start(
        source: Box<dyn EventSource>,
        sample_period_ns: u64,
        intervals: u32,
    ) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel();
        let options = convoy_sched::Options {
            source: source.kind(),
            sample_period_ns,
            bins: BINS,
            intervals: intervals as usize,
        };
        let (wait_set, notifier) = WaitSet::new(source.calls())?;
        let pipeline = Pipeline::new(options);
        let thread = std::thread::Builder::new()
            .name("convoy-listen".into())
            .spawn(move || listen(source, &inbox, &wait_set, pipeline))?;
        Ok(Self {
            orders,
            notifier,
            thread,
        })
    }

    /// Does something with the source, in the listening thread.
    pub fn with(&self, act: impl FnOnce(&mut dyn EventSource) + Send + 'static) {
        // The thread takes orders until it is told to stop, which only happens by value.
        let _ = self.orders.send(Order::With(Box::new(act)));
        self.notifier.ring();
    }

    /// The recording ended at `end_ns`: what was heard. `None` if the listening thread has panicked.
    pub fn stop(self, end_ns: u64) -> Option<Collected> {
        let _ = self.orders.send(Order::Stop(end_ns));
        self.notifier.ring();
        self.thread.join().ok()
    }
}

/// The listening thread.
fn listen(
    mut source: Box<dyn EventSource>,
    inbox: &mpsc::Receiver<Order>,
    wait_set: &WaitSet,
    mut pipeline: Pipeline,
) -> Collected {
    // Records of perf events are gone sooner, and are read by whom nobody would make as good as others again.
    let mut priority = match source.kind() {
        SchedSource::Bpf => ListenerPriority::of_this_thread(),
        _ => None,
    };
    let pause = match source.calls() {
        Some(_) => PAUSE,
        None => SOON,
    };
    let mut delivered = Instant::now();
    let (mut due, mut pressing) = (delivered + pause, 0);
    loop {
        match inbox.try_recv() {
            Ok(Order::Stop(end_ns)) => {
                drop(priority); // what is left is as long as it is
                source.drain(&mut pipeline, true);
                return pipeline.finish(end_ns, |address| source.kernel_name(address));
            }
            Ok(Order::With(act)) => {
                listener_priority::work(priority.as_ref(), SchedClass::Normal, || {
                    act(source.as_mut())
                });
                continue;
            }
            // Only if the recorder has panicked: nobody will ask for the result.
            Err(mpsc::TryRecvError::Disconnected) => {
                drop(priority);
                return pipeline.finish(u64::MAX, |_| None);
            }
            Err(mpsc::TryRecvError::Empty) => {}
        }
        let is_due = Instant::now() >= due;
        let class = match &mut priority {
            Some(priority) if pressing == 0 => priority.class(is_due),
            _ => SchedClass::Normal,
        };
        let turn = || {
            if is_due {
                source.drain(&mut pipeline, false);
            }
            // At programs, too, that were not known before; as one of many that want a processor: in the gaps that they leave all would seem idle.
            with_normal_priority(|| pipeline.look())
        };
        let look_ns = listener_priority::work(priority.as_ref(), class, turn);
        if is_due {
            pressing = u32::saturating_sub(pressing, 1);
            delivered = Instant::now();
            due = delivered
                + match pressing {
                    0 => pause,
                    _ => SOON + SETTLED,
                };
        }
        let mut limit = due.saturating_duration_since(Instant::now());
        if let Some(look_ns) = look_ns {
            let until = Duration::from_nanos(look_ns.saturating_sub(monotonic_ns()));
            limit = limit.min(until.max(SHORTEST));
        }
        if wait_set.sleep(limit) {
            // What called, and what came in so soon after it that it does not call again.
            pressing = 2;
            let settled = Instant::now() + SETTLED;
            due = due.min(settled.max(delivered + SOON));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw::{Raw, Sink};
    use super::*;

    /// Delivers one thread that is there, and fails if it was told to.
    struct Source {
        fails: bool,
        dropped: mpsc::Sender<()>,
    }

    impl EventSource for Source {
        fn kind(&self) -> SchedSource {
            SchedSource::Bpf
        }

        fn drain(&mut self, sink: &mut dyn Sink, last: bool) {
            assert!(!self.fails, "on purpose");
            if last {
                sink.take(&Raw::Init {
                    ts: 5,
                    tid: 4_000_000, // above the kernel's limit
                    pid: 4_000_000,
                    comm: [0; 16],
                    left: None,
                    on_cpu: true,
                });
            }
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            let _ = self.dropped.send(());
        }
    }

    fn heard(fails: bool) -> Option<Collected> {
        let (dropped, is_dropped) = mpsc::channel();
        let listener = Listener::start(Box::new(Source { fails, dropped }), 0, 100).unwrap();
        let heard = listener.stop(10);
        assert!(is_dropped.try_recv().is_ok(), "the source is still open");
        heard
    }

    #[test]
    fn what_comes_at_the_very_end_is_heard() {
        assert_eq!(heard(false).unwrap().output.images.len(), 1);
    }

    #[test]
    fn a_listener_that_fails_closes_its_source_and_takes_nobody_along() {
        assert!(heard(true).is_none());
    }
}
