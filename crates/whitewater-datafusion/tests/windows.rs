//! Window functions give the CPU's answer, on the device: every function, over frames of rows and of peers, with and
//! without partitions, of values with and without nulls. Orders leave no ties where a tie's order would show.

mod support;

use arrow::array::RecordBatch;
use datafusion::{physical_plan::displayable, prelude::SessionContext};
use support::{
    assert_same, cpu_session, gpu_session, metric, register, register_resident, rows, run,
};

/// An order of `t` in which only rows that are equal throughout are tied.
const TOTAL: &str = "at, big, day, g, d, k, b, s";

/// Queries over table `t`; TOTAL stands for that order. All windows of each are on the device.
const QUERIES: &[&str] = &[
    // Ranks.
    "select k, at, row_number() over (order by TOTAL) from t",
    "select k, at, row_number() over (partition by k order by TOTAL) from t",
    "select k, day, rank() over (partition by k order by day), dense_rank() over (partition by k order by day) from t",
    "select b, k, rank() over (partition by b order by k desc nulls last), percent_rank() over (partition by b order by k desc nulls last), cume_dist() over (partition by b order by k desc nulls last) from t",
    "select k, s, dense_rank() over (order by s desc) from t",
    "select d, cume_dist() over (order by d), percent_rank() over (order by d) from t",
    "select at, ntile(4) over (order by TOTAL), ntile(1) over (order by TOTAL) from t",
    "select k, at, ntile(3) over (partition by k order by TOTAL), ntile(1000000) over (partition by k order by TOTAL) from t",
    "select k, b, row_number() over (partition by k, b, s order by TOTAL) from t",
    "select f, rank() over (partition by f order by k), count(*) over (partition by f order by k) from t",
    // Values of other rows.
    "select k, at, lag(g) over (partition by k order by TOTAL), lead(g) over (partition by k order by TOTAL) from t",
    "select at, lag(s, 3) over (order by TOTAL), lead(d, 2) over (order by TOTAL), lag(b) over (order by TOTAL) from t",
    "select k, at, lag(big, 2, -1) over (partition by k order by TOTAL), lead(day, 1, date '2000-01-01') over (partition by k order by TOTAL) from t",
    "select k, at, lead(k + 1, 100) over (partition by k order by TOTAL), lag(g, 0) over (partition by k order by TOTAL) from t",
    "select k, at, lag(g, -2) over (partition by k order by TOTAL) from t",
    "select k, at, first_value(s) over (partition by k order by TOTAL), last_value(at) over (partition by k order by TOTAL rows between 3 preceding and 2 following) from t",
    "select k, at, nth_value(g, 2) over (partition by k order by TOTAL), nth_value(d, 3) over (partition by k order by TOTAL rows between 1 preceding and 5 following) from t",
    "select k, at, first_value(day) over (partition by k order by TOTAL rows between 4 following and 6 following), last_value(b) over (partition by k order by TOTAL rows between 6 preceding and 4 preceding) from t",
    "select k, at, last_value(big) over (partition by k order by TOTAL rows between unbounded preceding and unbounded following) from t",
    // Totals.
    "select k, at, sum(big) over (partition by k order by TOTAL), count(g) over (partition by k order by TOTAL) from t",
    "select k, day, sum(g) over (partition by k order by day), avg(g) over (partition by k order by day) from t",
    "select k, sum(g) over (partition by k), count(*) over (partition by k), avg(k) over (partition by k), min(big) over (partition by k), max(k) over (partition by k) from t",
    "select k, day, sum(k) over (order by day rows between unbounded preceding and 2 following) from (select k, day, row_number() over (order by day, TOTAL) as n from t) where n < 0",
    "select at, sum(k) over (order by TOTAL rows between 5 preceding and current row), count(k) over (order by TOTAL rows between 5 preceding and current row) from t",
    "select k, at, sum(big) over (partition by k order by TOTAL rows between 2 preceding and 3 following), count(*) over (partition by k order by TOTAL rows between 2 preceding and 3 following) from t",
    "select k, at, count(s) over (partition by k order by TOTAL rows between 9 following and 20 following), sum(k) over (partition by k order by TOTAL rows between 20 preceding and 9 preceding) from t",
    "select k, day, count(g) over (partition by b order by k range between current row and unbounded following), sum(big) over (partition by b order by k range between current row and unbounded following) from t",
    "select k, at, min(k) over (partition by b order by TOTAL), max(big) over (partition by b order by TOTAL rows between unbounded preceding and 1 preceding) from t",
    "select k, sum(big) over (), count(*) over (), min(k) over () from t",
    "select k, g, avg(g) over (partition by s order by TOTAL rows unbounded preceding) from t where b or g > 0",
    "select k, at, sum(g) over (partition by k order by TOTAL rows between 2 preceding and 3 following), avg(g) over (partition by k order by TOTAL rows between 2 preceding and 3 following) from t",
    "select at, min(k) over (order by TOTAL rows between 7 preceding and 1 preceding), max(big) over (order by TOTAL rows between current row and 5 following) from t",
    // Windows over windows, and other nodes around them.
    "select k, at, row_number() over (partition by k order by TOTAL), sum(big) over (partition by k) from t",
    "select k, n from (select k, at, row_number() over (partition by k order by TOTAL) as n from t) where n <= 2",
    "select n, count(*), sum(k) from (select k, rank() over (partition by k order by day) as n from t) group by n",
    "select k, at, row_number() over (order by TOTAL) as n from t order by n limit 5",
];

