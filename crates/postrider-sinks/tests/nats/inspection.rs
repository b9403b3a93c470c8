//! What `doctor` can see.

use postrider_sinks::nats::Storage;
use postrider_testkit::servers::nats::shared;

use super::stream::{config, name, open};

#[tokio::test]
async fn an_inspection_finds_a_missing_stream_and_one_in_memory() {
    let Some(server) = shared() else { return };
    let (file, memory, missing) = (name("file"), name("memory"), name("missing"));
    server.create_stream(&file, &file, &[]);
    server.create_stream(&memory, &memory, &["storage=\"memory\""]);
    for (stream, expected) in
        [(&file, Some(Storage::File)), (&memory, Some(Storage::Memory)), (&missing, None)]
    {
        let found = open(&config(server, stream)).inspect().await.unwrap();
        assert_eq!(found.stream.as_ref().map(|stream| stream.storage), expected);
        if let Some(found) = found.stream {
            assert_eq!((found.replicas, &found.subjects), (1, &vec![stream.clone()]));
            assert!(!found.never_acknowledges && found.age_max.is_none());
        }
    }
}
