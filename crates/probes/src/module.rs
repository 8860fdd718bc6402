//! A module of the probed process: its code, its functions, and where execution may come in.

use crate::functions::Functions;
use crate::image::Image;
use crate::targets::Targets;

/// Everything that the choice of probe sites needs to know.
#[derive(Debug)]
pub struct Module {
    pub(crate) image: Image,
    pub(crate) functions: Functions,
    pub(crate) targets: Targets,
}

impl Module {
    /// Analyses a module's memory, whose `.eh_frame` is at this address.
    pub fn new(image: Image, eh_frame: u64) -> Self {
        let functions = Functions::parse(&image, eh_frame);
        let targets = Targets::find(&image, &functions);
        Self {
            image,
            functions,
            targets,
        }
    }

    /// Its functions.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Bytes of its memory as they were when it was read.
    pub fn bytes(&self, at: u64, length: usize) -> Option<&[u8]> {
        self.image.from(at)?.get(..length)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(image: Image, ranges: &[std::ops::Range<u64>]) -> Self {
        let functions = Functions::for_tests(ranges);
        let targets = Targets::find(&image, &functions);
        Self {
            image,
            functions,
            targets,
        }
    }
}
