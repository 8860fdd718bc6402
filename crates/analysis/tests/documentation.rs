//! docs/findings.md has the tables of the catalog and of the parameters.

#![forbid(unsafe_code)]

use convoy_analysis::{catalog, params};

/// `CONVOY_BLESS=1` writes them.
#[test]
fn tables_are_the_present_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
    let is_blessed = std::env::var_os("CONVOY_BLESS").is_some_and(|value| value == "1");
    let old = std::fs::read_to_string(path).expect("docs/findings.md");
    let mut text = old.clone();
    for (name, table) in [
        ("catalog", catalog::markdown()),
        ("parameters", params::markdown()),
    ] {
        let begin = format!("<!-- {name}: printed by the tests (make bless) -->\n");
        let end = format!("<!-- end of the {name} -->");
        let (before, rest) = text.split_once(&begin).expect("where the table begins");
        let (there, after) = rest.split_once(&end).expect("where it ends");
        assert!(
            is_blessed || there == table,
            "docs/findings.md is out of date: make bless"
        );
        text = [before, &begin, &table, &end, after].concat();
    }
    if text != old {
        std::fs::write(path, text).expect("written");
    }
}
