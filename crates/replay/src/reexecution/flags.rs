//! Status flags, and the arithmetic that sets them.

/// A status flag; `None` = undefined.
type Flag = Option<bool>;

/// The status flags that conditions read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) carry: Flag,
    pub(super) parity: Flag,
    pub(super) zero: Flag,
    pub(super) sign: Flag,
    pub(super) overflow: Flag,
}

/// All bits of a value of so many bytes.
pub(super) fn mask(size: usize) -> u64 {
    match size {
        0 => 0,
        1..=7 => (1 << (size * 8)) - 1,
        _ => u64::MAX,
    }
}

/// The top bit of a value of so many bytes.
pub(super) fn is_negative(value: u64, size: usize) -> bool {
    value >> (size.clamp(1, 8) * 8 - 1) & 1 != 0
}

/// A value of so many bytes as a signed number of 64 bits.
pub(super) fn sign_extend(value: u64, size: usize) -> u64 {
    let shift = 64 - size.clamp(1, 8) as u32 * 8;
    ((value << shift) as i64 >> shift) as u64
}

impl Flags {
    /// Of a logical result: no carry, no overflow.
    pub(super) fn of_logic(result: u64, size: usize) -> Self {
        Self {
            carry: Some(false),
            overflow: Some(false),
            ..Self::of_result(result, size)
        }
    }

    /// Zero, sign and parity of a result; carry and overflow are undefined.
    pub(super) fn of_result(result: u64, size: usize) -> Self {
        Self {
            carry: None,
            overflow: None,
            parity: Some((result as u8).count_ones() % 2 == 0),
            zero: Some(result & mask(size) == 0),
            sign: Some(is_negative(result, size)),
        }
    }
}

/// Sum of two values of so many bytes and a carry.
pub(super) fn add(a: u64, b: u64, carry: bool, size: usize) -> (u64, Flags) {
    let wide = u128::from(a & mask(size)) + u128::from(b & mask(size)) + u128::from(carry);
    let result = wide as u64 & mask(size);
    let overflow = is_negative((a ^ result) & (b ^ result), size);
    let flags = Flags {
        carry: Some(wide >> (size * 8) != 0),
        overflow: Some(overflow),
        ..Flags::of_result(result, size)
    };
    (result, flags)
}

/// Difference of two values of so many bytes and a borrow.
pub(super) fn subtract(a: u64, b: u64, borrow: bool, size: usize) -> (u64, Flags) {
    let (a, b) = (a & mask(size), b & mask(size));
    let result = a.wrapping_sub(b).wrapping_sub(u64::from(borrow)) & mask(size);
    let flags = Flags {
        carry: Some(u128::from(a) < u128::from(b) + u128::from(borrow)),
        overflow: Some(is_negative((a ^ b) & (a ^ result), size)),
        ..Flags::of_result(result, size)
    };
    (result, flags)
}
