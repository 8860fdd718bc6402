//! Call stacks: a column of depths, then all frames.

use super::{lengths, Row};
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
        let (depths, total) = lengths(rows, input)?;
        let mut frames = input.deltas::<FrameIx>(total)?.into_iter();
        Ok(depths
            .into_iter()
            .map(|depth| frames.by_ref().take(depth as usize).collect())
            .collect())
    }
}
