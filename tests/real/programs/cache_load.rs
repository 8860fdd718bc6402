//! Load for memcached: connections that each send rounds of pipelined sets and gets, and count the
//! answers. Debian's only generator cannot pipeline.
//!
//! usage: cache_load PORT CONNECTIONS ROUNDS DEPTH

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|a| a.parse())
        .collect::<Result<_, _>>()?;
    let [port, connections, rounds, depth] = numbers[..] else {
        return Err("usage: cache_load PORT CONNECTIONS ROUNDS DEPTH".into());
    };
    let connect = |_| {
        let stream = TcpStream::connect(("127.0.0.1", u16::try_from(port)?))?;
        stream.set_nodelay(true)?;
        Ok::<_, Box<dyn std::error::Error>>((stream.try_clone()?, BufReader::new(stream)))
    };
    let mut streams = (0..connections)
        .map(connect)
        .collect::<Result<Vec<_>, _>>()?;

    let (mut stored, mut hits, mut line) = (0, 0, String::new());
    for round in 0..rounds {
        for (i, (sender, _)) in streams.iter_mut().enumerate() {
            sender.write_all(batch(i, round, depth).as_bytes())?;
        }
        for (_, answers) in &mut streams {
            // A set answers STORED; a get that hits answers VALUE, the data, END.
            let mut ends = 0;
            while ends < 2 * depth {
                line.clear();
                if answers.read_line(&mut line)? == 0 {
                    return Err("the server closed a connection".into());
                }
                match line.split_whitespace().next() {
                    Some("STORED") => (stored, ends) = (stored + 1, ends + 1),
                    Some("VALUE") => hits += 1,
                    Some("END") => ends += 1,
                    _ if line.starts_with("data-") => {}
                    _ => return Err(format!("the server said {line:?}").into()),
                }
            }
        }
    }
    println!("{stored} stored, {hits} hits");
    Ok(())
}

/// Each connection sets keys of its own and gets them back: every get hits.
fn batch(connection: usize, round: usize, depth: usize) -> String {
    (0..depth)
        .map(|i| {
            let key = format!("key-{connection}-{}", (round * depth + i) % 1009);
            let data = format!("data-{connection:05}-{i:05}");
            format!("set {key} 0 0 {}\r\n{data}\r\nget {key}\r\n", data.len())
        })
        .collect()
}
