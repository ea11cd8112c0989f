//! Whether two answers agree: exactly, except that floats may differ in their last digits.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Float64Type},
    error::ArrowError,
    util::display::array_value_to_string,
};

/// Floats agree within this share of the larger of the two.
const TOLERANCE: f64 = 1e-9;

/// The first difference of two ordered results, or `None` where they agree.
pub fn difference(a: &[RecordBatch], b: &[RecordBatch]) -> Result<Option<String>, ArrowError> {
    let (Some(first), Some(other)) = (a.first(), b.first()) else {
        let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum();
        let (a, b): (usize, usize) = (rows(a), rows(b));
        return Ok((a != b).then(|| format!("{a} rows and {b} rows")));
    };
    let a = concat_batches(&first.schema(), a)?;
    let b = concat_batches(&other.schema(), b)?;
    if a.num_rows() != b.num_rows() || a.num_columns() != b.num_columns() {
        return Ok(Some(format!(
            "{} rows of {} columns and {} rows of {} columns",
            a.num_rows(),
            a.num_columns(),
            b.num_rows(),
            b.num_columns()
        )));
    }
    for (index, field) in a.schema().fields().iter().enumerate() {
        let (x, y) = (a.column(index), b.column(index));
        if let Some(row) = column_difference(x, y)? {
            return Ok(Some(format!(
                "row {row} of {}: {} and {}",
                field.name(),
                array_value_to_string(x, row)?,
                array_value_to_string(y, row)?
            )));
        }
    }
    Ok(None)
}

/// The first row in which two columns differ.
fn column_difference(x: &ArrayRef, y: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    // The same values may come as views or as offsets and bytes.
    let plain = |column: &ArrayRef| match column.data_type() {
        DataType::Utf8View | DataType::LargeUtf8 => cast(column, &DataType::Utf8),
        DataType::Float16 | DataType::Float32 => cast(column, &DataType::Float64),
        _ => Ok(column.clone()),
    };
    let (x, y) = (plain(x)?, plain(y)?);
    if x.data_type() != y.data_type() {
        return Ok(Some(0).filter(|_| !x.is_empty()));
    }
    if x.data_type() == &DataType::Float64 {
        let (x, y) = (
            x.as_primitive::<Float64Type>(),
            y.as_primitive::<Float64Type>(),
        );
        return Ok(x.iter().zip(y).position(|pair| match pair {
            (Some(x), Some(y)) => !close(x, y),
            (x, y) => x.is_some() != y.is_some(),
        }));
    }
    Ok((0..x.len()).find(|&row| x.slice(row, 1) != y.slice(row, 1)))
}

fn close(x: f64, y: f64) -> bool {
    x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= TOLERANCE * x.abs().max(y.abs())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn batch(column: ArrayRef) -> Vec<RecordBatch> {
        vec![RecordBatch::try_from_iter([("a", column)]).unwrap()]
    }

    #[test]
    fn floats_may_differ_in_their_last_digits() {
        let a = batch(Arc::new(Float64Array::from(vec![
            Some(0.1 + 0.2),
            None,
            Some(f64::NAN),
        ])));
        let b = batch(Arc::new(Float64Array::from(vec![
            Some(0.3),
            None,
            Some(f64::NAN),
        ])));
        assert_eq!(difference(&a, &b).unwrap(), None);
        let c = batch(Arc::new(Float64Array::from(vec![
            Some(0.3),
            Some(0.0),
            None,
        ])));
        assert!(
            difference(&a, &c)
                .unwrap()
                .unwrap()
                .starts_with("row 1 of a")
        );
    }

    #[test]
    fn the_rest_must_be_equal() {
        let a = batch(Arc::new(Int64Array::from(vec![1, 2, 3])));
        let b = batch(Arc::new(Int64Array::from(vec![1, 2, 4])));
        assert_eq!(
            difference(&a, &b).unwrap().as_deref(),
            Some("row 2 of a: 3 and 4")
        );
        assert!(difference(&a, &[]).unwrap().is_some());
    }

    #[test]
    fn strings_are_equal_in_any_layout() {
        let a = batch(Arc::new(StringArray::from(vec!["x", "y"])));
        let b = batch(Arc::new(StringViewArray::from(vec!["x", "y"])));
        assert_eq!(difference(&a, &b).unwrap(), None);
    }
}
