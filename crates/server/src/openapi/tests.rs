use super::*;
use crate::discovery::tests::rows as builtin_rows;

#[tokio::test]
async fn dump() {
    let tables = builtin_rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&tables.current())]);
    std::fs::create_dir_all("/tmp/disc/out").unwrap();
    let mut total = 0;
    let start = std::time::Instant::now();
    for name in names(&snapshot) {
        let made = make(&snapshot, &Document::V3(name.clone()));
        total += made.len();
        std::fs::write(format!("/tmp/disc/out/{}.json", name.replace('/', "__")), &made).unwrap();
    }
    eprintln!("v3 {total} bytes in {:?}", start.elapsed());
    let start = std::time::Instant::now();
    let made = make(&snapshot, &Document::V2Json);
    eprintln!("v2 {} bytes, packed {} in {:?}", made.len(), pack(&made).len(), start.elapsed());
    std::fs::write("/tmp/disc/out/swagger", &made).unwrap();
    let made = make(&snapshot, &Document::V2Protobuf);
    std::fs::write("/tmp/disc/out/swagger.pb", &made).unwrap();
}
