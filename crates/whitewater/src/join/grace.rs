//! Joins whose build side outgrows the device: both sides go to the host in parts by the hash of their keys, and the
//! parts are joined one after the other (the Grace hash join; Kitsuregawa et al., 1983).

use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    datatypes::{DataType, Field, SchemaRef},
};
use whitewater_gpu::Device;

use super::{Join, Joiner, Kind, Side, Sink};
use crate::{
    Batch, Error,
    expr::{Expr, Op},
    partition::partition_by_hash,
    select::filter_project,
};

/// Parts of a side: a build side of so many times what the device has room for is joined.
const PARTS: usize = 32;

/// Both sides of a join in parts on the host.
#[derive(Debug)]
pub struct Grace {
    device: Device,
    join: Join,
    build_schema: SchemaRef,
    /// The batches of each part of the build side, then of the probe side.
    sides: [Vec<Vec<RecordBatch>>; 2],
    probe_rows: u64,
    /// Whether a key of the probe side is null.
    probe_null: bool,
}

impl Grace {
    /// A join of no rows yet, whose build side will be of `build_schema`.
    pub fn new(device: &Device, join: Join, build_schema: SchemaRef) -> Self {
        Self {
            device: device.clone(),
            join,
            build_schema,
            sides: [vec![Vec::new(); PARTS], vec![Vec::new(); PARTS]],
            probe_rows: 0,
            probe_null: false,
        }
    }

    /// Adds rows of a side, in any order of sides. Waits for them, and copies them to the host.
    ///
    /// Extra device memory and errors are those of [`partition_by_hash`], and a copy of the batch.
    pub fn add(&mut self, side: Side, batch: &Batch) -> Result<(), Error> {
        let keys = self.join.keys.iter().map(|key| match side {
            Side::Build => key.build.clone(),
            Side::Probe => key.probe.clone(),
        });
        let keys: Vec<Expr> = keys.collect();
        if side == Side::Probe {
            self.probe_rows += batch.rows as u64;
            self.probe_null |= self.join.kind == Kind::NotIn && self.has_null(batch, &keys)?;
        }
        let parts = partition_by_hash(&self.device, batch, &keys, PARTS)?;
        let host = parts.batch.download()?;
        let of_side = &mut self.sides[side as usize];
        for (part, bounds) in of_side.iter_mut().zip(parts.offsets.windows(2)) {
            if bounds[1] > bounds[0] {
                part.push(host.slice(bounds[0], bounds[1] - bounds[0]));
            }
        }
        Ok(())
    }

    fn has_null(&self, batch: &Batch, keys: &[Expr]) -> Result<bool, Error> {
        let nulls = keys.iter().map(|key| Expr::IsNull(Box::new(key.clone())));
        let nulls = nulls.reduce(|all, one| all.binary(Op::Or, one));
        match nulls {
            Some(nulls) if batch.rows > 0 => {
                let field = Field::new("null", DataType::Boolean, false);
                let taken =
                    filter_project(&self.device, batch, Some(&nulls), &[(nulls.clone(), field)])?;
                Ok(taken.rows > 0)
            }
            _ => Ok(false),
        }
    }

    /// Joins the parts, and gives what each comes to. Rows come part by part.
    ///
    /// Errors are those of [`Joiner::new`] and [`Joiner::probe`]; a part that does not fit the device is out of memory.
    pub fn run(self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Self {
            device,
            join,
            build_schema,
            sides: [builds, probes],
            probe_rows,
            probe_null,
        } = self;
        if probe_null && join.kind == Kind::NotIn {
            return Ok(());
        }
        for (part, (build, probe)) in builds.into_iter().zip(probes).enumerate() {
            tracing::debug!("joining part {} of {PARTS}", part + 1);
            let build = concat_batches(&build_schema, &build)?;
            let build = Batch::upload(&device, &build)?;
            let mut joiner = Joiner::new(&device, &build, join.clone())?;
            for batch in probe {
                joiner.probe(&Batch::upload(&device, &batch)?, sink)?;
            }
            // What NOT IN gives depends on the whole probe side.
            joiner.probe_rows = joiner.probe_rows.max(probe_rows);
            joiner.finish(sink)?;
        }
        Ok(())
    }
}
