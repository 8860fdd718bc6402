//! A copy of a module's memory, with its code and its tables.

/// Memory of one mapping.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its address in the process.
    pub at: u64,
    /// What is there.
    pub bytes: Vec<u8>,
    /// It can be executed.
    pub is_code: bool,
}

impl Segment {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// All memory of a module that can be read.
#[derive(Debug, Clone, Default)]
pub struct Image(Vec<Segment>);

impl Image {
    /// From segments that do not overlap.
    pub fn new(mut segments: Vec<Segment>) -> Self {
        segments.retain(|s| s.at.checked_add(s.bytes.len() as u64).is_some());
        segments.sort_by_key(|s| s.at);
        Self(segments)
    }

    fn segment(&self, at: u64) -> Option<&Segment> {
        let below = self.0.partition_point(|s| s.at <= at).checked_sub(1)?;
        self.0.get(below).filter(|s| at < s.end())
    }

    /// All bytes from an address to the end of its segment.
    pub fn from(&self, at: u64) -> Option<&[u8]> {
        let segment = self.segment(at)?;
        segment.bytes.get((at - segment.at) as usize..)
    }

    /// Bytes of a range.
    pub fn range(&self, range: &std::ops::Range<u64>) -> Option<&[u8]> {
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        self.from(range.start)?.get(..length)
    }

    /// Whether an address is in code.
    pub fn is_code(&self, at: u64) -> bool {
        self.segment(at).is_some_and(|s| s.is_code)
    }

    /// Whether an address is in data.
    pub fn is_data(&self, at: u64) -> bool {
        self.segment(at).is_some_and(|s| !s.is_code)
    }
}
