//! The device: a backend with its pool, its compiled kernels and its profile.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;

use crate::{
    Buffer, DeviceInfo, Error, Kernel, MemoryStats, Profile, Result, Selection, Shader,
    backend::{DeviceBackend, RawLaunch},
    cache::DiskCache,
    cuda,
    kernel::Module,
    pool::Pool,
    shader::Linked,
    wgpu,
};

/// Share of the free device memory that the pool may use unless told otherwise.
const DEFAULT_BUDGET_PERCENT: u64 = 90;
/// The budget where the interface does not tell how much memory there is.
const UNKNOWN_MEMORY_BUDGET: u64 = 4 << 30;

/// A handle to an opened device; clones share it.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
    portable: bool,
}

pub(crate) struct Inner {
    backend: Box<dyn DeviceBackend>,
    pub(crate) pool: Pool,
    /// By the shader itself: its parts are compared, which is cheaper than a digest at every launch.
    modules: Mutex<HashMap<Shader, Arc<Module>, foldhash::fast::RandomState>>,
    cache: DiskCache,
    profile: Mutex<Profile>,
    failure: Mutex<Option<Error>>,
    timed: AtomicBool,
    /// Specialisations of each module whose CUDA was checked.
    checked: Mutex<HashMap<String, u32>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.backend.persist(&self.cache);
        self.pool.set_budget(0, &*self.backend);
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {})", self.info().name, self.info().backend)
    }
}

impl Device {
    /// Opens the best device that `selection` allows.
    pub fn open(selection: Selection) -> Result<Self> {
        Self::open_with_cache(selection, DiskCache::from_env())
    }

    /// As [`open`](Self::open), with the disk cache of kernels in `folder`.
    pub fn open_cached_at(selection: Selection, folder: &Path) -> Result<Self> {
        Self::open_with_cache(selection, DiskCache::at(folder))
    }

    fn open_with_cache(selection: Selection, cache: DiskCache) -> Result<Self> {
        let backend: Box<dyn DeviceBackend> = match selection {
            Selection::Cuda => Box::new(cuda::Cuda::open()?),
            Selection::Auto => match cuda::Cuda::open() {
                Ok(cuda) => Box::new(cuda),
                Err(why) => {
                    tracing::debug!("auto: {why}");
                    Box::new(wgpu::Wgpu::open(selection, &cache)?)
                }
            },
            _ => Box::new(wgpu::Wgpu::open(selection, &cache)?),
        };
        let budget = backend.free_memory().map_or(UNKNOWN_MEMORY_BUDGET, |free| {
            free / 100 * DEFAULT_BUDGET_PERCENT
        });
        let pool = Pool::new(budget, backend.addressable());
        Ok(Self {
            inner: Arc::new(Inner {
                backend,
                pool,
                modules: Mutex::default(),
                cache,
                profile: Mutex::default(),
                failure: Mutex::default(),
                timed: AtomicBool::new(false),
                checked: Mutex::default(),
            }),
            portable: false,
        })
    }

    /// What the device is and can do.
    pub fn info(&self) -> &DeviceInfo {
        self.inner.backend.info()
    }

    /// Whether a workgroup that waits on another one that has started is sure to see it finish.
    pub fn has_forward_progress(&self) -> bool {
        self.info().features.forward_progress && !self.portable
    }

    /// Whether kernels can exchange 64 bits at a time.
    pub fn has_wide_exchange(&self) -> bool {
        self.info().features.int64_atomics && !self.portable
    }

    /// The same device through a handle that promises neither forward progress nor exchanges of 64 bits: what
    /// is tested on it holds for devices that have none.
    pub fn portable(&self) -> Self {
        Self {
            portable: true,
            ..self.clone()
        }
    }

    /// The pool's figures.
    pub fn memory(&self) -> MemoryStats {
        self.inner.pool.stats()
    }

    /// Limits the pool to `bytes`, cached blocks included.
    pub fn set_memory_budget(&self, bytes: u64) {
        self.inner.pool.set_budget(bytes, &*self.inner.backend);
    }

    /// Starts the high-water mark of [`memory`](Self::memory) anew.
    pub fn reset_peak(&self) {
        self.inner.pool.reset_peak();
    }

    /// Turns per-kernel timing on or off; it costs about two microseconds a launch.
    pub fn set_timed(&self, on: bool) {
        self.inner.timed.store(on, Ordering::Relaxed);
    }

    pub(crate) fn timed(&self) -> bool {
        self.inner.timed.load(Ordering::Relaxed) && self.info().features.timestamps
    }

