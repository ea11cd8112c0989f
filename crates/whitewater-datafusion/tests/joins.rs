//! Joins of every kind give the CPU's answer, whichever join DataFusion has planned, and run on the GPU.

mod support;

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
};
use datafusion::{
    parquet::{arrow::ArrowWriter, file::properties::WriterProperties},
    physical_plan::ExecutionPlan,
    prelude::{ParquetReadOptions, SessionContext},
};
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

/// `t` in a Parquet file of row groups of 100 rows, ordered by `big`, `k`, `day` and `d` alike.
fn parquet_in_order(folder: &std::path::Path) -> std::path::PathBuf {
    let rows = 0..3000i64;
    let big: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let k: ArrayRef = Arc::new(Int32Array::from_iter_values(
        rows.clone().map(|i| i as i32 - 1500),
    ));
    let day: ArrayRef = Arc::new(Date32Array::from_iter_values(
        rows.clone().map(|i| i as i32 - 700),
    ));
    let d = Decimal128Array::from_iter_values(rows.clone().map(|i| i128::from(i) * 5));
    let d: ArrayRef = Arc::new(d.with_precision_and_scale(15, 2).expect("decimals"));
    let f: ArrayRef = Arc::new(Float64Array::from_iter_values(
        rows.clone().map(|i| i as f64),
    ));
    // Rows without a key, one in every row group.
    let hole: ArrayRef = Arc::new(Int64Array::from_iter(
        rows.map(|i| (i % 100 != 7).then_some(i)),
    ));
    let columns = [
        ("big", big),
        ("k", k),
        ("day", day),
        ("d", d),
        ("f", f),
        ("hole", hole),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, c)| (name, c, true)));
    let batch = batch.expect("a batch");
    let path = folder.join("t.parquet");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(100))
        .build();
    let file = std::fs::File::create(&path).expect("a file");
    let mut writer =
        ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");
    path
}

/// What the build side's keys say spares the scan of the probe side most of a file, and never a row of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_probe_sides_scan_knows_the_build_sides_keys() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = parquet_in_order(folder.path());
    let (ours, theirs) = (gpu_session(0), cpu_session());
    let key = |i: i64| -> RecordBatch {
        let n: ArrayRef = Arc::new(Int64Array::from(vec![
            Some(i),
            None,
            Some(i + 120),
            Some(i),
        ]));
        let k: ArrayRef = Arc::new(Int32Array::from(vec![
            Some(i as i32 - 1500),
            None,
            Some(-1380),
            Some(-1480),
        ]));
        let day: ArrayRef = Arc::new(Date32Array::from(vec![
            Some(i as i32 - 700),
            None,
            None,
            None,
        ]));
        let d = Decimal128Array::from(vec![Some(i128::from(i) * 5), Some(7), None, None]);
        let d: ArrayRef = Arc::new(d.with_precision_and_scale(15, 2).expect("decimals"));
        let f: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(-0.0),
            Some(i as f64),
            None,
            None,
        ]));
        let columns = [
            ("big", n.clone()),
            ("k", k),
            ("day", day),
            ("d", d),
            ("f", f),
            ("hole", n),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, c)| (name, c, true)))
            .expect("keys")
    };
    let many: ArrayRef = Arc::new(Int64Array::from_iter_values(1000..1400));
    let many = RecordBatch::try_from_iter([("big", many)]).expect("keys");
    let none = key(0).slice(1, 1);
    for ctx in [&ours, &theirs] {
        let options = ParquetReadOptions::default();
        ctx.register_parquet("t", path.to_string_lossy(), options)
            .await
            .expect("a table");
        register(ctx, "few", vec![vec![key(20)], vec![key(60)]]);
        register(
            ctx,
            "many",
            vec![vec![many.slice(0, 150)], vec![many.slice(150, 250)]],
        );
        register(ctx, "none", vec![vec![none.clone()]]);
    }
    // With how many of the 3000 rows are read at most.
    let cases = [
        ("select t.* from few join t on few.big = t.big", 300),
        ("select t.* from few join t on few.k = t.k", 300),
        ("select t.* from few join t on few.day = t.day", 300),
        ("select t.* from few join t on few.d = t.d", 300),
        (
            "select t.* from few join t on few.hole = t.hole and few.k = t.k",
            300,
        ),
        ("select t.* from few join t on few.f = t.f", 3000),
        ("select t.* from many join t on many.big = t.big", 400),
        ("select count(*) from many join t on many.big = t.hole", 500),
        ("select t.* from none join t on none.big = t.big", 0),
        (
            "select few.big from few where big in (select big from t)",
            300,
        ),
        (
            "select few.big from few where big not in (select hole from t where hole is not null)",
            3000,
        ),
        (
            "select few.big from few where big not in (select hole from t)",
            3000,
        ),
        (
            "select few.big, t.big from few left join t on few.big = t.big",
            300,
        ),
        (
            "select few.big, t.big from few right join t on few.big = t.big",
            3000,
        ),
        (
            "select t.big from few join t on few.hole is not distinct from t.hole",
            3000,
        ),
    ];
    for (sql, most) in cases {
        let expected = run(&theirs, sql).await.expect(sql).0;
        let (answer, plan) = run(&ours, sql).await.expect(sql);
        assert_same(sql, &answer, &expected);
        let text = datafusion::physical_plan::displayable(plan.as_ref())
            .indent(true)
            .to_string();
        assert!(text.contains("GpuExec: join="), "{sql}\n{text}");
        let read = scanned(&plan).expect("a scan");
        assert!(read <= most, "{sql}: {read} rows\n{text}");
    }
}

/// Rows that the Parquet scans of a plan have given.
fn scanned(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let shown = datafusion::physical_plan::displayable(plan.as_ref())
        .one_line()
        .to_string();
    let own = shown
        .contains("parquet")
        .then(|| metric(plan, "output_rows"))
        .flatten();
    own.or_else(|| {
        plan.children()
            .into_iter()
            .filter_map(scanned)
            .reduce(|a, b| a + b)
    })
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
