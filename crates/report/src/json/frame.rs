//! A place in the code.

use convoy_model::SiteFrame;
use serde::Serialize;

#[derive(Serialize)]
pub struct FrameOut<'a> {
    function: &'a str,
    file: &'a str,
    line: Option<u32>,
    module: &'a str,
    offset: u64,
    inlined: bool,
    unknown: &'a str,
}

pub fn frame(f: &SiteFrame) -> FrameOut<'_> {
    FrameOut {
        function: &f.function,
        file: &f.file,
        line: (f.line > 0).then_some(f.line),
        module: &f.module,
        offset: f.offset,
        inlined: f.inlined,
        unknown: &f.unknown,
    }
}
