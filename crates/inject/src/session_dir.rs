//! The session's directory in a process: by its path where the process sees it, else by a
//! descriptor that it is given (containers, mount namespaces, chroots).
//!
//! The borrowed thread makes a pair of sockets. convoy takes one of them (`pidfd_getfd`), and sends
//! the open directory through it.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use zerocopy::{Immutable, IntoBytes};

use crate::call::Borrowed;
use crate::memory::Memory;
use crate::safe_point;
use crate::tracee::Fault;
use convoy_probes::Refusal;

/// The directory as the process can name it.
#[derive(Debug)]
pub(crate) struct SessionDir {
    /// A path that the agent opens files below.
    pub path: String,
    descriptor: Option<u64>,
}

impl SessionDir {
    /// Makes `dir` reachable for the process.
    pub fn reach(
        pid: u32,
        thread: &mut Borrowed,
        memory: &Memory,
        dir: &Path,
    ) -> Result<Self, Refusal> {
        if let Some(path) = seen_by(pid, dir) {
            let descriptor = None;
            return Ok(Self { path, descriptor });
        }
        let open = confined(dir).map_err(|e| unreachable_dir(pid, dir, &e))?;
        let descriptor = hand_over(pid, thread, memory, &open).map_err(|fault| match fault {
            Fault::Refused(e) => unreachable_dir(pid, dir, &e),
            fault => safe_point::refused(pid, fault),
        })?;
        Ok(Self {
            path: format!("/proc/self/fd/{descriptor}"),
            descriptor: Some(descriptor),
        })
    }

    /// Closes the descriptor: the agent opens its files while it begins, and none later.
    pub fn close(self, thread: &mut Borrowed) {
        if let Some(descriptor) = self.descriptor {
            close(thread, descriptor);
        }
    }
}

/// The directory as a mount of its own (Linux 5.2), where ".." of it is itself: from a descriptor of
/// ours as it is, a program could walk out of its container.
fn confined(dir: &Path) -> io::Result<File> {
    const CLONE: libc::c_uint = 1; // OPEN_TREE_CLONE
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let flags = CLONE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: the path is a live text.
    let opened =
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    owned(opened).map(File::from)
}

/// What a system call that makes a descriptor has returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match result {
        fd if fd >= 0 => {
            // SAFETY: the kernel has just made it, for nobody else.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn unreachable_dir(pid: u32, dir: &Path, e: &io::Error) -> Refusal {
    Refusal::new(
        format!(
            "process {pid} does not see {}, and cannot be given it: {e}",
            dir.display()
        ),
        "run convoy in the same container, or name a directory that both see: --session-dir",
    )
}

/// The directory by the name that the process has for it.
fn seen_by(pid: u32, dir: &Path) -> Option<String> {
    let relative = dir.strip_prefix("/").ok()?;
    let theirs = PathBuf::from(format!("/proc/{pid}/root")).join(relative);
    let (ours, theirs) = (fs::metadata(dir).ok()?, fs::metadata(theirs));
    let is_same = match theirs {
        Ok(theirs) => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
        // Without the right to look, the agent will find out.
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    };
    is_same.then(|| dir.to_str().map(str::to_owned))?
}

/// Gives the process an open file; its descriptor there.
fn hand_over(pid: u32, thread: &mut Borrowed, memory: &Memory, file: &File) -> Result<u64, Fault> {
    let at = thread.bytes(&[0; 8])?;
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
    thread.system_call(
        libc::SYS_socketpair,
        [libc::AF_UNIX as u64, kind, 0, at, 0, 0],
    )?;
    let sockets: [i32; 2] = memory.get(at)?;
    let [near, far] = sockets.map(|fd| fd as u64);
    let ours = duplicate(pid, near);
    close(thread, near);
    let received = ours
        .and_then(|socket| send(&socket, file))
        .map_err(Fault::from)
        .and_then(|()| receive(thread, memory, far));
    close(thread, far);
    received
}

fn close(thread: &mut Borrowed, descriptor: u64) {
    // Of a thread that is gone it is gone as well.
    let _ = thread.system_call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
}

/// A descriptor of another process, as one of ours.
pub(crate) fn duplicate(pid: u32, descriptor: u64) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let process = process.as_raw_fd();
    // SAFETY: numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, descriptor, 0) })
}

