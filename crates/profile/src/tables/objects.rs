//! Objects.

use super::{codes, names, option, options, put_names, zip_columns, Row};
use crate::bytes::{In, Malformed, Out};
use crate::{Memory, Object};

impl Row for Object {
    const TAG: [u8; 4] = *b"OBJS";
    const NAME: &'static str = "objects";

    fn weight(&self) -> usize {
        32 + self.symbol.as_ref().map_or(0, String::len)
    }

    fn pack(rows: &[Self], out: &mut Out) {
        out.deltas(rows.iter().map(|row| row.addr));
        out.values(rows.iter().map(|row| codes::kind_code(row.kind)));
        out.deltas(rows.iter().map(|row| row.init_stack));
        out.values(rows.iter().map(|row| row.lives));
        out.values(rows.iter().map(|row| row.destroyed));
        out.values(rows.iter().map(|row| row.attr));
        out.values(rows.iter().map(|row| option(row.module)));
        put_names(out, rows.iter().map(|row| row.symbol.as_deref()));
        out.values(rows.iter().map(|row| memory_code(row.memory)));
    }

    fn unpack(rows: usize, input: &mut In<'_>) -> Result<Vec<Self>, Malformed> {
        let addr = input.deltas(rows)?;
        let kinds: Vec<u8> = input.values(rows)?;
        let kind: Vec<_> = kinds
            .into_iter()
            .map(codes::kind)
            .collect::<Result<_, _>>()?;
        let init_stack = input.deltas(rows)?;
        let lives = input.values(rows)?;
        let destroyed = input.values(rows)?;
        let attr = input.values(rows)?;
        let module = options(input.values(rows)?)?;
        let symbol = names(rows, input)?;
        let memory: Vec<u64> = input.values(rows)?;
        let memory: Vec<_> = memory
            .into_iter()
            .map(memory_of)
            .collect::<Result<_, _>>()?;
        Ok(zip_columns!(
            rows,
            Self {
                addr,
                kind,
                init_stack,
                lives,
                destroyed,
                attr,
                module,
                symbol,
                memory
            }
        ))
    }
}

fn memory_code(memory: Memory) -> u64 {
    match memory {
        Memory::Unknown => 0,
        Memory::Static => 1,
        Memory::Heap => 2,
        Memory::Stack(thread) => 3 + u64::from(thread),
    }
}

fn memory_of(code: u64) -> Result<Memory, Malformed> {
    Ok(match code {
        0 => Memory::Unknown,
        1 => Memory::Static,
        2 => Memory::Heap,
        _ => Memory::Stack(u32::try_from(code - 3).map_err(|_| Malformed::Number)?),
    })
}
