//! The disk cache of compiled kernels: one file a key, written whole or not at all.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// A folder of files named by the hash of what they were made from.
#[derive(Clone, Debug)]
pub(crate) struct DiskCache {
    folder: Option<PathBuf>,
}

/// The hash of `parts`, each with its length, in hexadecimal.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl DiskCache {
    /// The user's cache: `WHITEWATER_CACHE_DIR` (empty turns it off), else under
    /// `XDG_CACHE_HOME` or `HOME/.cache`.
    pub(crate) fn from_env() -> Self {
        let folder = match std::env::var_os("WHITEWATER_CACHE_DIR") {
            Some(dir) if dir.is_empty() => None,
            Some(dir) => Some(PathBuf::from(dir)),
            None => std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
                .map(|base| base.join("whitewater")),
        };
        Self { folder }
    }

    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: Some(folder.into()),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.as_ref()?.join(name)).ok()
    }

    /// Stores `bytes`; a cache that cannot be written only costs time, so failures are logged.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let Some(folder) = &self.folder else { return };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let partial = folder.join(format!("{name}.{}.partial", std::process::id()));
            fs::File::create(&partial)?.write_all(bytes)?;
            fs::rename(&partial, folder.join(name))
        };
        if let Err(error) = write() {
            tracing::warn!("kernel cache {}: {error}", folder.display());
        }
    }
}
