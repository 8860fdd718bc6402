//! Numbers as bytes: LEB128, and zigzag for signed differences.

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference, modulo 2^64.
pub(crate) fn put_delta(out: &mut Vec<u8>, delta: u64) {
    let signed = delta as i64;
    put(out, ((signed << 1) ^ (signed >> 63)) as u64);
}

/// Reads numbers from the front of bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// `None` if the bytes end in it, or it has more than 64 bits.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Some(value);
            }
        }
        None
    }

    /// A difference, modulo 2^64.
    pub(crate) fn delta(&mut self) -> Option<u64> {
        let zigzag = self.number()?;
        Some((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_differences_come_back() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX];
        for number in numbers {
            put(&mut bytes, number);
            put_delta(&mut bytes, number);
        }
        let mut reader = Reader::new(&bytes);
        for number in numbers {
            assert_eq!(reader.number(), Some(number));
            assert_eq!(reader.delta(), Some(number));
        }
        assert_eq!((reader.left(), reader.number()), (0, None));
    }

    #[test]
    fn rejects_numbers_that_are_cut_or_too_long() {
        assert_eq!(Reader::new(&[0x80]).number(), None);
        assert_eq!(Reader::new(&[0xff; 10]).number(), None);
        assert_eq!(Reader::new(&[0xff; 11]).number(), None);
    }
}
