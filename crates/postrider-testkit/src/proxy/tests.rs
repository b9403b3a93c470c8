use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Fault, Proxy, Side};

/// Longer than anything in these tests takes.
const LONG: Duration = Duration::from_secs(20);

/// A server that echoes its input in capitals.
async fn shouting() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = [0; 100];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    bytes[..read].make_ascii_uppercase();
                    if stream.write_all(&bytes[..read]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

async fn connected() -> (Proxy, TcpStream) {
    let proxy = Proxy::to(shouting().await).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    (proxy, client)
}

async fn says(client: &mut TcpStream, text: &str) -> std::io::Result<String> {
    client.write_all(text.as_bytes()).await?;
    let mut answer = vec![0; text.len()];
    timeout(LONG, client.read_exact(&mut answer)).await.expect("an answer or an end")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn without_a_fault_everything_passes_in_both_directions() {
    let (proxy, mut client) = connected().await;
    assert_eq!(says(&mut client, "hello").await.unwrap(), "HELLO");
    let stats = proxy.stats();
    assert_eq!((stats.connections, stats.to_server, stats.to_client, stats.broken), (1, 5, 5, 0));
}

#[tokio::test]
async fn a_cut_closes_open_connections_and_no_later_ones() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    proxy.cut();
    proxy.wait_for(|stats| stats.broken == 1).await;
    says(&mut client, "b").await.unwrap_err();
    let mut next = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(says(&mut next, "c").await.unwrap(), "C");
}

#[tokio::test]
async fn refusing_closes_new_connections_and_keeps_open_ones() {
    let (proxy, mut open) = connected().await;
    says(&mut open, "a").await.unwrap();
    proxy.set(Fault::Refuse);
    if let Ok(mut new) = TcpStream::connect(proxy.address()).await {
        says(&mut new, "b").await.unwrap_err();
    }
    assert_eq!(says(&mut open, "c").await.unwrap(), "C");
}

#[tokio::test]
async fn a_delay_forwards_everything_later() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    let before = tokio::time::Instant::now();
    proxy.set(Fault::Delay(Duration::from_millis(50)));
    assert_eq!(says(&mut client, "b").await.unwrap(), "B");
    assert!(before.elapsed() >= Duration::from_millis(100), "each direction is late by the delay");
    assert_eq!(proxy.stats().delayed, 1, "the client's byte and not the answer");
}

#[tokio::test]
async fn a_blackhole_drops_everything_on_open_and_new_connections_until_it_ends() {
    let (proxy, mut open) = connected().await;
    says(&mut open, "a").await.unwrap();
    proxy.set(Fault::Blackhole);
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    new.write_all(b"bb").await.unwrap();
    open.write_all(b"ccc").await.unwrap();
    proxy.wait_for(|stats| stats.dropped == 5).await;
    assert_eq!(proxy.stats().to_server, 1);
    proxy.set(Fault::None);
    assert_eq!(says(&mut open, "d").await.unwrap(), "D");
    says(&mut new, "e").await.unwrap_err();
}

#[tokio::test]
async fn one_direction_can_be_dropped_while_the_other_works() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    proxy.set(Fault::DropFrom(Side::Server));
    client.write_all(b"bb").await.unwrap();
    proxy.wait_for(|stats| stats.dropped == 2).await;
    assert_eq!(proxy.stats().to_server, 3, "the server heard it");
    proxy.set(Fault::DropFrom(Side::Client));
    client.write_all(b"cc").await.unwrap();
    proxy.wait_for(|stats| stats.dropped == 4).await;
    assert_eq!(proxy.stats().to_server, 3, "the server did not hear it");
}

#[tokio::test]
async fn a_lost_response_follows_a_delivered_request_and_breaks_the_connection() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    proxy.set(Fault::LoseResponse);
    says(&mut client, "bb").await.unwrap_err();
    let stats = proxy.stats();
    assert_eq!((stats.to_server, stats.to_client, stats.dropped, stats.broken), (3, 1, 2, 1));
}

#[tokio::test]
async fn a_slow_network_delays_bytes_and_loses_none() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    let before = tokio::time::Instant::now();
    proxy.set(Fault::Slow { bytes_per_second: 100 });
    assert_eq!(says(&mut client, "twenty bytes of text").await.unwrap(), "TWENTY BYTES OF TEXT");
    assert!(before.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn the_connection_breaks_after_the_given_number_of_bytes() {
    let (proxy, mut client) = connected().await;
    proxy.set(Fault::CutAfter(Side::Client, 4));
    assert_eq!(says(&mut client, "abc").await.unwrap(), "ABC");
    says(&mut client, "defg").await.unwrap_err();
    assert_eq!(proxy.stats().to_server, 4);
}

#[tokio::test]
async fn a_redirected_proxy_keeps_open_connections_and_sends_new_ones_to_the_other_server() {
    let (proxy, mut open) = connected().await;
    says(&mut open, "a").await.unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    proxy.redirect_to(silent.local_addr().unwrap().port());
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut other, _) = timeout(LONG, silent.accept()).await.unwrap().unwrap();
    new.write_all(b"b").await.unwrap();
    let mut heard = [0; 1];
    timeout(LONG, other.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"b");
    assert_eq!(says(&mut open, "c").await.unwrap(), "C");
}

#[tokio::test]
async fn dropping_a_proxy_closes_its_connections() {
    let (proxy, mut client) = connected().await;
    says(&mut client, "a").await.unwrap();
    let address = proxy.address();
    drop(proxy);
    says(&mut client, "b").await.unwrap_err();
    timeout(LONG, async { while TcpStream::connect(address).await.is_ok() {} }).await.unwrap();
}
