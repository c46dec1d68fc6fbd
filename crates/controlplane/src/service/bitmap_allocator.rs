//! Allocator of cluster IPs in one network by a stored bitmap, which servers before `MultiCIDRServiceAllocator` share
//! (upstream: ipallocator.Range).

use std::net::IpAddr;
use std::sync::Arc;

use kevel_registry::storage::Storage;
use kevel_store::Revision;

use super::ip_allocator::IpError;
use super::ip_range::IpRange;
use super::range_object::{RangeError, RangeObject, StoredRange};

/// Most addresses of a network that a bitmap has: those of a /16.
const MOST: usize = 1 << 16;

/// Names of the objects of the first and the second network.
const NAMES: [&str; 2] = ["serviceips", "secondaryserviceips"];

/// Allocator of the addresses of a network.
pub(super) struct BitmapAllocator {
    text: String,
    range: IpRange,
    object: RangeObject,
}

/// Addresses of a network, each allocated or free, in the order of the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpBitmap(Vec<bool>);

/// Stored bitmap with its revision.
pub(super) struct StoredBitmap {
    pub(super) bitmap: IpBitmap,
    pub(super) revision: Revision,
}

impl From<RangeError> for IpError {
    fn from(error: RangeError) -> Self {
        IpError::Other(error.to_string())
    }
}

impl BitmapAllocator {
    /// Allocators of the networks of `--service-cluster-ip-range`, one or two.
    pub(super) fn of(networks: &[String], storage: &Arc<Storage>) -> Vec<Self> {
        let named = networks.iter().zip(NAMES);
        let allocator = |(text, name): (&String, &'static str)| {
            let range = IpRange::parse(text)?;
            let object = RangeObject::new(storage.clone(), name, "serviceipallocations");
            Some(BitmapAllocator { text: text.clone(), range, object })
        };
        named.filter_map(allocator).collect()
    }

    pub(super) fn range(&self) -> &IpRange {
        &self.range
    }

    /// Bitmap in which every address is free.
    pub(super) fn empty(&self) -> IpBitmap {
        IpBitmap(vec![false; self.range.len(MOST)])
    }

    /// Position of an address in the bitmap.
    pub(super) fn offset(&self, ip: IpAddr) -> Option<usize> {
        self.range.offset(ip).filter(|offset| *offset < self.range.len(MOST))
    }

    /// Address at a position of the bitmap.
    pub(super) fn address(&self, offset: usize) -> IpAddr {
        self.range.at(offset)
    }

    /// Allocates an address.
    pub(super) async fn take(&self, ip: IpAddr) -> Result<(), IpError> {
        let not_in_range = || IpError::NotInRange(ip, self.text.clone());
        let offset = self.offset(ip).ok_or_else(not_in_range)?;
        let taken = self
            .change(|bitmap| if bitmap.take(offset) { Ok(()) } else { Err(IpError::Allocated) });
        taken.await
    }

    /// Allocates any address, preferably above the reserved ones.
    pub(super) async fn take_any(&self) -> Result<IpAddr, IpError> {
        let reserved = self.range.reserved();
        let offset = self.change(|bitmap| bitmap.take_any(reserved).ok_or(IpError::Full)).await?;
        Ok(self.address(offset))
    }

    /// Releases an address. The repair controller releases addresses for which this fails.
    pub(super) async fn release(&self, ip: IpAddr) {
        let Some(offset) = self.offset(ip) else { return };
        let released = self.change(|bitmap| {
            bitmap.release(offset);
            Ok(())
        });
        if let Err(error) = released.await {
            tracing::warn!(%ip, %error, "a cluster IP was not released");
        }
    }

    /// Makes an empty bitmap if there is none: nothing can be allocated without.
    pub(super) async fn ensure(&self) -> Result<(), RangeError> {
        if self.object.read().await?.is_none() {
            self.replace(&self.empty(), None).await?;
        }
        Ok(())
    }

