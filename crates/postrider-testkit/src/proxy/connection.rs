//! One connection: two directions that end together.

use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::listen::reset;
use super::{Control, Fault, Side};

/// The size of the buffer.
const CHUNK_BYTES: usize = 16 * 1024;

/// How a connection ended.
enum End {
    /// One side closed it.
    Closed,
    /// A fault or a cut.
    Broken,
}

/// Forwards one client's connection until it ends.
pub(super) async fn run(mut client: TcpStream, control: Arc<Control>) {
    let end = carry(&mut client, &control).await;
    if !matches!(end, Ok(End::Closed)) {
        reset(&client);
        drop(client);
        control.stats.send_modify(|stats| stats.broken += 1);
    }
}

async fn carry(client: &mut TcpStream, control: &Control) -> Result<End> {
    let (mut cuts, mut fault) = (control.cuts.subscribe(), control.fault.subscribe());
    let began = *cuts.borrow_and_update();
    let is_cut = |cuts: &u64| *cuts != began;
    if *fault.borrow_and_update() == Fault::Blackhole {
        return tokio::select! {
            _ = cuts.wait_for(is_cut) => Ok(End::Broken),
            end = drop_bytes(client, &mut fault, control) => end,
        };
    }
    let server_port = control.server_port.load(Ordering::Relaxed);
    let mut server = TcpStream::connect(("127.0.0.1", server_port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let end = {
        let (client_out, client_in) = client.split();
        let (server_out, server_in) = server.split();
        tokio::select! {
            _ = cuts.wait_for(is_cut) => Ok(End::Broken),
            end = pass(Side::Client, client_out, server_in, control) => end,
            end = pass(Side::Server, server_out, client_in, control) => end,
        }
    };
    if !matches!(end, Ok(End::Closed)) {
        reset(&server);
    }
    end
}

/// Reads and drops what a client sends until the fault changes, then resets the connection: the server knows nothing
/// about it.
async fn drop_bytes(
    client: &mut TcpStream,
    fault: &mut watch::Receiver<Fault>,
    control: &Control,
) -> Result<End> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        tokio::select! {
            _ = fault.wait_for(|fault| *fault != Fault::Blackhole) => return Ok(End::Broken),
            read = client.read(&mut chunk) => match read? {
                0 => return Ok(End::Closed),
                read => control.stats.send_modify(|stats| stats.dropped += read as u64),
            },
        }
    }
}

/// Forwards the data of one side, according to the current fault.
async fn pass(from: Side, mut out: ReadHalf<'_>, mut to: WriteHalf<'_>, control: &Control) -> Result<End> {
    let mut chunk = vec![0; CHUNK_BYTES];
    // The fault of the previous bytes, and how many of them it let pass.
    let (mut last, mut passed) = (Fault::None, 0);
    loop {
        let read = out.read(&mut chunk).await?;
        if read == 0 {
            return Ok(End::Closed);
        }
        let fault = *control.fault.borrow();
        if fault != last {
            (last, passed) = (fault, 0);
        }
        let bytes = &chunk[..read];
        match fault {
            Fault::Blackhole => control.dropped(read),
            Fault::DropFrom(side) if side == from => control.dropped(read),
            Fault::LoseResponse if from == Side::Server => {
                control.dropped(read);
                return Ok(End::Broken);
            }
            Fault::CutAfter(side, bytes_max) if side == from => {
                let room = usize::try_from(bytes_max.saturating_sub(passed)).unwrap_or(usize::MAX).min(read);
                to.write_all(&bytes[..room]).await?;
                control.passed(from, room);
                passed += room as u64;
                if passed == bytes_max {
                    return Ok(End::Broken);
                }
            }
            Fault::Slow { bytes_per_second } => {
                // The bytes of a tenth of a second.
                let rate = bytes_per_second.max(1);
                for slice in bytes.chunks(rate.div_ceil(10) as usize) {
                    tokio::time::sleep(Duration::from_secs(slice.len() as u64) / rate).await;
                    to.write_all(slice).await?;
                    control.passed(from, slice.len());
                }
            }
            _ => {
                if let Fault::Delay(delay) = fault {
                    control.delayed(from, read);
                    tokio::time::sleep(delay).await;
                }
                to.write_all(bytes).await?;
                control.passed(from, read);
            }
        }
    }
}

impl Control {
    fn passed(&self, from: Side, bytes: usize) {
        self.stats.send_modify(|stats| match from {
            Side::Client => stats.to_server += bytes as u64,
            Side::Server => stats.to_client += bytes as u64,
        });
    }

    fn delayed(&self, from: Side, bytes: usize) {
        if from == Side::Client {
            self.stats.send_modify(|stats| stats.delayed += bytes as u64);
        }
    }

    fn dropped(&self, bytes: usize) {
        self.stats.send_modify(|stats| stats.dropped += bytes as u64);
    }
}
