//! Files and folders as tables: every format, and every way to be wrong.

mod support;

use std::{fs, fs::File, path::Path};

use arrow::{csv, json};
use datafusion::{
    arrow::ipc::writer::FileWriter, parquet::arrow::ArrowWriter, prelude::SessionContext,
};
use support::{assert_same, cpu_session, gpu_session, metric, rows, run};
use whitewater_datafusion::register_path;

fn write_parquet(path: &Path) {
    let batch = rows(0, 100, 4);
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

async fn count(ctx: &SessionContext, table: &str) -> usize {
    ctx.table(table).await.unwrap().count().await.unwrap()
}

async fn error(path: &Path) -> String {
    let ctx = cpu_session();
    register_path(&ctx, "t", path)
        .await
        .unwrap_err()
        .to_string()
}

#[tokio::test]
async fn every_format_is_read_by_its_extension() {
    let folder = tempfile::tempdir().unwrap();
    let batch = rows(0, 100, 4).project(&[0, 1, 3]).unwrap();
    let at = |name: &str| folder.path().join(name);
    write_parquet(&at("t.parquet"));
    fs::create_dir(at("many")).unwrap();
    write_parquet(&at("many/1.parquet"));
    write_parquet(&at("many/2.parquet"));
    for name in ["t.json", "t.jsonl", "t.ndjson"] {
        let mut writer = json::LineDelimitedWriter::new(File::create(at(name)).unwrap());
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    csv::Writer::new(File::create(at("t.csv")).unwrap())
        .write(&batch)
        .unwrap();
    for name in ["t.arrow", "t.feather", "t.ipc"] {
        let mut writer =
            FileWriter::try_new(File::create(at(name)).unwrap(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    let ctx = cpu_session();
    let files = [
        "t.parquet",
        "t.json",
        "t.jsonl",
        "t.ndjson",
        "t.csv",
        "t.arrow",
        "t.feather",
        "t.ipc",
    ];
    for (index, name) in files.into_iter().enumerate() {
        let table = format!("t{index}");
        register_path(&ctx, &table, &at(name)).await.unwrap();
        assert_eq!(count(&ctx, &table).await, 100, "{name}");
    }
    register_path(&ctx, "many", &at("many")).await.unwrap();
    assert_eq!(count(&ctx, "many").await, 200);
}

/// A scan of no columns still has its rows.
#[tokio::test(flavor = "multi_thread")]
async fn rows_without_columns_are_counted_on_the_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let batch = rows(0, 100, 4).project(&[0, 1]).unwrap();
    let mut writer = csv::Writer::new(File::create(&path).unwrap());
    writer.write(&batch).unwrap();
    drop(writer);
    let ctx = gpu_session(30);
    register_path(&ctx, "t", &path).await.unwrap();
    let (answer, plan) = run(&ctx, "select count(*) from t").await.unwrap();
    assert_eq!(metric(&plan, "cpu_fallback"), Some(0));
    let expected = run(&cpu_session(), "select cast(100 as bigint) as \"count(*)\"")
        .await
        .unwrap()
        .0;
    assert_same("count(*)", &answer, &expected);
}

#[tokio::test]
async fn a_missing_path_is_named() {
    let message = error(Path::new("/nowhere/t.parquet")).await;
    assert!(message.contains("/nowhere/t.parquet"), "{message}");
    assert!(message.contains("no such file"), "{message}");
}

#[tokio::test]
async fn an_empty_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = error(folder.path()).await;
    assert!(
        message.contains(&*folder.path().to_string_lossy()),
        "{message}"
    );
    assert!(message.contains("no data file"), "{message}");
}

#[tokio::test]
async fn an_unknown_extension_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.xlsx");
    fs::write(&path, "cells").unwrap();
    let message = error(&path).await;
    assert!(
        message.contains("t.xlsx") && message.contains("'xlsx'"),
        "{message}"
    );
}

#[tokio::test]
async fn a_folder_of_mixed_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("1.parquet"));
    fs::write(folder.path().join("2.csv"), "a\n1\n").unwrap();
    let message = error(folder.path()).await;
    assert!(
        message.contains("csv") && message.contains("parquet"),
        "{message}"
    );
}

#[tokio::test]
async fn a_corrupt_file_is_found_at_registration() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.parquet");
    write_parquet(&whole);
    let bytes = fs::read(&whole).unwrap();
    let cases: [(&str, &[u8]); 4] = [
        ("text.parquet", b"this is no Parquet file"),
        ("empty.parquet", b""),
        ("cut.parquet", &bytes[..bytes.len() / 2]),
        ("text.arrow", b"this is no Arrow file"),
    ];
    for (name, content) in cases {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let message = error(&path).await;
        assert!(message.contains(name), "{message}");
        assert!(!message.contains('\n'), "one line: {message}");
    }
}

#[tokio::test]
async fn a_corrupt_file_among_whole_ones_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(&folder.path().join("1.parquet"));
    fs::write(folder.path().join("2.parquet"), "this is no Parquet file").unwrap();
    let message = error(folder.path()).await;
    assert!(message.contains("2.parquet"), "{message}");
}
