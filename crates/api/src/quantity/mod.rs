//! Quantities of resources: `500m`, `1536Mi`, `12e6`.

mod json;
mod parse;

pub use json::{canonicalize_json, canonicalize_protobuf, default_resource_json};
pub use parse::ParseQuantityError;

use std::cmp::Ordering;
use std::fmt;
use std::ops::{AddAssign, Neg, SubAssign};

/// Fixed-point decimal number with the suffix family that it is written with.
///
/// Equality and order are numeric: `1`, `1000m` and `1e0` are equal. Printing gives the canonical form: no fraction,
/// and the largest suffix that keeps the number integral.
///
/// The number is a mantissa of at most 37 digits times a power of ten, so that a quantity is copied, not allocated.
/// Further digits are rounded away from zero; the largest amount in use (a cluster's memory in nano-bytes) has 28.
/// Texts keep all their digits: see [`canonicalize_json`].
///
/// ```
/// use kevel_api::quantity::Quantity;
/// let mut memory: Quantity = "1.5Gi".parse()?;
/// memory += "512Mi".parse()?;
/// assert_eq!(memory.to_string(), "2Gi");
/// # Ok::<(), kevel_api::quantity::ParseQuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    mantissa: i128,
    /// Power of ten; wider than any exponent that can be parsed, so that sums stay in range.
    scale: i64,
    format: Format,
}

