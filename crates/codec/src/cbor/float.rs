//! Floats of two, four and eight bytes.

use super::head::{DOUBLE, HALF, ItemHead, SINGLE};

/// The float that a head of such information says.
pub(super) fn of_head(head: ItemHead) -> Option<f64> {
    match head.information {
        HALF => Some(from_half(head.argument as u16)),
        SINGLE => Some(f32::from_bits(head.argument as u32).into()),
        DOUBLE => Some(f64::from_bits(head.argument)),
        _ => None,
    }
}

/// Appends a float in the fewest bytes that have its value.
pub(super) fn write(float: f64, out: &mut Vec<u8>) {
    let single = float as f32;
    if f64::from(single) != float {
        out.push(0xe0 | DOUBLE);
        return out.extend_from_slice(&float.to_be_bytes());
    }
    match to_half(single) {
        Some(half) => {
            out.push(0xe0 | HALF);
            out.extend_from_slice(&half.to_be_bytes());
        }
        None => {
            out.push(0xe0 | SINGLE);
            out.extend_from_slice(&single.to_be_bytes());
        }
    }
}

/// The value of a float in two bytes: a sign, five bits of exponent, ten of mantissa.
fn from_half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The two bytes of a float, if they have its value.
fn to_half(single: f32) -> Option<u16> {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if bits << 1 == 0 {
        return Some(sign);
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let mantissa = bits & 0x7f_ffff;
    match exponent {
        -14..=15 if mantissa & 0x1fff == 0 => {
            Some(sign | ((exponent + 15) << 10) as u16 | (mantissa >> 13) as u16)
        }
        // Smaller ones have no leading digit that goes without saying.
        -24..=-15 => {
            let (digits, dropped) = (mantissa | 0x80_0000, -1 - exponent);
            (digits.trailing_zeros() >= dropped as u32).then(|| sign | (digits >> dropped) as u16)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_are_their_own_inverse() {
        for bits in 0..=u16::MAX {
            let float = from_half(bits);
            if float.is_finite() {
                assert_eq!(to_half(float as f32), Some(bits), "{bits:x}");
            }
        }
    }
}
