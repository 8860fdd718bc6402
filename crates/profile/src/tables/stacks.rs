//! Call stacks: a column of depths, then all frames.

use super::Row;
use crate::bytes::{In, Malformed, Out};
use crate::FrameIx;

/// A call stack, leaf first.
pub(crate) type Stack = Vec<FrameIx>;

impl Row for Stack {
    const TAG: [u8; 4] = *b"STAK";
    const NAME: &'static str = "call stacks";

    fn weight(&self) -> usize {
        1 + 4 * self.len()
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.values(rows.iter().map(|stack| stack.len() as u64));
        out.deltas(rows.iter().flatten().copied());
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let depths: Vec<u64> = input.values(rows)?;
        let total = depths
            .iter()
            .fold(0u64, |sum, &depth| sum.saturating_add(depth));
        // A frame takes at least one byte.
        if total > input.left() as u64 {
            return Err(Malformed::Short);
        }
        let mut frames = input.deltas::<FrameIx>(total as usize)?.into_iter();
        Ok(depths
            .into_iter()
            .map(|depth| frames.by_ref().take(depth as usize).collect())
            .collect())
    }
}
