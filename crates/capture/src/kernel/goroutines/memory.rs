//! The memory of a process, many small pieces at once, without stopping it.

/// Pieces that the kernel takes in one call.
const PIECES: usize = 1024;

/// Addresses of processes: not the first page, and far from where sums overflow.
pub(super) const ADDRESSES: std::ops::Range<u64> = 4096..1 << 57;

/// Of one process. It may end at any time: then nothing can be read any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory(pub u32);

impl Memory {
    /// Fills the buffer; false if that is not all there.
    pub fn fill(self, address: u64, buffer: &mut [u8]) -> bool {
        self.fill_all(&[address], buffer.len(), buffer) == 1
    }

    /// Pieces of `size` bytes at these addresses, one behind the other in the buffer: how many there are, from the first one on.
    /// They are read one after the other.
    pub fn fill_all(self, addresses: &[u64], size: usize, buffer: &mut [u8]) -> usize {
        if size == 0 {
            return addresses.len();
        }
        let mut filled = 0;
        let chunks = addresses
            .chunks(PIECES)
            .zip(buffer.chunks_mut(PIECES * size));
        for (addresses, buffer) in chunks {
            let remote: Vec<libc::iovec> = addresses
                .iter()
                .map(|&address| libc::iovec {
                    iov_base: address as *mut libc::c_void,
                    iov_len: size,
                })
                .collect();
            let local = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len().min(size * addresses.len()),
            };
            // SAFETY: the kernel writes into `buffer`, which is borrowed for the call and as long as `local` says; addresses of
            // the other process are only looked up there.
            let read = unsafe {
                libc::process_vm_readv(
                    self.0 as libc::pid_t,
                    &local,
                    1,
                    remote.as_ptr(),
                    remote.len() as libc::c_ulong,
                    0,
                )
            };
            let pieces = usize::try_from(read).unwrap_or(0) / size;
            filled += pieces;
            if pieces < addresses.len() {
                break;
            }
        }
        filled
    }

    pub fn u64(self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.fill(address, &mut bytes)
            .then(|| u64::from_le_bytes(bytes))
    }

    pub fn u32(self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.fill(address, &mut bytes)
            .then(|| u32::from_le_bytes(bytes))
    }

    /// A string of Go, where what it consists of lies there: its address, and how long it is. `None` if that is more than `longest` bytes.
    pub fn text(self, address: u64, longest: u64) -> Option<String> {
        let mut words = [0; 16];
        self.fill(address, &mut words).then_some(())?;
        let (at, length) = words.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        let (at, length) = (word(at)?, word(length)?);
        if length > longest || !ADDRESSES.contains(&at) {
            return None;
        }
        let mut bytes = vec![0; length as usize];
        self.fill(at, &mut bytes)
            .then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn pieces_come_one_behind_the_other_up_to_the_first_that_is_missing() {
        let me = Memory(std::process::id());
        let words: Vec<u64> = (0..3000).collect();
        let address = |ix: &u64| words.as_ptr() as u64 + 8 * ix;
        let mut addresses: Vec<u64> = words.iter().rev().map(address).collect();
        let mut buffer = vec![0; 8 * words.len()];
        assert_eq!(me.fill_all(&addresses, 8, &mut buffer), 3000);
        let read = buffer
            .chunks(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        assert!(read.eq(words.iter().rev().copied()));
        addresses[2000] = 8;
        assert_eq!(me.fill_all(&addresses, 8, &mut buffer), 2000);
        assert_eq!(me.u64(8), None);
    }

    #[test]
    fn texts_are_what_a_program_says_and_nothing_else() {
        let me = Memory(std::process::id());
        let text = |at: u64, length: u64| {
            let words = std::hint::black_box([at, length]);
            me.text(words.as_ptr() as u64, 8)
        };
        let at = b"goroutine".as_ptr() as u64;
        assert_eq!(text(at, 2).as_deref(), Some("go"));
        assert_eq!(text(at, 0).as_deref(), Some(""), "of nothing, anywhere");
        assert_eq!(text(at, 9), None, "too long");
        assert_eq!(text(at, u64::MAX), None);
        assert_eq!(text(0, 2), None);
        assert_eq!(text(u64::MAX, 2), None);
        assert_eq!(me.text(u64::MAX - 4, 8), None);
    }
}
