//! The registry of CUDA bodies for named functions.

use std::collections::BTreeMap;

/// CUDA bodies by WGSL function name. The portable body stays in WGSL; here it is replaced.
///
/// In a body `{0}`, `{1}`, … stand for the arguments and `{global:name}` for a module-scope variable.
/// A name also matches functions and variables whose own name ends in `_name`, so that a linker's
/// prefixes do not matter.
#[derive(Clone, Debug, Default)]
pub struct Intrinsics {
    bodies: BTreeMap<String, String>,
}

impl Intrinsics {
    /// Replaces the body of the function `name`.
    pub fn insert(&mut self, name: impl Into<String>, body: impl Into<String>) {
        self.bodies.insert(name.into(), body.into());
    }

    /// The body that replaces that of `function`.
    pub(crate) fn body(&self, function: &str) -> Option<&str> {
        self.bodies
            .iter()
            .find(|(name, _)| matches(function, name))
            .map(|(_, body)| body.as_str())
    }
}

/// Whether `full` is `name`, with or without a prefix.
pub(crate) fn matches(full: &str, name: &str) -> bool {
    full == name
        || full
            .strip_suffix(name)
            .is_some_and(|prefix| prefix.ends_with('_') || prefix.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn prefixes_are_ignored_at_word_boundaries() {
        assert!(matches("mul_hi", "mul_hi"));
        assert!(matches("package_kernels_mul_hi", "mul_hi"));
        assert!(!matches("xmul_hi", "mul_hi"));
    }
}
