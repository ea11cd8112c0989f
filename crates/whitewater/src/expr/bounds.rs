//! Bounds on the magnitude of decimals, which choose between 64- and 128-bit arithmetic and prove
//! overflow checks away.

/// |value| <= this, in units of the decimal's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound(u128);

impl Bound {
    pub(crate) const ZERO: Bound = Bound(0);
    /// The magnitude of the least 128-bit integer.
    pub(crate) const UNKNOWN: Bound = Bound(1 << 127);
    /// The magnitude of the least 64-bit integer.
    pub(crate) const I64: Bound = Bound(1 << 63);

    /// Of a constant.
    pub(crate) fn exact(value: i128) -> Self {
        Bound(value.unsigned_abs())
    }

    /// Of values below 2^bits in magnitude.
    pub(crate) fn bits(bits: u32) -> Self {
        if bits >= 127 {
            Bound::UNKNOWN
        } else {
            Bound((1 << bits) - 1)
        }
    }

    /// Of a stored value: what overflowed has raised an error and is anything.
    pub(crate) fn stored(self) -> Self {
        self.min(Bound::UNKNOWN)
    }

    /// Of the sum or difference. It may exceed every 128-bit integer.
    pub(crate) fn plus(self, other: Self) -> Self {
        Bound(self.0.saturating_add(other.0))
    }

    /// Of the product.
    pub(crate) fn times(self, other: Self) -> Self {
        Bound(self.0.saturating_mul(other.0))
    }

    /// Of the quotient by something of at least 1 in magnitude, which `divisor` is if it is known.
    pub(crate) fn over(self, divisor: Option<i128>) -> Self {
        match divisor.map(i128::unsigned_abs) {
            Some(divisor) if divisor > 0 => Bound(self.0 / divisor),
            _ => self,
        }
    }

    /// Whether every such value is an i64, whatever its sign.
    pub(crate) fn fits_i64(self) -> bool {
        self.0 < 1 << 63
    }

    /// Whether every such value is an i128, whatever its sign.
    pub(crate) fn fits_i128(self) -> bool {
        self.0 < 1 << 127
    }

    /// Whether |value| <= limit is certain.
    pub(crate) fn within(self, limit: i128) -> bool {
        self.0 <= limit.unsigned_abs()
    }

    /// Bits that the magnitude needs.
    pub(crate) fn bit_count(self) -> u32 {
        128 - self.0.leading_zeros()
    }
}

/// 10^power, for 0 <= power <= 38.
pub(crate) fn power_of_ten(power: u32) -> Option<i128> {
    10i128.checked_pow(power)
}
