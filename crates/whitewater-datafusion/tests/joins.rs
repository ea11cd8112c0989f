//! Joins of every kind give the CPU's answer, whichever join DataFusion has planned, and run on the GPU.

mod support;

use arrow::array::RecordBatch;
use datafusion::prelude::SessionContext;
use support::{
    assert_same, cpu_session, explain, gpu_session, metric, register, register_resident, rows, run,
    selection, sliced,
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, RegionGenerator,
    SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, RegionArrow, SupplierArrow,
};
use whitewater::gpu::Device;
use whitewater_datafusion::{SessionOptions, session};

/// Joins of `t` and `u`; each has one.
const JOINS: &[&str] = &[
    "select t.k, t.big, u.g, u.s from t join u on t.k = u.k where t.g > 100",
    "select t.big, u.big from t join u on t.big = u.big",
    "select t.s, u.day from t join u on t.s = u.s and t.k = u.k and t.b = u.b",
    "select t.d, u.d, u.b from t left join u on t.d = u.d",
    "select t.day, u.k from t left join u on t.day = u.day and t.g < u.g",
    "select t.at, u.at from t right join u on t.at = u.at",
    "select t.k, u.k from t right join u on t.day = u.day and t.g < u.g",
    "select t.big, u.big, t.s, u.s from t full join u on t.big = u.big",
    "select t.k, u.k, t.g, u.g from t full join u on t.day = u.day and t.g < u.g",
    "select t.f, u.f, u.k from t join u on t.f = u.f where t.g > 50",
    "select k, big, s from t where exists (select 1 from u where u.day = t.day)",
    "select k, big from t where exists (select 1 from u where u.k = t.k and u.g < t.g - 240)",
    "select k, big from t where not exists (select 1 from u where u.day = t.day)",
    "select k, big from t where not exists (select 1 from u where u.k = t.k and u.g < t.g)",
    "select k, big from t where day in (select day from u where k > 1)",
    "select k, s from t where day not in (select day from u where day is not null)",
    "select k, s from t where day not in (select day from u)",
    "select k, s from t where day not in (select day from u where k > 100)",
    "select k, g from t where g > 0 or exists (select 1 from u where u.day = t.day)",
    "select count(*) from t join u on t.k = u.k",
    "select count(*), sum(u.big), min(t.g) from t left join u on t.k = u.k and t.b = u.b",
    "select t.k, sum(u.d) from t join u on t.day = u.day group by t.k",
    "select t.k, u.k from t join u on (t.k is not distinct from u.k) and t.day = u.day",
    "select t.k, u.k, t.big from t join u on t.day is not distinct from u.day",
    "select t.big, u.big from t join u on t.big < u.big and t.g - u.g > 245",
    "select t.big, u.big from t left join u on t.big < u.big and t.g - u.g > 245",
    "select t.big, u.big from t right join u on t.big < u.big and t.g - u.g > 245",
    "select t.big, u.big from t full join u on t.big < u.big and t.g - u.g > 249",
    "select t.k, u.s from t cross join (select s from u where big > 0 and k = 1) u where t.k = 1",
    "select count(*) from (select k from t where g > 0) t cross join (select k from u where g > 0) u",
    "select a.k, b.k from t a join t b on a.big = b.big",
    "select t.k, v.n from t join (select k, count(*) as n from u group by k) v on t.k = v.k",
    "select t.s, u.s from t join u on t.day = u.day order by t.s, u.s limit 7",
    "select t.k, u.k, w.k from t join u on t.day = u.day join t w on u.big = w.big",
];

/// Settings that make DataFusion plan its several joins.
const PLANNERS: &[&[&str]] = &[
    &[],
    &[
        "set datafusion.optimizer.hash_join_single_partition_threshold = 0",
        "set datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
    ],
    &["set datafusion.optimizer.prefer_hash_join = false"],
];

fn left() -> Vec<Vec<RecordBatch>> {
    vec![
        vec![rows(0, 150, 5), sliced(&rows(150, 90, 5))],
        vec![rows(1000, 31, 5)],
    ]
}

fn right() -> Vec<Vec<RecordBatch>> {
    vec![vec![rows(100, 120, 7)], vec![sliced(&rows(1010, 60, 7))]]
}

