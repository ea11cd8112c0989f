//! The columns of a join's result, gathered by row numbers once it is known which rows there are.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use whitewater_gpu::Buffer;

use super::{Joiner, Kind, Output, Side, Sink};
use crate::{
    Batch, Column, Error, Storage, bitmask,
    expr::Expr,
    gather::{gather, gather_or_null, nulls},
    select::{filter_project, map_of_mask},
};

/// Who takes the result: its batches, or the row numbers that they are gathered by.
pub(super) enum Taker<'s, 't> {
    Batches(&'s mut Sink<'t>),
    Maps(&'s mut dyn FnMut(Maps) -> Result<(), Error>),
}

/// Which rows of both sides a part of the result is of.
#[derive(Clone, Debug)]
pub struct Maps {
    pub probe: Map,
    pub build: Map,
    pub rows: usize,
}

/// Which rows of a side.
#[derive(Clone, Debug)]
pub enum Map {
    /// All, in their order.
    All,
    /// Those with these numbers (u32).
    Rows(Buffer),
    /// Those, and nulls where a number is none of a row.
    OrNothing(Buffer),
    /// Nulls alone.
    Nothing,
}

/// What a side gives to the rows of the result.
pub(super) enum Given<'a> {
    /// All of its rows, in their order.
    All(&'a Batch),
    /// So many rows, with these numbers (u32).
    Rows(&'a Batch, Buffer, usize),
    /// Those, and nulls where a number is none of a row.
    OrNothing(&'a Batch, Buffer, usize),
    /// So many rows of nulls.
    Nothing(usize),
}

impl Given<'_> {
    fn rows(&self) -> usize {
        match self {
            Given::All(batch) => batch.rows,
            Given::Rows(_, _, rows) | Given::OrNothing(_, _, rows) | Given::Nothing(rows) => *rows,
        }
    }

    fn map(self) -> Map {
        match self {
            Given::All(_) => Map::All,
            Given::Rows(_, map, _) => Map::Rows(map),
            Given::OrNothing(_, map, _) => Map::OrNothing(map),
            Given::Nothing(_) => Map::Nothing,
        }
    }
}

impl Joiner {
    /// Gives the rows of pairs, by what each side gives to them.
    pub(super) fn give_pairs(
        &self,
        of_probe: Given<'_>,
        of_build: Given<'_>,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let rows = of_build.rows();
        match taker {
            Taker::Batches(sink) => sink(self.emit_pairs(of_probe, of_build)?),
            Taker::Maps(sink) => sink(Maps {
                probe: of_probe.map(),
                build: of_build.map(),
                rows,
            }),
        }
    }

    fn emit_pairs(&self, of_probe: Given<'_>, of_build: Given<'_>) -> Result<Batch, Error> {
        let rows = of_build.rows();
        let mut of_probe = self.side_columns(Side::Probe, of_probe)?.into_iter();
        let mut of_build = self.side_columns(Side::Build, of_build)?.into_iter();
        let mut columns = Vec::new();
        for (output, _) in &self.join.outputs {
            let column = match output {
                Output::Column(Side::Build, _) => of_build.next(),
                Output::Column(Side::Probe, _) => of_probe.next(),
                Output::Mark => None,
            };
            columns.push(column.ok_or_else(|| Error::unsupported("a mark of a pair of rows"))?);
        }
        Ok(Batch {
            schema: self.join.schema(),
            columns,
            rows,
        })
    }

    /// The columns of `side` that are in the result.
    fn side_columns(&self, side: Side, given: Given<'_>) -> Result<Vec<Column>, Error> {
        let (mut indices, mut fields) = (Vec::new(), Vec::new());
        for (output, field) in &self.join.outputs {
            if let Output::Column(of, index) = output
                && *of == side
            {
                indices.push(*index);
                fields.push(field.clone().with_nullable(true));
            }
        }
        let device = &self.table.device;
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let batch = match given {
            Given::All(batch) => batch.project(&indices)?,
            Given::Rows(batch, map, rows) => gather(device, &batch.project(&indices)?, &map, rows)?,
            Given::OrNothing(batch, map, rows) => {
                gather_or_null(device, &batch.project(&indices)?, &map, rows)?
            }
            Given::Nothing(rows) => nulls(device, &Arc::new(Schema::new(fields)), rows)?,
        };
        Ok(batch.columns)
    }

    /// Gives the rows of one side, by the bit of each: whether it matches.
    pub(super) fn give_matched(
        &self,
        side: Side,
        batch: &Batch,
        matched: &Buffer,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        match taker {
            Taker::Batches(sink) => sink(self.emit_matched(side, batch, matched)?),
            Taker::Maps(_) => Err(Error::unsupported("the row numbers of one side")),
        }
    }

    fn emit_matched(&self, side: Side, batch: &Batch, matched: &Buffer) -> Result<Batch, Error> {
        let rows = batch.rows;
        let (takes, predicate) = match self.join.kind {
            Kind::Anti(_) | Kind::NotIn => (bitmask::not(matched, rows)?, true),
            Kind::Mark(_) => (matched.clone(), false),
            _ => (matched.clone(), true),
        };
        // The bits are one more column.
        let mut fields: Vec<Field> = Vec::new();
        fields.extend(
            batch
                .schema
                .fields()
                .iter()
                .map(|field| field.as_ref().clone()),
        );
        fields.push(Field::new("matched", DataType::Boolean, false));
        let mut columns = batch.columns.clone();
        columns.push(Column {
            data_type: DataType::Boolean,
            len: rows,
            validity: None,
            data: Storage::Bits(takes.clone()),
        });
        let marked = Batch {
            schema: Arc::new(Schema::new(fields)),
            columns,
            rows,
        };
        let bits = Expr::column(marked.columns.len() - 1);
        let outputs = self.join.outputs.iter().map(|(output, field)| {
            let expr = match output {
                Output::Column(of, index) if *of == side => Expr::column(*index),
                Output::Mark => bits.clone(),
                Output::Column(..) => {
                    return Err(Error::unsupported(
                        "a column of the side that a join leaves out",
                    ));
                }
            };
            Ok((expr, field.clone()))
        });
        let outputs = outputs.collect::<Result<Vec<_>, Error>>()?;
        let device = &self.table.device;
        if outputs.is_empty() {
            let rows = match predicate {
                true => bitmask::count(&takes, rows)? as usize,
                false => rows,
            };
            return Ok(Batch {
                schema: self.join.schema(),
                columns: Vec::new(),
                rows,
            });
        }
        filter_project(device, &marked, predicate.then_some(&bits), &outputs)
    }

    /// Gives the build rows that have not matched, beside nulls.
    pub(super) fn give_unmatched_build(
        &self,
        matched: &Buffer,
        taker: &mut Taker<'_, '_>,
    ) -> Result<(), Error> {
        let batch = &self.table.batch;
        let unmatched = bitmask::not(matched, batch.rows)?;
        let (map, rows) = map_of_mask(&self.table.device, &unmatched, batch.rows)?;
        match rows {
            0 => Ok(()),
            _ => self.give_pairs(Given::Nothing(rows), Given::Rows(batch, map, rows), taker),
        }
    }
}
