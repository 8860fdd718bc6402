//! Measures what a uprobe costs on this machine: calls functions of convoy's own with one and
//! without.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use super::uprobe::Place;

/// Calls of a batch: short, so that some batches are not interrupted on a busy machine.
const CALLS: u32 = 200;

/// Batches; the fastest counts. At 10 us a call they take 20 ms.
const BATCHES: usize = 10;

// The kernel emulates the first instruction of the one, and single-steps that of the other.
core::arch::global_asm!(
    ".pushsection .text.convoy_uprobe_price, \"ax\", @progbits",
    ".p2align 4",
    ".hidden convoy_uprobe_emulated",
    ".globl convoy_uprobe_emulated",
    "convoy_uprobe_emulated:",
    "push rbp",
    "pop rbp",
    "ret",
    ".p2align 4",
    ".hidden convoy_uprobe_stepped",
    ".globl convoy_uprobe_stepped",
    "convoy_uprobe_stepped:",
    "xor eax, eax",
    "ret",
    ".popsection",
);

extern "C" {
    fn convoy_uprobe_emulated();
    fn convoy_uprobe_stepped();
}

/// CPU time that one call of a probed function costs, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UprobePrices {
    /// On an instruction that the kernel emulates.
    pub emulated_ns: u64,
    /// On any other one.
    pub stepped_ns: u64,
}

impl UprobePrices {
    /// Measured once.
    ///
    /// # Errors
    /// There is no right to put uprobes in, or the kernel has none.
    pub fn here() -> io::Result<Self> {
        static PRICES: OnceLock<UprobePrices> = OnceLock::new();
        if let Some(prices) = PRICES.get() {
            return Ok(*prices);
        }
        let prices = Self {
            emulated_ns: price(convoy_uprobe_emulated)?,
            stepped_ns: price(convoy_uprobe_stepped)?,
        };
        Ok(*PRICES.get_or_init(|| prices))
    }
}

fn price(function: unsafe extern "C" fn()) -> io::Result<u64> {
    let pid = std::process::id();
    let place = Place::of(pid, function as usize as u64)?;
    let bare = batch_ns(function);
    // It counts this thread only.
    let probed = place.count(rustix::thread::gettid().as_raw_nonzero().get() as u32)?;
    let with = batch_ns(function);
    drop(probed);
    Ok(with.saturating_sub(bare).max(1))
}

/// Nanoseconds of a call in the fastest batch.
fn batch_ns(function: unsafe extern "C" fn()) -> u64 {
    let batch = || {
        let began = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: it changes no register that a call has to keep, and no memory but its stack.
            unsafe { function() };
        }
        began.elapsed().as_nanos() / u128::from(CALLS)
    };
    let fastest = (0..BATCHES).map(|_| batch()).min().unwrap_or(0);
    u64::try_from(fastest).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_instruction_is_cheaper_than_a_stepped_one() {
        let prices = match UprobePrices::here() {
            Ok(prices) => prices,
            Err(e) => {
                eprintln!("skipped: no uprobes here: {e}");
                return;
            }
        };
        assert!(prices.emulated_ns > 50, "{prices:?}");
        assert!(prices.stepped_ns > prices.emulated_ns, "{prices:?}");
    }
}
