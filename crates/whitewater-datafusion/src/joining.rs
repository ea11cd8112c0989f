//! A join of a GPU node under way: the build side is gathered, then the probe side goes through it.
//!
//! A build side that takes too much of the device's memory goes to the host in parts by the hash of its keys, and the
//! probe side with it; the parts are joined one after the other.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use whitewater::{
    Batch,
    gather::concat,
    gpu::Device,
    join::{Grace, Join, Joiner, Side},
};

use crate::runner::Rows;

/// A build side may take one part in so many of the memory budget before it goes to the host.
const BUILD_SHARE: u64 = 6;

/// A join under way.
pub(crate) struct Joining {
    device: Device,
    join: Join,
    build_schema: SchemaRef,
    stage: Stage,
    made: Vec<Rows>,
}

enum Stage {
    /// The build side so far.
    Build(Vec<Batch>),
    Probe(Box<Joiner>),
    /// Both sides so far, on the host.
    Parts(Box<Grace>),
}

impl Joining {
    pub(crate) fn new(device: &Device, join: Join, build_schema: SchemaRef) -> Self {
        Self {
            device: device.clone(),
            join,
            build_schema,
            stage: Stage::Build(Vec::new()),
            made: Vec::new(),
        }
    }

    /// Takes rows of `side`; all of the build side's come first.
    pub(crate) fn add(mut self, side: Side, batch: Batch) -> Result<Self, whitewater::Error> {
        match (&mut self.stage, side) {
            (Stage::Parts(parts), side) => parts.add(side, &batch)?,
            (Stage::Build(batches), Side::Build) => {
                batches.push(batch);
                let bytes: u64 = batches.iter().map(Batch::device_bytes).sum();
                if bytes > self.device.memory().budget / BUILD_SHARE && !self.join.keys.is_empty() {
                    let mut parts =
                        Grace::new(&self.device, self.join.clone(), batches[0].schema.clone());
                    for batch in std::mem::take(batches) {
                        parts.add(Side::Build, &batch)?;
                    }
                    self.stage = Stage::Parts(Box::new(parts));
                }
            }
            (Stage::Build(_), Side::Probe) => return self.probing()?.add(side, batch),
            (Stage::Probe(joiner), _) => {
                let made = &mut self.made;
                joiner.probe(&batch, &mut |batch| {
                    made.push(Rows::Device(batch));
                    Ok(())
                })?;
            }
        }
        Ok(self)
    }

    /// The same with the build side complete.
    fn probing(mut self) -> Result<Self, whitewater::Error> {
        if let Stage::Build(batches) = &mut self.stage {
            let build = match std::mem::take(batches) {
                none if none.is_empty() => Batch::upload(
                    &self.device,
                    &RecordBatch::new_empty(self.build_schema.clone()),
                )?,
                batches => concat(&self.device, &batches)?,
            };
            let joiner = Joiner::new(&self.device, &build, self.join.clone())?;
            self.stage = Stage::Probe(Box::new(joiner));
        }
        Ok(self)
    }

    /// The rows of the join.
    pub(crate) fn finish(self) -> Result<Vec<Rows>, whitewater::Error> {
        let Self {
            stage, mut made, ..
        } = self.probing()?;
        match stage {
            Stage::Probe(joiner) => joiner.finish(&mut |batch| {
                made.push(Rows::Device(batch));
                Ok(())
            })?,
            Stage::Parts(parts) => parts.run(&mut |batch| {
                made.push(Rows::Device(batch));
                Ok(())
            })?,
            Stage::Build(_) => {}
        }
        Ok(made)
    }
}
