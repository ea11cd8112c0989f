//! The values of rows, in their order or by number: the launches of `evaluate.wesl`.

use arrow::datatypes::Field;
use whitewater_gpu::{Buffer, Device};

use super::{
    filter::Select,
    output::{GROUP, MAP_BINDING, Output, SOURCE_GROUP},
};
use crate::{
    Batch, Column, Error,
    expr::Expr,
    gather::{gather_bytes, numbers},
    params::grid,
    pipeline::Compiled,
};

/// Which rows outputs are of.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// This one, and those that follow it.
    From(usize),
    /// Those at the row numbers (u32) in a buffer.
    At(&'a Buffer),
}

/// `rows` rows of `batch`, which are in range, with all columns.
pub(crate) fn copy_rows(
    device: &Device,
    batch: &Batch,
    which: Rows<'_>,
    rows: usize,
) -> Result<Batch, Error> {
    let outputs = batch.outputs();
    let select = Select {
        device,
        batch,
        predicate: None,
        outputs: &outputs,
        wide: false,
    };
    if rows == 0 {
        return select.empty();
    }
    Ok(Batch {
        schema: batch.schema.clone(),
        columns: select.evaluate(which, rows)?,
        rows,
    })
}

/// Column `index` of `batch`, of decimals, in 128 bits each.
pub(crate) fn wide_decimals(device: &Device, batch: &Batch, index: usize) -> Result<Column, Error> {
    let outputs = [(Expr::column(index), batch.schema.field(index).clone())];
    let select = Select {
        device,
        batch,
        predicate: None,
        outputs: &outputs,
        wide: true,
    };
    Ok(select.evaluate(Rows::From(0), batch.rows)?.remove(0))
}

impl Select<'_> {
    /// The outputs of all rows: plain columns as they are, sharing their buffers, the others computed.
    pub(super) fn project(&self) -> Result<Vec<Column>, Error> {
        let plain = |expr: &Expr| match expr {
            Expr::Column { index } => self.batch.columns.get(*index).cloned(),
            _ => None,
        };
        let computed: Vec<(Expr, Field)> = self
            .outputs
            .iter()
            .filter(|(expr, _)| plain(expr).is_none())
            .cloned()
            .collect();
        let select = Select {
            outputs: &computed,
            ..*self
        };
        let mut columns = select.evaluate(Rows::From(0), self.batch.rows)?.into_iter();
        self.outputs
            .iter()
            .map(|(expr, _)| plain(expr).or_else(|| columns.next()))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::unsupported("an output that was not written"))
    }

    /// Outputs that one kernel can write: as many as it can bind the buffers of, if each is of a column with
    /// nulls of its own. Wider expressions are the caller's to split.
    pub(super) fn outputs_at_once(&self) -> usize {
        const BUFFERS_OF_OUTPUT: u32 = 4;
        const OTHER_BUFFERS: u32 = 6;
        let bindable = self
            .device
            .info()
            .max_storage_buffers
            .saturating_sub(OTHER_BUFFERS);
        (bindable / BUFFERS_OF_OUTPUT).clamp(1, 16) as usize
    }

    /// The outputs of `rows` rows.
    pub(super) fn evaluate(&self, which: Rows<'_>, rows: usize) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::new();
        for outputs in self.outputs.chunks(self.outputs_at_once()) {
            let some = Select { outputs, ..*self };
            columns.extend(some.evaluate_at_once(which, rows)?);
        }
        Ok(columns)
    }

    fn evaluate_at_once(&self, which: Rows<'_>, rows: usize) -> Result<Vec<Column>, Error> {
        let (map, first) = match which {
            Rows::At(map) => (Some(map), 0),
            Rows::From(first) => (None, first),
        };
        let whole = map.is_none() && first == 0 && rows == self.batch.rows;
        let compiled = Compiled::new(self.device, self.batch, None, self.values())?;
        let mut output = Output::new(self.device, rows);
        let written = self.declare(&compiled, &mut output)?;
        // The validity of gathered strings is written beside the computed values.
        let mut sources = Vec::new();
        let mut validities = Vec::new();
        for (expr, _) in self.outputs {
            let (Expr::Column { index }, true, false) = (expr, self.is_bytes(expr), whole) else {
                continue;
            };
            validities.push(match &self.batch.columns[*index].validity {
                Some(words) => {
                    sources.push(words.clone());
                    Some(output.source_flag()?)
                }
                None => None,
            });
        }
        if rows > 0 && !output.buffers.is_empty() {
            let tile = self.tile();
            let shader = self
                .shader(
                    &compiled,
                    "package::select::evaluate",
                    (&output, output.text()),
                    tile,
                )
                .feature("MAPPED", map.is_some());
            let kernel = self.device.kernel(&shader, "evaluate")?;
            let mut launch = compiled
                .bind(kernel.launch())
                .bind_group(GROUP, &output.buffers)
                .bind_group(SOURCE_GROUP, &sources)
                .params(&[rows as u32, first as u32])
                .moves(compiled.bytes() + output.buffers.iter().map(Buffer::len).sum::<u64>());
            if let Some(map) = map {
                launch = launch.bind(0, MAP_BINDING, map);
            }
            launch.run(grid(self.device, rows as u64, tile.size.into()))?;
        }
        compiled.check()?;
        let strings = self.outputs.iter().any(|(expr, _)| self.is_bytes(expr));
        let listed = match map {
            None if strings && !whole => Some(numbers(self.device, first, rows)?),
            _ => None,
        };
        let map = map.or(listed.as_ref());
        let mut written = written.into_iter();
        let mut validities = validities.into_iter();
        let mut columns = Vec::new();
        for (expr, field) in self.outputs {
            if let (Expr::Column { index }, true) = (expr, self.is_bytes(expr)) {
                let source = &self.batch.columns[*index];
                let validity = validities.next().flatten();
                let validity = validity.map(|buffer| output.buffers[buffer].clone());
                columns.push(self.bytes(source, map, rows, validity)?);
                continue;
            }
            let column = written
                .next()
                .ok_or_else(|| Error::unsupported("an output that was not written"))?;
            columns.push(output.take(column, field.data_type()));
        }
        Ok(columns)
    }

    fn bytes(
        &self,
        source: &Column,
        map: Option<&Buffer>,
        rows: usize,
        validity: Option<Buffer>,
    ) -> Result<Column, Error> {
        let Some(map) = map else {
            return Ok(source.clone());
        };
        Ok(Column {
            data_type: source.data_type.clone(),
            len: rows,
            validity,
            data: gather_bytes(self.device, &source.data_type, &source.data, map, rows)?,
        })
    }
}
