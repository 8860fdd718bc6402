//! Instructions of a process's code, read from the files of its modules.

use std::collections::{BTreeMap, HashMap};

use convoy_profile::{FrameIx, Process};

use crate::elf::Store;
use crate::{locate, Options};

/// Bytes of code from a frame's address on: enough for an instruction and a few behind it.
const CODE_BYTES: u64 = 64;

/// The code at these frames, from each one's address on, by frame. Frames in generated code, and those
/// of files that are gone or another build, are left out.
pub fn read_code(
    process: &Process,
    frames: impl IntoIterator<Item = FrameIx>,
    options: &Options,
) -> HashMap<FrameIx, Vec<u8>> {
    let mut by_module: BTreeMap<u32, BTreeMap<FrameIx, u64>> = BTreeMap::new();
    for ix in frames {
        let Some(frame) = process.frames.get(ix as usize) else {
            continue;
        };
        if let Some(module) = frame.module {
            let of_module = by_module.entry(module).or_default();
            of_module.insert(ix, frame.offset);
        }
    }
    let mut code = HashMap::new();
    for (module, frames) in by_module {
        let Some(module) = process.modules.get(module as usize) else {
            continue;
        };
        let store = Store::default();
        let Ok(found) = locate::own(&store, module, options) else {
            continue;
        };
        for (ix, address) in frames {
            // The end of the file's code may be nearer.
            let sizes = std::iter::successors(Some(CODE_BYTES), |size| Some(size / 2));
            let mut sizes = sizes.take_while(|size| *size > 0);
            let bytes = sizes.find_map(|size| found.image.bytes_at(address, size));
            code.extend(bytes.map(|bytes| (ix, bytes.to_vec())));
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use convoy_profile::{Frame, Module, Reason, Symbol};
    use object::{Object, ObjectSection};

    use super::*;

    fn frame(module: Option<u32>, offset: u64) -> Frame {
        Frame {
            pc: 0,
            module,
            offset,
            exact: true,
            no_rule: false,
            symbol: Symbol::Unknown(Reason::NotResolved),
        }
    }

    #[test]
    fn code_is_read_from_the_module_and_the_rest_is_left_out() {
        let exe = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&exe).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let text = file.section_by_name(".text").unwrap();
        let module = |path: &str| Module {
            path: path.to_owned(),
            build_id: file.build_id().unwrap().unwrap_or_default().to_vec(),
            ..Module::default()
        };
        let process = Process {
            modules: vec![module(exe.to_str().unwrap()), module("/nonexistent")],
            frames: vec![
                frame(Some(0), text.address() + 16),
                frame(Some(1), text.address()),
                frame(None, text.address()),
                frame(Some(0), u64::MAX),
            ],
            ..Process::default()
        };
        let code = read_code(&process, 0..9, &Options::default());
        assert_eq!(code.len(), 1);
        assert_eq!(code[&0], text.data().unwrap()[16..16 + 64]);
    }
}
