//! Plans as EXPLAIN shows them: what runs where, and why.

mod support;

use datafusion::prelude::SessionContext;
use support::{explain, gpu_session, metric, register, register_resident, rows, run};

/// Table `t` in host memory, `r` on the device.
fn context() -> SessionContext {
    let ctx = gpu_session(0);
    register(
        &ctx,
        "t",
        vec![vec![rows(0, 100, 5)], vec![rows(100, 100, 5)]],
    );
    let batch = rows(0, 100, 5);
    register_resident(&ctx, "r", &batch.schema(), vec![batch], 50);
    ctx
}

macro_rules! plans {
    ($($name:ident: $sql:literal;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let plan = explain(&context(), $sql).await;
                insta::assert_snapshot!(format!("{}\n\n{plan}", $sql));
            }
        )*
    };
}

plans! {
    scan_alone: "select k, s from t";
    filter: "select k, s from t where g > 0.5 and b";
    projection: "select k + 1 as j, s from t";
    filter_over_resident: "select k + 1 as j from r where g > 0";
    ungrouped_aggregate: "select sum(g * 2), count(*) from t where k > 0";
    grouped_aggregate: "select k, avg(g), min(day) from t where b group by k order by k limit 3";
    resident_aggregate: "select k, sum(g) filter (where b) from r group by k";
    distinct: "select distinct k, s from t";
    aggregate_over_subquery: "select j, max(h) from (select k + 1 as j, g * g as h from t where b) where h > 2 group by j";
    having: "select k, sum(g) / count(*) as m from t group by k having sum(g) > 0";
    reductions: "select bool_and(b), bit_or(k), stddev(g), median(g), first_value(s) from t where k > 0";
    grouped_reductions: "select k, bool_and(b), stddev(g) from t group by k";
    ordered_first_value: "select first_value(k order by g) from t";
    first_values_by_two_orders: "select first_value(k order by g), first_value(k order by day) from t";
    unsupported_aggregate: "select min(s) from t where k > 0";
    unsupported_function: "select k from t where upper(s) = 'A'";
    unsupported_over_supported: "select upper(s) from t where k > 0";
    distinct_aggregate: "select k, count(distinct day), sum(distinct g) from t group by k";
    grouping_sets: "select k, b, count(*) from t group by rollup (k, b)";
    join_by_key: "select a.k, b.m from t a join (select k, max(g) as m from t group by k) b on a.k = b.k where a.g > 1";
    filter_over_sorted: "select * from (select k, g from t order by g limit 5) where k > 0";
    union: "select k from t where b union all select k from r where not b";
    window: "select k, sum(g) over (partition by k order by day) from t where b";
    sort: "select k, s from t where g > 0 order by k desc, s nulls first";
    sort_of_resident: "select k, g from r where g > 0 order by g limit 5 offset 2";
    limit_over_resident: "select k, g from r where g > 0 limit 5 offset 2";
    sort_of_few_rows: "select k, count(*) as n from t group by k order by n";
    no_table: "select 1 + 1";
}

#[tokio::test]
async fn join_in_many_partitions() {
    let ctx = context();
    for name in ["", "_rows"] {
        let set =
            format!("set datafusion.optimizer.hash_join_single_partition_threshold{name} = 0");
        run(&ctx, &set).await.unwrap();
    }
    let sql = "select a.k, b.m from t a join \
               (select k, max(g) as m from t group by k having max(g) > 0) b on a.k = b.k where a.g > 1";
    insta::assert_snapshot!(format!("{sql}\n\n{}", explain(&ctx, sql).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_tell_what_they_did() {
    let ctx = context();
    let (batches, plan) = run(&ctx, "select k, sum(g) from t where b group by k")
        .await
        .unwrap();
    let groups: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert!(metric(&plan, "output_rows").unwrap() >= groups);
    assert!(metric(&plan, "uploaded_bytes").unwrap() > 0);
    assert!(metric(&plan, "downloaded_bytes").unwrap() > 0);
    assert!(metric(&plan, "kernel_bytes").unwrap() > 0);
    assert!(metric(&plan, "upload_time").unwrap() > 0);
    assert!(metric(&plan, "download_time").unwrap() > 0);
    assert_eq!(metric(&plan, "cpu_fallback"), Some(0));
    if support::device().info().features.timestamps {
        assert!(metric(&plan, "gpu_time").unwrap() > 0);
    }
    let text = run(&ctx, "explain analyze select sum(g) from r")
        .await
        .unwrap()
        .0;
    let text = arrow::util::pretty::pretty_format_batches(&text)
        .unwrap()
        .to_string();
    for name in ["GpuExec", "gpu_time", "output_rows", "cpu_fallback"] {
        assert!(text.contains(name), "{text}");
    }
}
