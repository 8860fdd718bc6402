//! What a descriptor of a process stands for: a file, a pipe, or which end of which connection.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use convoy_profile::NameIx;
use convoy_sched::Map;

/// A descriptor is looked up again after this long: numbers are reused.
const FRESH_NS: u64 = 200_000_000;

/// The kernel's tables of sockets are read again for a socket that they do not hold after that many times as long as it
/// took to read them, in these limits: a machine with many connections has long ones.
const SOCKETS_PAUSE: u32 = 100;
const SOCKETS_PAUSE_NS: (u64, u64) = (20_000_000, 10_000_000_000);

/// Descriptors that are remembered; a server may have one for each of its connections.
const REMEMBERED: usize = 8192;

/// Descriptors of a process among which one that is listened at is looked for: servers open it before they have connections.
const LISTENING: usize = 256;

/// Names that are kept apart. A program that opens a million files gets one name for the rest.
const NAMES: usize = 4096;

/// How the name of a socket ends at which connections arrive.
const LISTENS: &str = ", listening";

/// The name of everything beyond [`NAMES`].
const OTHERS: &str = "(other files)";

/// A descriptor's name, and when that was.
#[derive(Debug, Clone, Copy)]
struct Known {
    name: Option<NameIx>,
    at_ns: u64,
}

/// Names of descriptors, each text once.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    names: Vec<String>,
    index: HashMap<String, NameIx>,
    known: Map<(u32, i32), Known>,
    /// By namespace.
    sockets: Map<u64, Sockets>,
    /// The namespaces of processes.
    namespaces: Map<u32, u64>,
    listening: BTreeSet<u32>,
}

/// The sockets of a network namespace: of a server of many processes all have the same.
#[derive(Debug, Default)]
struct Sockets {
    by_inode: Map<u64, String>,
    again_ns: u64,
}

