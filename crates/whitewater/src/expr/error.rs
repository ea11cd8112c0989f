//! What goes wrong: at plan time ([`ExprError`]) and in a running kernel ([`ArithmeticError`]).

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// A construct or type that has no GPU form; a planner falls back to the CPU.
    #[error("{what} is not supported on the GPU")]
    Unsupported { what: String },
    /// An expression that is wrong whatever runs it, such as a column that is not there.
    #[error("invalid expression: {what}")]
    Invalid { what: String },
}

impl ExprError {
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        ExprError::Unsupported { what: what.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        ExprError::Invalid { what: what.into() }
    }
}

/// What a kernel raised: bit `code` of the errors word, with DataFusion's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum ArithmeticError {
    #[error("Arrow error: Divide by zero error")]
    DivideByZero = 0,
    #[error("Arrow error: Arithmetic overflow: Overflow happened in an arithmetic operation")]
    Overflow = 1,
    #[error("Arrow error: Cast error: Can't cast a value to the target type: out of range")]
    Cast = 2,
}

impl ArithmeticError {
    /// Every error, the one to report first first.
    pub const ALL: [ArithmeticError; 3] = [
        ArithmeticError::DivideByZero,
        ArithmeticError::Overflow,
        ArithmeticError::Cast,
    ];

    /// The bit number in the errors word.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The first error whose bit is set in `word`, or none.
    pub fn from_word(word: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|error| word & (1 << error.code()) != 0)
    }
}
