//! The tables of the JSON report as comma-separated values (RFC 4180), with names beside the ids.

use std::collections::HashMap;

use convoy_report::{json, Report};
use serde_json::{Map, Value};

use crate::jsonl::singular;
use crate::Error;

/// A table that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What its file is called, without a suffix: `locks`, `lock-sites`, ...
    pub name: String,
    /// Its text: a line of column names, then the rows.
    pub text: Vec<u8>,
}

/// Ends of column names that are ids, and the table and key that name them.
const IDS: &[(&str, &str, &str)] = &[
    ("object", "objects", "name"),
    ("lock", "objects", "name"),
    ("stack", "stacks", "label"),
    ("thread", "threads", "name"),
    ("group", "groups", "name"),
    ("process", "processes", "name"),
];

/// All tables, in the order of docs/json.md; those without rows are left out. Lists within a row become a
/// table of their own, whose first column says which row they belong to.
///
/// # Errors
/// None that a writer into memory can have.
pub fn tables(report: &Report<'_>) -> Result<Vec<Table>, Error> {
    let Value::Object(document) = json::value(report) else {
        return Ok(Vec::new());
    };
    let mut tables = Tables {
        names: names(&document),
        tables: Vec::new(),
    };
    for (key, value) in &document {
        tables.collect(&key.replace('_', "-"), value);
    }
    let written = tables.tables.into_iter().map(|(name, rows)| {
        let text = text(&rows)?;
        Ok(Table { name, text })
    });
    written.collect()
}

/// Names by table and id.
type Names = HashMap<(&'static str, u64), String>;

fn names(document: &Map<String, Value>) -> Names {
    let mut names = Names::new();
    for &(_, table, key) in IDS {
        for row in document
            .get(table)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let (Some(id), Some(name)) = (row["id"].as_u64(), row[key].as_str()) {
                names.insert((table, id), name.to_owned());
            }
        }
    }
    names
}

/// A row: columns and their texts.
type Row = Vec<(String, String)>;

/// Tables in order of appearance.
#[derive(Debug)]
struct Tables {
    names: Names,
    tables: Vec<(String, Vec<Row>)>,
}

impl Tables {
    fn collect(&mut self, name: &str, value: &Value) {
        match value {
            Value::Array(rows) => {
                for (ix, row) in rows.iter().enumerate() {
                    self.row(name, Vec::new(), row, ix);
                }
            }
            Value::Object(_) => self.row(name, Vec::new(), value, 0),
            _ => {}
        }
    }

    /// `parent`: the columns that say which row of another table this one belongs to.
    fn row(&mut self, name: &str, parent: Row, value: &Value, ix: usize) {
        let Value::Object(fields) = value else { return };
        let mut cells = parent.clone();
        let mut lists = Vec::new();
        self.flatten(fields, "", &mut cells, &mut lists);
        self.rows_of(name).push(cells);
        for (key, rows) in lists {
            let of = singular(name);
            let mut parent = parent.clone();
            parent.push((of.replace('-', "_"), identity(fields, ix)));
            let inner = format!("{of}-{}", key.replace('_', "-"));
            for (ix, row) in rows.iter().enumerate() {
                self.row(&inner, parent.clone(), row, ix);
            }
        }
    }

    /// Objects within an object are its columns; lists of objects are for a table of their own.
    fn flatten<'a>(
        &self,
        fields: &'a Map<String, Value>,
        prefix: &str,
        cells: &mut Row,
        lists: &mut Vec<(String, &'a [Value])>,
    ) {
        for (key, value) in fields {
            let column = format!("{prefix}{key}");
            match value {
                Value::Object(inner) => {
                    self.flatten(inner, &format!("{column}_"), cells, lists);
                }
                Value::Array(rows) if rows.iter().any(Value::is_object) => {
                    lists.push((column, rows));
                }
                Value::Array(items) => {
                    let items: Vec<_> = items.iter().map(text_of).collect();
                    cells.push((column, items.join(" ")));
                }
                scalar => {
                    let name = self.name(key, scalar);
                    cells.push((column.clone(), text_of(scalar)));
                    if let Some(name) = name {
                        cells.push((format!("{column}_name"), name));
                    }
                }
            }
        }
    }

    /// The name of what an id stands for; empty for an unknown one, `None` for a column that is no id.
    fn name(&self, key: &str, value: &Value) -> Option<String> {
        let is = |end: &str| key == end || key.strip_suffix(end).is_some_and(|k| k.ends_with('_'));
        let (_, table, _) = IDS.iter().find(|(end, ..)| is(end))?;
        let known = || self.names.get(&(*table, value.as_u64()?)).cloned();
        (value.is_u64() || value.is_null()).then(|| known().unwrap_or_default())
    }

    fn rows_of(&mut self, name: &str) -> &mut Vec<Row> {
        let known = self.tables.iter().position(|(n, _)| n == name);
        let at = known.unwrap_or(self.tables.len());
        if known.is_none() {
            self.tables.push((name.to_owned(), Vec::new()));
        }
        &mut self.tables[at].1
    }
}

/// What a row is known by: its id, its rank, the first id in it, or else its number from 0.
fn identity(fields: &Map<String, Value>, ix: usize) -> String {
    let keys = ["id", "rank"]
        .into_iter()
        .chain(IDS.iter().map(|(key, ..)| *key));
    let known = keys.filter_map(|key| fields.get(key)).find(|v| v.is_u64());
    known.map_or_else(|| ix.to_string(), text_of)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows of one table may lack columns that others have: the union, in order of appearance.
fn text(rows: &[Row]) -> Result<Vec<u8>, Error> {
    let mut columns: Vec<&str> = Vec::new();
    let mut places = HashMap::new();
    for (column, _) in rows.iter().flatten() {
        places.entry(column.as_str()).or_insert_with(|| {
            columns.push(column);
            columns.len() - 1
        });
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&columns).map_err(io)?;
    for row in rows {
        let mut record = vec![""; columns.len()];
        for (column, text) in row {
            if let Some(cell) = places
                .get(column.as_str())
                .and_then(|&ix| record.get_mut(ix))
            {
                *cell = text;
            }
        }
        writer.write_record(&record).map_err(io)?;
    }
    writer
        .into_inner()
        .map_err(|e| Error::Io(std::io::Error::other(e.to_string())))
}

fn io(error: csv::Error) -> Error {
    Error::Io(error.into())
}
