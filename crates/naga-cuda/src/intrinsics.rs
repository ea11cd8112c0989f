//! The registry of CUDA bodies for named functions.

use std::collections::BTreeMap;

/// Whether a module's name (first) is a registered one (second).
pub type Matching = fn(&str, &str) -> bool;

/// CUDA bodies by WGSL function name. The portable body stays in WGSL; here it is replaced.
///
/// In a body `{0}`, `{1}`, … stand for the arguments and `{global:name}` for a module-scope variable
/// that the portable body uses: a pointer to what a storage buffer holds, the variable itself
/// elsewhere. The signature is the writer's, with the types of the prelude (`u32`, `Vec<f32, 4>`, …).
///
/// A name also matches functions and variables whose own name ends in `_name` or `::name`, so that a
/// linker's prefixes do not matter; [`matching`](Self::matching) sets another rule. The longest
/// matching name wins.
///
/// ```
/// let mut intrinsics = naga_cuda::Intrinsics::default();
/// intrinsics.insert("mul_hi_u64", "return __umul64hi({0}, {1});");
/// ```
#[derive(Clone, Debug)]
pub struct Intrinsics {
    bodies: BTreeMap<String, String>,
    prelude: String,
    matching: Matching,
}

impl Default for Intrinsics {
    fn default() -> Self {
        Self {
            bodies: BTreeMap::new(),
            prelude: String::new(),
            matching: suffix,
        }
    }
}

impl Intrinsics {
    /// Replaces the body of the function `name`.
    pub fn insert(&mut self, name: impl Into<String>, body: impl Into<String>) {
        self.bodies.insert(name.into(), body.into());
    }

    /// Adds CUDA C++ that stands after the backend's own prelude, for the bodies to use.
    pub fn add_prelude(&mut self, text: &str) {
        self.prelude.push_str(text);
        if !text.ends_with('\n') {
            self.prelude.push('\n');
        }
    }

    /// Sets the rule by which names of the module are compared with registered ones.
    pub fn matching(&mut self, rule: Matching) {
        self.matching = rule;
    }

    /// The body that replaces that of `function`.
    pub(crate) fn body(&self, function: &str) -> Option<&str> {
        self.bodies
            .iter()
            .filter(|(name, _)| self.is(function, name))
            .max_by_key(|(name, _)| name.len())
            .map(|(_, body)| body.as_str())
    }

    pub(crate) fn prelude(&self) -> &str {
        &self.prelude
    }

    pub(crate) fn is(&self, full: &str, name: &str) -> bool {
        (self.matching)(full, name)
    }
}

/// Whether `full` is `name`, with or without a prefix.
fn suffix(full: &str, name: &str) -> bool {
    full == name
        || full
            .strip_suffix(name)
            .is_some_and(|prefix| prefix.ends_with('_') || prefix.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_ignored_at_word_boundaries() {
        assert!(suffix("mul_hi", "mul_hi"));
        assert!(suffix("package_kernels_mul_hi", "mul_hi"));
        assert!(suffix("package::mul_hi", "mul_hi"));
        assert!(!suffix("xmul_hi", "mul_hi"));
    }

    #[test]
    fn the_longest_name_wins() {
        let mut intrinsics = Intrinsics::default();
        intrinsics.insert("hi", "1");
        intrinsics.insert("mul_hi", "2");
        assert_eq!(intrinsics.body("package_mul_hi"), Some("2"));
        intrinsics.matching(|full, name| full == name);
        assert_eq!(intrinsics.body("package_mul_hi"), None);
        assert_eq!(intrinsics.body("hi"), Some("1"));
    }
}
