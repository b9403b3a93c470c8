//! Readiness when the server goes away under a running relay.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Shop, config};
use crate::http::{free, get};
use crate::program::Program;
use crate::shop::{Running, until};

/// Forwards connections to a server until it is cut.
struct Wire {
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    port: u16,
}

impl Wire {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_cut, streams) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (cut, open) = (is_cut.clone(), streams.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let server = TcpStream::connect(&server).unwrap();
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                pass(client.try_clone().unwrap(), server.try_clone().unwrap());
                pass(server, client);
            }
        });
        Self { is_cut, streams, port }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn a_relay_is_not_ready_while_its_database_is_lost_and_ready_again_afterwards() {
    let Some(shop) = Shop::new() else { return };
    shop.ready();
    let (front, name) = shop.url.rsplit_once('/').unwrap();
    let wire = Wire::to(front.rsplit_once('@').unwrap().1.to_owned());
    let url = format!("postgres://postgres@127.0.0.1:{}/{name}", wire.port);
    let address = free();
    let program = Program::with_config(&format!("[http]\nlisten = '{address}'\n{}", config(&url)));
    let mut command = program.command(&["relay", "--set", "subscription.orders.lease=1s"]);
    command.stderr(Stdio::null());
    let _relay = Running::start(command);
    until(|| (get(address, "/readyz")?.0 == 200).then_some(()));
    wire.cut();
    let body = until(|| {
        let (status, body) = get(address, "/readyz")?;
        (status == 503).then_some(body)
    });
    assert!(body.contains("database"), "{body}");
    assert_eq!(get(address, "/livez").unwrap().0, 200, "the process is not restarted for it");
    assert_eq!(program.run(&["healthcheck"]).exit, Some(1));
    wire.mend();
    until(|| (get(address, "/readyz")?.0 == 200).then_some(()));
}
