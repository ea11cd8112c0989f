//! Runs expressions on a device, row by row, against arrow's kernels on the CPU.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, make_array},
    datatypes::{DataType, Field, Schema},
    error::ArrowError,
};
use whitewater_gpu::{Buffer, Library, Shader};

use crate::expr::{ColumnLayout, DeviceType, Expr, Part, Pipeline, compile};
use crate::kernels::tests::device;

static LIBRARY: Library = Library {
    modules: &[
        ("package::evaluate", include_str!("evaluate.wesl")),
        ("package::kernels::errors", include_str!("raise.wesl")),
        (
            "package::kernels::bits",
            include_str!("../../kernels/bits.wesl"),
        ),
        (
            "package::kernels::float",
            include_str!("../../kernels/float.wesl"),
        ),
        (
            "package::kernels::int128",
            include_str!("../../kernels/int128.wesl"),
        ),
    ],
    intrinsics: &[crate::expr::INTRINSICS],
};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Params {
    rows: u32,
}

/// The bits of a row's value, as the kernel holds it; none for null.
type Row = Result<Option<u128>, String>;

pub(super) fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Every pair of a row of `left` and a row of `right`.
pub(super) fn pairs(left: &ArrayRef, right: &ArrayRef) -> RecordBatch {
    let (n, m) = (left.len() as u32, right.len() as u32);
    let l = arrow::array::UInt32Array::from_iter_values((0..n * m).map(|i| i / m));
    let r = arrow::array::UInt32Array::from_iter_values((0..n * m).map(|i| i % m));
    batch(vec![
        arrow::compute::take(left, &l, None).unwrap(),
        arrow::compute::take(right, &r, None).unwrap(),
    ])
}

/// Asserts that `expr` over every row of `batch` is what `oracle` gives for that row alone: the value
/// bit for bit, null, or an error. Decimal columns are tried in every layout that holds them.
pub(super) fn check(
    expr: &Expr,
    batch: &RecordBatch,
    oracle: impl Fn(&RecordBatch) -> Result<ArrayRef, ArrowError>,
) {
    let data_type = expr
        .check(&batch.schema())
        .unwrap_or_else(|e| panic!("{expr:?}: {e}"));
    let expected: Vec<Row> = (0..batch.num_rows())
        .map(|row| {
            let result = oracle(&batch.slice(row, 1)).map_err(|e| e.to_string())?;
            assert_eq!(result.data_type(), &data_type, "type of {expr:?}");
            Ok(host_bits(&result, 0))
        })
        .collect();
    for layout in layouts(batch) {
        compare(expr, batch, &layout, &expected);
    }
}

fn compare(expr: &Expr, batch: &RecordBatch, layout: &[ColumnLayout], expected: &[Row]) {
    let (actual, text) = run(expr, batch, layout);
    for (row, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
        let same = match (expected, actual) {
            (Err(_), Err(_)) => true,
            (expected, actual) => expected == actual,
        };
        if !same {
            let inputs: Vec<String> = batch
                .columns()
                .iter()
                .map(|c| format!("{:?}", c.slice(row, 1)))
                .collect();
            panic!(
                "{expr:?}\nrow {row}: {inputs:?}\nexpected {expected:x?}\nactual   {actual:x?}\n{layout:?}\n{text}"
            );
        }
    }
}

/// The layouts to try: as little known as can be, and for decimals what narrow values allow.
fn layouts(batch: &RecordBatch) -> Vec<Vec<ColumnLayout>> {
    let known = |narrow: bool, packed: bool, bounded: bool| -> Vec<ColumnLayout> {
        batch
            .columns()
            .iter()
            .map(|column| {
                let mut layout = ColumnLayout {
                    nullable: column.null_count() > 0,
                    ..ColumnLayout::default()
                };
                if let Some(bits) = decimal_bits(column).filter(|bits| *bits <= 64) {
                    layout.narrow = narrow;
                    layout.packed = packed;
                    layout.bits = (bounded && bits < 64).then_some(bits);
                }
                layout
            })
            .collect()
    };
    let mut all = vec![
        known(false, false, false),
        known(true, false, false),
        known(true, true, false),
        known(true, true, true),
    ];
    all.dedup();
    all
}

/// Bits that the values need, 64 if all are an i64 and one is its least.
fn decimal_bits(column: &ArrayRef) -> Option<u32> {
    if !matches!(column.data_type(), DataType::Decimal128(_, _)) {
        return None;
    }
    let data = column.to_data();
    let values = &data.buffers()[0].typed_data::<i128>()[data.offset()..][..data.len()];
    if values.iter().all(|v| i64::try_from(*v).is_ok()) {
        values
            .iter()
            .map(|v| 128 - v.unsigned_abs().leading_zeros())
            .max()
    } else {
        Some(128)
    }
}

