//! The JSON report as lines: one row of a table a line, each with its type.

use std::io::Write;

use convoy_report::{json, Report};
use serde_json::{json, Map, Value};

use crate::Error;

/// Writes every table of the document, in its order. The first line says what the rest is.
pub fn lines(report: &Report<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let Value::Object(document) = json::value(report) else {
        return Ok(Vec::new());
    };
    let head = ["schema", "version", "verdict"];
    let mut first = Map::from_iter([("type".to_owned(), json!("convoy"))]);
    first.extend(
        head.iter()
            .filter_map(|key| Some(((*key).to_owned(), document.get(*key)?.clone()))),
    );
    line(out, &Value::Object(first))?;
    for (key, value) in document {
        if !head.contains(&key.as_str()) {
            table(out, &singular(&key), value)?;
        }
    }
    Ok(Vec::new())
}

/// Rows of an array; tables within an object (the scheduler's) as tables of their own.
fn table(out: &mut dyn Write, name: &str, value: Value) -> Result<(), Error> {
    match value {
        Value::Array(rows) => {
            for row in rows {
                self::row(out, name, row)?;
            }
        }
        Value::Object(fields) => {
            let (tables, scalars): (Vec<_>, Vec<_>) = fields.into_iter().partition(
                |(_, v)| matches!(v, Value::Array(rows) if rows.iter().any(Value::is_object)),
            );
            row(out, name, Value::Object(scalars.into_iter().collect()))?;
            for (key, rows) in tables {
                table(out, &format!("{name}-{}", singular(&key)), rows)?;
            }
        }
        // Nothing was there to see.
        _ => {}
    }
    Ok(())
}

fn row(out: &mut dyn Write, name: &str, row: Value) -> Result<(), Error> {
    let mut typed = Map::from_iter([("type".to_owned(), json!(name))]);
    match row {
        Value::Object(fields) => typed.extend(fields),
        scalar => {
            typed.insert("value".into(), scalar);
        }
    }
    line(out, &Value::Object(typed))
}

fn line(out: &mut dyn Write, value: &Value) -> Result<(), Error> {
    serde_json::to_writer(&mut *out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The name of one row of a table.
pub fn singular(table: &str) -> String {
    match table {
        "processes" => "process".into(),
        "losses" => "loss".into(),
        "families" => "family".into(),
        "dismissed" => "dismissed-finding".into(),
        "causes" => "cause".into(),
        _ => table.strip_suffix('s').unwrap_or(table).replace('_', "-"),
    }
}
