//! Columns of numbers and texts as bytes. The encoding of a number is that of postcard (LEB128).

/// A column, or what stands in one, is not as the format says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The payload ends inside a column.
    #[error("its payload ends too early")]
    Short,
    /// More rows than a section may hold.
    #[error("it claims more rows than a section may hold")]
    Rows,
    /// A number does not fit.
    #[error("it holds a number that is out of range")]
    Number,
    /// A text is not UTF-8.
    #[error("it holds a text that is not UTF-8")]
    Text,
    /// There is more than its columns say.
    #[error("its payload goes on after the last column")]
    Long,
    /// A fixed structure could not be read.
    #[error("its structure is not the expected one")]
    Structure,
}

/// Appends columns.
#[derive(Debug, Default)]
pub(crate) struct Out {
    bytes: Vec<u8>,
}

impl Out {
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A column of numbers.
    pub(crate) fn values<T: Into<u64>>(&mut self, values: impl IntoIterator<Item = T>) {
        for value in values {
            self.number(value.into());
        }
    }

    /// A column of numbers that are close to their predecessors: the differences, zigzag.
    pub(crate) fn deltas<T: Into<u64>>(&mut self, values: impl IntoIterator<Item = T>) {
        let mut before = 0u64;
        for value in values {
            let value = value.into();
            let delta = value.wrapping_sub(before) as i64;
            self.number(((delta << 1) ^ (delta >> 63)) as u64);
            before = value;
        }
    }

    /// A column of texts.
    pub(crate) fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a str>) {
        for text in texts {
            self.text(text);
        }
    }

    /// A column of floating-point numbers, eight bytes each.
    pub(crate) fn floats(&mut self, values: impl IntoIterator<Item = f64>) {
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Bytes as they are; how many is to be known by whoever reads them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads columns. Every length was bounded by the caller or is checked against what is left.
#[derive(Debug)]
pub(crate) struct In<'a> {
    rest: &'a [u8],
}

impl<'a> In<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if at == 9 && bits > 1 {
                return Err(Malformed::Number);
            }
            value |= bits << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 {
            Malformed::Short
        } else {
            Malformed::Number
        })
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| Malformed::Short)?;
        let bytes = self.rest.get(..len).ok_or(Malformed::Short)?;
        self.rest = &self.rest[len..];
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Malformed::Text),
        }
    }

    pub(crate) fn values<T: TryFrom<u64>>(&mut self, n: usize) -> Result<Vec<T>, Malformed> {
        let mut column = Vec::with_capacity(n.min(self.rest.len()));
        for _ in 0..n {
            column.push(T::try_from(self.number()?).map_err(|_| Malformed::Number)?);
        }
        Ok(column)
    }

    pub(crate) fn deltas<T: TryFrom<u64>>(&mut self, n: usize) -> Result<Vec<T>, Malformed> {
        let mut column = Vec::with_capacity(n.min(self.rest.len()));
        let mut before = 0u64;
        for _ in 0..n {
            let zigzag = self.number()?;
            let delta = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            before = before.wrapping_add(delta as u64);
            column.push(T::try_from(before).map_err(|_| Malformed::Number)?);
        }
        Ok(column)
    }

    pub(crate) fn texts(&mut self, n: usize) -> Result<Vec<String>, Malformed> {
        let mut column = Vec::with_capacity(n.min(self.rest.len()));
        for _ in 0..n {
            column.push(self.text()?);
        }
        Ok(column)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<Vec<u8>, Malformed> {
        let bytes = self.rest.get(..n).ok_or(Malformed::Short)?;
        self.rest = &self.rest[n..];
        Ok(bytes.to_vec())
    }

    /// Any numbers, infinite ones and those that are none included.
    pub(crate) fn floats(&mut self, n: usize) -> Result<Vec<f64>, Malformed> {
        let bytes = n.checked_mul(8).ok_or(Malformed::Short)?;
        let column = self.rest.get(..bytes).ok_or(Malformed::Short)?;
        self.rest = &self.rest[bytes..];
        let items = column.chunks_exact(8).filter_map(|b| b.try_into().ok());
        Ok(items.map(f64::from_le_bytes).collect())
    }

    /// Bytes not yet read: a bound for what a length can mean.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Long)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{In, Malformed, Out};

    #[test]
    fn numbers_take_no_more_room_than_they_need() {
        let numbers = [
            0,
            1,
            127,
            128,
            300,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ];
        let mut out = Out::default();
        out.values(numbers);
        out.deltas(numbers);
        out.texts(["", "é"]);
        out.floats([0.1, f64::INFINITY]);
        let bytes = out.into_bytes();
        assert_eq!(bytes[..6], [0, 1, 127, 0x80, 1, 0xac]);
        let mut input = In::new(&bytes);
        assert_eq!(input.values::<u64>(8), Ok(numbers.to_vec()));
        assert_eq!(input.deltas::<u64>(8), Ok(numbers.to_vec()));
        assert_eq!(input.texts(2), Ok(vec![String::new(), "é".into()]));
        assert_eq!(input.floats(2), Ok(vec![0.1, f64::INFINITY]));
        assert_eq!(input.end(), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(In::new(&[0x80]).number(), Err(Malformed::Short));
        assert_eq!(In::new(&[0xff; 10]).number(), Err(Malformed::Number));
        assert_eq!(In::new(&[0x80, 2]).values::<u8>(1), Err(Malformed::Number));
        assert_eq!(In::new(&[9, b'a']).text(), Err(Malformed::Short));
        assert_eq!(In::new(&[1, 0xff]).text(), Err(Malformed::Text));
        assert_eq!(In::new(&[0; 15]).floats(2), Err(Malformed::Short));
        assert_eq!(In::new(&[0; 15]).floats(usize::MAX), Err(Malformed::Short));
        assert_eq!(In::new(&[0]).end(), Err(Malformed::Long));
        assert_eq!(
            In::new(&[1]).values::<u8>(usize::MAX),
            Err(Malformed::Short)
        );
    }
}