fn run(expr: &Expr, batch: &RecordBatch, layout: &[ColumnLayout]) -> (Vec<Row>, String) {
    let schema = batch.schema();
    let boolean = expr.data_type(&schema).unwrap() == DataType::Boolean;
    let spec = Pipeline {
        predicate: boolean.then(|| expr.clone()),
        values: vec![("value".into(), expr.clone())],
        narrow: false,
        paired: None,
    };
    let generated = compile(&spec, &schema, layout).unwrap();
    let value = &generated.values[0];
    let shader = Shader::new(&LIBRARY, "package::evaluate")
        .feature("boolean", boolean)
        .generated("package::generated", generated.text.clone());
    let device = device();
    let kernel = device
        .kernel(&shader, "evaluate")
        .unwrap_or_else(|e| panic!("{expr:?}: {e}\n{}", generated.text));
    let buffers: Vec<Buffer> = generated
        .bindings
        .iter()
        .map(|binding| {
            let column = batch.column(binding.column);
            let bytes = match binding.part {
                Part::Validity => bits(column.nulls().unwrap().inner().iter()),
                _ => data(column, layout[binding.column].packed),
            };
            device.upload(&bytes).unwrap()
        })
        .collect();
    let rows = batch.num_rows();
    let width = match value.device {
        DeviceType::I128 => 16,
        DeviceType::I64 | DeviceType::U64 | DeviceType::F64 => 8,
        _ => 4,
    };
    let flags = device.alloc_filled(rows as u64 * 4, 0).unwrap();
    let output = device.alloc_filled((rows * width) as u64, 0).unwrap();
    kernel
        .launch()
        .bind(0, 1, &flags)
        .bind(0, 2, &output)
        .bind_group(1, &buffers)
        .params(&Params { rows: rows as u32 })
        .run(rows.div_ceil(64) as u32)
        .unwrap();
    let flags = flags.download_as::<u32>().unwrap();
    let output = output.download().unwrap();
    let results = flags
        .iter()
        .enumerate()
        .map(|(row, flags)| {
            let (valid, passes, raised) = (flags & 1 != 0, flags & 2 != 0, flags >> 2);
            assert!(
                raised == 0 || generated.raises,
                "{expr:?} raises unannounced"
            );
            if raised != 0 {
                return Err(format!("raised {raised:#b}"));
            }
            let mut bytes = [0u8; 16];
            bytes[..width].copy_from_slice(&output[row * width..][..width]);
            let value = valid.then(|| u128::from_le_bytes(bytes));
            assert!(
                valid || generated.values[0].nullable,
                "{expr:?} null unannounced"
            );
            if boolean {
                assert_eq!(passes, value == Some(1), "{expr:?} predicate in row {row}");
            }
            Ok(value)
        })
        .collect();
    (results, generated.text)
}

fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut words: Vec<u32> = Vec::new();
    for (i, value) in values.enumerate() {
        if i % 32 == 0 {
            words.push(0);
        }
        words[i / 32] |= u32::from(value) << (i % 32);
    }
    bytemuck::cast_slice(&words).to_vec()
}

fn data(column: &ArrayRef, packed: bool) -> Vec<u8> {
    let data = column.to_data();
    if let DataType::Boolean = column.data_type() {
        let booleans = arrow::array::BooleanArray::from(data);
        return bits(booleans.values().iter());
    }
    let width = column.data_type().primitive_width().unwrap();
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..][..data.len() * width];
    let mut bytes = match packed {
        true => bytes.chunks(16).flat_map(|v| v[..8].to_vec()).collect(),
        false => bytes.to_vec(),
    };
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// What the kernel should hold for a row: small integers are extended to 32 bits.
fn host_bits(array: &ArrayRef, row: usize) -> Option<u128> {
    if array.is_null(row) {
        return None;
    }
    let bytes = data(&make_array(array.slice(row, 1).to_data()), false);
    let mut wide = [0u8; 16];
    let width = array.data_type().primitive_width().unwrap_or(4);
    wide[..width].copy_from_slice(&bytes[..width]);
    let signed = matches!(array.data_type(), DataType::Int8 | DataType::Int16);
    if signed && wide[width - 1] & 0x80 != 0 {
        wide[width..4].fill(0xff);
    }
    Some(u128::from_le_bytes(wide))
}
