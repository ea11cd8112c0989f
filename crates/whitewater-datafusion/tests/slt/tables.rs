//! The tables that SQL cannot make: slices, bitmaps, garbage under nulls, generated data.

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int32Array,
        Int64Array, RecordBatch, StringArray,
    },
    buffer::NullBuffer,
    error::ArrowError,
};
use datafusion::{
    datasource::MemTable,
    error::DataFusionError,
    parquet::arrow::ArrowWriter,
    prelude::{ParquetReadOptions, SessionContext},
};
use tempfile::TempDir;
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// Registers every table with a session.
///
/// | table | what it is |
/// | --- | --- |
/// | `sliced` | 50 rows in two batches, each a slice at an odd offset of columns with other values around it |
/// | `bitmaps` | the same values without a bitmap (`a`), with one that is all set (`b`), and with other bytes under its nulls (`c`, `d`) |
/// | `words` | six strings in two batches that share their bytes, cut at row 2 |
/// | `gaps` | 1, 2, 3 in three batches, with empty batches around them |
/// | `tiled` | 10 007 rows: `k` row % 10, `v` the row, `f` half the row, `n` null in every third row |
/// | `ones` | 10 000 int8, 0 and 1 in turn |
/// | `many` | `a` = `b` = 0 to 131 071 |
/// | `nan_parquet` | 3.0, NaN, 3.0 in a Parquet file with statistics |
/// | `lineitem` | TPC-H at scale 0.001 |
pub async fn register(ctx: &SessionContext) -> Result<(), DataFusionError> {
    for (name, batches) in &*TABLES {
        let table = MemTable::try_new(batches[0].schema(), vec![batches.clone()])?;
        ctx.register_table(*name, Arc::new(table))?;
    }
    let path = FILES.1.to_string_lossy();
    ctx.register_parquet("nan_parquet", path, ParquetReadOptions::default())
        .await
}

static TABLES: LazyLock<Vec<(&str, Vec<RecordBatch>)>> = LazyLock::new(|| {
    let tables = [
        ("sliced", sliced()),
        ("bitmaps", bitmaps()),
        ("words", words()),
        ("gaps", gaps()),
        ("tiled", tiled()),
        ("ones", ones()),
        ("many", many()),
        ("lineitem", lineitem()),
    ];
    tables
        .map(|(name, batches)| (name, batches.unwrap()))
        .into()
});

/// The folder of the files, kept as long as the process, and the Parquet file.
static FILES: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nan.parquet");
    let floats = Float64Array::from(vec![3.0, f64::NAN, 3.0]);
    let batch = batch([("x", Arc::new(floats) as ArrayRef)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (folder, path)
});

type Batches = Result<Vec<RecordBatch>, ArrowError>;

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
}

/// Rows `from..to`, cut out of columns that hold other values before and after them.
/// Columns but `id` are null where `id % 7 == 3`.
fn slice_of_sliced(from: i64, to: i64, offset: usize) -> Result<RecordBatch, ArrowError> {
    let before = offset as i64;
    let rows: Vec<Option<i64>> = (0..before)
        .map(|_| None)
        .chain((from..to).map(Some))
        .chain((0..9).map(|_| None))
        .collect();
    // Outside the slice every value is this one and valid, so that a wrong offset shows.
    const OUTSIDE: i64 = 999;
    let values = || {
        rows.iter()
            .map(|row| (row.unwrap_or(OUTSIDE), row.is_some()))
    };
    let valid = |id: i64, inside: bool| !inside || id % 7 != 3;
    let present = || values().map(|(id, inside)| valid(id, inside).then_some(id));
    let id: Int64Array = values().map(|(id, _)| Some(id)).collect();
    let i: Int32Array = present().map(|id| id.map(|id| id as i32 * 10)).collect();
    let s: StringArray = present()
        .map(|id| id.map(|id| format!("s{}", id % 5)))
        .collect();
    let b: BooleanArray = present().map(|id| id.map(|id| id % 2 == 0)).collect();
    let d: Date32Array = present().map(|id| id.map(|id| id as i32 - 15)).collect();
    let m: Decimal128Array = present()
        .map(|id| id.map(|id| i128::from(id) * 100 + 25))
        .collect();
    let f: Float64Array = present().map(|id| id.map(|id| id as f64 / 2.0)).collect();
    let whole = batch([
        ("id", Arc::new(id)),
        ("i", Arc::new(i)),
        ("s", Arc::new(s)),
        ("b", Arc::new(b)),
        ("d", Arc::new(d)),
        ("m", Arc::new(m.with_precision_and_scale(12, 2)?)),
        ("f", Arc::new(f)),
    ])?;
    Ok(whole.slice(offset, (to - from) as usize))
}

fn sliced() -> Batches {
    Ok(vec![
        slice_of_sliced(0, 31, 5)?,
        slice_of_sliced(31, 50, 13)?,
    ])
}

/// 1, 2, 3, 4 four ways; `c` and `d` are null in row 2 over different bytes.
fn bitmaps() -> Batches {
    let with = |values: Vec<i64>, valid: Option<Vec<bool>>| -> ArrayRef {
        Arc::new(Int64Array::new(values.into(), valid.map(NullBuffer::from)))
    };
    // `from` drops a bitmap that is all set; a slice of a larger one keeps it.
    let all_set = Int64Array::new(
        vec![0, 1, 2, 3, 4].into(),
        Some(NullBuffer::from(vec![false, true, true, true, true])),
    );
    let holes = Some(vec![true, true, false, true]);
    Ok(vec![batch([
        ("a", with(vec![1, 2, 3, 4], None)),
        ("b", Arc::new(all_set.slice(1, 4))),
        ("c", with(vec![1, 2, 77, 4], holes.clone())),
        ("d", with(vec![1, 2, -5, 4], holes)),
    ])?])
}

fn words() -> Batches {
    let words = StringArray::from(vec![
        Some("one"),
        Some("zwei"),
        None,
        Some("quatre"),
        Some(""),
        Some("zes"),
    ]);
    let whole = batch([("w", Arc::new(words) as ArrayRef)])?;
    Ok(vec![whole.slice(0, 2), whole.slice(2, 4)])
}

fn gaps() -> Batches {
    let of = |values: Vec<i64>| batch([("x", Arc::new(Int64Array::from(values)) as ArrayRef)]);
    [vec![], vec![1], vec![], vec![2], vec![3], vec![]]
        .map(of)
        .into_iter()
        .collect()
}

fn tiled() -> Batches {
    let rows = 0..10_007_i64;
    let k: Int32Array = rows.clone().map(|row| Some((row % 10) as i32)).collect();
    let v: Int64Array = rows.clone().map(Some).collect();
    let f: Float64Array = rows.clone().map(|row| Some(row as f64 / 2.0)).collect();
    let n: Int64Array = rows.map(|row| (row % 3 != 0).then_some(row)).collect();
    Ok(vec![batch([
        ("k", Arc::new(k) as ArrayRef),
        ("v", Arc::new(v)),
        ("f", Arc::new(f)),
        ("n", Arc::new(n)),
    ])?])
}

fn ones() -> Batches {
    let values: Int8Array = (0..10_000).map(|row| Some((row % 2) as i8)).collect();
    Ok(vec![batch([("x", Arc::new(values) as ArrayRef)])?])
}

fn many() -> Batches {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..131_072));
    Ok(vec![batch([("a", values.clone()), ("b", values)])?])
}

fn lineitem() -> Batches {
    LineItemArrow::new(LineItemGenerator::new(0.001, 1, 1)).collect()
}
