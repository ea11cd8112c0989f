//! Window functions, over rows that stand by partition and in order.
//!
//! ```text
//! rows in order ──compare neighbours──▶ where partitions and peers begin ──scan──▶ their numbers
//!     ──▶ ranks
//!     ──▶ a row a row ──gather──▶ values of other rows
//!     ──segmented scan, at the ends of frames──▶ sums, counts, extremes
//! ```
//!
//! Sums of integers are a difference of two running totals, so that a frame of any size costs the same. For sums of
//! floats and for extremes a difference would not be exact: frames that begin with the partition have running totals,
//! and short ones are walked (`walk.wesl`).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::{Buffer, Device, Shader};

use crate::{
    Batch, Column, Error, Storage,
    expr::{Expr, Literal, Op},
    gather::{gather_or_null, numbers},
    kernels::LIBRARY,
    params::{WORKGROUP, grid},
    scan::{Bound, Total, scan},
    select::filter_project,
    sort::{Runs, SortKey},
    table::plain_type,
};

/// What a window column is.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// The row's number in its partition, from 1. `UInt64`, as the next two.
    RowNumber,
    /// The number of the first of the row's peers.
    Rank,
    /// How many different peers there are up to the row's.
    DenseRank,
    /// `(rank - 1) / (rows - 1)`, 0 in a partition of one row. `Float64`, as the next.
    PercentRank,
    /// The share of the partition's rows up to the row's peers.
    CumeDist,
    /// The row's tile of so many (at least 1) of nearly equal size, from 1. `UInt64`.
    Ntile(u32),
    /// The argument in the row so many rows further on (before, if negative), or the default outside of the partition.
    Shift {
        by: i32,
        default: Option<Literal>,
    },
    /// The argument in the frame's row of that number, from 0; null outside of it.
    FromStart(u32),
    /// The same, from the frame's last row.
    FromEnd(u32),
    /// The frame's rows, or those where the argument is not null. `Int64`.
    Count,
    /// Of 64-bit integers (wraps), and of `f64`; null without a value, as the next ones.
    Sum,
    /// Of `f64`.
    Avg,
    /// Of integers.
    Min,
    Max,
}

/// Where a frame begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// With the partition.
    Unbounded,
    /// So many rows after the row, or before it if negative.
    Rows(i32),
    /// With the row's peers.
    Peers,
}

/// The rows that a column's value is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub start: Edge,
    pub end: Edge,
}

impl Frame {
    /// Whether it has few rows, so that each row's can be walked.
    fn is_short(self) -> bool {
        match (self.start, self.end) {
            (Edge::Rows(start), Edge::Rows(end)) => {
                i64::from(end) - i64::from(start) < i64::from(LONGEST_WALK)
            }
            _ => false,
        }
    }
}

/// Rows of a frame that is walked.
const LONGEST_WALK: u32 = 1024;

/// One column of a window.
#[derive(Clone, Debug)]
pub struct WindowColumn {
    pub function: Function,
    /// None for ranks and `count(*)`.
    pub argument: Option<Expr>,
    pub frame: Frame,
    pub field: Field,
}

/// Columns over the same partitions and the same order.
#[derive(Clone, Debug)]
pub struct Window {
    /// What rows of a partition share; null equals null. Their direction does not matter.
    pub partition: Vec<SortKey>,
    /// What peers share besides.
    pub order: Vec<SortKey>,
    pub columns: Vec<WindowColumn>,
}

impl Window {
    /// Whether [`window`] can do this for batches of `schema`; what it cannot is [`Error::Unsupported`].
    pub fn check(&self, schema: &Schema) -> Result<(), Error> {
        let keys = [self.partition.as_slice(), &self.order].concat();
        crate::sort::check(&keys, schema)?;
        self.columns
            .iter()
            .try_for_each(|column| column.check(schema))
    }
}

impl WindowColumn {
    /// The argument, which a function of values has.
    fn value(&self) -> Result<&Expr, Error> {
        let missing = || Error::unsupported(format!("{:?} without an argument", self.function));
        self.argument.as_ref().ok_or_else(missing)
    }

