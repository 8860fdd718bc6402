//! The thread that takes the events of a source as they come.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use convoy_profile::SchedSource;

use super::pipeline::{Collected, Pipeline};
use super::raw::EventSource;

/// Between two looks at the rings. They hold ten times as much as the busiest machine makes in that time.
const INTERVAL: Duration = Duration::from_millis(10);

/// The run is cut into at most twice as many pieces.
const BINS: usize = 1000;

/// A source that is being listened to.
#[derive(Debug)]
pub(crate) struct Listener {
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<Collected>,
    source: SchedSource,
}

/// What the listening thread is told.
enum Order {
    /// The recording ended at this time.
    Stop(u64),
    /// Do this with the source, between two looks.
    With(Box<dyn FnOnce(&mut dyn EventSource) + Send>),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Heard {
    pub source: SchedSource,
    pub collected: Collected,
}

impl Listener {
    /// Begins to listen. `sample_period_ns` as the source samples.
    pub fn start(mut source: Box<dyn EventSource>, sample_period_ns: u64) -> Self {
        let (orders, inbox) = mpsc::channel();
        let kind = source.kind();
        let options = convoy_sched::Options {
            source: kind,
            sample_period_ns,
            bins: BINS,
        };
        let thread = std::thread::Builder::new()
            .name("convoy-listen".into())
            .spawn(move || {
                let mut pipeline = Pipeline::new(options);
                loop {
                    match inbox.recv_timeout(INTERVAL) {
                        Ok(Order::Stop(end_ns)) => {
                            source.drain(&mut pipeline, true);
                            drop(source); // what it does to other programs ends here
                            return pipeline.finish(end_ns);
                        }
                        Ok(Order::With(act)) => act(source.as_mut()),
                        Err(mpsc::RecvTimeoutError::Timeout) => source.drain(&mut pipeline, false),
                        // Only if the recorder has panicked: nobody will ask for the result.
                        Err(mpsc::RecvTimeoutError::Disconnected) => {
                            return pipeline.finish(u64::MAX)
                        }
                    }
                }
            })
            .expect("a thread can be made");
        Self {
            orders,
            thread,
            source: kind,
        }
    }

    /// Does something with the source, in the listening thread.
    pub fn with(&self, act: impl FnOnce(&mut dyn EventSource) + Send + 'static) {
        // The thread takes orders until it is told to stop, which only happens by value.
        let _ = self.orders.send(Order::With(Box::new(act)));
    }

    /// The recording ended at `end_ns`: what was heard. `None` if the listening thread has panicked.
    pub fn stop(self, end_ns: u64) -> Option<Heard> {
        let _ = self.orders.send(Order::Stop(end_ns));
        let collected = self.thread.join().ok()?;
        Some(Heard {
            source: self.source,
            collected,
        })
    }
}
