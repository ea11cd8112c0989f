//! `whitewater sql`: formats, inputs, and one clear line for everything that is wrong.

mod command;

use command::{Folder, Run, whitewater};
use serde_json::{Value, json};

/// Runs `sql` on the CPU.
fn sql(arguments: &[&str]) -> Run {
    let mut all = vec!["sql", "--device", "cpu"];
    all.extend(arguments);
    whitewater(&all)
}

const ROWS: &str =
    "SELECT * FROM (VALUES (1, 'a,b', 1.5), (2, NULL, NULL)) AS v(i, s, f) ORDER BY i";

#[test]
fn tables_have_borders() {
    let out = sql(&[ROWS]).succeeds();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[1], "| i | s   | f   |");
    assert_eq!(lines[3], "| 1 | a,b | 1.5 |");
    assert_eq!(lines[4], "| 2 |     |     |");
    assert_eq!(lines[6], "2 rows");
}

#[test]
fn csv_has_a_header_and_quotes() {
    let out = sql(&["--format", "csv", ROWS]).succeeds();
    assert_eq!(out, "i,s,f\n1,\"a,b\",1.5\n2,,\n");
}

#[test]
fn csv_without_rows_is_a_header() {
    let out = sql(&["--format", "csv", "SELECT 1 AS a, 2 AS b WHERE false"]).succeeds();
    assert_eq!(out, "a,b\n");
}

#[test]
fn json_is_one_array() {
    let out = sql(&["--format", "json", ROWS]).succeeds();
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        value,
        json!([{"i": 1, "s": "a,b", "f": 1.5}, {"i": 2, "s": null, "f": null}])
    );
    let none = sql(&["--format", "json", "SELECT 1 AS a WHERE false"]).succeeds();
    assert_eq!(none, "[]\n");
}

#[test]
fn json_escapes_line_breaks() {
    let out = sql(&["--format", "json", "SELECT concat('a', chr(10), 'b') AS s"]).succeeds();
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value, json!([{"s": "a\nb"}]));
}

#[test]
fn every_statement_is_printed() {
    let script =
        "CREATE TABLE t AS VALUES (1), (2); SELECT sum(column1) AS x FROM t; SELECT 7 AS y;";
    let out = sql(&["--format", "csv", script]).succeeds();
    assert_eq!(out, "x\n3\n\ny\n7\n");
}

#[test]
fn statements_come_from_a_file_or_from_standard_input() {
    let folder = Folder::new();
    let script = folder.write("script.sql", b"SELECT 1 AS a;\n-- and\nSELECT 2 AS b\n");
    let out = sql(&["--format", "csv", "-f", &script]).succeeds();
    assert_eq!(out, "a\n1\n\nb\n2\n");
    let arguments = ["sql", "--device", "cpu", "--format", "csv"];
    let out = command::whitewater_reading(&arguments, b"SELECT 3 AS c").succeeds();
    assert_eq!(out, "c\n3\n");
}

#[test]
fn every_kind_of_file_is_read() {
    let folder = Folder::new();
    let csv = folder.write("t.csv", b"a,b\n1,x\n2,y\n");
    let json = folder.write(
        "t.json",
        b"{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2, \"b\": \"y\"}\n",
    );
    let parquet = folder.copy_out("t.parquet", &csv, "PARQUET");
    let arrow = folder.copy_out("t.arrow", &csv, "ARROW");
    for path in [&csv, &json, &parquet, &arrow] {
        let table = format!("t={path}");
        let query = "SELECT sum(a) AS a, max(b) AS b FROM t";
        let out = sql(&["--table", &table, "--format", "csv", query]).succeeds();
        assert_eq!(out, "a,b\n3,y\n", "{path}");
    }
}

#[test]
fn a_folder_is_a_table() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("parts")).unwrap();
    let csv = folder.write("t.csv", b"a\n1\n2\n");
    folder.copy_out("parts/1.parquet", &csv, "PARQUET");
    folder.copy_out("parts/2.parquet", &csv, "PARQUET");
    let table = format!("t={}", folder.path("parts"));
    let out = sql(&[
        "--table",
        &table,
        "--format",
        "csv",
        "SELECT sum(a) AS a FROM t",
    ])
    .succeeds();
    assert_eq!(out, "a\n6\n");
}

#[test]
fn explain_prints_the_plan() {
    let out = sql(&[
        "--explain",
        "SELECT x FROM (VALUES (1)) AS v(x) WHERE x > 0",
    ])
    .succeeds();
    assert!(out.contains("physical_plan\n"), "{out}");
    let out = sql(&[
        "--analyze",
        "SELECT x FROM (VALUES (1)) AS v(x) WHERE x > 0",
    ])
    .succeeds();
    assert!(out.contains("output_rows=1"), "{out}");
}

