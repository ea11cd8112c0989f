//! The command on a device: `WHITEWATER_TEST_DEVICE`, or the software one.

mod command;

use command::{Folder, whitewater};

fn device() -> String {
    std::env::var("WHITEWATER_TEST_DEVICE").unwrap_or_else(|_| "software".into())
}

#[test]
fn tpch_q1_and_q6_are_the_cpus() {
    let folder = Folder::new();
    let out = folder.path("");
    whitewater(&[
        "tpch", "--scale", "0.01", "--out", &out, "--tables", "lineitem",
    ])
    .succeeds();
    let table = format!("lineitem={}", folder.path("lineitem.parquet"));
    for query in [include_str!("q1.sql"), include_str!("q6.sql")] {
        let answer = |device: &str| {
            let options = [
                "sql", "--device", device, "--table", &table, "--format", "csv",
            ];
            whitewater(&[&options[..], &[query]].concat()).succeeds()
        };
        assert_eq!(answer(&device()), answer("cpu"));
    }
}

#[test]
fn demo_compares_both() {
    let out = whitewater(&["demo", "--scale", "0.002", "--device", &device()]).succeeds();
    assert_eq!(out.matches("the answers agree").count(), 2, "{out}");
    assert_eq!(out.matches("    GPU  ").count(), 2, "{out}");
}

#[test]
fn demo_runs_on_the_cpu_alone() {
    let out = whitewater(&["demo", "--scale", "0.002", "--device", "cpu"]).succeeds();
    assert!(out.contains("Q1") && out.contains("Q6"), "{out}");
    assert!(!out.contains("agree"), "{out}");
}

#[test]
fn a_small_memory_budget_ends_in_an_answer_or_a_clear_error() {
    let folder = Folder::new();
    let out = folder.path("");
    whitewater(&[
        "tpch", "--scale", "0.01", "--out", &out, "--tables", "lineitem",
    ])
    .succeeds();
    let table = format!("lineitem={}", folder.path("lineitem.parquet"));
    let (device, query) = (device(), include_str!("q6.sql"));
    let options = [
        "sql", "--device", &device, "--table", &table, "--format", "csv",
    ];
    let run = |extra: &[&str]| whitewater(&[&options[..], extra, &[query]].concat());
    let expected = run(&[]).succeeds();
    let starved = run(&["--memory-budget", "64K"]);
    if starved.success {
        assert_eq!(starved.succeeds(), expected);
    } else {
        assert!(starved.fails().contains("out of GPU memory"));
    }
}

#[test]
fn devices_are_listed_with_reasons() {
    let out = whitewater(&["devices"]).succeeds();
    for name in [
        "cuda: ",
        "vulkan: ",
        "metal: ",
        "dx12: ",
        "software: ",
        "cpu: ",
    ] {
        assert!(out.contains(name), "{name} is missing in {out}");
    }
}

#[test]
fn bench_prints_json_lines_and_ratios() {
    let folder = Folder::new();
    let recorded = folder.write(
        "peer.jsonl",
        b"{\"case\": \"copy 64KiB d2d\", \"ms\": 2.0}\n",
    );
    let device = device();
    let run = whitewater(&[
        "bench",
        "--suite",
        "copy",
        "--rows",
        "8192",
        "--device",
        &device,
        "--against",
        &recorded,
    ]);
    assert!(run.errors.contains("ratio"), "{}", run.errors);
    let line: serde_json::Value = serde_json::from_str(run.out.lines().next().unwrap()).unwrap();
    assert_eq!(line["case"], "copy 64KiB d2d");
    assert_eq!(line["against_ms"], 2.0);
    assert!(
        line["ms"].is_number() && line["ratio"].is_number(),
        "{line}"
    );
}

#[test]
fn bench_names_what_is_wrong() {
    let error = whitewater(&["bench", "--suite", "nope"]).fails();
    assert!(error.contains("nope") && error.contains("copy"), "{error}");
    assert!(
        whitewater(&["bench", "--device", "cpu"])
            .fails()
            .contains("GPU")
    );
    assert!(
        whitewater(&["bench", "--rows", "0"])
            .fails()
            .contains("'0'")
    );
    let error = whitewater(&["bench", "--against", "/nowhere/peer.jsonl"]).fails();
    assert!(error.contains("/nowhere/peer.jsonl"), "{error}");
}

#[test]
fn tpch_names_an_unknown_table() {
    let folder = Folder::new();
    let error = whitewater(&["tpch", "--out", &folder.path("x"), "--tables", "nope"]).fails();
    assert!(
        error.contains("nope") && error.contains("lineitem"),
        "{error}"
    );
}
