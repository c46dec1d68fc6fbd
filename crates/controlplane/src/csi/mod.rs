//! Storage drivers, the nodes that have them, and what they have left.

pub mod driver;
pub mod node;
pub mod storage_capacity;
