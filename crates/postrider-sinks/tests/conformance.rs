//! Every sink passes the same suite.

#![cfg(test)]

mod null {
    use std::sync::Arc;

    use postrider::BoxFuture;
    use postrider::sink::Sink;
    use postrider_sinks::Null;
    use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};

    struct Fixture(Arc<Null>);

    impl SinkUnderTest for Fixture {
        async fn fresh() -> Self {
            Self(Arc::new(Null::new()))
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::clone(&self.0) as _
        }

        /// A sink that stores nothing.
        fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
            Box::pin(std::future::ready(Hook::NotSupported))
        }
    }

    postrider_testkit::sink_conformance!(Fixture);

    #[tokio::test]
    async fn the_null_sink_counts_the_messages_it_discards() {
        let fixture = Fixture::fresh().await;
        let batch = postrider_testkit::conformance::sink::batch("a", 0..3);
        fixture.sink().publish(&batch).await;
        let bytes: usize = batch.iter().map(|message| message.body.len()).sum();
        assert_eq!((fixture.0.messages(), fixture.0.bytes()), (3, bytes as u64));
    }
}

mod stdout {
    use std::fs::File;
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use postrider::BoxFuture;
    use postrider::sink::Sink;
    use postrider_sinks::Stdout;
    use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
    use tempfile::NamedTempFile;

    /// Standard output redirected to a file, on a disk that can be full.
    struct Fixture {
        output: NamedTempFile,
        room: Arc<AtomicUsize>,
        sink: Arc<Stdout>,
    }

    struct Output {
        file: File,
        /// The free space of the disk, in bytes.
        room: Arc<AtomicUsize>,
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = self.room.load(Ordering::SeqCst).min(bytes.len());
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = self.file.write(&bytes[..fits])?;
            self.room.fetch_sub(written, Ordering::SeqCst);
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    impl SinkUnderTest for Fixture {
        async fn fresh() -> Self {
            let output = NamedTempFile::new().unwrap();
            let room = Arc::new(AtomicUsize::new(usize::MAX));
            let file = output.reopen().unwrap();
            let sink = Arc::new(Stdout::to(Output { file, room: Arc::clone(&room) }).unwrap());
            Self { output, room, sink }
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::clone(&self.sink) as _
        }

        fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
            Box::pin(async { Hook::Done(Seen::lines(&std::fs::read(self.output.path()).unwrap())) })
        }

        fn refused_body(&self) -> Hook<Bytes> {
            Hook::Done("no\njson".into())
        }

        /// A disk becomes full in the middle of a line.
        fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
            self.room.store(if down { 7 } else { usize::MAX }, Ordering::SeqCst);
            Box::pin(std::future::ready(Hook::Done(())))
        }
    }

    postrider_testkit::sink_conformance!(Fixture);
}

mod file {
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;

    use bytes::Bytes;
    use postrider::BoxFuture;
    use postrider::sink::Sink;
    use postrider_sinks::file::{File, FileConfig};
    use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
    use tempfile::TempDir;

    /// A file in a new folder, without or with rotation.
    struct Fixture<const ROTATE_BYTES: u64> {
        folder: TempDir,
        sink: Arc<File>,
    }

    impl<const ROTATE_BYTES: u64> Fixture<ROTATE_BYTES> {
        fn path(&self, suffix: &str) -> PathBuf {
            self.folder.path().join(format!("events.jsonl{suffix}"))
        }
    }

    impl<const ROTATE_BYTES: u64> SinkUnderTest for Fixture<ROTATE_BYTES> {
        async fn fresh() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let config = FileConfig::new(folder.path().join("events.jsonl")).rotate_bytes(ROTATE_BYTES);
            Self { folder, sink: Arc::new(File::open(&config).unwrap()) }
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::clone(&self.sink) as _
        }

        fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
            Box::pin(async {
                let mut text = Vec::new();
                let aside =
                    (1..).map(|number| self.path(&format!(".{number}"))).take_while(|path| path.exists());
                for path in aside.chain([self.path("")]) {
                    text.extend(fs::read(path).unwrap());
                }
                Hook::Done(Seen::lines(&text))
            })
        }

        fn refused_body(&self) -> Hook<Bytes> {
            Hook::Done("no\njson".into())
        }

        /// Replaces the file with a folder: not even root can append to that.
        fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
            let (path, kept) = (self.path(""), self.path(".kept"));
            if down {
                fs::rename(&path, kept).unwrap();
                fs::create_dir(path).unwrap();
            } else {
                fs::remove_dir(&path).unwrap();
                fs::rename(kept, path).unwrap();
            }
            Box::pin(std::future::ready(Hook::Done(())))
        }
    }

    mod growing {
        postrider_testkit::sink_conformance!(super::Fixture<{ u64::MAX }>);
    }

    mod rotated {
        postrider_testkit::sink_conformance!(super::Fixture<100>);
    }
}
