//! The README's example works as the README describes.

use std::process::{Command, Stdio};

use super::examples::program;
use super::shop::wait_for;

#[test]
fn the_example_of_the_readme_delivers_its_order_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut example = Command::new(program("readme"))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("the example `readme` is built");
    let events = || std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap_or_default();
    let delivered = wait_for(|| events().contains("\"type\":\"order.placed\""));
    example.kill().unwrap();
    example.wait().unwrap();
    assert!(delivered, "{:?}", events());
    assert!(events().contains("\"payload\":{\"order\":1,\"cents\":4200}"), "{}", events());
}
