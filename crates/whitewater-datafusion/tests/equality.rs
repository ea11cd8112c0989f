//! Every query gives the CPU's answer: over tables of every slice type, from several partitions by
//! upload (joined and in small batches) and resident on the device.

mod support;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use support::{
    assert_same, assert_same_order, cpu_session, gpu_session, metric, register, register_resident,
    rows, run, sliced,
};

/// Queries over table `t`; each runs at least partly on the GPU.
const QUERIES: &[&str] = &[
    // Filters and projections.
    "select k, big, g, d, day, at, b, s from t where k > 0",
    "select s, k + 1, g * 2.5 from t where b and day < date '1970-01-01'",
    "select k from t where k is null or b is null",
    "select d * 2 - 1.5, -g, not b from t where d between -5000 and 5000",
    "select case when k > 0 then g when k = 0 then 0.0 end, cast(k as bigint) + big from t",
    "select big % 7, k in (1, 2, 3, -1, null) from t where big is not null",
    "select k from t where k in (1, 2, -3, 0) and not (b or g < 0)",
    "select day, at from t where at > timestamp '1971-01-01' and day >= date '1930-06-01'",
    "select g from t where k > 100",
    "select f, f = 0.0, f > 1.0, f is distinct from 1.5 from t where f <> 1.5",
    "select try_cast(big as int), cast(d as double) from t where k < 2",
    // Ungrouped aggregates.
    "select count(*), count(k), sum(k), sum(big), min(big), max(big) from t",
    "select sum(d), avg(d), min(d), max(d), avg(k), avg(g), sum(g), min(g), max(g) from t",
    "select min(day), max(day), min(at), max(at), min(b), max(b) from t where k > 0",
    "select min(f), max(f), count(f) from t",
    "select sum(g * g), sum(case when b then 1 else 0 end), avg(k + 0.5) from t where g > 0",
    "select sum(k) filter (where b), count(*) filter (where g > 0) from t",
    "select count(*), sum(k), min(g) from t where k > 100",
    "select count(*) from t where b",
    "select bool_and(b), bool_or(b), bit_and(k), bit_or(big), bit_xor(k), bit_xor(big) from t",
    "select bool_and(g > 0), bool_or(k > 100), bit_or(k) from t where b",
    "select var(g), var_pop(g), stddev(g), stddev_pop(g), var(k), stddev_pop(k) from t where k <> 0",
    "select median(k), median(big), median(g), median(d) from t where g > 0",
    "select median(k), var(g), stddev(g), bool_and(b), bit_and(k) from t where k > 100",
    "select k, var(g), stddev_pop(g), bit_and(big), bit_xor(k), bit_or(big), count(*), sum(g), min(g) from t group by k",
    "select b, stddev(k), var_pop(big), max(d), first_value(b), bit_and(k) from t where k > 0 group by b",
    "select s, var(g), avg(k), bit_or(k), count(g) from t group by s",
    "select big, g, stddev(f), bit_xor(k) from t group by big, g",
    "select first_value(s order by at, big, day, g, d, k, b, s), last_value(d order by at, big, day, g, d, k, b, s), sum(k) from t where k > -3",
    "select first_value(f order by g desc nulls last, at, big, day, d, k, b, s) ignore nulls, count(*) from t",
    "select k, first_value(s order by at desc, big, day, g, d, k, b, s), last_value(big order by at desc, big, day, g, d, k, b, s), sum(g), count(*) from t group by k",
    "select b, s, first_value(day order by at, big, day, g, d, k, b, s) filter (where g > 0), last_value(at order by at, big, day, g, d, k, b, s) from t where k <> 2 group by b, s",
    "select k, first_value(g order by s, at, big, day, g, d, k, b) ignore nulls, stddev(g) from t group by k",
    "select k, median(g), count(*), median(big) from t group by k",
    "select s, b, median(k), stddev(g), first_value(d order by at, big, day, g, d, k, b, s) from t where k <> 1 group by s, b",
    "select big, at, median(g), median(f) from t group by big, at",
    "select b, median(10 / k) from t where k <> 0 group by b",
    "select k, median(g) filter (where b) from t where g > 0 group by k",
    "select distinct on (k) k, at, s from t order by k, at, big, day, g, d, b, s",
    "select k, var(g) filter (where big > 0), bit_and(k) filter (where g > 0) from t group by k",
    "select k, stddev(g) from t where k > 1000000 group by k",
    "select first_value(k), last_value(g), first_value(s), last_value(b) from (select * from t order by k, big, g, s, d limit 7)",
    "select first_value(f) ignore nulls, last_value(f) ignore nulls, first_value(f) from (select * from t order by f nulls first, k, big, g limit 30)",
    "select k, bool_and(b), bool_or(g > 0) from t group by k",
    // Strings are counted by their validity.
    "select count(s), count(s) filter (where b), count(*) from t where g > 0",
    "select k, count(s), count(s) filter (where b), sum(big) from t group by k",
    "select b, count(distinct s) from t group by b",
    // Grouped aggregates by every type of key.
    "select k, count(*), sum(big), avg(g), min(day), max(at) from t group by k",
    "select b, sum(d), avg(d), min(g), max(g), count(f) from t group by b",
    "select day, count(*), sum(g) from t group by day",
    "select s, count(*), sum(k), min(g) from t group by s",
    "select f, count(*) from t group by f",
    "select at, b, count(*) from t group by at, b",
    "select k, b, s, sum(g), sum(d) from t where day > date '1960-01-01' group by k, b, s",
    "select k + 1 as j, g > 0 as p, sum(big) from t group by j, p",
    "select k, sum(g) filter (where b) from t group by k",
    "select k, sum(big) from t where k > 100 group by k",
    "select distinct k, b from t",
    "select k, sum(g) as total from t group by k having sum(g) > 0",
    // An expression that raises errors sees only the rows that the predicate takes.
    "select sum(10 / k), avg(big % k) from t where k <> 0",
    "select 10 / k, s from t where k <> 0",
    "select 10 / k from t where k <> 0",
    "select k, sum(big / k), max(10 % k) from t where k <> 0 group by k",
    "select sum(case when k <> 0 then 10 / k else 0 end) from t",
    // CPU work above and below islands.
    "select k, sum(g) from t group by k order by k limit 3",
    "select a.k, count(*) from (select k, g from t where g > 100) a \
     join (select distinct k from t where b) c on a.k = c.k group by a.k",
    "select count(distinct k) from t where b",
    "select k, max(total) from (select k, day, sum(g) as total from t group by k, day) group by k",
    "select upper(s), count(*) from t where k > 0 group by upper(s)",
    "select k from t where b union all select k from t where not b",
    "select k, row_number() over (partition by k order by big, g, at) from t where k > 1",
    "select k, big from (select k, big from t where b order by big, k limit 20) where k > 0 order by big, k",
    "select count(*) from (select 1 as a from t where k > 0) cross join (select 1 as c from t where k < -2)",
];

