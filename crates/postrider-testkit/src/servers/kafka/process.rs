//! Whether the server answers, and how much memory it uses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Asks for the cluster's brokers (Metadata, version 7, no topics). A broker accepts requests soon after its start, but
/// clients can use it only when it lists itself, which the controller decides.
pub(super) fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<[u8; 16]> {
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        server.set_read_timeout(Some(Duration::from_secs(5)))?;
        // Length 15, API key 3, version 7, correlation 1, no client id, no topics, create none.
        server.write_all(&[0, 0, 0, 15, 0, 3, 0, 7, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0])?;
        let mut answer = [0; 16];
        server.read_exact(&mut answer)?;
        Ok(answer)
    };
    // Length, correlation, throttle time, number of brokers.
    ask().is_ok_and(|answer| answer[4..8] == [0, 0, 0, 1] && answer[12..] == [0, 0, 0, 1])
}

/// The peak memory usage of a process.
pub(super) fn memory_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
