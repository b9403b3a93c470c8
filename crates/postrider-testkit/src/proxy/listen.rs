//! Accepts and refuses connections.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Control, Fault, connection};

/// Listens, and serves every connection in its own task.
pub(super) async fn start(control: Arc<Control>) -> Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listening = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            control.stats.send_modify(|stats| stats.connections += 1);
            let fault = *control.fault.borrow();
            if fault == Fault::Refuse {
                reset(&client);
                control.stats.send_modify(|stats| stats.broken += 1);
                continue;
            }
            tokio::spawn(connection::run(client, control.clone()));
        }
    });
    Ok((address, listening))
}

/// Closes a connection with a reset when it is dropped.
pub(super) fn reset(stream: &TcpStream) {
    _ = stream.set_zero_linger();
}
