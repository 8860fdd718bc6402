//! What the test program has written.

use std::path::Path;

/// The state before an instruction.
pub struct Step {
    pub rip: u64,
    /// By their numbers.
    pub registers: [u64; 16],
    pub fs: u64,
    pub gs: u64,
    pub flags: u64,
    pub code: [u8; 16],
    /// 32 vector registers of 64 bytes and 8 masks, of instructions that may need them.
    pub vectors: Option<Vec<u8>>,
}

/// A case.
pub struct Section {
    pub native: Vec<u8>,
    pub translated: Vec<u8>,
    pub steps: Vec<Step>,
    pub end: u64,
    pub detail: u64,
    /// The log of blocks.
    pub blocks: Vec<u8>,
    pub words: Vec<u64>,
}

struct Reader(Vec<u8>, usize);

impl Reader {
    fn open(dir: &Path, name: &str) -> Self {
        Self(std::fs::read(dir.join(name)).expect(name), 0)
    }

    fn bytes(&mut self, count: usize) -> &[u8] {
        self.1 += count;
        &self.0[self.1 - count..self.1]
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().expect("8 bytes"))
    }

    fn part(&mut self) -> Vec<u8> {
        let count = self.u64() as usize;
        self.bytes(count).to_vec()
    }

    fn words(&mut self) -> Vec<u64> {
        let bytes = self.part();
        bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
            .collect()
    }
}

impl Section {
    pub fn read(dir: &Path) -> Self {
        let native = Reader::open(dir, "native").part();
        let mut step = Reader::open(dir, "step");
        step.part();
        let mut steps = Vec::new();
        let mut raw = Reader(step.part(), 0);
        while raw.1 < raw.0.len() {
            steps.push(Step {
                rip: raw.u64(),
                registers: std::array::from_fn(|_| raw.u64()),
                fs: raw.u64(),
                gs: raw.u64(),
                flags: raw.u64(),
                code: raw.bytes(16).try_into().expect("16 bytes"),
                vectors: (raw.u64() != 0).then(|| raw.bytes(32 * 64 + 64).to_vec()),
            });
        }
        let mut translated = Reader::open(dir, "translated");
        let result = translated.part();
        let ends = translated.words();
        Self {
            native,
            translated: result,
            steps,
            end: ends[1],
            detail: ends[2],
            blocks: translated.part(),
            words: translated.words(),
        }
    }
}
