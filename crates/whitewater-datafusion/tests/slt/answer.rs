//! A result as cells, its text for the files, and its comparison with another one.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type},
    util::display::array_value_to_string,
};
use datafusion::{error::DataFusionError, prelude::SessionContext};
use sqllogictest::ColumnType;

/// Floats agree within this share of the larger one.
const TOLERANCE: f64 = 1e-12;

/// The letter of a column's type: B boolean, I integer, R float or decimal, T text, D date,
/// P timestamp, ? another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(char);

impl ColumnType for Kind {
    fn from_char(letter: char) -> Option<Self> {
        "BIRTDP?".contains(letter).then_some(Kind(letter))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

fn kind(data_type: &DataType) -> Kind {
    Kind(match data_type {
        DataType::Boolean => 'B',
        t if t.is_integer() => 'I',
        t if t.is_floating() || t.is_decimal() => 'R',
        t if t.is_string() => 'T',
        DataType::Date32 | DataType::Date64 => 'D',
        DataType::Timestamp(_, _) => 'P',
        _ => '?',
    })
}

#[derive(Clone, Debug)]
pub enum Cell {
    Null,
    Float(f64),
    Text(String),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Null => "NULL".into(),
            Cell::Float(value) => format!("{value:?}"),
            Cell::Text(text) if text.is_empty() => "(empty)".into(),
            Cell::Text(text) => text.clone(),
        }
    }

    /// Text by which unordered rows are paired: floats without their last digits.
    fn key(&self) -> String {
        match self {
            Cell::Float(value) => format!("{value:.9e}"),
            other => other.text(),
        }
    }

    fn agrees(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Null, Cell::Null) => true,
            (Cell::Text(a), Cell::Text(b)) => a == b,
            (Cell::Float(a), Cell::Float(b)) => {
                let close = (a - b).abs() <= TOLERANCE * a.abs().max(b.abs());
                (a.is_nan() && b.is_nan())
                    || (a == b && a.is_sign_negative() == b.is_sign_negative())
                    || (a.is_finite() && b.is_finite() && a != b && close)
            }
            _ => false,
        }
    }
}

/// The rows of a statement.
pub struct Answer {
    pub kinds: Vec<Kind>,
    types: Vec<DataType>,
    pub rows: Vec<Vec<Cell>>,
    ordered: bool,
}

impl Answer {
    pub async fn of(ctx: &SessionContext, sql: &str) -> Result<Self, DataFusionError> {
        let frame = ctx.sql(sql).await?;
        let schema = frame.schema().inner().clone();
        let types: Vec<_> = schema
            .fields()
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        let mut rows = Vec::new();
        for batch in frame.collect().await? {
            rows.extend(cells(&batch)?);
        }
        Ok(Self {
            kinds: types.iter().map(kind).collect(),
            types,
            rows,
            ordered: sql.to_ascii_lowercase().contains("order by"),
        })
    }

    pub fn text(&self) -> Vec<Vec<String>> {
        let row = |row: &Vec<Cell>| row.iter().map(Cell::text).collect();
        self.rows.iter().map(row).collect()
    }

    /// The first difference from `other`: in types, in the number of rows, or in a row.
    pub fn difference(&self, other: &Answer) -> Option<String> {
        if self.types != other.types {
            return Some(format!("types {:?} and {:?}", self.types, other.types));
        }
        if self.rows.len() != other.rows.len() {
            return Some(format!("{} rows and {}", self.rows.len(), other.rows.len()));
        }
        let (a, b) = (self.comparable(), other.comparable());
        let differs =
            |(a, b): &(&Vec<Cell>, &Vec<Cell>)| !a.iter().zip(*b).all(|(a, b)| a.agrees(b));
        let (a, b) = a.iter().zip(&b).find(differs)?;
        Some(format!("row {a:?} and row {b:?}"))
    }

    fn comparable(&self) -> Vec<Vec<Cell>> {
        let mut rows = self.rows.clone();
        if !self.ordered {
            rows.sort_by_cached_key(|row| row.iter().map(Cell::key).collect::<Vec<_>>());
        }
        rows
    }
}

fn cells(batch: &RecordBatch) -> Result<Vec<Vec<Cell>>, DataFusionError> {
    let columns: Vec<Vec<Cell>> = batch
        .columns()
        .iter()
        .map(column)
        .collect::<Result<_, _>>()?;
    let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}

fn column(column: &ArrayRef) -> Result<Vec<Cell>, DataFusionError> {
    if column.data_type().is_floating() {
        let column = cast(column, &DataType::Float64)?;
        let floats = column.as_primitive::<Float64Type>();
        return Ok(floats
            .iter()
            .map(|v| v.map_or(Cell::Null, Cell::Float))
            .collect());
    }
    (0..column.len())
        .map(|row| match column.is_null(row) {
            true => Ok(Cell::Null),
            false => Ok(Cell::Text(array_value_to_string(column, row)?)),
        })
        .collect()
}
