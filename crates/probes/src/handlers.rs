//! Landing pads of exceptions: the call-site table of `.gcc_except_table` (Itanium C++ ABI,
//! Exception Handling Tables).

use crate::functions::Function;
use crate::image::Image;

const OMITTED: u8 = 0xff;

/// Reads numbers one after the other; `None` where the table is cut off or has another form.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        self.at += N as u64;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take::<1>()?[0])
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number in an encoding of DW_EH_PE (LSB core, section 10.5.1).
    fn number(&mut self, encoding: u8) -> Option<u64> {
        let at = self.at;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => u64::from_le_bytes(self.take()?),
            0x01 => self.uleb()?,
            0x02 => u64::from(u16::from_le_bytes(self.take()?)),
            0x03 => u64::from(u32::from_le_bytes(self.take()?)),
            0x0b => i32::from_le_bytes(self.take()?) as i64 as u64,
            _ => return None,
        };
        match encoding & 0x70 {
            0x00 => Some(value),
            0x10 => Some(value.wrapping_add(at)),
            _ => None,
        }
    }
}

/// Addresses to which the unwinder may go in a function; `None` if its table cannot be read.
pub(crate) fn landing_pads(image: &Image, function: &Function) -> Option<Vec<u64>> {
    let Some(at) = function.handlers else {
        return Some(Vec::new());
    };
    let mut cursor = Cursor {
        bytes: image.from(at)?,
        at,
    };
    let base = match cursor.byte()? {
        OMITTED => function.range.start,
        encoding => cursor.number(encoding)?,
    };
    if cursor.byte()? != OMITTED {
        cursor.uleb()?;
    }
    let encoding = cursor.byte()?;
    let length = cursor.uleb()?;
    let end = cursor.at.checked_add(length)?;
    let mut pads = Vec::new();
    while cursor.at < end {
        cursor.number(encoding)?;
        cursor.number(encoding)?;
        let pad = cursor.number(encoding)?;
        cursor.uleb()?;
        if pad != 0 {
            pads.push(base.wrapping_add(pad));
        }
    }
    Some(pads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Segment;

    fn function(handlers: u64) -> Function {
        Function::for_tests(0x1000..0x1100, Some(handlers))
    }

    #[test]
    fn call_sites_name_their_landing_pads() {
        // No base, no types, uleb128; sites (0, 5, 0x20, 1), (5, 3, none, 0), (8, 1, 0x30, 0).
        let table = [
            0xff, 0xff, 0x01, 12, 0, 5, 0x20, 1, 5, 3, 0, 0, 8, 1, 0x30, 0,
        ];
        let data = |bytes: &[u8]| {
            Image::new(vec![Segment {
                at: 0x9000,
                bytes: bytes.to_vec(),
                is_code: false,
            }])
        };
        let pads = landing_pads(&data(&table), &function(0x9000));
        assert_eq!(pads, Some(vec![0x1020, 0x1030]));
        assert_eq!(landing_pads(&data(&table[..9]), &function(0x9000)), None);
    }
}
