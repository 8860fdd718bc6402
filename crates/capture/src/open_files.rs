//! Files, pipes and sockets that a process has open, by descriptor.

use std::fs;

use crate::clock::monotonic_ns;
use crate::kernel::descriptors::Descriptors;

/// Reads the descriptors of a process again and again.
#[derive(Debug)]
pub struct OpenFiles {
    pid: u32,
    names: Descriptors,
}

impl OpenFiles {
    /// Of a process.
    pub fn of(pid: u32) -> Self {
        Self {
            pid,
            names: Descriptors::default(),
        }
    }

    /// All descriptors with their names: paths, and for sockets the protocol and port. None where
    /// they may not be read.
    pub fn read(&mut self) -> Vec<(u32, String)> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid));
        let entries = entries.into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let now_ns = monotonic_ns();
        let named = numbers.filter_map(|number| {
            let name = self
                .names
                .name(self.pid, i32::try_from(number).ok()?, now_ns)?;
            Some((number, self.names.text(name)?.to_owned()))
        });
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn files_and_sockets_are_named() {
        let mut open = OpenFiles::of(std::process::id());
        let file = tempfile::NamedTempFile::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = open.read();
        let name = |fd: i32| {
            let found = all.iter().find(|(number, _)| *number == fd as u32);
            found.map(|(_, name)| name.as_str())
        };
        assert_eq!(name(file.as_file().as_raw_fd()), file.path().to_str());
        let port = listener.local_addr().unwrap().port();
        let socket = format!("socket: tcp port {port}, listening");
        assert_eq!(name(listener.as_raw_fd()), Some(socket.as_str()));
    }
}