    fn check(&self, schema: &Schema) -> Result<(), Error> {
        let Some(argument) = &self.argument else {
            return Ok(());
        };
        let data_type = type_of(argument, schema)?;
        let field = Field::new("value", data_type.clone(), true);
        crate::select::check(None, &[(argument.clone(), field)], schema)?;
        let refuse = |what: &str| {
            Err(Error::unsupported(format!(
                "{:?} of {data_type}{what}",
                self.function
            )))
        };
        let whole = self.frame.start == Edge::Unbounded || self.frame.is_short();
        match &self.function {
            Function::Sum | Function::Avg if data_type == DataType::Float64 && !whole => {
                refuse(" over a long frame that begins within the partition")
            }
            Function::Sum => match data_type {
                DataType::Int64 | DataType::UInt64 | DataType::Float64 => Ok(()),
                _ => refuse(""),
            },
            Function::Avg if data_type != DataType::Float64 => refuse(""),
            Function::Min | Function::Max if !data_type.is_integer() => refuse(""),
            Function::Min | Function::Max if !whole => {
                refuse(" over a long frame that begins within the partition")
            }
            Function::Shift {
                default: Some(default),
                ..
            } if default.data_type() != data_type => refuse(" with a default of another type"),
            _ => Ok(()),
        }
    }
}

fn type_of(expr: &Expr, schema: &Schema) -> Result<DataType, Error> {
    match expr {
        Expr::Column { index } => match schema.fields().get(*index) {
            Some(field) => Ok(plain_type(field.data_type())),
            None => Err(Error::unsupported(format!(
                "column {index} of {} columns",
                schema.fields().len()
            ))),
        },
        other => Ok(other.check(schema)?),
    }
}

/// `batch`, whose rows stand by partition and in `window`'s order, with the window's columns after its own.
///
/// Moves the key columns once and 24 bytes a row, then for each column 16 bytes a row and its values: for totals
/// four times, for values of other rows as [`gather_or_null`]. Extra device memory: 16 bytes a row, and for a column at
/// a time up to 40.
/// Errors: [`Error::Unsupported`] as [`Window::check`] says, [`Error::Arithmetic`] for what an argument raises.
pub fn window(device: &Device, batch: &Batch, window: &Window) -> Result<Batch, Error> {
    window.check(&batch.schema)?;
    let mut fields: Vec<Arc<Field>> = batch.schema.fields().iter().cloned().collect();
    let mut columns = batch.columns.clone();
    let places = match batch.rows {
        0 => None,
        _ => Some(Places::new(device, batch, window)?),
    };
    for column in &window.columns {
        let data_type = plain_type(column.field.data_type());
        let field = Arc::new(column.field.clone().with_data_type(data_type));
        columns.push(match &places {
            Some(places) => places.column(column, &field)?,
            None => {
                let schema = Arc::new(Schema::new(vec![field.clone()]));
                let none = arrow::array::RecordBatch::new_empty(schema);
                Batch::upload(device, &none)?.columns.remove(0)
            }
        });
        fields.push(field);
    }
    Ok(Batch {
        schema: Arc::new(Schema::new_with_metadata(
            fields,
            batch.schema.metadata().clone(),
        )),
        columns,
        rows: batch.rows,
    })
}

#[repr(C)]
#[derive(Clone, Copy, Default, bytemuck::NoUninit)]
struct Params {
    rows: u32,
    parts: u32,
    peers: u32,
    what: u32,
    start_kind: u32,
    start: i32,
    end_kind: u32,
    end: i32,
    argument: i32,
}

/// What `ranks` computes; the other functions' numbers are in the order of [`Function`].
const FRAME_ROWS: u32 = 6;

/// What `pick_rows` looks for.
#[derive(Clone, Copy)]
enum Pick {
    Away(i32),
    FromStart(u32),
    FromEnd(u32),
    Before,
}

/// The partitions and peers of a batch.
struct Places<'a> {
    device: &'a Device,
    batch: &'a Batch,
    partitions: Runs,
    peers: Runs,
}

