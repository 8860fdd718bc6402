//! Asks the C compiler for every size, offset and constant of the headers in `abi` and compares them
//! with the Rust mirror, so that the two cannot drift apart.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_abi::{CONSTANTS, DROP_IDS, EVENTS_DROP_IDS, LAYOUTS, TRACE_DROP_IDS};

const HEADERS: [&str; 6] = [
    "convoy_abi.h",
    "convoy_bpf.h",
    "convoy_trace.h",
    "convoy_events.h",
    "convoy_attach.h",
    "convoy_causal.h",
];

fn abi_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../abi")
}

/// Compiles and runs a C program that prints `key value` lines for the given (key, C expression).
fn ask_c(questions: &[(String, String)]) -> BTreeMap<String, u64> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mut source = String::from("#include <stdio.h>\n#include <stddef.h>\n");
    for header in HEADERS {
        writeln!(source, "#include \"{header}\"").unwrap();
    }
    source.push_str("int main(void)\n{\n");
    for (key, expression) in questions {
        writeln!(
            source,
            "\tprintf(\"%s %llu\\n\", \"{key}\", (unsigned long long)({expression}));"
        )
        .unwrap();
    }
    source.push_str("\treturn 0;\n}\n");
    let c_file = dir.path().join("ask.c");
    let exe = dir.path().join("ask");
    std::fs::write(&c_file, source).expect("write C source");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Werror", "-I"])
        .arg(abi_dir())
        .arg("-o")
        .args([&exe, &c_file])
        .output()
        .expect("run cc");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let output = Command::new(&exe).output().expect("run the C program");
    String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| {
            let (key, value) = line.rsplit_once(' ').expect("key value");
            (key.to_owned(), value.parse().expect("number"))
        })
        .collect()
}

#[test]
fn every_field_has_the_place_that_c_gives_it() {
    let mut questions = Vec::new();
    let mut mirrored = BTreeMap::new();
    for layout in LAYOUTS {
        let c_type = layout.c_type;
        questions.push((c_type.to_owned(), format!("sizeof({c_type})")));
        mirrored.insert(c_type.to_owned(), layout.size as u64);
        for field in layout.fields {
            let name = field.name;
            let offset = format!("offset of {name} in {c_type}");
            let size = format!("size of {name} in {c_type}");
            questions.push((offset.clone(), format!("offsetof({c_type}, {name})")));
            questions.push((size.clone(), format!("sizeof((({c_type} *)0)->{name})")));
            mirrored.insert(offset, field.offset as u64);
            mirrored.insert(size, field.size as u64);
        }
    }
    let in_c = ask_c(&questions);
    let wrong: Vec<_> = in_c
        .iter()
        .filter(|(what, value)| mirrored.get(*what) != Some(value))
        .map(|(what, value)| (what, value, mirrored.get(what)))
        .collect();
    assert!(wrong.is_empty(), "(what, in C, here): {wrong:?}");
    assert_eq!(in_c.len(), mirrored.len());
}

#[test]
fn every_constant_has_the_value_that_c_gives_it() {
    let questions: Vec<_> = CONSTANTS
        .iter()
        .map(|(name, _)| ((*name).to_owned(), (*name).to_owned()))
        .collect();
    let mirrored: BTreeMap<String, u64> = CONSTANTS
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    assert_eq!(ask_c(&questions), mirrored);
}

/// A constant added to the header alone would pass the comparison above.
#[test]
fn every_constant_of_the_headers_is_mirrored() {
    let headers =
        HEADERS.map(|name| std::fs::read_to_string(abi_dir().join(name)).expect("header"));
    let mut missing = Vec::new();
    for line in headers.iter().flat_map(|header| header.lines()) {
        let line = line.trim_start();
        let line = line.strip_prefix("#define ").unwrap_or(line);
        let word: String = line
            .chars()
            .take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_')
            .collect();
        if word.starts_with("CV_") && !CONSTANTS.iter().any(|(name, _)| *name == word) {
            missing.push(word);
        }
    }
    assert!(missing.is_empty(), "not mirrored: {missing:?}");
}

#[test]
fn every_drop_of_a_trace_has_an_id() {
    for (prefix, ids) in [
        ("CV_TRACE_DROP_", TRACE_DROP_IDS),
        ("CV_EVENTS_DROP_", EVENTS_DROP_IDS),
    ] {
        let all = CONSTANTS.iter().map(|(name, _)| *name);
        let named = all.filter(|name| name.starts_with(prefix) && !name.ends_with("_MAX"));
        let constant = |id: &&str| format!("{prefix}{}", id.to_uppercase().replace('-', "_"));
        let expected: Vec<String> = ids.iter().map(constant).collect();
        assert_eq!(named.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn every_drop_has_an_id() {
    for (id, name) in DROP_IDS.iter().zip(
        CONSTANTS
            .iter()
            .filter(|(name, _)| name.starts_with("CV_DROP_")),
    ) {
        assert_eq!(
            format!("CV_DROP_{}", id.to_uppercase().replace('-', "_")),
            name.0
        );
    }
    let drops = CONSTANTS
        .iter()
        .filter(|(name, _)| name.starts_with("CV_DROP_") && *name != "CV_DROP_MAX")
        .count();
    assert_eq!(DROP_IDS.len(), drops);
}
