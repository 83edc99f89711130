//! Where connections come in: TCP, TLS, and a socket of the file system.

use super::connection::serve;
use super::{Server, background, metrics};
use crate::cluster;
use crate::failure::{Failure, Outcome};
use crate::replication;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinHandle;

/// A server that takes connections.
pub struct Listening {
    /// The server.
    pub server: Arc<Server>,
    /// Addresses of plain TCP.
    pub addresses: Vec<SocketAddr>,
    /// Addresses of TLS.
    pub tls_addresses: Vec<SocketAddr>,
    /// Addresses that answer Prometheus and browsers.
    pub metrics_addresses: Vec<SocketAddr>,
    unix_socket: Option<PathBuf>,
    tasks: Vec<JoinHandle<()>>,
}

impl Listening {
    /// Waits until the server is told to stop and its connections have ended, and closes the store.
    ///
    /// # Errors
    /// Those of the store's last sync.
    pub async fn wait(self) -> Outcome {
        const PATIENCE: Duration = Duration::from_secs(10);
        let mut stopping = self.server.stopping();
        // An error means that the server is gone.
        let _ = stopping.wait_for(|stops| *stops).await;
        self.tasks.iter().for_each(JoinHandle::abort);
        let began = Instant::now();
        while !self.server.clients.is_empty() && began.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if let Some(path) = &self.unix_socket {
            // Who comes next would wait for nobody.
            let _ = std::fs::remove_file(path);
        }
        let server = Arc::clone(&self.server);
        let closed = tokio::task::spawn_blocking(move || server.store().db.clone().close());
        closed.await.map_err(Failure::new)??;
        Ok(())
    }
}

async fn bind(server: &Server, setting: &str) -> Outcome<Vec<TcpListener>> {
    let port = u16::try_from(server.config.number(setting)).unwrap_or(0);
    let mut listeners: Vec<TcpListener> = Vec::new();
    for host in server.config.text("bind").split_whitespace() {
        // A minus says that the address may be missing on this machine.
        let (host, may_fail) = host.strip_prefix('-').map_or((host, false), |host| (host, true));
        let host = if host == "*" { "0.0.0.0" } else { host };
        // Port 0, for tests: the system chooses one, and the other addresses take the same.
        let port = match listeners.first().map(TcpListener::local_addr) {
            Some(Ok(address)) => address.port(),
            _ => port,
        };
        match TcpListener::bind((host, port)).await {
            Ok(listener) => listeners.push(listener),
            Err(_) if may_fail => {}
            Err(error) => return Err(Failure::new(format!("{setting} {port}, bind {host}: {error}"))),
        }
    }
    Ok(listeners)
}

fn addresses(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
}

/// Takes a connection in, unless there are too many.
fn take_in<S>(server: &Arc<Server>, mut stream: S, address: String, local: String)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    server.counters.connections.fetch_add(1, Ordering::Relaxed);
    let most = usize::try_from(server.config.number("maxclients")).unwrap_or(usize::MAX);
    if server.clients.len() >= most {
        server.counters.rejected.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            // The connection ends in any case.
            let _ = stream.write_all(b"-ERR max number of clients reached\r\n").await;
        });
        return;
    }
    let client = server.clients.add(address, local);
    tokio::spawn(serve(Arc::clone(server), client, stream));
}

fn ends(stream: &TcpStream) -> (String, String) {
    // An answer should not wait for the next one.
    let _ = stream.set_nodelay(true);
    let text = |address: std::io::Result<SocketAddr>| address.map(|a| a.to_string()).unwrap_or_default();
    (text(stream.peer_addr()), text(stream.local_addr()))
}