impl Descriptors {
    /// The name of descriptor `fd` of process `pid`, as of about `now_ns`; `None` if it cannot be had.
    pub fn name(&mut self, pid: u32, fd: i32, now_ns: u64) -> Option<NameIx> {
        if fd < 0 {
            return None;
        }
        if let Some(known) = self.known.get(&(pid, fd)) {
            if now_ns.saturating_sub(known.at_ns) < FRESH_NS {
                return known.name;
            }
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let name = fs::read_link(format!("/proc/{pid}/fd/{fd}"))
            .ok()
            .map(|link| self.describe(pid, &link.to_string_lossy(), now_ns))
            // Closed or gone meanwhile: what it was a moment ago is the best answer.
            .or_else(|| self.known.get(&(pid, fd)).and_then(|known| known.name));
        let known = Known {
            name,
            at_ns: now_ns,
        };
        self.known.insert((pid, fd), known);
        name
    }

    /// The text of a name.
    pub fn text(&self, name: NameIx) -> Option<&str> {
        self.names.get(name as usize).map(String::as_str)
    }

    /// All names.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }

    /// Whether a process has a socket that is listened at, as far as its sockets were looked up.
    pub fn listens(&self, pid: u32) -> bool {
        self.listening.contains(&pid)
    }

    /// Looks whether a process has a socket that is listened at.
    pub fn look(&mut self, pid: u32, now_ns: u64) {
        if self.listening.contains(&pid) {
            return;
        }
        let mut sockets = sockets_of(pid);
        if sockets.any(|inode| self.socket(pid, inode, now_ns).ends_with(LISTENS)) {
            self.listening.insert(pid);
        }
    }

    /// The process has gone: its numbers mean nothing any more, and its own may be another's.
    pub fn forget(&mut self, pid: u32) {
        self.known.retain(|(of, _), _| *of != pid);
        self.listening.remove(&pid);
        if let Some(left) = self.namespaces.remove(&pid) {
            if self.namespaces.values().all(|&used| used != left) {
                self.sockets.remove(&left);
            }
        }
    }

    fn describe(&mut self, pid: u32, link: &str, now_ns: u64) -> NameIx {
        let text = match inode(link) {
            Some(inode) => self.socket(pid, inode, now_ns),
            // The number of a pipe says nothing to anybody, and would be another in each run.
            None if link.starts_with("pipe:[") => "pipe: unnamed".to_owned(),
            None => link.trim_end_matches(" (deleted)").to_owned(),
        };
        self.intern(text)
    }

    fn socket(&mut self, pid: u32, inode: u64, now_ns: u64) -> String {
        let (namespace, new) = match self.namespaces.get(&pid) {
            Some(&known) => (known, false),
            // Where nobody may look it is the process's alone.
            None => (namespace(pid).unwrap_or(u64::from(pid)), true),
        };
        self.namespaces.insert(pid, namespace);
        let sockets = self.sockets.entry(namespace).or_default();
        let mut look = new;
        if !sockets.by_inode.contains_key(&inode) && now_ns >= sockets.again_ns {
            look = true;
            let started = Instant::now();
            sockets.by_inode = read_sockets(pid);
            let pause = started.elapsed() * SOCKETS_PAUSE;
            let pause = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            let pause = pause.clamp(SOCKETS_PAUSE_NS.0, SOCKETS_PAUSE_NS.1);
            sockets.again_ns = now_ns.saturating_add(pause);
        }
        if look && !self.listening.contains(&pid) && has_one(pid, &sockets.by_inode) {
            self.listening.insert(pid);
        }
        sockets
            .by_inode
            .get(&inode)
            .cloned()
            .unwrap_or_else(|| "socket:".to_owned())
    }

    fn intern(&mut self, text: String) -> NameIx {
        if let Some(&ix) = self.index.get(&text) {
            return ix;
        }
        let text = if self.names.len() >= NAMES {
            OTHERS.to_owned()
        } else {
            text
        };
        let next = self.names.len() as NameIx;
        *self.index.entry(text).or_insert_with_key(|text| {
            self.names.push(text.clone());
            next
        })
    }
}

/// Of a socket, from what a descriptor links to.
fn inode(link: &str) -> Option<u64> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

/// Number of a process's network namespace; `None` if it cannot be had.
fn namespace(pid: u32) -> Option<u64> {
    let link = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    Some(link.ino())
}

/// Whether one of a process's descriptors is a socket that is listened at.
fn has_one(pid: u32, sockets: &Map<u64, String>) -> bool {
    let mut names = sockets_of(pid).filter_map(|inode| sockets.get(&inode));
    names.any(|name| name.ends_with(LISTENS))
}

/// Sockets among the first [`LISTENING`] descriptors of a process; none if these cannot be had.
fn sockets_of(pid: u32) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let descriptors = descriptors.into_iter().flatten().flatten();
    descriptors.take(LISTENING).filter_map(|descriptor| {
        let link = fs::read_link(descriptor.path()).ok()?;
        inode(&link.to_string_lossy())
    })
}

/// All sockets that a process can see: inode to what a person would call it.
fn read_sockets(pid: u32) -> Map<u64, String> {
    let table = |name: &str| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
    let mut all = Map::default();
    for protocol in ["tcp", "tcp6", "udp", "udp6"] {
        if let Ok(text) = table(protocol) {
            internet(protocol.trim_end_matches('6'), &text, &mut all);
        }
    }
    if let Ok(text) = table("unix") {
        unix(&text, &mut all);
    }
    all
}