/// A message of one byte with one descriptor beside it: `recvmsg` fills in what `sendmsg` reads.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Message {
    header: Header,
    piece_at: u64,
    piece_bytes: u64,
    byte: u64,
    beside: Beside,
}

/// `struct msghdr`, with addresses as numbers.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Header {
    name_at: u64,
    name_bytes: u64,
    pieces_at: u64,
    pieces: u64,
    control_at: u64,
    control_bytes: u64,
    flags: u64,
}

/// `struct cmsghdr` with one descriptor.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Beside {
    bytes: u64,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

/// Offsets in [`Message`].
const PIECE: u64 = std::mem::offset_of!(Message, piece_at) as u64;
const BYTE: u64 = std::mem::offset_of!(Message, byte) as u64;
const BESIDE: u64 = std::mem::offset_of!(Message, beside) as u64;
const DESCRIPTOR: u64 = BESIDE + std::mem::offset_of!(Beside, descriptor) as u64;

impl Message {
    /// One that will be at this address.
    fn at(at: u64, descriptor: i32) -> Self {
        const BESIDE_BYTES: usize = std::mem::size_of::<Beside>();
        Self {
            header: Header {
                name_at: 0,
                name_bytes: 0,
                pieces_at: at + PIECE,
                pieces: 1,
                control_at: at + BESIDE,
                control_bytes: BESIDE_BYTES as u64,
                flags: 0,
            },
            piece_at: at + BYTE,
            piece_bytes: 1,
            byte: 0,
            beside: Beside {
                bytes: (BESIDE_BYTES - std::mem::size_of::<i32>()) as u64,
                level: libc::SOL_SOCKET,
                kind: libc::SCM_RIGHTS,
                descriptor,
                padding: 0,
            },
        }
    }
}

fn send(socket: &OwnedFd, file: &File) -> io::Result<()> {
    // Whatever the process has put in the place of its socket: nobody waits.
    const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let mut message = Box::new(Message::at(0, file.as_raw_fd()));
    let at = &raw const *message as u64;
    *message = Message::at(at, file.as_raw_fd());
    // SAFETY: the message and all that it names live until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), at as *const libc::msghdr, FLAGS) };
    match sent {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn receive(thread: &mut Borrowed, memory: &Memory, socket: u64) -> Result<u64, Fault> {
    let at = thread.bytes(&[0; std::mem::size_of::<Message>()])?;
    memory.write(at, Message::at(at, -1).as_bytes())?;
    let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
    thread.system_call(libc::SYS_recvmsg, [socket, at, flags, 0, 0, 0])?;
    let descriptor: i32 = memory.get(at + DESCRIPTOR)?;
    // The kernel leaves it out where the process has no room for one more.
    u64::try_from(descriptor)
        .map_err(|_| Fault::Refused(io::Error::from_raw_os_error(libc::EMFILE)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_message_is_laid_out_as_the_c_library_has_it() {
        assert_eq!(
            std::mem::size_of::<Header>(),
            std::mem::size_of::<libc::msghdr>()
        );
        // SAFETY: arithmetic only.
        let space = unsafe { libc::CMSG_SPACE(4) };
        assert_eq!(std::mem::size_of::<Beside>(), space as usize);
    }

    #[test]
    fn a_sent_directory_arrives_as_the_same_one() {
        let (near, far) = UnixDatagram::pair().unwrap();
        let sent = File::open("/proc/self").unwrap();
        send(&near.into(), &sent).unwrap();
        let mut message = Box::new(Message::at(0, -1));
        let at = &raw const *message as u64;
        *message = Message::at(at, -1);
        // SAFETY: the message and all that it names live until the call returns.
        let received = unsafe { libc::recvmsg(far.as_raw_fd(), at as *mut libc::msghdr, 0) };
        assert_eq!(received, 1);
        // SAFETY: the kernel has written there.
        let descriptor = unsafe { std::ptr::read_volatile(&raw const message.beside.descriptor) };
        // SAFETY: the kernel has just made it.
        let received = unsafe { File::from_raw_fd(descriptor) };
        let inode = |file: &File| file.metadata().unwrap().ino();
        assert_eq!(inode(&received), inode(&sent));
    }
}
