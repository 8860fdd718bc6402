//! A process as an injector sees it: its C library, its loader, and the copies of the agent in it.

use convoy_abi::{Attachment, CV_ATTACHMENT_MAGIC, CV_ATTACHMENT_VERSION};

use crate::call::{Gadgets, SIGRETURN};
use crate::dynamic::LoadedObject;
use crate::image::{mapped_file, Image};
use crate::memory::{regions, Memory, Region};
use convoy_probes::Refusal;

/// How the agent's file in memory is called, before a digest of its bytes.
pub(crate) const AGENT_PREFIX: &str = "/memfd:libconvoy-";

/// A library and where it is.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub image: Image,
    /// What is added to addresses of the file.
    pub bias: u64,
}

impl Loaded {
    /// Where a function is.
    pub fn address(&self, name: &str) -> Option<u64> {
        Some(self.image.symbols.get(name)?.address + self.bias)
    }

    /// First and last address of a function.
    pub fn range(&self, name: &str) -> Option<(u64, u64)> {
        let symbol = self.image.symbols.get(name)?;
        let lo = symbol.address + self.bias;
        Some((lo, lo + symbol.size.max(1)))
    }
}

/// A copy of the agent in the process.
#[derive(Debug)]
pub(crate) struct AgentCopy {
    /// Of its file; its digest is in there.
    pub path: String,
    /// Its code.
    pub text: std::ops::Range<u64>,
    pub base: u64,
    /// Address of its journal.
    pub journal_at: u64,
    pub journal: Box<Attachment>,
}

/// Everything that is found out about a process before it is touched.
#[derive(Debug)]
pub(crate) struct Process {
    pub pid: u32,
    pub regions: Vec<Region>,
    pub libc: Loaded,
}

impl Process {
    /// Looks at a process that uses glibc.
    pub fn look(pid: u32) -> Result<Self, Refusal> {
        let regions = regions(pid).map_err(|e| {
            Refusal::new(
                format!("the mappings of process {pid} cannot be read: {e}"),
                "run convoy as root or as the user of that process",
            )
        })?;
        let libc = regions
            .iter()
            .find(|r| r.offset == 0 && is_glibc(r.file_name()));
        let Some(region) = libc else {
            return Err(without_glibc(pid, &regions));
        };
        let loaded = mapped_file(pid, region).and_then(|bytes| Image::parse(&bytes));
        let Some(image) = loaded else {
            return Err(Refusal::new(
                format!(
                    "the C library of process {pid}, {}, cannot be read",
                    region.path
                ),
                "run convoy as root",
            ));
        };
        let bias = region.lo.wrapping_sub(image.first);
        let libc = Loaded { image, bias };
        Ok(Self { pid, regions, libc })
    }

    /// Whether it still runs the image that was looked at.
    pub fn is_unchanged(&self) -> bool {
        let libc = |all: &[Region]| {
            let region = all
                .iter()
                .find(|r| r.offset == 0 && is_glibc(r.file_name()));
            region.map(|r| (r.lo, r.inode))
        };
        regions(self.pid).is_ok_and(|now| libc(&now) == libc(&self.regions))
    }

    /// Code of the C library that calls are made with; `None` if it is not as known.
    pub fn gadgets(&self) -> Option<Gadgets> {
        let image = &self.libc.image;
        let symbol = image.symbols.get("syscall")?;
        let code = image.code_at(symbol.address)?.get(..symbol.size as usize)?;
        let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05])?;
        Some(Gadgets {
            syscall: symbol.address + self.libc.bias + at as u64,
            sigreturn: image.find_code(&SIGRETURN).first()? + self.libc.bias,
        })
    }

    /// The copies of the agent in the process, of any convoy.
    pub fn copies(&self, memory: &Memory) -> Vec<AgentCopy> {
        let first = self.regions.iter().filter(|r| r.offset == 0);
        let agents = first.filter(|r| r.path.starts_with(AGENT_PREFIX));
        agents
            .filter_map(|region| self.copy(memory, region))
            .collect()
    }

    fn copy(&self, memory: &Memory, region: &Region) -> Option<AgentCopy> {
        let object = LoadedObject::at(memory, region)?;
        let journal_at = object.address("convoy_attachment")?;
        let journal: Box<Attachment> = Box::new(memory.get(journal_at).ok()?);
        let is_known =
            journal.magic == CV_ATTACHMENT_MAGIC && journal.version == CV_ATTACHMENT_VERSION;
        let mut of_file = self.regions.iter().filter(|r| r.inode == region.inode);
        let text = of_file.find(|r| r.executable && r.path == region.path)?;
        is_known.then(|| AgentCopy {
            path: region.path.clone(),
            text: text.lo..text.hi,
            base: object.bias,
            journal_at,
            journal,
        })
    }
}

pub(crate) fn is_glibc(file: &str) -> bool {
    file == "libc.so.6" || (file.starts_with("libc-2.") && file.ends_with(".so"))
}

fn without_glibc(pid: u32, regions: &[Region]) -> Refusal {
    let found = match regions.iter().any(|r| r.file_name().starts_with("ld-musl")) {
        true => format!("process {pid} uses musl, not the GNU C library"),
        false => format!("process {pid} uses no GNU C library (it is static, or Go)"),
    };
    Refusal::new(
        found,
        "the scheduler's view has every thread; names of locks need glibc",
    )
}