/// Sorts and limits, whose rows have an order. Every sort is by enough columns that equal rows are the same.
const ORDERED: &[&str] = &[
    "select * from t order by k, big, g, s, d, day, at, b, f",
    "select s, k, g from t order by s desc, k nulls first, g desc nulls last",
    "select b, day, big from t order by b nulls first, day desc, big",
    "select d, big from t where k > 0 order by d, big desc nulls last",
    "select f, g from t order by f desc nulls last, g",
    "select at, k from t order by at desc nulls first, k limit 10",
    "select k + 1 as j, g * 2 as h, s from t where not b order by h, j, s limit 25 offset 5",
    "select big from t order by big limit 0",
    "select big from t order by big limit 5000",
    "select k % 2 as odd, s, big from t order by k % 2, s desc, big",
    "select * from (select k, big, g from t where b order by big, k, g limit 20) where k > 0 order by big, k, g",
    "select sum(big) from (select big, g from t order by big, g limit 17)",
    "select k, count(*) from (select k, big from t order by big, k limit 100) group by k order by k",
    "select big, k from (select big, k from t where b union all select big, k from t where not b) order by big, k",
    "select k, big from t where g > 0 union all select k, big from t where g <= 0 order by big desc, k limit 40",
];

/// Partitions with `nulls`, of unequal sizes, some batches being slices and some empty.
fn partitions(nulls: u64) -> Vec<Vec<RecordBatch>> {
    vec![
        vec![
            rows(0, 700, nulls),
            sliced(&rows(700, 333, nulls)),
            rows(0, 0, nulls),
        ],
        vec![sliced(&rows(2000, 1, nulls))],
        vec![],
        vec![rows(3000, 64, nulls), rows(3064, 31, nulls)],
    ]
}

/// Islands are looked for unless tables are empty, which DataFusion answers by statistics.
struct Islands;

