use std::fs;
use std::io::Write;

use super::*;

fn log(config: &FileConfig) -> Log {
    Log::open(config, |file| Box::new(file)).unwrap()
}

struct LogFolder {
    config: FileConfig,
    folder: tempfile::TempDir,
}

fn log_folder() -> LogFolder {
    let folder = tempfile::tempdir().unwrap();
    LogFolder { config: FileConfig::new(folder.path().join("events.jsonl")), folder }
}

impl LogFolder {
    fn text(&self, suffix: &str) -> String {
        fs::read_to_string(with_suffix(&self.config.path, suffix)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

#[test]
fn a_reopened_file_is_continued() {
    let folder = log_folder();
    log(&folder.config).append(b"1\n").unwrap();
    log(&folder.config).append(b"2\n").unwrap();
    assert_eq!(folder.text(""), "1\n2\n");
}

#[test]
fn a_partial_line_at_the_end_is_removed_at_open() {
    let long = "x".repeat(200_000);
    for (left, kept) in [("1\n2", "1\n"), ("1\n", "1\n"), ("half", ""), ("", ""), (&long, "")] {
        let folder = log_folder();
        fs::write(&folder.config.path, left).unwrap();
        log(&folder.config).append(b"new\n").unwrap();
        assert_eq!(folder.text(""), format!("{kept}new\n"));
    }
    let folder = log_folder();
    fs::write(&folder.config.path, format!("{long}\n{long}")).unwrap();
    log(&folder.config);
    assert_eq!(folder.text(""), format!("{long}\n"));
}

#[test]
fn a_partial_line_of_another_process_is_removed_at_the_next_batch() {
    let folder = log_folder();
    let mut log = log(&folder.config);
    log.append(b"1\n").unwrap();
    OpenOptions::new().append(true).open(&folder.config.path).unwrap().write_all(b"2\nha").unwrap();
    log.append(b"3\n").unwrap();
    assert_eq!(folder.text(""), "1\n2\n3\n");
}

#[test]
fn the_file_is_rotated_before_it_grows_too_large() {
    let folder = log_folder();
    let config = folder.config.clone().rotate_bytes(4);
    let mut first = log(&config);
    for batch in [&b"1\n"[..], b"2\n", b"3\n", b"larger than the limit\n"] {
        first.append(batch).unwrap();
    }
    // Another process continues with the next number.
    log(&config).append(b"5\n").unwrap();
    assert_eq!(
        folder.names(),
        ["events.jsonl", "events.jsonl.1", "events.jsonl.2", "events.jsonl.3", "events.jsonl.lock"]
    );
    assert_eq!(
        [".1", ".2", ".3", ""].map(|s| folder.text(s)),
        ["1\n2\n", "3\n", "larger than the limit\n", "5\n"]
    );
    // The first process notices that its file was rotated.
    first.append(b"6\n").unwrap();
    assert_eq!(folder.text(""), "5\n6\n");
}

#[test]
fn a_rotation_number_is_never_used_twice() {
    let folder = log_folder();
    fs::write(with_suffix(&folder.config.path, ".9"), "old").unwrap();
    fs::write(with_suffix(&folder.config.path, ".old"), "old").unwrap();
    let mut log = log(&folder.config.clone().rotate_bytes(1));
    log.append(b"1\n").unwrap();
    log.append(b"2\n").unwrap();
    assert_eq!(folder.text(".10"), "1\n");
}

#[test]
fn a_deleted_file_is_created_again() {
    let folder = log_folder();
    let mut log = log(&folder.config);
    log.append(b"1\n").unwrap();
    fs::remove_file(&folder.config.path).unwrap();
    log.append(b"2\n").unwrap();
    assert_eq!(folder.text(""), "2\n");
}

/// A disk that is full after ten bytes.
struct Full(File);

impl LogFile for Full {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = 10 - self.0.metadata()?.len() as usize;
        self.0.write_all(&bytes[..room.min(bytes.len())])?;
        if bytes.len() > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[test]
fn a_full_disk_leaves_no_partial_line_and_freed_space_is_used() {
    let folder = log_folder();
    let mut log = Log::open(&folder.config, |file| Box::new(Full(file))).unwrap();
    log.append(b"1234\n").unwrap();
    let broken = log.append(b"678901\n").unwrap_err();
    assert!(
        matches!(&broken, AppendError::Unchanged(e) if e.kind() == io::ErrorKind::StorageFull),
        "{broken:?}"
    );
    assert_eq!(folder.text(""), "1234\n");
    log.append(b"678\n").unwrap();
    assert_eq!(folder.text(""), "1234\n678\n");
}

/// A disk whose sync fails.
struct Unsynced(File);

impl LogFile for Unsynced {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::Error::other("I/O error"))
    }
}

#[test]
fn a_failed_sync_makes_the_outcome_ambiguous() {
    let folder = log_folder();
    let mut log = Log::open(&folder.config, |file| Box::new(Unsynced(file))).unwrap();
    let broken = log.append(b"1\n").unwrap_err();
    assert!(matches!(broken, AppendError::Unknown(_)), "{broken:?}");
}

#[cfg(unix)]
#[test]
fn new_files_are_private_and_a_rotated_file_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = log_folder();
    let mode = |suffix: &str| {
        fs::metadata(with_suffix(&folder.config.path, suffix)).unwrap().permissions().mode() & 0o777
    };
    let config = folder.config.clone().rotate_bytes(2);
    let mut log = log(&config);
    log.append(b"1\n").unwrap();
    assert_eq!((mode(""), mode(".lock")), (0o600, 0o600));
    fs::set_permissions(&folder.config.path, fs::Permissions::from_mode(0o640)).unwrap();
    log.append(b"2\n").unwrap();
    assert_eq!((mode(""), mode(".1"), folder.text("")), (0o640, 0o640, "2\n".into()));
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = log_folder();
    let other = folder.folder.path().join("other");
    for suffix in [".lock", ""] {
        let link = with_suffix(&folder.config.path, suffix);
        // To an existing file, and to one that would be created.
        for there in [true, false] {
            if there {
                fs::write(&other, "kept\n").unwrap();
            }
            std::os::unix::fs::symlink(&other, &link).unwrap();
            let error = Log::open(&folder.config, |file| Box::new(file)).err().unwrap();
            assert!(error.to_string().contains("symbolic link"), "{error}");
            assert_eq!(fs::read_to_string(&other).ok(), there.then(|| "kept\n".into()));
            fs::remove_file(&link).unwrap();
            let _ = fs::remove_file(&other);
        }
    }
    // A link that is created while the log is open.
    let mut log = log(&folder.config);
    log.append(b"1\n").unwrap();
    fs::remove_file(&folder.config.path).unwrap();
    fs::write(&other, "kept\n").unwrap();
    std::os::unix::fs::symlink(&other, &folder.config.path).unwrap();
    assert!(matches!(log.append(b"2\n"), Err(AppendError::Unchanged(_))));
    assert_eq!(fs::read_to_string(&other).unwrap(), "kept\n");
}