/// Accepts again and again. A failure, such as too many open files, passes.
async fn accept(listener: TcpListener, take: impl Fn(TcpStream)) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => take(stream),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[cfg(feature = "tls")]
async fn listen_tls(server: &Arc<Server>, tasks: &mut Vec<JoinHandle<()>>) -> Outcome<Vec<SocketAddr>> {
    /// How long a client may take to agree on keys.
    const HANDSHAKE: Duration = Duration::from_secs(10);
    if server.config.number("tls-port") == 0 && server.config.text("tls-cert-file").is_empty() {
        return Ok(Vec::new());
    }
    let acceptor = super::tls::acceptor(&server.config)?;
    let listeners = bind(server, "tls-port").await?;
    let found = addresses(&listeners);
    for listener in listeners {
        let (server, acceptor) = (Arc::clone(server), acceptor.clone());
        tasks.push(tokio::spawn(accept(listener, move |stream| {
            let (server, acceptor) = (Arc::clone(&server), acceptor.clone());
            tokio::spawn(async move {
                let (address, local) = ends(&stream);
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    take_in(&server, stream, address, local);
                }
            });
        })));
    }
    Ok(found)
}

#[cfg(not(feature = "tls"))]
async fn listen_tls(server: &Arc<Server>, _tasks: &mut Vec<JoinHandle<()>>) -> Outcome<Vec<SocketAddr>> {
    if server.config.number("tls-port") == 0 {
        return Ok(Vec::new());
    }
    Err(Failure::new("tls-port: this server was built without the feature tls"))
}

/// Removes what an earlier run left of its socket.
fn listen_unix(server: &Arc<Server>, tasks: &mut Vec<JoinHandle<()>>) -> Outcome<Option<PathBuf>> {
    let path = PathBuf::from(server.config.text("unixsocket"));
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Failure::new(format!("unixsocket {}: {error}", path.display()));
    if std::os::unix::net::UnixStream::connect(&path).is_err() && path.exists() {
        std::fs::remove_file(&path).map_err(failed)?;
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let mode = u32::from_str_radix(&server.config.text("unixsocketperm"), 8).unwrap_or(0);
    if mode > 0 {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    let (server, name) = (Arc::clone(server), format!("{}:0", path.display()));
    tasks.push(tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => take_in(&server, stream, name.clone(), name.clone()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }));
    Ok(Some(path))
}

/// Takes connections from now on, and begins background work.
///
/// # Errors
/// Addresses that can't be had, and certificates that can't be read.
pub async fn start(server: Server) -> Outcome<Listening> {
    let server = Arc::new(server);
    let mut tasks = Vec::new();
    let listeners = bind(&server, "port").await?;
    let found = addresses(&listeners);
    if let Some(address) = found.first() {
        server.bound_port.store(address.port(), Ordering::Relaxed);
    }
    for listener in listeners {
        let server = Arc::clone(&server);
        tasks.push(tokio::spawn(accept(listener, move |stream| {
            let (address, local) = ends(&stream);
            take_in(&server, stream, address, local);
        })));
    }
    let tls_addresses = listen_tls(&server, &mut tasks).await?;
    let unix_socket = listen_unix(&server, &mut tasks)?;
    let mut metrics_addresses = Vec::new();
    if server.config.number("metrics-port") > 0 {
        let listeners = bind(&server, "metrics-port").await?;
        metrics_addresses = addresses(&listeners);
        for listener in listeners {
            let server = Arc::clone(&server);
            tasks.push(tokio::spawn(accept(listener, move |stream| {
                tokio::spawn(metrics::serve(Arc::clone(&server), stream));
            })));
        }
    }
    tasks.extend(background::start(&server));
    if let Some(cluster) = &server.cluster {
        tasks.push(tokio::spawn(cluster::run(Arc::clone(&server), Arc::clone(cluster))));
        tasks.push(tokio::spawn(cluster::hand_over(Arc::clone(&server), Arc::clone(cluster))));
        tasks.push(tokio::spawn(cluster::sweep(Arc::clone(&server), Arc::clone(cluster))));
    }
    tasks.push(tokio::spawn(replication::supervise(Arc::clone(&server))));
    Ok(Listening { server, addresses: found, tls_addresses, metrics_addresses, unix_socket, tasks })
}
