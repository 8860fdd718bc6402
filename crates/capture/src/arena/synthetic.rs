//! Builds arenas for the tests, block by block as the agent does.

use convoy_abi as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub(crate) struct Builder {
    bytes: Vec<u8>,
    pub header: abi::Arena,
}

/// A reference to a byte offset.
pub(crate) fn reference(offset: usize) -> abi::Ref {
    assert_eq!(offset % 64, 0);
    (offset / 64) as abi::Ref
}

impl Builder {
    pub fn new() -> Self {
        let header = abi::Arena {
            magic: abi::CV_ARENA_MAGIC,
            version: abi::CV_ABI_VERSION,
            header_bytes: abi::CV_ARENA_HEADER_BYTES as u32,
            size_bytes: 1 << 30,
            pid: 100,
            ppid: 99,
            start_ns: 1_000,
            end_ns: 9_000,
            state: abi::CV_PROCESS_EXITED,
            inline_mutex: 1,
            ..abi::Arena::default()
        };
        Self {
            bytes: vec![0; abi::CV_ARENA_HEADER_BYTES],
            header,
        }
    }

    /// Adds a block; the offset of its first item.
    pub fn block<T: IntoBytes + Immutable>(
        &mut self,
        kind: u32,
        owner: u32,
        first_id: u32,
        items: &[T],
    ) -> usize {
        self.raw_block(
            kind,
            owner,
            first_id,
            size_of::<T>() as u32,
            items.len() as u32,
            items.as_bytes(),
        )
    }

    /// Adds a block of stacks; the reference of each.
    pub fn stacks(&mut self, stacks: &[&[u32]]) -> Vec<abi::Ref> {
        let mut payload = Vec::new();
        let mut places = Vec::new();
        for stack in stacks {
            places.push(payload.len());
            payload.extend((stack.len() as u32).to_le_bytes());
            payload.extend(stack.as_bytes());
            payload.resize(payload.len().next_multiple_of(64), 0);
        }
        let at = self.raw_block(
            abi::CV_BLOCK_STACKS,
            u32::MAX,
            0,
            1,
            payload.len() as u32,
            &payload,
        );
        places
            .into_iter()
            .map(|place| reference(at + place))
            .collect()
    }

    fn raw_block(
        &mut self,
        kind: u32,
        owner: u32,
        first_id: u32,
        item: u32,
        used: u32,
        payload: &[u8],
    ) -> usize {
        let size = (64 + payload.len()).next_multiple_of(64);
        let header = abi::Block {
            kind,
            item_bytes: item,
            bytes: size as u64,
            used,
            owner,
            first_id,
            reserved: [0; 9],
        };
        let start = self.bytes.len();
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(payload);
        self.bytes.resize(start + size, 0);
        start + 64
    }

    /// Room that was claimed, but whose header was never written.
    pub fn gap(&mut self, bytes: usize) {
        self.bytes
            .resize(self.bytes.len() + bytes.next_multiple_of(64), 0);
    }

    /// Change a record that was added before.
    pub fn change<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut T),
    ) {
        let (mut value, _) = T::read_from_prefix(&self.bytes[at..]).expect("a record of this type");
        change(&mut value);
        self.bytes[at..at + size_of::<T>()].copy_from_slice(value.as_bytes());
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.header.bump = self.bytes.len() as u64;
        self.bytes[..abi::CV_ARENA_HEADER_BYTES].copy_from_slice(self.header.as_bytes());
        self.bytes
    }
}