async fn compare(ours: &SessionContext, theirs: &SessionContext) {
    for sql in JOINS {
        let (expected, _) = run(theirs, sql)
            .await
            .unwrap_or_else(|e| panic!("CPU {sql}: {e}"));
        let (answer, plan) = run(ours, sql)
            .await
            .unwrap_or_else(|e| panic!("GPU {sql}: {e}"));
        assert_same(sql, &answer, &expected);
        assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}");
        let text = explain(ours, sql).await;
        assert!(text.contains("GpuExec: join="), "{sql}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_as_planned_in_every_way() {
    let theirs = cpu_session();
    register(&theirs, "t", left());
    register(&theirs, "u", right());
    for settings in PLANNERS {
        let ours = gpu_session(100);
        register(&ours, "t", left());
        register(&ours, "u", right());
        for set in *settings {
            run(&ours, set).await.expect("a setting");
        }
        compare(&ours, &theirs).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_of_resident_tables() {
    let (ours, theirs) = (gpu_session(0), cpu_session());
    for (name, batches) in [("t", left().concat()), ("u", right().concat())] {
        register_resident(&ours, name, &batches[0].schema(), batches.clone(), 110);
        register(&theirs, name, vec![batches]);
    }
    compare(&ours, &theirs).await;
}

/// A side without rows, which its statistics do not tell.
#[tokio::test(flavor = "multi_thread")]
async fn joins_with_no_row() {
    for (left_rows, right_rows) in [(0, 40), (40, 0), (0, 0), (1, 40)] {
        let (ours, theirs) = (gpu_session(0), cpu_session());
        for ctx in [&ours, &theirs] {
            register(ctx, "t", vec![vec![rows(0, left_rows, 5)]]);
            register(ctx, "u", vec![vec![rows(20, right_rows, 5)]]);
        }
        for sql in JOINS {
            let expected = run(&theirs, sql).await.unwrap().0;
            let answer = run(&ours, sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {e}"))
                .0;
            assert_same(sql, &answer, &expected);
        }
    }
}

/// A build side that outgrows the device is joined in parts, and says nothing of a fallback.
#[tokio::test(flavor = "multi_thread")]
async fn a_build_side_larger_than_the_device() {
    let device = Device::open(selection()).expect("a device");
    let ours = session(SessionOptions {
        device: Some(device.clone()),
        target_partitions: 2,
        batch_rows: 2000,
        ..Default::default()
    });
    let theirs = cpu_session();
    for ctx in [&ours, &theirs] {
        register(
            ctx,
            "t",
            vec![(0..8).map(|i| rows(i * 2000, 2000, 5)).collect()],
        );
        register(ctx, "u", vec![vec![rows(100, 3000, 7)]]);
    }
    device.set_memory_budget(3 << 20);
    for sql in [
        "select t.big, u.big, t.s from t join u on t.big = u.big",
        "select t.big, u.big, t.s from t left join u on t.big = u.big",
        "select t.k, t.big from t where not exists (select 1 from u where u.big = t.big)",
    ] {
        let expected = run(&theirs, sql).await.unwrap().0;
        let (answer, plan) = run(&ours, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_same(sql, &answer, &expected);
        assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}");
    }
}

/// TPC-H's joins, with numbers compared where it compares strings.
const Q3: &str = "\
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
from customer, orders, lineitem
where c_custkey % 5 = 1 and c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate limit 10";

const Q5: &str = "\
select n_nationkey, sum(l_extendedprice * (1 - l_discount)) as revenue
from customer, orders, lineitem, supplier, nation, region
where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
  and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
  and r_regionkey + 0 = 2 and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
group by n_nationkey order by revenue desc";

const Q10: &str = "\
select c_custkey, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_nationkey
from customer, orders, lineitem, nation
where c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01'
  and c_nationkey = n_nationkey
group by c_custkey, c_acctbal, n_nationkey
order by revenue desc, c_custkey limit 20";

const Q12: &str = "\
select o_shippriority, count(*), sum(case when o_orderdate < date '1995-01-01' then 1 else 0 end)
from orders, lineitem
where o_orderkey = l_orderkey and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
  and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
group by o_shippriority order by o_shippriority";

fn tpch() -> Vec<(&'static str, Vec<RecordBatch>)> {
    const SCALE: f64 = 0.002;
    macro_rules! table {
        ($arrow:ident, $generator:ident) => {
            $arrow::new($generator::new(SCALE, 1, 1))
                .with_batch_size(1000)
                .collect::<Result<Vec<_>, _>>()
                .expect("a table")
        };
    }
    vec![
        ("customer", table!(CustomerArrow, CustomerGenerator)),
        ("orders", table!(OrderArrow, OrderGenerator)),
        ("lineitem", table!(LineItemArrow, LineItemGenerator)),
        ("supplier", table!(SupplierArrow, SupplierGenerator)),
        ("nation", table!(NationArrow, NationGenerator)),
        ("region", table!(RegionArrow, RegionGenerator)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn tpch_joins() {
    let (uploading, resident, theirs) = (gpu_session(3000), gpu_session(0), cpu_session());
    for (name, batches) in tpch() {
        let schema = batches[0].schema();
        register_resident(&resident, name, &schema, batches.clone(), 5000);
        for ctx in [&uploading, &theirs] {
            register(ctx, name, vec![batches.clone()]);
        }
    }
    for sql in [Q3, Q5, Q10, Q12] {
        let expected = run(&theirs, sql).await.unwrap().0;
        assert!(
            expected.iter().map(RecordBatch::num_rows).sum::<usize>() > 0,
            "{sql}"
        );
        for ours in [&uploading, &resident] {
            let (answer, plan) = run(ours, sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {e}"));
            assert_same(sql, &answer, &expected);
            assert_eq!(metric(&plan, "cpu_fallback"), Some(0), "{sql}");
            let text = explain(ours, sql).await;
            assert!(!text.contains("JoinExec"), "{sql}\n{text}");
        }
        // With resident tables nothing of the CPU is below the groups' merge.
        let text = explain(&resident, sql).await;
        let below = text
            .split("GpuExec: aggregate")
            .nth(1)
            .unwrap_or_else(|| panic!("{text}"));
        for line in below.lines().skip(1) {
            assert!(line.trim_start().starts_with("Gpu"), "{line} in\n{text}");
        }
    }
}