async fn compare(
    ours: &SessionContext,
    theirs: &SessionContext,
    queries: &[&str],
    islands: Option<Islands>,
) {
    let islands = islands.as_ref();
    for sql in queries {
        let cpu = run(theirs, sql)
            .await
            .unwrap_or_else(|e| panic!("CPU {sql}: {e}"));
        let gpu = run(ours, sql)
            .await
            .unwrap_or_else(|e| panic!("GPU {sql}: {e}"));
        assert_same(sql, &gpu.0, &cpu.0);
        let fallbacks = metric(&gpu.1, "cpu_fallback");
        assert_eq!(fallbacks.unwrap_or(0), 0, "{sql} needs no fallback");
        assert!(
            islands.is_none_or(|_| fallbacks.is_some()),
            "{sql} has an island"
        );
    }
}

/// As [`compare`], with the order of the rows.
async fn compare_order(ours: &SessionContext, theirs: &SessionContext) {
    compare(ours, theirs, ORDERED, None).await;
    for sql in ORDERED {
        let cpu = run(theirs, sql).await.unwrap().0;
        let gpu = run(ours, sql).await.unwrap().0;
        assert_same_order(sql, &gpu, &cpu);
    }
}

async fn by_upload(batch_rows: usize, nulls: u64) {
    let (ours, theirs) = (gpu_session(batch_rows), cpu_session());
    register(&ours, "t", partitions(nulls));
    register(&theirs, "t", partitions(nulls));
    compare(&ours, &theirs, QUERIES, Some(Islands)).await;
    compare_order(&ours, &theirs).await;
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
    let batches: Vec<RecordBatch> = partitions(5).concat();
    register_resident(&ours, "t", &batches[0].schema(), batches.clone(), 500);
    register(&theirs, "t", vec![batches]);
    compare(&ours, &theirs, QUERIES, Some(Islands)).await;
    compare_order(&ours, &theirs).await;
}

