//! TPC-H tables made in process: batches for the demo, Parquet files for `whitewater tpch`.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
        mpsc,
    },
    thread,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef, error::ArrowError};
use datafusion::{
    error::DataFusionError,
    parquet::{
        arrow::ArrowWriter,
        basic::{Compression, ZstdLevel},
        errors::ParquetError,
        file::properties::WriterProperties,
    },
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use crate::{Error, Result, args::TpchOptions, output, progress::Progress};

/// TPC-H Q1.
pub const Q1: &str = "\
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

/// TPC-H Q6.
pub const Q6: &str = "\
select sum(l_extendedprice * l_discount) as revenue
from lineitem
where l_shipdate >= date '1994-01-01'
  and l_shipdate < date '1994-01-01' + interval '1' year
  and l_discount between 0.06 - 0.01 and 0.06 + 0.01
  and l_quantity < 24";

/// Rows of a generated batch.
const BATCH_ROWS: usize = 128 * 1024;

/// Each part of a table holds about this share of scale 1, so that progress can be told.
const PARTS_PER_SCALE: f64 = 20.0;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A table and the maker of one of its parts.
struct Table {
    name: &'static str,
    schema: fn() -> SchemaRef,
    part: fn(f64, i32, i32) -> Batches,
    /// False for the two tables whose rows do not grow with the scale.
    grows: bool,
}

macro_rules! table {
    ($name:literal, $generator:ident, $arrow:ident, $grows:literal) => {
        Table {
            name: $name,
            schema: || $arrow::schema_ref(),
            part: |scale, part, parts| {
                let rows = $generator::new(scale, part, parts);
                Box::new($arrow::new(rows).with_batch_size(BATCH_ROWS))
            },
            grows: $grows,
        }
    };
}

const TABLES: [Table; 8] = [
    table!("region", RegionGenerator, RegionArrow, false),
    table!("nation", NationGenerator, NationArrow, false),
    table!("supplier", SupplierGenerator, SupplierArrow, true),
    table!("customer", CustomerGenerator, CustomerArrow, true),
    table!("part", PartGenerator, PartArrow, true),
    table!("partsupp", PartSuppGenerator, PartSuppArrow, true),
    table!("orders", OrderGenerator, OrderArrow, true),
    table!("lineitem", LineItemGenerator, LineItemArrow, true),
];

impl Table {
    fn parts(&self, scale: f64) -> i32 {
        match self.grows {
            true => (scale * PARTS_PER_SCALE).ceil().clamp(1.0, 10_000.0) as i32,
            false => 1,
        }
    }
}

/// The table lineitem at a scale, or the columns of it that `projection` lists; made on all cores.
pub fn lineitem(scale: f64, projection: Option<&[usize]>) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let [.., table] = &TABLES;
    let parts = table.parts(scale);
    let progress = Progress::bar(parts as u64, format!("making {} ", table.name));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicI32::new(1);
    let mut made: Vec<(i32, Vec<RecordBatch>)> = thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..cores {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let part = next.fetch_add(1, Ordering::Relaxed);
                    if part > parts {
                        break;
                    }
                    let batches: Result<Vec<RecordBatch>, ArrowError> =
                        (table.part)(scale, part, parts)
                            .map(|batch| match projection {
                                Some(projection) => batch?.project(projection),
                                None => batch,
                            })
                            .collect();
                    // The receiver is gone only after an error.
                    let _ = send.send(batches.map(|batches| (part, batches)));
                }
            });
        }
        drop(send);
        receive
            .into_iter()
            .inspect(|_| progress.advance(1))
            .collect::<Result<Vec<_>, ArrowError>>()
    })?;
    made.sort_by_key(|(part, _)| *part);
    let schema = match projection {
        Some(projection) => Arc::new((table.schema)().project(projection)?),
        None => (table.schema)(),
    };
    let batches = made.into_iter().flat_map(|(_, batches)| batches).collect();
    Ok((schema, batches))
}

/// Writes the tables as `DIR/NAME.parquet` and prints the files with their rows.
pub fn write_files(options: &TpchOptions) -> Result<()> {
    let known = TABLES.map(|t| t.name);
    if let Some(name) = options.tables.iter().find(|t| !known.contains(&t.as_str())) {
        return Err(Error::UnknownTable {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let chosen = |table: &&Table| {
        options.tables.is_empty() || options.tables.iter().any(|name| name == table.name)
    };
    let chosen: Vec<_> = TABLES.iter().filter(chosen).collect();
    fs::create_dir_all(&options.out).map_err(|source| Error::File {
        path: options.out.clone(),
        source,
    })?;
    let parts: i32 = chosen.iter().map(|t| t.parts(options.scale)).sum();
    let progress = Progress::bar(parts as u64, "");
    let mut report = String::new();
    for table in chosen {
        progress.say(table.name);
        let path = options.out.join(format!("{}.parquet", table.name));
        let rows = write_table(table, options.scale, &path, &progress)?;
        report += &format!("{}: {rows} rows\n", path.display());
    }
    drop(progress);
    output::write(report.as_bytes()).map_err(Error::Output)
}

/// Writes one table; its number of rows is returned. The file appears under its name once whole.
fn write_table(table: &Table, scale: f64, path: &Path, progress: &Progress) -> Result<u64> {
    let unwritten = path.with_extension("parquet.part");
    let named = |source| Error::File {
        path: path.into(),
        source,
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let file = fs::File::create(&unwritten).map_err(named)?;
    let mut writer =
        ArrowWriter::try_new(file, (table.schema)(), Some(properties)).map_err(parquet)?;
    let parts = table.parts(scale);
    let mut rows = 0;
    for part in 1..=parts {
        for batch in (table.part)(scale, part, parts) {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            writer.write(&batch).map_err(parquet)?;
        }
        progress.advance(1);
    }
    writer.close().map_err(parquet)?;
    fs::rename(&unwritten, path).map_err(named)?;
    Ok(rows)
}

fn parquet(error: ParquetError) -> Error {
    DataFusionError::from(error).into()
}
