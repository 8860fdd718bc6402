//! Names of the kernel's own functions, as it says them itself.

use libbpf_rs::{Object, ProgramInput};
use zerocopy::{FromZeros, IntoBytes};

use convoy_abi::BpfName;

/// The function that this address is in; `None` if the kernel does not say.
pub(super) fn name(object: &Object, address: u64) -> Option<String> {
    let mut programs = object.progs_mut();
    let program =
        programs.find(|program| program.name() == "name_address" && program.autoload())?;
    let mut asked = BpfName {
        address,
        ..BpfName::new_zeroed()
    };
    let input = ProgramInput {
        context_in: Some(asked.as_mut_bytes()),
        ..ProgramInput::default()
    };
    program.test_run(input).ok()?;
    plain(&asked.name).map(str::to_owned)
}

/// Without what stands behind it, "[module]"; an address that is in no function stays one, "0x...". Nothing of a name for which there was
/// no room.
fn plain(said: &[u8]) -> Option<&str> {
    let end = said.iter().position(|&byte| byte == 0)?;
    let said = said.get(..end).filter(|_| end + 1 < said.len())?;
    let name = said.split(|&byte| byte == b' ').next()?;
    let is_name = !name.is_empty() && !name.starts_with(b"0x") && name.is_ascii();
    std::str::from_utf8(name)
        .ok()
        .filter(|name| is_name && !name.contains(|c: char| c.is_ascii_control()))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_name_is_what_the_kernel_says_without_its_module() {
        assert_eq!(plain(b"schedule\0\0"), Some("schedule"));
        assert_eq!(plain(b"nf_hook_slow [nf]\0\0"), Some("nf_hook_slow"));
        assert_eq!(plain(b"0xffffffff81000000\0\0"), None);
        assert_eq!(plain(b"\0\0"), None);
        assert_eq!(plain(b"a\x1b[2J\0\0"), None);
        assert_eq!(plain(b"a_name_that_was_cut\0"), None);
    }
}