impl<'a> Places<'a> {
    fn new(device: &'a Device, batch: &'a Batch, window: &Window) -> Result<Self, Error> {
        let partitions = Runs::of(device, batch, &window.partition)?;
        let peers = match window.order.is_empty() {
            true => partitions.clone(),
            false => {
                let keys = [window.partition.as_slice(), &window.order].concat();
                Runs::of(device, batch, &keys)?
            }
        };
        Ok(Self {
            device,
            batch,
            partitions,
            peers,
        })
    }

    fn column(&self, column: &WindowColumn, field: &Field) -> Result<Column, Error> {
        let frame = column.frame;
        match &column.function {
            Function::RowNumber => self.ranks(frame, 0, 0, field),
            Function::Rank => self.ranks(frame, 1, 0, field),
            Function::DenseRank => self.ranks(frame, 2, 0, field),
            Function::PercentRank => self.ranks(frame, 3, 0, field),
            Function::CumeDist => self.ranks(frame, 4, 0, field),
            Function::Ntile(tiles) => {
                // More tiles than rows are as many as rows.
                let tiles = (*tiles).clamp(1, i32::MAX as u32);
                self.ranks(frame, 5, tiles as i32, field)
            }
            Function::Shift { by, default } => {
                self.shifted(column.value()?, *by, default.as_ref(), field)
            }
            Function::FromStart(at) => {
                let values = self.evaluate(column.value()?, field)?;
                self.at(&values, frame, Pick::FromStart(*at))
            }
            Function::FromEnd(at) => {
                let values = self.evaluate(column.value()?, field)?;
                self.at(&values, frame, Pick::FromEnd(*at))
            }
            Function::Count => match &column.argument {
                None => self.ranks(frame, FRAME_ROWS, 0, field),
                Some(argument) => {
                    let counts = self.counts(argument, frame)?;
                    self.compute(&[&counts], Expr::column(0).cast(DataType::Int64), field)
                }
            },
            Function::Sum | Function::Avg | Function::Min | Function::Max => {
                self.total(column, field)
            }
        }
    }

    fn launch(
        &self,
        entry: &str,
        frame: Frame,
        (what, argument): (u32, i32),
        width: u64,
    ) -> Result<Buffer, Error> {
        let written = self.device.alloc(self.batch.rows as u64 * width)?;
        let shader = Shader::new(&LIBRARY, "package::window::window");
        self.run(
            (shader, entry),
            frame,
            (what, argument),
            &[(6, &written), (7, &written)],
        )?;
        Ok(written)
    }

    /// The totals of `values` over short frames.
    fn walk(&self, values: &Column, total: Total, frame: Frame) -> Result<Column, Error> {
        let Storage::Fixed(data) = &values.data else {
            return Err(Error::unsupported("totals of such values"));
        };
        let written = self.device.alloc(data.len())?;
        let value = match values.data_type {
            DataType::Float64 => "f64",
            DataType::Int64 => "i64",
            _ => "u64",
        };
        let shader = Shader::new(&LIBRARY, "package::window::walk")
            .alias("Value", value)
            .feature("MIN", total == Total::Min)
            .feature("MAX", total == Total::Max);
        self.run((shader, "walk"), frame, (0, 0), &[(8, data), (9, &written)])?;
        Ok(Column {
            data: Storage::Fixed(written),
            ..values.clone()
        })
    }

    fn run(
        &self,
        (shader, entry): (Shader, &str),
        frame: Frame,
        (what, argument): (u32, i32),
        buffers: &[(u32, &Buffer)],
    ) -> Result<(), Error> {
        let edge = |edge: Edge| match edge {
            Edge::Unbounded => (0, 0),
            Edge::Rows(by) => (1, by),
            Edge::Peers => (2, 0),
        };
        let (start_kind, start) = edge(frame.start);
        let (end_kind, end) = edge(frame.end);
        let rows = self.batch.rows as u64;
        let shader = shader.constant("SIZE", "u32", WORKGROUP);
        let kernel = self.device.kernel(&shader, entry)?;
        let launch = kernel
            .launch()
            .bind(0, 2, &self.partitions.of_rows)
            .bind(0, 3, &self.partitions.starts)
            .bind(0, 4, &self.peers.of_rows)
            .bind(0, 5, &self.peers.starts)
            .params(&Params {
                rows: rows as u32,
                parts: self.partitions.count as u32,
                peers: self.peers.count as u32,
                what,
                start_kind,
                start,
                end_kind,
                end,
                argument,
            })
            .moves(rows * 8 + buffers.iter().map(|(_, buffer)| buffer.len()).sum::<u64>());
        buffers
            .iter()
            .fold(launch, |launch, (binding, buffer)| {
                launch.bind(0, *binding, buffer)
            })
            .run(grid(self.device, rows, WORKGROUP.into()))?;
        Ok(())
    }