/// Suffix family of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `n u m k M G T P E`: powers of 1000.
    #[default]
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`: powers of 1024.
    BinarySi,
    /// `e3`, `E-6`: any power of ten, written in multiples of three.
    DecimalExponent,
}

/// Finest unit of a quantity: nano.
const NANO: i64 = -9;
/// Unit to which defaulting rounds: milli.
const MILLI: i64 = -3;
/// Most digits of the reference's short form; it stores longer numbers in another one.
const MAX_SHORT_DIGITS: u32 = 18;
/// Most digits of a mantissa: two of them can be added in 128 bits.
const MAX_DIGITS: usize = 37;
const MANTISSA_LIMIT: i128 = 10_i128.pow(MAX_DIGITS as u32);

impl Quantity {
    /// `value` units.
    pub const fn new(value: i64, format: Format) -> Self {
        Quantity { mantissa: value as i128, scale: 0, format }
    }

    /// `value` thousandths.
    pub const fn from_milli(value: i64, format: Format) -> Self {
        Quantity { mantissa: value as i128, scale: MILLI, format }
    }

    /// `value` times ten to the power of `scale`, in SI suffixes.
    pub const fn from_scaled(value: i64, scale: i32) -> Self {
        Quantity { mantissa: value as i128, scale: scale as i64, format: Format::DecimalSi }
    }

    /// Suffix family.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether the number is zero.
    pub const fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Sign: -1, 0 or 1.
    pub const fn signum(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Integral units, rounded away from zero, saturated to `i64`.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Integral units as in the reference, which truncates numbers with many digits to 64 bits.
    pub fn value_bits(&self) -> i64 {
        let few = self.mantissa.unsigned_abs() < 10_u128.pow(MAX_SHORT_DIGITS);
        match self.as_integer().filter(|_| !few) {
            Some(value) => value as i64,
            None => self.value(),
        }
    }

    /// Thousandths, rounded away from zero, saturated to `i64`.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// Whether the number is integral. The reference checks the thousandths, truncated to 64 bits: for a number with
    /// many digits the answer is arbitrary.
    pub fn is_whole(&self) -> bool {
        let exact = match self.scale + MILLI.abs() {
            shift @ 0.. => multiply(self.mantissa, shift.unsigned_abs()),
            shift => {
                let (value, exact) = divide_away(self.mantissa, shift.unsigned_abs());
                return exact && value % 1000 == 0;
            }
        };
        let few = self.mantissa.unsigned_abs() < 10_u128.pow(MAX_SHORT_DIGITS);
        match exact {
            Some(thousandths) if i64::try_from(thousandths).is_ok() || !few => {
                thousandths as i64 % 1000 == 0
            }
            _ => true,
        }
    }

    /// Units of ten to the power of `scale`, rounded away from zero, saturated to `i64`. (Out of range the reference
    /// returns 0 or wraps; nothing relies on it.)
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let shift = self.scale - i64::from(scale);
        let scaled = if shift < 0 {
            Some(divide_away(self.mantissa, shift.unsigned_abs()).0)
        } else {
            multiply(self.mantissa, shift.unsigned_abs())
        };
        match scaled.map(i64::try_from) {
            Some(Ok(value)) => value,
            _ if self.mantissa < 0 => i64::MIN,
            _ => i64::MAX,
        }
    }

    /// Rounds away from zero to a multiple of ten to the power of `scale`; returns whether the number was one already.
    pub fn round_up(&mut self, scale: i32) -> bool {
        let scale = i64::from(scale);
        if self.scale >= scale {
            return true;
        }
        let (mantissa, exact) = divide_away(self.mantissa, (scale - self.scale).unsigned_abs());
        (self.mantissa, self.scale) = (mantissa, scale);
        exact
    }

    /// Integral value, if 128 bits hold it.
    fn as_integer(&self) -> Option<i128> {
        if self.scale >= 0 {
            return multiply(self.mantissa, self.scale.unsigned_abs());
        }
        let (value, exact) = divide_away(self.mantissa, self.scale.unsigned_abs());
        exact.then_some(value)
    }

    /// Number with its trailing zeros moved to the scale.
    fn trimmed(mut self) -> Self {
        while self.mantissa != 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale += 1;
        }
        self
    }

    fn sum(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (a, b) = (self.trimmed(), other.trimmed());
        let (high, low) = if a.scale >= b.scale { (a, b) } else { (b, a) };
        if high.is_zero() || low.is_zero() {
            let addend = if high.is_zero() { low } else { high };
            return Quantity { format, ..addend };
        }
        // Bring both to one scale: lower the higher scale as far as its digits have room, and if that is not enough
        // raise the lower one.
        let distance = (high.scale - low.scale).unsigned_abs();
        let room = (MAX_DIGITS as u64).saturating_sub(u64::from(digits(high.mantissa)));
        let down = distance.min(room);
        let high_mantissa = multiply(high.mantissa, down).unwrap_or(high.mantissa);
        let (low_mantissa, _) = divide_away(low.mantissa, distance - down);
        let mantissa = high_mantissa + low_mantissa;
        Quantity { mantissa, scale: high.scale - down as i64, format }.within_limit()
    }

    fn within_limit(mut self) -> Self {
        if self.mantissa.unsigned_abs() >= MANTISSA_LIMIT.unsigned_abs() {
            self.mantissa = divide_away(self.mantissa, 1).0;
            self.scale += 1;
        }
        self
    }
}

/// If `self` is zero, it takes on the other's format.
impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = self.sum(other);
    }
}

/// If `self` is zero, it takes on the other's format.
impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = self.sum(-other);
    }
}

impl Neg for Quantity {
    type Output = Self;

    fn neg(self) -> Self {
        Quantity { mantissa: -self.mantissa, ..self }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.mantissa.signum();
        let by_sign = sign.cmp(&other.mantissa.signum());
        if by_sign != Ordering::Equal || sign == 0 {
            return by_sign;
        }
        let by_magnitude = compare_magnitudes(self.trimmed(), other.trimmed());
        if sign > 0 { by_magnitude } else { by_magnitude.reverse() }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

fn compare_magnitudes(a: Quantity, b: Quantity) -> Ordering {
    let (a_digits, b_digits) = (digits(a.mantissa), digits(b.mantissa));
    let by_length = (i64::from(a_digits) + a.scale).cmp(&(i64::from(b_digits) + b.scale));
    by_length.then_with(|| {
        // With equal lengths, the scales differ by less than the digits of a mantissa.
        let width = a_digits.max(b_digits);
        let widen =
            |mantissa: i128, digits: u32| mantissa.unsigned_abs() * 10_u128.pow(width - digits);
        widen(a.mantissa, a_digits).cmp(&widen(b.mantissa, b_digits))
    })
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let format = match self.format {
            Format::BinarySi => match self.as_integer() {
                Some(value) if value.unsigned_abs() >= 1024 => return write_binary(f, value),
                // A binary suffix would need a fraction, or is not needed.
                _ => Format::DecimalSi,
            },
            decimal => decimal,
        };
        let trimmed = self.trimmed();
        let zeros = trimmed.scale.rem_euclid(3) as usize;
        write!(f, "{}{}", trimmed.mantissa, &"00"[..zeros])?;
        write_suffix(f, trimmed.scale - zeros as i64, format)
    }
}

fn write_binary(f: &mut impl fmt::Write, mut value: i128) -> fmt::Result {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut thousands = 0;
    while value % 1024 == 0 {
        value /= 1024;
        thousands += 1;
    }
    write!(f, "{value}{}", SUFFIXES.get(thousands).unwrap_or(&""))
}

/// Writes the suffix for a power of ten, a multiple of three. There is none beyond `E`, and the reference writes none:
/// `1000E` prints as `1`.
fn write_suffix(f: &mut impl fmt::Write, exponent: i64, format: Format) -> fmt::Result {
    const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    match format {
        Format::DecimalExponent if exponent == 0 => Ok(()),
        Format::DecimalExponent => write!(f, "e{exponent}"),
        _ => {
            let index = usize::try_from((exponent - NANO) / 3).ok();
            f.write_str(index.and_then(|i| SUFFIXES.get(i)).unwrap_or(&""))
        }
    }
}

/// The number of decimal digits; 0 has one.
fn digits(mantissa: i128) -> u32 {
    mantissa.unsigned_abs().checked_ilog10().unwrap_or(0) + 1
}

fn multiply(mantissa: i128, zeros: u64) -> Option<i128> {
    if mantissa == 0 {
        return Some(0);
    }
    mantissa.checked_mul(10_i128.checked_pow(u32::try_from(zeros).ok()?)?)
}

/// Divides by ten to the power of `zeros`, rounding away from zero; returns whether it was exact.
fn divide_away(mantissa: i128, zeros: u64) -> (i128, bool) {
    let divisor = u32::try_from(zeros).ok().and_then(|zeros| 10_i128.checked_pow(zeros));
    let Some(divisor) = divisor else {
        return (mantissa.signum(), mantissa == 0);
    };
    match mantissa % divisor {
        0 => (mantissa / divisor, true),
        _ => (mantissa / divisor + mantissa.signum(), false),
    }
}

#[cfg(test)]
mod tests;
