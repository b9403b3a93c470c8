//! The temporary files of a run, mainly databases. In memory if there is enough: no promise is about a crash of the
//! machine, and writing many small files to a disk is slow.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The in-memory file system of Linux.
const MEMORY: &str = "/dev/shm";

/// Free memory that is required. The servers of four concurrent programs needed two GiB.
const FREE_MIN_KIB: u64 = 6 * 1024 * 1024;

/// Prefix of the folders of runs, followed by the process id: `postrider-4711`. Short, because sockets are in it.
const PREFIX: &str = "postrider-";

/// The folder of a run, which is deleted when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    root: PathBuf,
    given: usize,
}

impl Scratch {
    /// In `TMPDIR` if it is set, otherwise in memory, otherwise in the system's temporary folder.
    pub(super) fn new() -> Result<Self, String> {
        let memory = PathBuf::from(MEMORY);
        let chosen = std::env::var_os("TMPDIR").is_some();
        let parent = if !chosen && free_kib(&memory).is_some_and(|free| free >= FREE_MIN_KIB) {
            memory
        } else {
            std::env::temp_dir()
        };
        remove_abandoned(&parent);
        let root = parent.join(format!("{PREFIX}{}", std::process::id()));
        make(&root)?;
        Ok(Self { root, given: 0 })
    }

    /// Another folder, for one program.
    pub(super) fn folder(&mut self) -> Result<PathBuf, String> {
        self.given += 1;
        let folder = self.root.join(self.given.to_string());
        make(&folder)?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.root);
    }
}

/// Makes the folder writable for servers, which run as another account.
fn make(folder: &Path) -> Result<(), String> {
    let open = fs::Permissions::from_mode(0o1777);
    let made = fs::create_dir_all(folder).and_then(|()| fs::set_permissions(folder, open));
    made.map_err(|e| format!("no folder {}: {e}", folder.display()))
}

/// Deletes the folders of runs that were killed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn free_kib(folder: &Path) -> Option<u64> {
    let answer = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    available_kib(&String::from_utf8_lossy(&answer.stdout))
}

/// The fourth column of the second line of `df -Pk`.
fn available_kib(answer: &str) -> Option<u64> {
    answer.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_df() {
        let answer = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 24696060 34000 24662060 1% /dev/shm\n";
        assert_eq!(available_kib(answer), Some(24_662_060));
        assert_eq!(available_kib(""), None);
    }
}