    /// A word a row, as a column.
    fn ranks(
        &self,
        frame: Frame,
        what: u32,
        argument: i32,
        field: &Field,
    ) -> Result<Column, Error> {
        let words = self.launch("ranks", frame, (what, argument), 8)?;
        Ok(Column {
            data_type: field.data_type().clone(),
            len: self.batch.rows,
            validity: None,
            data: Storage::Fixed(words),
        })
    }

    fn rows(&self, frame: Frame, pick: Pick) -> Result<Buffer, Error> {
        let (what, argument) = match pick {
            Pick::Away(by) => (0, by),
            Pick::FromStart(at) => (1, at.min(i32::MAX as u32) as i32),
            Pick::FromEnd(at) => (2, at.min(i32::MAX as u32) as i32),
            Pick::Before => (3, 0),
        };
        self.launch("pick_rows", frame, (what, argument), 4)
    }

    /// `values` of the row that `pick` finds for each row; null without one.
    fn at(&self, values: &Column, frame: Frame, pick: Pick) -> Result<Column, Error> {
        let map = self.rows(frame, pick)?;
        let batch = columns_as_batch(&[values]);
        Ok(gather_or_null(self.device, &batch, &map, self.batch.rows)?
            .columns
            .remove(0))
    }

    fn shifted(
        &self,
        argument: &Expr,
        by: i32,
        default: Option<&Literal>,
        field: &Field,
    ) -> Result<Column, Error> {
        let values = self.evaluate(argument, field)?;
        let whole = Frame {
            start: Edge::Unbounded,
            end: Edge::Unbounded,
        };
        let found = self.at(&values, whole, Pick::Away(by))?;
        let Some(default) = default else {
            return Ok(found);
        };
        // Row numbers are never null but for rows outside.
        let inside = Column {
            data_type: DataType::UInt32,
            len: self.batch.rows,
            validity: None,
            data: Storage::Fixed(numbers(self.device, 0, self.batch.rows)?),
        };
        let inside = self.at(&inside, whole, Pick::Away(by))?;
        let or_default = Expr::Case {
            when_then: vec![(
                Expr::IsNull(Box::new(Expr::column(1))),
                Expr::Literal(default.clone()),
            )],
            otherwise: Some(Box::new(Expr::column(0))),
        };
        self.compute(&[&found, &inside], or_default, field)
    }

    /// How many values of `argument` that are not null each row's frame has: `UInt64`.
    fn counts(&self, argument: &Expr, frame: Frame) -> Result<Column, Error> {
        let field = Field::new("count", DataType::UInt64, true);
        let one = Expr::Case {
            when_then: vec![(Expr::IsNull(Box::new(argument.clone())), unsigned(0))],
            otherwise: Some(Box::new(unsigned(1))),
        };
        let ones = self.evaluate(&one, &field)?;
        self.difference(&ones, frame, &unsigned(0), &field)
    }

    /// The sums of `values`, which are never null, over the rows' frames.
    fn difference(
        &self,
        values: &Column,
        frame: Frame,
        zero: &Expr,
        field: &Field,
    ) -> Result<Column, Error> {
        let running = self.running(values, Total::Sum)?;
        let last = self.at(&running, frame, Pick::FromEnd(0))?;
        let known = |index| Expr::Case {
            when_then: vec![(Expr::IsNull(Box::new(Expr::column(index))), zero.clone())],
            otherwise: Some(Box::new(Expr::column(index))),
        };
        if frame.start == Edge::Unbounded {
            return self.compute(&[&last], known(0), field);
        }
        let before = self.at(&running, frame, Pick::Before)?;
        self.compute(&[&last, &before], known(0).binary(Op::Sub, known(1)), field)
    }

