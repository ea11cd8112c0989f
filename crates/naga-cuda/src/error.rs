/// Why a module cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A construct that this backend does not write.
    #[error("CUDA: {construct} is not supported (in {place})")]
    Unsupported {
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
    /// An expression is used before the statement that computes it.
    #[error("CUDA: the module is not valid: {0}")]
    Invalid(String),
}