    /// A buffer of `bytes` bytes with undefined contents.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer> {
        self.check()?;
        let (raw, pooled) = self.inner.pool.take(bytes, &*self.inner.backend)?;
        Ok(Buffer::new(self.clone(), raw, bytes, pooled))
    }

    /// A buffer of `bytes` bytes, every byte being `byte`.
    pub fn alloc_filled(&self, bytes: u64, byte: u8) -> Result<Buffer> {
        let buffer = self.alloc(bytes)?;
        self.fill(&buffer, byte)?;
        Ok(buffer)
    }

    /// Sets every byte of `buffer`.
    pub fn fill(&self, buffer: &Buffer, byte: u8) -> Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let bytes = buffer.len().next_multiple_of(4);
        self.watch(self.inner.backend.fill(buffer.raw()?, bytes, byte))
    }

    /// A new buffer with the contents of `bytes`.
    pub fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.alloc(bytes.len() as u64)?;
        self.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Overwrites `buffer` from `offset` (a multiple of 4) with `bytes`.
    pub fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if offset + bytes.len() as u64 > buffer.len() || !offset.is_multiple_of(4) {
            return Err(Error::Launch {
                kernel: "upload".into(),
                reason: format!(
                    "{} bytes at {offset} do not fit a buffer of {}",
                    bytes.len(),
                    buffer.len()
                ),
            });
        }
        let started = Instant::now();
        self.watch(self.inner.backend.write(buffer.raw()?, offset, bytes))?;
        let mut profile = self.inner.profile.lock();
        profile.uploads.add(bytes.len() as u64, started.elapsed());
        Ok(())
    }

    /// Copies the first `bytes` bytes of `from` to the start of `to`.
    pub fn copy(&self, from: &Buffer, to: &Buffer, bytes: u64) -> Result<()> {
        self.check()?;
        let bytes = bytes.min(from.len()).min(to.len());
        self.watch(self.inner.backend.copy(from.raw()?, to.raw()?, bytes))
    }

    pub(crate) fn download(&self, buffer: &Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        self.check()?;
        let started = Instant::now();
        let bytes = bytes.min(buffer.len().saturating_sub(offset));
        let mut into = vec![0; bytes as usize];
        self.watch(self.inner.backend.read(buffer.raw()?, offset, &mut into))?;
        // A failure that came to light while waiting means that what was read is garbage.
        self.check()?;
        let mut profile = self.inner.profile.lock();
        profile.downloads.add(bytes, started.elapsed());
        Ok(into)
    }

    /// Waits for everything queued.
    pub fn synchronize(&self) -> Result<()> {
        self.check()?;
        self.watch(self.inner.backend.synchronize())
    }

    /// The entry point `entry` of `shader`, compiled once per device and cached on disk.
    pub fn kernel(&self, shader: &Shader, entry: &str) -> Result<Kernel> {
        self.check()?;
        let cached = self.inner.modules.lock().get(shader).cloned();
        let module = match cached {
            Some(module) => module,
            None => {
                let module = Arc::new(self.compile(shader)?);
                self.inner
                    .modules
                    .lock()
                    .entry(shader.clone())
                    .or_insert(module)
                    .clone()
            }
        };
        Kernel::new(self.clone(), module, entry)
    }

    /// Compiles `shaders` in parallel ahead of their use.
    pub fn prepare(&self, shaders: &[Shader]) -> Result<()> {
        let entryless = |shader: &Shader| -> Result<()> {
            if self.inner.modules.lock().contains_key(shader) {
                return Ok(());
            }
            let module = Arc::new(self.compile(shader)?);
            let mut modules = self.inner.modules.lock();
            modules.entry(shader.clone()).or_insert(module);
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = shaders
                .iter()
                .map(|shader| scope.spawn(|| entryless(shader)))
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| {
                    Err(Error::Compile {
                        kernel: "a batch".into(),
                        log: "a compiling thread panicked".into(),
                    })
                })
            })
        })
    }

    fn compile(&self, shader: &Shader) -> Result<Module> {
        let started = Instant::now();
        let linked = shader.link()?;
        self.check_cuda(&linked)?;
        let raw = self.inner.backend.compile(&linked, &self.inner.cache)?;
        let mut profile = self.inner.profile.lock();
        if raw.compiled {
            profile.compilations += 1;
            profile.compile_time += started.elapsed();
            tracing::debug!("compiled {} in {:?}", linked.name, started.elapsed());
        } else {
            profile.cache_hits += 1;
        }
        Ok(Module {
            name: linked.name,
            raw,
            entries: linked.entries,
        })
    }

    /// With `WHITEWATER_CHECK_CUDA` set, compiles the first few specialisations of every module for
    /// NVIDIA GPUs too, whatever the device: a test without a GPU then finds what NVRTC refuses.
    fn check_cuda(&self, linked: &Linked) -> Result<()> {
        const SPECIALISATIONS: u32 = 3;
        if std::env::var_os("WHITEWATER_CHECK_CUDA").is_none() {
            return Ok(());
        }
        let seen = {
            let mut checked = self.inner.checked.lock();
            let seen = checked.entry(linked.name.clone()).or_insert(0);
            *seen += 1;
            *seen
        };
        if seen <= SPECIALISATIONS && !linked.check_cuda()? {
            tracing::warn!(
                "NVRTC is not installed: the CUDA of {} is not checked",
                linked.name
            );
        }
        Ok(())
    }

    pub(crate) fn run(&self, bytes: u64, launch: &RawLaunch<'_>) -> Result<()> {
        self.watch(self.inner.backend.launch(launch))?;
        let mut profile = self.inner.profile.lock();
        let stat = profile.kernels.entry(launch.label.into()).or_default();
        stat.launches += 1;
        stat.bytes += bytes;
        Ok(())
    }

    /// Totals since the device was opened; waits for everything queued if launches are timed.
    pub fn profile(&self) -> Result<Profile> {
        let timings = self.watch(self.inner.backend.timings())?;
        let mut profile = self.inner.profile.lock();
        for timing in timings {
            profile.kernels.entry(timing.kernel).or_default().gpu_time += timing.time;
        }
        Ok(profile.clone())
    }

    /// The error that ended the device's use, if one did.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Remembers a failure after which no memory of the device can be trusted.
    fn watch<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error @ (Error::Lost { .. } | Error::Launch { .. })) = &result {
            let reason = error.to_string();
            self.inner
                .failure
                .lock()
                .get_or_insert(Error::Lost { reason });
        }
        result
    }
}
