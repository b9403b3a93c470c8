//! The limit: the client of Redis alone, with pipelines of `XADD` and the same entries.

use redis::aio::MultiplexedConnection;
use redis::{Client, Pipeline};
use tokio::task::JoinSet;

use crate::machine::Meter;
use crate::records::Record;
use crate::{Error, Usage};

/// Entries per pipeline, as many as a script of the sink has.
const PIPELINE_ENTRIES: usize = 500;
/// As many as the relay has batches in flight.
const PIPELINES_IN_FLIGHT: usize = 4;

/// Adds all records to a stream and waits for the last reply.
pub(crate) async fn alone(address: &str, stream: &str, records: &[Record]) -> Result<Usage, Error> {
    let mut server = connect(address).await?;
    server.set_response_timeout(std::time::Duration::from_secs(60));
    let meter = Meter::start();
    let mut in_flight = JoinSet::new();
    for part in records.chunks(PIPELINE_ENTRIES) {
        if in_flight.len() == PIPELINES_IN_FLIGHT
            && let Some(added) = in_flight.join_next().await
        {
            added??;
        }
        let (mut server, pipeline) = (server.clone(), pipeline(stream, part));
        in_flight.spawn(async move { pipeline.exec_async(&mut server).await });
    }
    while let Some(added) = in_flight.join_next().await {
        added??;
    }
    Ok(meter.stop())
}

fn pipeline(stream: &str, records: &[Record]) -> Pipeline {
    let mut pipeline = redis::pipe();
    for Record { key, body, headers } in records {
        let command = pipeline.cmd("XADD").arg(stream).arg("*");
        if let Some(key) = key {
            command.arg("key").arg(key);
        }
        command.arg("body").arg(&body[..]);
        for (name, value) in headers {
            command.arg(name).arg(value);
        }
        command.ignore();
    }
    pipeline
}

/// Deletes a stream. Returns how many entries it had.
pub(crate) async fn remove(address: &str, stream: &str) -> Result<u64, Error> {
    let mut server = connect(address).await?;
    let entries: u64 = redis::cmd("XLEN").arg(stream).query_async(&mut server).await?;
    redis::cmd("UNLINK").arg(stream).exec_async(&mut server).await?;
    Ok(entries)
}

async fn connect(address: &str) -> Result<MultiplexedConnection, Error> {
    Ok(Client::open(format!("redis://{address}"))?.get_multiplexed_async_connection().await?)
}