    /// Reads the stored bitmap; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<StoredBitmap>, RangeError> {
        let Some(stored) = self.object.read().await? else { return Ok(None) };
        let bitmap = self.empty().with(&stored.bits);
        Ok(Some(StoredBitmap { bitmap, revision: stored.revision }))
    }

    /// Replaces the bitmap of a revision, or creates it; `false` if another write came first.
    pub(super) async fn replace(
        &self,
        bitmap: &IpBitmap,
        expected: Option<Revision>,
    ) -> Result<bool, RangeError> {
        self.object.replace(&self.text, &bitmap.to_bytes(), expected).await
    }

    async fn change<T: Send>(
        &self,
        mut change: impl FnMut(&mut IpBitmap) -> Result<T, IpError> + Send,
    ) -> Result<T, IpError> {
        let change = |stored: &StoredRange| {
            if stored.range != self.text {
                return Err(RangeError::Mismatch.into());
            }
            let mut bitmap = self.empty().with(&stored.bits);
            let value = change(&mut bitmap)?;
            Ok((bitmap.to_bytes(), value))
        };
        self.object.change(change).await
    }
}

impl IpBitmap {
    /// The addresses with those of a stored bitmap allocated.
    fn with(mut self, bytes: &[u8]) -> Self {
        let bits = bytes.iter().rev().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        self.0.iter_mut().zip(bits).for_each(|(taken, bit)| *taken = bit);
        self
    }

    /// Big-endian number without leading zeros, whose lowest bit is the first address.
    fn to_bytes(&self) -> Vec<u8> {
        let byte =
            |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).rev().skip_while(|byte| *byte == 0).collect()
    }

    pub(super) fn has(&self, offset: usize) -> bool {
        self.0.get(offset) == Some(&true)
    }

    /// Allocates an address; `false` if it is not free.
    pub(super) fn take(&mut self, offset: usize) -> bool {
        let free = self.0.get_mut(offset).filter(|taken| !**taken);
        free.map(|taken| *taken = true).is_some()
    }

    pub(super) fn release(&mut self, offset: usize) {
        if let Some(taken) = self.0.get_mut(offset) {
            *taken = false;
        }
    }

    /// Positions of allocated addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter(|(_, taken)| **taken).map(|(offset, _)| offset)
    }

    fn take_any(&mut self, reserved: usize) -> Option<usize> {
        let reserved = reserved.min(self.0.len());
        let free = free_from(&self.0, reserved..self.0.len());
        let offset = free.or_else(|| free_from(&self.0, 0..reserved))?;
        self.take(offset).then_some(offset)
    }
}

/// A free position within bounds, searched from a random one on.
fn free_from(taken: &[bool], bounds: std::ops::Range<usize>) -> Option<usize> {
    let size = bounds.len();
    let start = usize::try_from(super::random()).unwrap_or(0).checked_rem(size)?;
    let positions = (0..size).map(|step| bounds.start + (start + step) % size);
    positions.into_iter().find(|position| taken.get(*position) == Some(&false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_have_the_form_that_the_reference_stores() {
        let mut bitmap = IpBitmap(vec![false; 20]);
        assert_eq!(bitmap.to_bytes(), [0u8; 0]);
        for offset in [0, 9, 17] {
            assert!(bitmap.take(offset) && !bitmap.take(offset));
        }
        assert_eq!(bitmap.to_bytes(), [0b10, 0b10, 0b1]);
        let read = IpBitmap(vec![false; 20]).with(&bitmap.to_bytes());
        assert_eq!(read.iter().collect::<Vec<_>>(), [0, 9, 17]);
        assert_eq!(read, bitmap);
    }

    #[test]
    fn reserved_addresses_are_allocated_last() {
        let mut bitmap = IpBitmap(vec![false; 6]);
        let taken: Vec<usize> = std::iter::from_fn(|| bitmap.take_any(2)).collect();
        assert_eq!(taken.len(), 6);
        assert!(taken[..4].iter().all(|offset| *offset >= 2), "{taken:?}");
        bitmap.release(5);
        assert_eq!(bitmap.take_any(2), Some(5));
    }
}
