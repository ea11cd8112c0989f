//! The queue: recording launches, writing and reading buffers, timestamps.
//!
//! Launches are recorded into one encoder and submitted when the host waits, when it writes a
//! buffer (wgpu runs queued writes before the next submission, so what was recorded earlier must
//! go first), or when many have gathered.

use std::{sync::mpsc, time::Duration};

use ::wgpu::{
    BufferUsages, CommandEncoder, ComputePassDescriptor, ComputePassTimestampWrites, MapMode,
    PollType,
};

use super::{buffer, compile::WgpuModule};
use crate::{
    DeviceInfo, Error, Result,
    backend::{RawLaunch, Timing},
    shader::BindingKind,
};

/// Recorded launches before a submission.
const BATCH: u32 = 32;
/// Bytes of one uniform and the number of uniforms in flight.
const PARAMS_BYTES: u64 = 256;
const PARAMS_SLOTS: u32 = 1024;
/// Bytes that one staging copy moves.
const CHUNK: usize = 32 << 20;
/// Timed launches between two readings.
const QUERIES: u32 = 2048;

pub(super) struct Queue {
    device: ::wgpu::Device,
    queue: ::wgpu::Queue,
    encoder: Option<CommandEncoder>,
    recorded: u32,
    params: ::wgpu::Buffer,
    next_params: u32,
    /// Uniforms written since the last submission.
    fresh_params: u32,
    staging: Option<::wgpu::Buffer>,
    queries: Option<Queries>,
}

struct Queries {
    set: ::wgpu::QuerySet,
    resolved: ::wgpu::Buffer,
    period: f64,
    kernels: Vec<String>,
    read: Vec<Timing>,
}

