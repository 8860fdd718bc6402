//! Messages between convoy and the process that holds its probes: postcard behind a length of four
//! bytes.

use std::io::{self, Read, Write};

use convoy_probes::{Cell, Counts, FileCell, Inserted, Probe, Refusal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest message, bytes: a table of 10,000 threads and 1,000 rows is shorter.
const MAX_BYTES: u32 = 1 << 30;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Insert(Vec<Probe>),
    Remove(Vec<u32>),
    Read,
    End,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Inserted(Vec<Inserted>),
    Counts {
        cells: Vec<WireCell>,
        files: Vec<FileCell>,
        lost_calls: u64,
        lost_files: u64,
    },
    Refused(Refusal),
}

/// A [`Cell`] with those buckets of its histogram only that are not empty.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireCell {
    tid: u32,
    row: u32,
    calls: u64,
    wall_ns: u64,
    own_wall_ns: u64,
    cpu_ns: Option<u64>,
    own_cpu_ns: Option<u64>,
    inside: u32,
    skipped: u64,
    returned_ns: u64,
    /// Bucket, calls.
    histogram: Vec<(u8, u32)>,
    bytes: u64,
}

impl From<&Cell> for WireCell {
    fn from(c: &Cell) -> Self {
        let buckets = c.histogram.iter().enumerate().filter(|(_, n)| **n > 0);
        Self {
            tid: c.tid,
            row: c.row,
            calls: c.calls,
            wall_ns: c.wall_ns,
            own_wall_ns: c.own_wall_ns,
            cpu_ns: c.cpu_ns,
            own_cpu_ns: c.own_cpu_ns,
            inside: c.inside,
            skipped: c.skipped,
            returned_ns: c.returned_ns,
            histogram: buckets.map(|(bucket, n)| (bucket as u8, *n)).collect(),
            bytes: c.bytes,
        }
    }
}

impl Reply {
    /// What was counted, if this is a reading.
    pub fn counts(self) -> Result<Counts, Self> {
        match self {
            Self::Counts {
                cells,
                files,
                lost_calls,
                lost_files,
            } => Ok(Counts {
                cells: cells.into_iter().map(Into::into).collect(),
                files,
                lost_calls,
                lost_files,
            }),
            other => Err(other),
        }
    }
}

impl From<WireCell> for Cell {
    fn from(c: WireCell) -> Self {
        let mut cell = Self {
            calls: c.calls,
            wall_ns: c.wall_ns,
            own_wall_ns: c.own_wall_ns,
            cpu_ns: c.cpu_ns,
            own_cpu_ns: c.own_cpu_ns,
            inside: c.inside,
            skipped: c.skipped,
            returned_ns: c.returned_ns,
            bytes: c.bytes,
            ..Self::new(c.tid, c.row)
        };
        for (bucket, n) in c.histogram {
            if let Some(place) = cell.histogram.get_mut(usize::from(bucket)) {
                *place = n;
            }
        }
        cell
    }
}

impl From<&Counts> for Reply {
    fn from(counts: &Counts) -> Self {
        Self::Counts {
            cells: counts.cells.iter().map(Into::into).collect(),
            files: counts.files.clone(),
            lost_calls: counts.lost_calls,
            lost_files: counts.lost_files,
        }
    }
}

/// Writes a message.
pub(crate) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a message; the end of the pipe is an error of the kind `UnexpectedEof`.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is longer than any"),
        ));
    }
    let mut bytes = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use convoy_probes::Measure;

    use super::*;

    #[test]
    fn cells_and_probes_survive_the_pipe() {
        let mut cell = Cell::new(7, 3);
        cell.calls = 9;
        cell.cpu_ns = Some(5);
        cell.histogram[12] = 4;
        let mut pipe = Vec::new();
        cell.returned_ns = 8;
        cell.bytes = 77;
        let counts = Counts {
            cells: vec![cell],
            files: vec![FileCell {
                tid: 7,
                group: 2,
                descriptor: 3,
                read_bytes: 4096,
                write_bytes: 0,
                wait_ns: 9,
            }],
            lost_calls: 6,
            lost_files: 1,
        };
        send(&mut pipe, &Reply::from(&counts)).unwrap();
        let first = pipe.len();
        let reply: Reply = receive(&mut &pipe[..]).unwrap();
        assert_eq!(reply.counts().unwrap(), counts);
        let probe = Probe {
            within: Some(2),
            caller: Some(5..9),
            ..Probe::new(1, 16..32, Measure::Time)
        };
        send(&mut pipe, &Request::Insert(vec![probe.clone()])).unwrap();
        let mut rest = &pipe[first..];
        let Ok(Request::Insert(back)) = receive(&mut rest) else {
            panic!("another request")
        };
        assert_eq!(back, [probe]);
    }

    #[test]
    fn rejects_truncated_and_oversized_messages() {
        let mut pipe = Vec::new();
        send(&mut pipe, &Request::Remove(vec![1, 2, 3])).unwrap();
        assert!(receive::<Request>(&mut &pipe[..pipe.len() - 1]).is_err());
        assert!(receive::<Request>(&mut &[0xff; 8][..]).is_err());
        assert!(receive::<Request>(&mut &[][..]).is_err());
    }
}
