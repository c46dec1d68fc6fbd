//! stub
use crate::Result;
/// x
pub async fn run() -> Result<bool> {
    Ok(true)
}