/// Groups that a node on the device takes are finished there, from one batch or from several.
#[tokio::test(flavor = "multi_thread")]
async fn groups_are_finished_where_they_are_wanted() {
    let queries = [
        "select k, big, count(*) as n, sum(g) as s from t group by k, big order by n desc, s, k, big limit 20",
        "select k, avg(g), avg(k), min(day), max(at), sum(d), count(f) from t group by k order by k limit 100",
        "select s, bool_and(b), bool_or(b), bit_and(k), bit_or(big), bit_xor(k) from t group by s order by s desc limit 3",
        "select k, s, m from (select k, s, max(g) * 2 as m from t where b group by k, s) where m > 10 order by m, k, s limit 9",
        "select k, sum(big) from t group by k having count(*) > 100 order by sum(big) desc, k limit 4",
        "select k, count(distinct s) from t group by k order by k limit 5",
        "select a.k, a.big, x.m from t a join (select k, avg(g) as m from t group by k) x on a.k = x.k and a.g > x.m",
        "select d, count(*), min(f), max(f) from (select d, f from t where f > 0) group by d order by d limit 50",
        "select k, sum(g) filter (where b), count(*) filter (where big > 0) from t group by k order by k nulls first limit 3",
        "select k + 1, b, sum(k) from t where k > 1000 group by k + 1, b order by 1 limit 3",
    ];
    for batch_rows in [0, 97] {
        for nulls in [0, 1, 5] {
            let (ours, theirs) = (gpu_session(batch_rows), cpu_session());
            register(&ours, "t", partitions(nulls));
            register(&theirs, "t", partitions(nulls));
            for sql in queries {
                let (gpu, plan) = run(&ours, sql).await.expect(sql);
                let (cpu, _) = run(&theirs, sql).await.expect(sql);
                assert_same(sql, &gpu, &cpu);
                let tree = datafusion::physical_plan::displayable(&*plan).indent(false);
                assert!(tree.to_string().contains(", finished"), "{sql}\n{tree}");
                assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}\n{tree}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_decimals() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    register(&ours, "t", partitions(5));
    register(&theirs, "t", partitions(5));
    let queries = [
        "select d, count(k) from t group by d",
        "select distinct d * d from t",
    ];
    compare(&ours, &theirs, &queries, Some(Islands)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_tables() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    let empty = rows(0, 0, 0);
    register(&ours, "t", vec![vec![empty.clone()], vec![empty.clone()]]);
    register(&theirs, "t", vec![vec![empty.clone()], vec![empty.clone()]]);
    compare(&ours, &theirs, QUERIES, None).await;
    compare_order(&ours, &theirs).await;
    let (ours, theirs) = (gpu_session(0), cpu_session());
    register_resident(&ours, "t", &empty.schema(), vec![], 500);
    register(&theirs, "t", vec![vec![empty]]);
    compare(&ours, &theirs, QUERIES, None).await;
    compare_order(&ours, &theirs).await;
}

/// Limits and unions of rows that are on the device take place there.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_resident_rows() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    let batches = vec![rows(0, 1000, 5)];
    // One partition, so that the CPU's rows have an order too.
    for ctx in [&ours, &theirs] {
        run(ctx, "set datafusion.execution.target_partitions = 1")
            .await
            .unwrap();
    }
    register_resident(&ours, "t", &batches[0].schema(), batches.clone(), 300);
    register(&theirs, "t", vec![batches]);
    for sql in [
        "select * from t limit 10",
        "select * from t limit 450 offset 250",
        "select s, b, k from t offset 999",
        "select s, b, k from t limit 10 offset 2000",
        "select k, s from t where b limit 7 offset 3",
        "select k, g from (select k, g from t limit 500) where g > 0",
        // All rows: the CPU's union gives those of its inputs in the order in which they come.
        "select k, s from t where b union all select k, s from t limit 5000",
    ] {
        let (gpu, plan) = run(&ours, sql).await.unwrap();
        let (cpu, _) = run(&theirs, sql).await.unwrap();
        match sql.contains("union") {
            true => assert_same(sql, &gpu, &cpu),
            false => assert_same_order(sql, &gpu, &cpu),
        }
        let tree = datafusion::physical_plan::displayable(&*plan).indent(false);
        assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}\n{tree}");
    }
}

/// Plans whose nodes need rows of one key in one partition, or partitions in order.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_by_key() {
    let queries = [
        "select a.k, a.big, b.total from t a join \
         (select k, sum(g) as total from t group by k having count(*) > 1) b on a.k = b.k \
         where a.g > 0",
        "select a.k, b.day from (select k, g + 1 as h from t where b) a \
         join (select k, day from t where g > 100) b on a.k = b.k where a.h > 50",
        "select k from t where k in (select k + 1 from t where b) and g > 0",
        "select k from t where k not in (select k from t where g > 124 and k is not null)",
        "select a.k, count(*) from t a left join (select k from t where g > 100) b on a.k = b.k group by a.k",
        "select k, count(*), min(total) from (select k, sum(g) as total from t group by k \
         union all select k, sum(g) as total from t where b group by k) group by k",
        "select k, day, sum(g) over (partition by k order by day, g, big) from t where b",
        "select k, h from (select k, g * 2 as h, row_number() over (partition by k order by g, big, at) as n \
         from t where g is not null) where n < 3",
        "select count(*) from t where g > (select avg(g) from t where b)",
        "select k, max(u) from (select k, upper(s) as u from t where b) group by k having max(u) < 'Z'",
    ];
    for set in [
        "set datafusion.optimizer.hash_join_single_partition_threshold = 0",
        "set datafusion.optimizer.prefer_hash_join = false",
        "set datafusion.optimizer.prefer_existing_union = true",
    ] {
        let (ours, theirs) = (gpu_session(0), cpu_session());
        for ctx in [&ours, &theirs] {
            register(ctx, "t", partitions(5));
            run(ctx, set).await.unwrap();
            let rows = "set datafusion.optimizer.hash_join_single_partition_threshold_rows = 0";
            run(ctx, rows).await.unwrap();
        }
        compare(&ours, &theirs, &queries, Some(Islands)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arithmetic_errors_are_the_cpus() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    register(&ours, "t", partitions(5));
    register(&theirs, "t", partitions(5));
    for sql in [
        "select 10 / k from t where g > 0",
        "select k from t where big % k = 0",
        "select sum(10 / k) from t",
        "select k, sum(big / k) from t group by k",
        "select d / (d - d) from t",
    ] {
        let theirs = run(&theirs, sql).await.unwrap_err().strip_backtrace();
        let ours = run(&ours, sql).await.unwrap_err().strip_backtrace();
        assert_eq!(ours, theirs, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn float_sums_are_the_same_on_every_run() {
    let ours = gpu_session(211);
    register(&ours, "t", partitions(5));
    for sql in [
        "select sum(g * 0.1), avg(g) from t",
        "select b, sum(g * 0.1) from t group by b order by b",
    ] {
        let first = run(&ours, sql).await.unwrap().0;
        for _ in 0..3 {
            assert_eq!(run(&ours, sql).await.unwrap().0, first, "{sql}");
        }
    }
}
