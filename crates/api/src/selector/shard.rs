//! Shard selectors: the part of a collection whose hashed field lies in ranges (upstream: `sharding.Selector`).

use std::fmt;

/// Selector of objects by the hash of one of their fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    /// The hashed field.
    pub field: ShardField,
    /// The ranges, of which one must hold the hash.
    pub ranges: Vec<ShardRange>,
}

/// Field that shards go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `metadata.uid`
    Uid,
    /// `metadata.namespace`
    Namespace,
}

/// Range of hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShardRange {
    /// First hash.
    pub start: u64,
    /// First hash behind the range: at most 2^64.
    pub end: u128,
}

impl ShardSelector {
    /// Whether an object is selected, by its field's value.
    ///
    /// ```
    /// use kevel_api::selector::shard::{ShardField, ShardRange, ShardSelector};
    /// let ranges = vec![ShardRange { start: 1 << 63, end: 1 << 64 }];
    /// let upper = ShardSelector { field: ShardField::Namespace, ranges };
    /// assert!(upper.selects("default") && !upper.selects("kube-node-lease"));
    /// ```
    pub fn selects(&self, value: &str) -> bool {
        let hash = fnv_1a(value.as_bytes());
        let holds = |range: &ShardRange| hash >= range.start && u128::from(hash) < range.end;
        self.ranges.iter().any(holds)
    }
}

impl ShardField {
    /// Path of the field in expressions.
    pub fn path(self) -> &'static str {
        match self {
            ShardField::Uid => "object.metadata.uid",
            ShardField::Namespace => "object.metadata.namespace",
        }
    }
}

impl fmt::Display for ShardSelector {
    /// Formats the selector as the expression that selects the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, ShardRange { start, end }) in self.ranges.iter().enumerate() {
            let or = if position > 0 { " || " } else { "" };
            let path = self.field.path();
            write!(f, "{or}shardRange({path}, '0x{start:016x}', '0x{end:016x}')")?;
        }
        Ok(())
    }
}

/// The hash FNV-1a with 64 bits.
fn fnv_1a(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        // Published test vectors of the hash.
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv_1a(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn ranges_exclude_their_end_and_print_as_expressions() {
        let hash = fnv_1a(b"a");
        let selector = |start, end| ShardSelector {
            field: ShardField::Uid,
            ranges: vec![ShardRange { start: 0, end: 1 }, ShardRange { start, end }],
        };
        let end = u128::from(hash);
        assert!(selector(hash, end + 1).selects("a"));
        assert!(!selector(0, end).selects("a"));
        assert!(selector(hash, 1 << 64).selects("a"));
        assert_eq!(
            selector(hash, 1 << 64).to_string(),
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001') || \
             shardRange(object.metadata.uid, '0xaf63dc4c8601ec8c', '0x10000000000000000')"
        );
    }
}