#[test]
fn a_missing_file_is_named() {
    let error = sql(&["--table", "t=/nowhere/t.parquet", "SELECT 1"]).fails();
    assert!(
        error.contains("'t'") && error.contains("/nowhere/t.parquet"),
        "{error}"
    );
    assert!(error.contains("no such file"), "{error}");
    let error = sql(&["-f", "/nowhere/q.sql"]).fails();
    assert!(error.contains("/nowhere/q.sql"), "{error}");
}

#[test]
fn a_corrupt_file_is_named() {
    let folder = Folder::new();
    for (name, bytes) in [
        ("cut.parquet", &b"PAR1 and then nothing"[..]),
        ("empty.parquet", b""),
        ("text.parquet", b"a,b\n1,2\n"),
        ("noise.arrow", b"ARROW1\0\0 noise"),
        ("bad.json", b"{\"a\": 1}\n{\"a\": \n"),
    ] {
        let path = folder.write(name, bytes);
        let error = sql(&["--table", &format!("t={path}"), "SELECT * FROM t"]).fails();
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn a_page_that_cannot_be_read_is_named() {
    let folder = Folder::new();
    let lines: String = (0..5000)
        .map(|row| format!("{}\n", row * 7919 % 5003))
        .collect();
    let csv = folder.write("t.csv", format!("a\n{lines}").as_bytes());
    let path = folder.copy_out("torn.parquet", &csv, "PARQUET");
    let mut bytes = std::fs::read(&path).unwrap();
    // The footer is whole, the data is not.
    bytes[8..600].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let error = sql(&[
        "--table",
        &format!("t={path}"),
        "SELECT sum(a) FROM t WHERE a > 3",
    ])
    .fails();
    assert!(error.contains("torn.parquet"), "{error}");
}

#[test]
fn an_unknown_column_is_named() {
    let error = sql(&["SELECT nope FROM (VALUES (1)) AS v(x)"]).fails();
    assert!(error.contains("nope"), "{error}");
}

#[test]
fn an_unknown_table_is_named() {
    let error = sql(&["SELECT * FROM nope"]).fails();
    assert!(error.contains("nope"), "{error}");
}

#[test]
fn an_unknown_device_is_named() {
    let error = whitewater(&["sql", "--device", "abacus", "SELECT 1"]).fails();
    assert!(
        error.contains("abacus") && error.contains("software"),
        "{error}"
    );
    let from_environment =
        command::whitewater_with("WHITEWATER_DEVICE", "abacus", &["sql", "SELECT 1"]);
    assert!(from_environment.fails().contains("abacus"));
}

#[test]
fn the_environment_chooses_a_device() {
    let arguments = ["sql", "--format", "csv", "SELECT 1 AS a"];
    let out = command::whitewater_with("WHITEWATER_DEVICE", "cpu", &arguments).succeeds();
    assert_eq!(out, "a\n1\n");
}

#[test]
fn a_bad_table_argument_is_named() {
    for bad in ["t", "=x.csv", "t="] {
        let error = sql(&["--table", bad, "SELECT 1"]).fails();
        assert!(
            error.contains(&format!("'{bad}'")) && error.contains("NAME=PATH"),
            "{error}"
        );
    }
    let folder = Folder::new();
    let path = folder.write("t.csv", b"a\n1\n");
    let table = format!("t={path}");
    let error = sql(&["--table", &table, "--table", &table, "SELECT 1"]).fails();
    assert!(error.contains("'t'") && error.contains("twice"), "{error}");
}

#[test]
fn bad_sql_tells_the_place() {
    let error = sql(&["SELECT 1;\nSELEC 2"]).fails();
    assert!(
        error.contains("SELEC") && error.contains("Line: 2"),
        "{error}"
    );
    assert!(sql(&[""]).fails().contains("no SQL"));
    assert!(sql(&[" ; "]).fails().len() > 1);
}

#[test]
fn usage_errors_are_one_line_too() {
    assert!(whitewater(&[]).fails().contains("--help"));
    assert!(whitewater(&["squel"]).fails().contains("squel"));
    assert!(
        sql(&["--format", "xml", "SELECT 1"])
            .fails()
            .contains("xml")
    );
    assert!(sql(&["--bogus"]).fails().contains("--bogus"));
}

#[test]
fn a_query_that_fails_prints_no_rows() {
    let query = "SELECT 10 / x FROM (VALUES (1), (0)) AS v(x)";
    let error = sql(&["--format", "csv", query]).fails();
    assert!(error.contains("ivide by zero"), "{error}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let query = "SELECT * FROM generate_series(1, 200000)";
    for format in ["table", "csv", "json"] {
        let arguments = ["sql", "--device", "cpu", "--format", format, query];
        let (status, errors) = command::with_closed_output(&arguments);
        assert!(status.success(), "{format}: {errors}");
        assert_eq!(errors, "", "{format}");
    }
}
