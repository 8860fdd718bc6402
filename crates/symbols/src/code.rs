//! Machine code of a program's files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;

use object::{Object, ObjectSegment};

/// Reads code from files, each file once.
#[derive(Debug, Default)]
pub struct CodeFiles {
    /// By path; `None` = it cannot be read.
    files: RefCell<HashMap<String, Option<Vec<u8>>>>,
}

/// A file that is larger than this is not kept in memory.
const MOST_BYTES: u64 = 1 << 30;

impl CodeFiles {
    /// Code of a file from an address on, in the file's own numbering: `length` bytes, or as many as its
    /// segment has. `None` = the file cannot be read, or has nothing there.
    pub fn read(&self, path: &str, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut files = self.files.borrow_mut();
        let bytes = files.entry(path.to_owned()).or_insert_with(|| {
            let small = fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= MOST_BYTES);
            small.then(|| fs::read(path).ok()).flatten()
        });
        let file = object::File::parse(bytes.as_deref()?).ok()?;
        let segment = file.segments().find(|segment| {
            let begin = segment.address();
            (begin..begin.saturating_add(segment.size())).contains(&address)
        })?;
        let data = segment.data().ok()?;
        let at = usize::try_from(address - segment.address()).ok()?;
        let end = data.len().min(at.saturating_add(length));
        data.get(at..end).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_test_is_read_from_its_file() {
        let exe = std::env::current_exe().unwrap();
        let path = exe.to_str().unwrap();
        let bytes = fs::read(&exe).unwrap();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let entry = file.entry();
        let code = CodeFiles::default().read(path, entry, 16).unwrap();
        assert_eq!(code.len(), 16);
        assert!(code.iter().any(|byte| *byte != 0));
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        let files = CodeFiles::default();
        assert_eq!(files.read("/no/such/file", 0x1000, 16), None);
        let exe = std::env::current_exe().unwrap();
        assert_eq!(files.read(exe.to_str().unwrap(), u64::MAX, 16), None);
    }
}