/// Windows that stay on the CPU, and why.
const ON_CPU: &[(&str, &str)] = &[
    (
        "select lag(g) ignore nulls over (order by TOTAL) from t",
        "ignores nulls",
    ),
    (
        "select sum(g) over (order by TOTAL rows between 2000 preceding and current row) from t",
        "begins within",
    ),
    (
        "select min(k) over (order by TOTAL rows between 2000 preceding and current row) from t",
        "begins within",
    ),
    (
        "select sum(k) filter (where b) over (order by TOTAL) from t",
        "with a filter",
    ),
    (
        "select sum(d) over (order by TOTAL) from t",
        "Sum of Decimal128",
    ),
    (
        "select sum(k) over (order by k range between 2 preceding and current row) from t",
        "RANGE BETWEEN 2 PRECEDING",
    ),
    (
        "select stddev(g) over (order by TOTAL) from t",
        "stddev over a window",
    ),
    (
        "select min(g) over (partition by k) from t",
        "Min of Float64",
    ),
];

async fn compare(ours: &SessionContext, theirs: &SessionContext) {
    for sql in QUERIES {
        let sql = sql.replace("TOTAL", TOTAL);
        let (gpu, plan) = run(ours, &sql).await.expect(&sql);
        let (cpu, _) = run(theirs, &sql).await.expect(&sql);
        assert_same(&sql, &gpu, &cpu);
        let tree = displayable(plan.as_ref()).indent(false).to_string();
        assert!(tree.contains("GpuExec: window="), "{sql}\n{tree}");
        assert!(!tree.contains("WindowAggExec"), "{sql}\n{tree}");
        assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}\n{tree}");
    }
    for (sql, reason) in ON_CPU {
        let sql = sql.replace("TOTAL", TOTAL);
        let (gpu, plan) = run(ours, &sql).await.expect(&sql);
        assert_same(&sql, &gpu, &run(theirs, &sql).await.expect(&sql).0);
        let tree = displayable(plan.as_ref()).indent(false).to_string();
        assert!(tree.contains(reason), "{sql}\n{tree}");
    }
}

async fn by_upload(batch_rows: usize, nulls: u64) {
    let (ours, theirs) = (gpu_session(batch_rows), cpu_session());
    for ctx in [&ours, &theirs] {
        register(
            ctx,
            "t",
            vec![
                vec![rows(0, 300, nulls), rows(300, 1, nulls)],
                vec![rows(301, 200, nulls)],
            ],
        );
    }
    compare(&ours, &theirs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_rows() {
    by_upload(0, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_rows_in_small_batches() {
    by_upload(97, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_nulls_only() {
    by_upload(0, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resident_rows() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    let batches: Vec<RecordBatch> = vec![rows(0, 3000, 5), rows(3000, 1100, 5)];
    register_resident(&ours, "t", &batches[0].schema(), batches.clone(), 1500);
    register(&theirs, "t", vec![batches]);
    compare(&ours, &theirs).await;
}

/// No rows, and a partition of one row.
#[tokio::test(flavor = "multi_thread")]
async fn few_rows() {
    for count in [0, 1] {
        let (ours, theirs) = (gpu_session(0), cpu_session());
        for ctx in [&ours, &theirs] {
            register(ctx, "t", vec![vec![rows(0, count, 5)]]);
        }
        compare(&ours, &theirs).await;
    }
}
