//! Why a module cannot be written.

/// Why a module cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A construct that this backend does not write.
    #[error("CUDA: {construct} is not supported (in {place})")]
    Unsupported {
        /// The construct's name, as in "image sampling" or "f16".
        construct: String,
        /// The function, or the kind of global item, that holds it.
        place: String,
    },
    /// No compute entry point has this name.
    #[error("CUDA: no compute entry point is named '{0}'")]
    EntryPoint(String),
    /// A pipeline-overridable constant has no value or a wrong one.
    #[error("CUDA: {0}")]
    Override(String),
    /// The body of a registered intrinsic names what its function does not have.
    #[error(
        "CUDA: the intrinsic for {function} names {placeholder}, which {function} does not use"
    )]
    Intrinsic {
        /// The function whose body is replaced.
        function: String,
        /// The placeholder, as in `{global:data}`.
        placeholder: String,
    },
    /// The module breaks a rule that validation ensures.
    #[error("CUDA: the module is not valid: {0}")]
    Invalid(String),
}

/// An [`Error::Unsupported`].
pub(crate) fn unsupported(construct: impl Into<String>, place: &str) -> Error {
    Error::Unsupported {
        construct: construct.into(),
        place: place.into(),
    }
}
