//! Heads of data items: a byte with the major type and five bits of information, and up to eight bytes more.

use super::error::{Error, Major, Result};

/// Additional information of an item of indefinite length: its content ends with a break.
pub(super) const INDEFINITE: u8 = 31;
/// The end of an item of indefinite length.
pub(super) const BREAK: u8 = 0xff;
/// Information of the major type [`Major::Other`].
pub(super) const FALSE: u8 = 20;
pub(super) const TRUE: u8 = 21;
pub(super) const NULL: u8 = 22;
pub(super) const HALF: u8 = 25;
pub(super) const SINGLE: u8 = 26;
pub(super) const DOUBLE: u8 = 27;

/// The head of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemHead {
    pub major: Major,
    pub information: u8,
    /// The number that it says: a value, a length, a tag. Floats have their bits here.
    pub argument: u64,
}

impl ItemHead {
    /// Whether the length is indefinite.
    pub(super) fn is_indefinite(self) -> bool {
        self.information == INDEFINITE
    }

    /// Reads a head, and moves the input behind it.
    #[inline]
    pub(super) fn read(input: &mut &[u8]) -> Result<Self> {
        let (&first, rest) = input.split_first().ok_or(Error::UnexpectedEof)?;
        *input = rest;
        let (major, information) = (Major::of(first), first & 31);
        let argument = match information {
            0..=23 | INDEFINITE => information.into(),
            24 => take::<1>(input)?[0].into(),
            25 => u16::from_be_bytes(take(input)?).into(),
            26 => u32::from_be_bytes(take(input)?).into(),
            27 => u64::from_be_bytes(take(input)?),
            _ => return Err(Error::InvalidInformation { information, major }.into()),
        };
        Ok(ItemHead { major, information, argument })
    }

    /// Appends the shortest head of a number.
    #[inline]
    pub(super) fn write(major: u8, argument: u64, out: &mut Vec<u8>) {
        let major = major << 5;
        match argument {
            0..=23 => out.push(major | argument as u8),
            24..=0xff => out.extend_from_slice(&[major | 24, argument as u8]),
            0x100..=0xffff => {
                out.push(major | 25);
                out.extend_from_slice(&(argument as u16).to_be_bytes());
            }
            0x1_0000..=0xffff_ffff => {
                out.push(major | 26);
                out.extend_from_slice(&(argument as u32).to_be_bytes());
            }
            _ => {
                out.push(major | 27);
                out.extend_from_slice(&argument.to_be_bytes());
            }
        }
    }
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk().ok_or(Error::UnexpectedEof)?;
    *input = rest;
    Ok(*bytes)
}
