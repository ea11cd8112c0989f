//! TPC-H Q1 and Q6 on generated data: from Parquet files and from tables on the device, decimals exact.

mod support;

use std::fs::File;

use arrow::array::RecordBatch;
use datafusion::parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use support::{assert_same, cpu_session, gpu_session, metric, plan, register_resident, run};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;
use whitewater_datafusion::register_path;

const Q1: &str = "\
select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,
       sum(l_extendedprice) as sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
       avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price,
       avg(l_discount) as avg_disc, count(*) as count_order
from lineitem
where l_shipdate <= date '1998-12-01' - interval '90' day
group by l_returnflag, l_linestatus
order by l_returnflag, l_linestatus";

const Q6: &str = "\
select sum(l_extendedprice * l_discount) as revenue
from lineitem
where l_shipdate >= date '1994-01-01'
  and l_shipdate < date '1994-01-01' + interval '1' year
  and l_discount between 0.06 - 0.01 and 0.06 + 0.01
  and l_quantity < 24";

fn lineitem() -> Vec<RecordBatch> {
    LineItemArrow::new(LineItemGenerator::new(0.002, 1, 1))
        .with_batch_size(1000)
        .collect::<Result<_, _>>()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn q1_and_q6_from_parquet_and_resident() {
    let folder = tempfile::tempdir().unwrap();
    let batches = lineitem();
    for (index, half) in batches.chunks(batches.len().div_ceil(2)).enumerate() {
        let file = File::create(folder.path().join(format!("{index}.parquet"))).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(2000))
            .build();
        let mut writer = ArrowWriter::try_new(file, half[0].schema(), Some(properties)).unwrap();
        half.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.close().unwrap();
    }
    let cpu = cpu_session();
    register_path(&cpu, "lineitem", folder.path())
        .await
        .unwrap();
    let from_files = gpu_session(3000);
    register_path(&from_files, "lineitem", folder.path())
        .await
        .unwrap();
    let resident = gpu_session(0);
    register_resident(
        &resident,
        "lineitem",
        &batches[0].schema(),
        batches.clone(),
        5000,
    );
    for sql in [Q1, Q6] {
        let expected = run(&cpu, sql).await.unwrap().0;
        assert!(expected.iter().map(RecordBatch::num_rows).sum::<usize>() > 0);
        for (ctx, uploads) in [(&from_files, true), (&resident, false)] {
            let (answer, plan) = run(ctx, sql).await.unwrap();
            assert_same(sql, &answer, &expected);
            assert_eq!(metric(&plan, "cpu_fallback"), Some(0));
            let uploaded = metric(&plan, "uploaded_bytes").unwrap_or(0);
            assert_eq!(uploaded > 0, uploads, "{uploaded} bytes uploaded");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_of_q6_is_one_gpu_node() {
    let ctx = gpu_session(0);
    let batches = lineitem();
    register_resident(&ctx, "lineitem", &batches[0].schema(), batches, 5000);
    let mut names = Vec::new();
    let mut node = plan(&ctx, Q6).await;
    loop {
        names.push(node.name().to_string());
        let Some(child) = node.children().first().map(|child| (*child).clone()) else {
            break;
        };
        node = child;
    }
    assert_eq!(
        names,
        ["ProjectionExec", "AggregateExec", "GpuExec", "GpuTableExec"]
    );
}
