//! Set of allocated ports in a range, in the reference's stored form.

use std::fmt;

/// Range of consecutive ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub base: u16,
    /// Number of ports.
    pub size: u32,
}

impl PortRange {
    /// Parses `30000-32767`.
    pub fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once('-')?;
        let (low, high): (u16, u16) = (low.parse().ok()?, high.parse().ok()?);
        Some(PortRange { base: low, size: u32::from(high.checked_sub(low)?) + 1 })
    }

    fn offset(&self, port: i64) -> Option<usize> {
        let offset = usize::try_from(port - i64::from(self.base)).ok()?;
        (offset < self.len()).then_some(offset)
    }

    fn len(&self) -> usize {
        usize::try_from(self.size).unwrap_or(0)
    }

    /// Number of lowest ports that dynamic allocation uses last, so that clients can request them explicitly.
    fn reserved(&self) -> usize {
        const FEWEST: usize = 16;
        const MOST: usize = 128;
        const SHARE: usize = 32;
        match self.len() {
            size if size <= FEWEST => 0,
            size => (size / SHARE).clamp(FEWEST, MOST),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = u32::from(self.base) + self.size.saturating_sub(1);
        write!(f, "{}-{last}", self.base)
    }
}

/// Error of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("range is full")]
    Full,
    #[error("provided port is already allocated")]
    Allocated,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    NotInRange(String),
    #[error("{0}")]
    Other(String),
}

/// Ports of a range, each allocated or free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSet {
    pub range: PortRange,
    taken: Vec<bool>,
}

impl PortSet {
    pub fn new(range: PortRange) -> Self {
        PortSet { range, taken: vec![false; range.len()] }
    }

    /// Reads the bitmap: a big-endian number whose lowest bit is the first port.
    pub fn from_bytes(range: PortRange, bytes: &[u8]) -> Self {
        let mut set = PortSet::new(range);
        let bits = bytes.iter().rev().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        set.taken.iter_mut().zip(bits).for_each(|(taken, bit)| *taken = bit);
        set
    }

    /// Bitmap as a big-endian number without leading zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        let byte =
            |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        let bytes = self.taken.chunks(8).map(byte).rev();
        bytes.skip_while(|byte| *byte == 0).collect()
    }

    pub fn has(&self, port: i64) -> bool {
        self.range.offset(port).and_then(|offset| self.taken.get(offset)) == Some(&true)
    }

    /// Allocates a port.
    pub fn take(&mut self, port: i64) -> Result<(), PortError> {
        let not_in_range = || PortError::NotInRange(self.range.to_string());
        let offset = self.range.offset(port).ok_or_else(not_in_range)?;
        match self.taken.get_mut(offset) {
            Some(taken) if !*taken => {
                *taken = true;
                Ok(())
            }
            _ => Err(PortError::Allocated),
        }
    }

    /// Allocates any port, preferably above the reserved ones.
    pub fn take_any(&mut self) -> Result<i64, PortError> {
        let reserved = self.range.reserved();
        let free = free_from(&self.taken, reserved..self.taken.len())
            .or_else(|| free_from(&self.taken, 0..reserved));
        let offset = free.ok_or(PortError::Full)?;
        let port = i64::from(self.range.base) + i64::try_from(offset).unwrap_or(0);
        self.take(port).map(|()| port)
    }

    pub fn release(&mut self, port: i64) {
        let taken = self.range.offset(port).and_then(|offset| self.taken.get_mut(offset));
        if let Some(taken) = taken {
            *taken = false;
        }
    }

    /// Allocated ports, in order.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let taken = (i64::from(self.range.base)..).zip(&self.taken).filter(|(_, taken)| **taken);
        taken.map(|(port, _)| port)
    }
}

/// Next free offset after a random one.
fn free_from(taken: &[bool], within: std::ops::Range<usize>) -> Option<usize> {
    let len = within.len();
    if len == 0 {
        return None;
    }
    let start = usize::try_from(super::random()).unwrap_or(0) % len;
    let places = (start..len).chain(0..start).map(|offset| within.start + offset);
    places.into_iter().find(|place| taken.get(*place) == Some(&false))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: PortRange = PortRange { base: 30000, size: 2768 };

    #[test]
    fn the_bytes_are_those_of_a_big_number() {
        let mut set = PortSet::new(RANGE);
        for (port, bytes) in [(30000, &[1][..]), (30003, &[9]), (30009, &[2, 9])] {
            set.take(port).unwrap();
            assert_eq!(set.to_bytes(), bytes, "{port}");
            assert_eq!(PortSet::from_bytes(RANGE, bytes), set);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [30000, 30003, 30009]);
        assert!(PortSet::new(RANGE).to_bytes().is_empty());
    }

    #[test]
    fn ports_outside_the_range_or_taken_are_refused() {
        let mut set = PortSet::new(RANGE);
        set.take(30000).unwrap();
        for (port, message) in [
            (30000, "provided port is already allocated"),
            (
                32768,
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            ),
        ] {
            assert_eq!(set.take(port).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn any_port_is_an_upper_one_while_there_are_some() {
        let mut set = PortSet::new(PortRange { base: 100, size: 20 });
        let upper: Vec<i64> = (0..4).map(|_| set.take_any().unwrap()).collect();
        assert!(upper.iter().all(|port| *port >= 116), "{upper:?}");
        let lower: Vec<i64> = (0..16).map(|_| set.take_any().unwrap()).collect();
        assert!(lower.iter().all(|port| *port < 116), "{lower:?}");
        assert_eq!(set.take_any(), Err(PortError::Full));
        set.release(107);
        assert_eq!(set.take_any(), Ok(107));
    }

    #[test]
    fn ranges_print_as_they_are_read() {
        for text in ["30000-32767", "80-80", "0-65535"] {
            assert_eq!(PortRange::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "1", "2-1", "1-65536"] {
            assert_eq!(PortRange::parse(text), None, "{text}");
        }
    }
}
