//! docs/json.md, and a walk of a document along its shapes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// (shape, key)
pub type Key = (String, String);

/// What the page says of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// `string`, `integer`, `number`, `boolean`, or the name of a shape.
    pub name: String,
    pub array: bool,
    pub nullable: bool,
}

fn documented() -> BTreeMap<Key, Type> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut keys = BTreeMap::new();
    let mut shape = None;
    for line in page.lines() {
        if line.starts_with('#') {
            shape = line.strip_prefix("### ").map(str::to_owned);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (Some(shape), [_, key, kind, ..]) = (&shape, cells.as_slice()) else {
            continue;
        };
        let Some(key) = key.strip_prefix('`').and_then(|k| k.strip_suffix('`')) else {
            continue;
        };
        let old = keys.insert((shape.clone(), key.to_owned()), type_of(kind));
        assert_eq!(old, None, "{shape}.{key} is documented twice");
    }
    keys
}

/// The keys of the shapes that `root` leads to.
fn reachable(root: &str) -> BTreeMap<Key, Type> {
    let all = documented();
    let mut shapes = BTreeSet::from([root.to_owned()]);
    loop {
        let led_to = all.iter().filter(|(key, _)| shapes.contains(&key.0));
        let next: BTreeSet<_> = led_to.map(|(_, kind)| kind.name.clone()).collect();
        if next.is_subset(&shapes) {
            return all
                .into_iter()
                .filter(|(key, _)| shapes.contains(&key.0))
                .collect();
        }
        shapes.extend(next);
    }
}

/// `integer`, `array of [Finding](#finding)`, `[Frame](#frame) or null`.
fn type_of(cell: &str) -> Type {
    let bare = cell.strip_suffix(" or null");
    let nullable = bare.is_some();
    let bare = bare.unwrap_or(cell);
    let item = bare.strip_prefix("array of ");
    let array = item.is_some();
    let name = item.unwrap_or(bare);
    let link = name.strip_prefix('[').and_then(|n| n.split_once("](#"));
    if let Some((text, anchor)) = link {
        assert_eq!(anchor, text.to_lowercase() + ")", "a link to nowhere");
    }
    Type {
        name: link.map_or(name, |(text, _)| text).to_owned(),
        array,
        nullable,
    }
}

/// Walks a document along the shapes of the page.
#[derive(Default)]
pub struct Walk {
    pub keys: BTreeMap<Key, Type>,
    pub met: BTreeSet<Key>,
    pub null: BTreeSet<Key>,
    pub empty: BTreeSet<Key>,
    wrong: Vec<String>,
}

impl Walk {
    /// Of `convoy report`.
    pub fn of_report(text: &str) -> Self {
        Self::of(text, "Document")
    }

    /// Of a document whose outermost shape is `root`.
    pub fn of(text: &str, root: &str) -> Self {
        let mut walk = Self {
            keys: reachable(root),
            ..Self::default()
        };
        let document: Value = serde_json::from_str(text).unwrap();
        walk.object(&document, root);
        assert!(walk.wrong.is_empty(), "{:#?}", walk.wrong);
        walk
    }

    fn object(&mut self, value: &Value, shape: &str) {
        let Some(object) = value.as_object() else {
            self.wrong
                .push(format!("{shape}: {value} is not an object"));
            return;
        };
        let here: Vec<Key> = self.keys.keys().filter(|k| k.0 == shape).cloned().collect();
        for (_, key) in here.iter().filter(|k| !object.contains_key(&k.1)) {
            self.wrong
                .push(format!("{shape}.{key} is documented and not written"));
        }
        for (key, value) in object {
            let id = (shape.to_owned(), key.clone());
            let Some(kind) = self.keys.get(&id).cloned() else {
                self.wrong
                    .push(format!("{shape}.{key} is not in docs/json.md"));
                continue;
            };
            self.met.insert(id.clone());
            if value.is_null() {
                self.null.insert(id);
                if !kind.nullable {
                    self.wrong
                        .push(format!("{shape}.{key} is null, which is not documented"));
                }
            } else if !kind.array {
                self.item(value, &kind.name, &id);
            } else if let Some(items) = value.as_array() {
                if items.is_empty() {
                    self.empty.insert(id.clone());
                }
                items.iter().for_each(|v| self.item(v, &kind.name, &id));
            } else {
                self.wrong
                    .push(format!("{shape}.{key}: {value} is not an array"));
            }
        }
    }

    fn item(&mut self, value: &Value, name: &str, (shape, key): &Key) {
        let right = match name {
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_f64(),
            "boolean" => value.is_boolean(),
            _ => return self.object(value, name),
        };
        if !right {
            self.wrong
                .push(format!("{shape}.{key}: {value} is not of type {name}"));
        }
    }
}