/// A connection is called by the end that has the well-known port: thousands of clients are one name.
fn internet(protocol: &str, table: &str, all: &mut Map<u64, String>) {
    const LISTEN: &str = "0A";
    let port = |end: &str| {
        let (_, port) = end.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .filter(|row: &Vec<&str>| row.len() > 9)
        .collect();
    let listening: Vec<u16> = rows
        .iter()
        .filter(|row| row[3] == LISTEN)
        .filter_map(|row| port(row[1]))
        .collect();
    for row in rows {
        let (Some(local), Some(remote), Ok(inode)) = (port(row[1]), port(row[2]), row[9].parse())
        else {
            continue;
        };
        let text = if row[3] == LISTEN {
            format!("socket: {protocol} port {local}{LISTENS}")
        } else if listening.contains(&local) || remote == 0 {
            format!("socket: {protocol} port {local}")
        } else {
            format!("socket: {protocol} to port {remote}")
        };
        all.insert(inode, text);
    }
}

fn unix(table: &str, all: &mut Map<u64, String>) {
    const ACCEPTS: &str = "00010000";
    // Num RefCount Protocol Flags Type St Inode Path
    for line in table.lines().skip(1) {
        let row: Vec<&str> = line.split_whitespace().collect();
        if let Some(Ok(inode)) = row.get(6).map(|inode| inode.parse()) {
            let listens = row.get(3).is_some_and(|flags| *flags == ACCEPTS);
            let text = match row.get(7) {
                Some(path) if listens => format!("socket: unix {path}{LISTENS}"),
                Some(path) => format!("socket: unix {path}"),
                None => "socket: unix".to_owned(),
            };
            all.insert(inode, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn name_of(descriptors: &mut Descriptors, fd: i32, now_ns: u64) -> Option<String> {
        let name = descriptors.name(std::process::id(), fd, now_ns)?;
        descriptors.text(name).map(str::to_owned)
    }

    #[test]
    fn files_pipes_and_sockets_have_names() {
        let mut all = Descriptors::default();
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_string_lossy().into_owned();
        assert_eq!(
            name_of(&mut all, file.as_file().as_raw_fd(), 1),
            Some(path.clone())
        );

        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(
            name_of(&mut all, reader.as_raw_fd(), 1),
            Some("pipe: unnamed".into())
        );

        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(
            name_of(&mut all, server.as_raw_fd(), 1),
            Some(format!("socket: tcp port {port}, listening"))
        );
        assert_eq!(
            name_of(&mut all, client.as_raw_fd(), 1),
            Some(format!("socket: tcp to port {port}"))
        );
        assert!(all.listens(std::process::id()));
        assert_eq!(name_of(&mut all, -1, 1), None);
        assert_eq!(name_of(&mut all, 1 << 20, 1), None);
    }

    #[test]
    fn a_reused_number_gets_its_new_name_after_a_while() {
        let mut all = Descriptors::default();
        let (reader, writer) = std::io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        assert_eq!(name_of(&mut all, fd, 1), Some("pipe: unnamed".into()));
        drop((reader, writer));
        assert_eq!(
            name_of(&mut all, fd, 2),
            Some("pipe: unnamed".into()),
            "remembered"
        );
    }

    #[test]
    fn processes_of_one_namespace_share_its_sockets() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = server.as_raw_fd();
        let me = std::process::id();
        // It inherits the socket: descriptors 0 to 2 are not closed by exec.
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .stdin(std::os::fd::OwnedFd::from(server.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let mut all = Descriptors::default();
        let mine = all.name(me, fd, 1);
        let child_s = all.name(child.id(), 0, 2); // too early to read the table again
        assert!(mine.is_some() && mine == child_s);
        assert_eq!(all.sockets.len(), 1);
        assert!(all.listens(me) && all.listens(child.id()));
        all.forget(child.id());
        assert!(!all.listens(child.id()), "another one may get its number");
        all.look(child.id(), 3);
        assert!(all.listens(child.id()), "whether it waits there or not");
        all.forget(child.id());
        assert!(all.listens(me) && all.sockets.len() == 1);
        all.forget(me);
        assert!(all.sockets.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_are_bounded() {
        let mut all = Descriptors::default();
        for i in 0..NAMES + 10 {
            all.intern(format!("/file/{i}"));
        }
        assert_eq!(all.names.len(), NAMES + 1);
        assert_eq!(all.names.last().map(String::as_str), Some(OTHERS));
    }
}
