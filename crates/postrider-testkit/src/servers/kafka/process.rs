//! Whether the server answers, and how much memory it uses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Sends an ApiVersions request, version 0. A broker accepts requests only after it has started.
pub(super) fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<[u8; 10]> {
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        // Length 10, API key 18, version 0, correlation 1, no client id.
        server.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])?;
        let mut answer = [0; 10];
        server.read_exact(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer[4..] == [0, 0, 0, 1, 0, 0])
}

/// The peak memory usage of a process.
pub(super) fn memory_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
