//! Code of the run whose critical sections were looked into, by its address in that run.

use convoy_profile::Process;
use convoy_symbols::CodeFiles;

use super::same_program;
use super::sources::Touched;

/// Read at once: the part of a function that a section executes, mostly.
const BYTES: usize = 256;

impl Touched {
    /// Code of the program and its libraries from an address on; `None` = it is in no file, or the
    /// agent's.
    pub(super) fn code(
        &self,
        recorded: &Process,
        files: &CodeFiles,
        address: u64,
    ) -> Option<Vec<u8>> {
        let (_, process) = same_program(self.profile.as_ref().ok()?, recorded)?;
        let mut modules = process.modules.iter();
        let module = modules.find(|module| (module.lo..module.hi).contains(&address))?;
        let name = module.path.rsplit('/').next().unwrap_or_default();
        let is_agent = name.starts_with("libconvoy");
        let offset = address.wrapping_sub(module.bias);
        (!is_agent)
            .then(|| files.read(&module.path, offset, BYTES))
            .flatten()
    }
}