impl Queue {
    pub(super) fn new(device: &::wgpu::Device, queue: ::wgpu::Queue, info: &DeviceInfo) -> Self {
        let buffer = |size, usage| {
            device.create_buffer(&::wgpu::BufferDescriptor {
                label: None,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let queries = info.features.timestamps.then(|| Queries {
            set: device.create_query_set(&::wgpu::QuerySetDescriptor {
                label: None,
                ty: ::wgpu::QueryType::Timestamp,
                count: QUERIES,
            }),
            resolved: buffer(
                u64::from(QUERIES) * 8,
                BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
            ),
            period: f64::from(queue.get_timestamp_period()),
            kernels: Vec::new(),
            read: Vec::new(),
        });
        Self {
            params: buffer(
                PARAMS_BYTES * u64::from(PARAMS_SLOTS),
                BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            ),
            device: device.clone(),
            queue,
            encoder: None,
            recorded: 0,
            next_params: 0,
            fresh_params: 0,
            staging: None,
            queries,
        }
    }

    pub(super) fn encoder(&mut self) -> &mut CommandEncoder {
        self.encoder.get_or_insert_with(|| {
            self.device
                .create_command_encoder(&::wgpu::CommandEncoderDescriptor::default())
        })
    }

    fn submit(&mut self) {
        self.recorded = 0;
        self.fresh_params = 0;
        if let Some(encoder) = self.encoder.take() {
            self.queue.submit([encoder.finish()]);
        }
    }

    pub(super) fn wait(&mut self) -> Result<()> {
        self.submit();
        self.device
            .poll(PollType::wait_indefinitely())
            .map(|_| ())
            .map_err(|error| Error::Lost {
                reason: error.to_string(),
            })
    }

    pub(super) fn write(&mut self, to: &::wgpu::Buffer, offset: u64, bytes: &[u8]) {
        self.submit();
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let at = offset + (index * CHUNK) as u64;
            let whole = chunk.len() / 4 * 4;
            let (words, rest) = chunk.split_at(whole);
            if !words.is_empty() {
                self.queue.write_buffer(to, at, words);
            }
            if !rest.is_empty() {
                let mut last = [0u8; 4];
                last[..rest.len()].copy_from_slice(rest);
                self.queue.write_buffer(to, at + whole as u64, &last);
            }
            if bytes.len() > CHUNK {
                // Bounds the staging memory that wgpu holds for queued writes.
                self.queue.submit([]);
            }
        }
    }

    pub(super) fn fill(&mut self, target: &::wgpu::Buffer, bytes: u64, byte: u8) {
        if byte == 0 {
            self.encoder().clear_buffer(target, 0, Some(bytes));
            return;
        }
        let pattern = vec![byte; bytes.min(CHUNK as u64) as usize];
        let mut at = 0;
        while at < bytes {
            let step = (bytes - at).min(CHUNK as u64);
            self.write(target, at, &pattern[..step as usize]);
            at += step;
        }
    }

    pub(super) fn read(
        &mut self,
        from: &::wgpu::Buffer,
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        if into.is_empty() {
            return self.wait();
        }
        let total = into.len();
        for (index, target) in into.chunks_mut(CHUNK).enumerate() {
            let at = offset + (index * CHUNK) as u64;
            // Copies move whole words: start at the word that holds the first byte.
            let lead = (at % 4) as usize;
            let bytes = (lead + target.len()).next_multiple_of(4) as u64;
            let staging = self.staging(total.min(CHUNK) as u64 + 8);
            self.encoder()
                .copy_buffer_to_buffer(from, at - lead as u64, &staging, 0, bytes);
            self.map(&staging, bytes, |mapped| {
                target.copy_from_slice(&mapped[lead..lead + target.len()]);
            })?;
        }
        Ok(())
    }

    /// Submits, waits, and shows the first `bytes` of a staging buffer to `look`.
    fn map(
        &mut self,
        staging: &::wgpu::Buffer,
        bytes: u64,
        look: impl FnOnce(&[u8]),
    ) -> Result<()> {
        self.submit();
        let (send, receive) = mpsc::channel();
        let slice = staging.slice(..bytes);
        slice.map_async(MapMode::Read, move |result| {
            // The receiver is gone only if waiting failed, which is reported by itself.
            let _ = send.send(result);
        });
        self.wait()?;
        let lost = |reason: String| Error::Lost { reason };
        receive
            .recv()
            .map_err(|error| lost(error.to_string()))?
            .map_err(|error| lost(error.to_string()))?;
        let mapped = slice
            .get_mapped_range()
            .map_err(|error| lost(error.to_string()))?;
        look(&mapped);
        drop(mapped);
        staging.unmap();
        Ok(())
    }

    /// A readable buffer of at least `bytes`, kept for the next reading.
    fn staging(&mut self, bytes: u64) -> ::wgpu::Buffer {
        let bytes = bytes.next_power_of_two();
        if let Some(staging) = self.staging.as_ref().filter(|s| s.size() >= bytes) {
            return staging.clone();
        }
        let staging = self.device.create_buffer(&::wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.staging.insert(staging).clone()
    }

    pub(super) fn launch(&mut self, launch: &RawLaunch<'_>) -> Result<()> {
        let fail = |reason: &str| Error::Launch {
            kernel: launch.label.into(),
            reason: reason.into(),
        };
        let (pipeline, slots) = launch
            .module
            .downcast_ref::<WgpuModule>()
            .and_then(|module| module.pipelines.get(launch.entry))
            .ok_or_else(|| fail("the kernel was compiled for another device"))?;
        if launch.params.len() as u64 > PARAMS_BYTES {
            return Err(fail("its parameters are too large"));
        }
        let params_at = self.write_params(launch.params);

        let mut groups: Vec<(u32, Vec<::wgpu::BindGroupEntry<'_>>)> = Vec::new();
        for slot in slots {
            let resource = match slot.kind {
                BindingKind::Uniform => ::wgpu::BufferBinding {
                    buffer: &self.params,
                    offset: params_at,
                    size: std::num::NonZeroU64::new(PARAMS_BYTES),
                },
                BindingKind::Storage { .. } => {
                    let argument = launch
                        .arguments
                        .iter()
                        .find(|a| (a.group, a.binding) == (slot.group, slot.binding))
                        .ok_or_else(|| fail("a binding is missing"))?;
                    // A binding may not be empty, and every block holds at least 16 bytes.
                    let bytes = argument.bytes.next_multiple_of(4).max(16);
                    ::wgpu::BufferBinding {
                        buffer: buffer(argument.raw)?,
                        offset: 0,
                        size: std::num::NonZeroU64::new(bytes),
                    }
                }
            };
            let entry = ::wgpu::BindGroupEntry {
                binding: slot.binding,
                resource: ::wgpu::BindingResource::Buffer(resource),
            };
            match groups.iter_mut().find(|(group, _)| *group == slot.group) {
                Some((_, entries)) => entries.push(entry),
                None => groups.push((slot.group, vec![entry])),
            }
        }
        let bound: Vec<(u32, ::wgpu::BindGroup)> = groups
            .iter()
            .map(|(group, entries)| {
                let bind_group = self.device.create_bind_group(&::wgpu::BindGroupDescriptor {
                    label: None,
                    layout: &pipeline.get_bind_group_layout(*group),
                    entries,
                });
                (*group, bind_group)
            })
            .collect();
        drop(groups);

        let query = launch.timed.then(|| self.next_query(launch.label));
        let query = query.transpose()?.flatten();
        let set = self.queries.as_ref().map(|queries| queries.set.clone());
        let timestamp_writes =
            query
                .zip(set.as_ref())
                .map(|(index, query_set)| ComputePassTimestampWrites {
                    query_set,
                    beginning_of_pass_write_index: Some(2 * index),
                    end_of_pass_write_index: Some(2 * index + 1),
                });
        let mut pass = self.encoder().begin_compute_pass(&ComputePassDescriptor {
            label: None,
            timestamp_writes,
        });
        pass.set_pipeline(pipeline);
        for (group, bind_group) in &bound {
            pass.set_bind_group(*group, bind_group, &[]);
        }
        pass.dispatch_workgroups(launch.workgroups, 1, 1);
        drop(pass);
        self.recorded += 1;
        if self.recorded >= BATCH {
            self.submit();
        }
        Ok(())
    }

    /// Writes `params` to a uniform that no recorded launch uses and returns its offset.
    fn write_params(&mut self, params: &[u8]) -> u64 {
        if params.is_empty() {
            return 0;
        }
        if self.fresh_params >= PARAMS_SLOTS / 2 {
            self.submit();
        }
        let at = u64::from(self.next_params) * PARAMS_BYTES;
        self.next_params = (self.next_params + 1) % PARAMS_SLOTS;
        self.fresh_params += 1;
        let mut padded = params.to_vec();
        padded.resize(params.len().next_multiple_of(4), 0);
        self.queue.write_buffer(&self.params, at, &padded);
        at
    }

    /// The index of a free pair of timestamps, reading the earlier ones when all are taken.
    fn next_query(&mut self, kernel: &str) -> Result<Option<u32>> {
        let full = |queries: &Queries| queries.kernels.len() as u32 >= QUERIES / 2;
        if self.queries.as_ref().is_some_and(full) {
            self.read_queries()?;
        }
        Ok(self.queries.as_mut().map(|queries| {
            queries.kernels.push(kernel.into());
            queries.kernels.len() as u32 - 1
        }))
    }

    pub(super) fn timings(&mut self) -> Result<Vec<Timing>> {
        self.read_queries()?;
        Ok(self
            .queries
            .as_mut()
            .map(|queries| std::mem::take(&mut queries.read))
            .unwrap_or_default())
    }

    fn read_queries(&mut self) -> Result<()> {
        let Some(mut queries) = self.queries.take() else {
            return Ok(());
        };
        let count = queries.kernels.len();
        if count > 0 {
            let bytes = count as u64 * 16;
            let staging = self.staging(bytes);
            let encoder = self.encoder();
            encoder.resolve_query_set(&queries.set, 0..2 * count as u32, &queries.resolved, 0);
            encoder.copy_buffer_to_buffer(&queries.resolved, 0, &staging, 0, bytes);
            let (period, kernels) = (queries.period, std::mem::take(&mut queries.kernels));
            let read = &mut queries.read;
            self.map(&staging, bytes, |mapped| {
                let ticks: Vec<u64> = mapped
                    .chunks_exact(8)
                    .map(bytemuck::pod_read_unaligned)
                    .collect();
                for (kernel, pair) in kernels.into_iter().zip(ticks.chunks_exact(2)) {
                    let ns = pair[1].saturating_sub(pair[0]) as f64 * period;
                    read.push(Timing {
                        kernel,
                        time: Duration::from_nanos(ns as u64),
                    });
                }
            })?;
        }
        self.queries = Some(queries);
        Ok(())
    }
}
