//! Pipelines from naga IR, with the driver's own pipeline cache kept on disk.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use ::wgpu::{ComputePipeline, PipelineCache};
use parking_lot::Mutex;

use crate::{
    Error, Result,
    backend::RawModule,
    cache::{self, DiskCache},
    shader::{Linked, Slot},
};

/// The pipelines of one shader by entry point.
pub(super) struct WgpuModule {
    pub(super) pipelines: HashMap<String, (ComputePipeline, Vec<Slot>)>,
}

pub(super) struct Pipelines {
    /// The driver's cache and its file's name, where the interface has one.
    driver_cache: Option<(PipelineCache, String)>,
    /// Markers of shaders that this run has added to the driver's cache.
    added: Mutex<Vec<String>>,
}

impl Pipelines {
    pub(super) fn new(
        device: &::wgpu::Device,
        adapter: &::wgpu::Adapter,
        cache: &DiskCache,
    ) -> Self {
        let name = ::wgpu::util::pipeline_cache_key(&adapter.get_info())
            .filter(|_| device.features().contains(::wgpu::Features::PIPELINE_CACHE));
        let driver_cache = name.map(|name| {
            let data = cache.get(&name);
            // SAFETY: the file was written by `persist` for an adapter with the same key; with
            // `fallback` a damaged one is dropped by the driver.
            let driver_cache = unsafe {
                device.create_pipeline_cache(&::wgpu::PipelineCacheDescriptor {
                    label: None,
                    data: data.as_deref(),
                    fallback: true,
                })
            };
            (driver_cache, name)
        });
        Self {
            driver_cache,
            added: Mutex::default(),
        }
    }

    pub(super) fn compile(
        &self,
        device: &::wgpu::Device,
        linked: &Linked,
        cache: &DiskCache,
    ) -> Result<RawModule> {
        let marker = self.driver_cache.as_ref().map(|(_, name)| {
            let key = cache::key(&[linked.key.as_bytes(), name.as_bytes()]);
            format!("{key}.pipeline")
        });
        let known = marker
            .as_ref()
            .is_some_and(|name| cache.get(name).is_some());
        let scope = device.push_error_scope(::wgpu::ErrorFilter::Validation);
        // SAFETY: kernels check their own indices against the lengths they are given, and their
        // loops end; the software device's tests run the same code.
        let shader = unsafe {
            device.create_shader_module_trusted(
                ::wgpu::ShaderModuleDescriptor {
                    label: Some(&linked.name),
                    source: ::wgpu::ShaderSource::Naga(Cow::Owned(linked.module.clone())),
                },
                ::wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let pipelines = linked
            .entries
            .iter()
            .map(|entry| {
                let pipeline = device.create_compute_pipeline(&::wgpu::ComputePipelineDescriptor {
                    label: Some(&entry.name),
                    layout: None,
                    module: &shader,
                    entry_point: Some(&entry.name),
                    compilation_options: ::wgpu::PipelineCompilationOptions {
                        zero_initialize_workgroup_memory: false,
                        ..Default::default()
                    },
                    cache: self
                        .driver_cache
                        .as_ref()
                        .map(|(driver_cache, _)| driver_cache),
                });
                (entry.name.clone(), (pipeline, entry.slots.clone()))
            })
            .collect();
        if let Some(error) = pollster::block_on(scope.pop()) {
            return Err(Error::Compile {
                kernel: linked.name.clone(),
                log: error.to_string(),
            });
        }
        if let Some(marker) = marker.filter(|_| !known) {
            self.added.lock().push(marker);
        }
        Ok(RawModule {
            module: Arc::new(WgpuModule { pipelines }),
            compiled: !known,
        })
    }

    /// Writes the driver's cache where this run added to it.
    pub(super) fn persist(&self, cache: &DiskCache) {
        let added = std::mem::take(&mut *self.added.lock());
        let Some((driver_cache, name)) = self.driver_cache.as_ref().filter(|_| !added.is_empty())
        else {
            return;
        };
        if let Some(data) = driver_cache.get_data() {
            cache.put(name, &data);
            for marker in added {
                cache.put(&marker, &[]);
            }
        }
    }
}