    fn running(&self, values: &Column, total: Total) -> Result<Column, Error> {
        let heads = Some(&self.partitions.heads);
        scan(self.device, values, total, Bound::Inclusive, heads)
    }

    fn total(&self, column: &WindowColumn, field: &Field) -> Result<Column, Error> {
        let argument = column.value()?;
        let data_type = type_of(argument, &self.batch.schema)?;
        let signed = data_type.is_signed_integer();
        let kept = match &data_type {
            DataType::Float64 => DataType::Float64,
            _ if signed => DataType::Int64,
            _ => DataType::UInt64,
        };
        let (total, identity) = match (&column.function, &kept) {
            (Function::Min, DataType::Int64) => (Total::Min, Literal::Int64(i64::MAX)),
            (Function::Min, _) => (Total::Min, Literal::UInt64(u64::MAX)),
            (Function::Max, DataType::Int64) => (Total::Max, Literal::Int64(i64::MIN)),
            (Function::Max, _) => (Total::Max, Literal::UInt64(0)),
            (_, DataType::Float64) => (Total::Sum, Literal::Float64(0.0)),
            (_, DataType::Int64) => (Total::Sum, Literal::Int64(0)),
            (_, _) => (Total::Sum, Literal::UInt64(0)),
        };
        let identity = Expr::Literal(identity);
        let wide = match data_type == kept {
            true => argument.clone(),
            false => argument.clone().cast(kept.clone()),
        };
        let known = Expr::Case {
            when_then: vec![(Expr::IsNull(Box::new(argument.clone())), identity.clone())],
            otherwise: Some(Box::new(wide)),
        };
        let of_kept = Field::new("total", kept, true);
        let values = self.evaluate(&known, &of_kept)?;
        let frame = column.frame;
        let has_difference = total == Total::Sum && values.data_type != DataType::Float64;
        let totals = if frame.start == Edge::Unbounded {
            self.at(&self.running(&values, total)?, frame, Pick::FromEnd(0))?
        } else if has_difference {
            self.difference(&values, frame, &identity, &of_kept)?
        } else {
            self.walk(&values, total, frame)?
        };
        let counts = self.counts(argument, frame)?;
        let value = match column.function {
            Function::Avg => {
                Expr::column(0).binary(Op::Div, Expr::column(1).cast(DataType::Float64))
            }
            _ if *field.data_type() == of_kept.data_type().clone() => Expr::column(0),
            _ => Expr::column(0).cast(field.data_type().clone()),
        };
        let any = Expr::column(1).binary(Op::Gt, unsigned(0));
        let value = Expr::Case {
            when_then: vec![(any, value)],
            otherwise: None,
        };
        self.compute(&[&totals, &counts], value, field)
    }

    /// `expr` over the batch.
    fn evaluate(&self, expr: &Expr, field: &Field) -> Result<Column, Error> {
        let outputs = [(expr.clone(), field.clone())];
        Ok(filter_project(self.device, self.batch, None, &outputs)?
            .columns
            .remove(0))
    }

    /// `expr` over `columns`.
    fn compute(&self, columns: &[&Column], expr: Expr, field: &Field) -> Result<Column, Error> {
        let batch = columns_as_batch(columns);
        let outputs = [(expr, field.clone())];
        Ok(filter_project(self.device, &batch, None, &outputs)?
            .columns
            .remove(0))
    }
}

fn unsigned(value: u64) -> Expr {
    Expr::Literal(Literal::UInt64(value))
}

fn columns_as_batch(columns: &[&Column]) -> Batch {
    let fields = columns
        .iter()
        .map(|column| Field::new("value", column.data_type.clone(), true));
    Batch {
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        columns: columns.iter().map(|column| (*column).clone()).collect(),
        rows: columns.first().map_or(0, |column| column.len),
    }
}
