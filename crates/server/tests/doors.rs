//! The ways in beside plain TCP: TLS, a socket of the file system, and the page for Prometheus and browsers.

#![expect(clippy::unwrap_used, reason = "a test that fails should say so")]

mod common;

use common::{Running, encode};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Sends `words` and expects `reply`.
fn expect(stream: &mut (impl Read + Write), words: &[&str], reply: &str) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    stream.write_all(&encode(&words)).unwrap();
    stream.flush().unwrap();
    let mut bytes = vec![0; reply.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), reply);
}

#[test]
fn a_socket_of_the_file_system_takes_clients() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let settings = [("unixsocket", socket.to_str().unwrap()), ("unixsocketperm", "600")];
    // What a run that was killed left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    {
        let running = Running::start(&dir.path().join("store"), &settings);
        assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut stream = UnixStream::connect(&socket).unwrap();
        expect(&mut stream, &["SET", "key", "by socket"], "+OK\r\n");
        assert_eq!(running.client().run("GET key").to_string(), "\"by socket\"");
        let value = "v".repeat(1 << 20);
        expect(&mut stream, &["SET", "large", &value], "+OK\r\n");
        expect(&mut stream, &["GET", "large"], &format!("${}\r\n{value}\r\n", value.len()));
    }
    assert!(!socket.exists(), "a server that has stopped leaves no socket");
}

/// Asks for a path over HTTP, and returns head and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.into(), body.into())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

/// Reads Prometheus' text: every line is a comment of a known form, or a name with its value.
fn value_of(text: &str, wanted: &str) -> Option<f64> {
    let mut found = None;
    for line in text.lines() {
        if line.starts_with("# HELP siltstone_") || line.starts_with("# TYPE siltstone_") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(name.starts_with("siltstone_"), "{line}");
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        if name == wanted {
            assert!(found.replace(value).is_none(), "{wanted} is there twice");
        }
    }
    found
}

/// A port that nobody has.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn metrics_move_with_what_they_count() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let running = Running::start(dir.path(), &[("metrics-port", &port.to_string())]);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = running.client();
    let (head, before) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    for number in 0..100 {
        assert_eq!(client.run(&format!("SET key:{number} value")).to_string(), "+OK");
    }
    assert_eq!(client.run("GET key:7").to_string(), "\"value\"");
    assert_eq!(client.run("GET nothing").to_string(), "nil");
    assert!(client.run("INCR key:7").to_string().starts_with("-ERR"));
    let (_, after) = get(address, "/metrics");
    let moved = |name: &str| value_of(&after, name).unwrap() - value_of(&before, name).unwrap_or(0.0);
    assert_eq!(moved("siltstone_command_calls_total{command=\"set\"}"), 100.0);
    assert_eq!(moved("siltstone_keys{db=\"0\"}"), 100.0);
    assert_eq!(moved("siltstone_keyspace_hits_total"), 1.0);
    assert_eq!(moved("siltstone_keyspace_misses_total"), 1.0);
    assert_eq!(moved("siltstone_error_replies_total"), 1.0);
    assert_eq!(moved("siltstone_commands_total"), 103.0);
    assert!(moved("siltstone_user_bytes_written_total") > 100.0 * 10.0);
    assert!(value_of(&after, "siltstone_memory_bytes{holder=\"write_buffer\"}").unwrap() > 0.0);
    assert_eq!(value_of(&after, "siltstone_connected_clients"), Some(1.0));

    let (_, stats) = get(address, "/stats.json");
    assert!(stats.contains("\"databases\":[{\"keys\":100,\"number\":0}]"), "{stats}");
    let (head, page) = get(address, "/");
    assert!(head.contains("text/html") && page.contains("</html>"), "{head}");
    assert!(get(address, "/nothing").0.starts_with("HTTP/1.1 404"));
}

#[test]
fn visitors_that_dawdle_keep_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let running = Running::start(dir.path(), &[("metrics-port", &port.to_string())]);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let idle: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(get(address, "/metrics").0.starts_with("HTTP/1.1 200"));
    // A head without an end is cut off.
    let endless = format!("GET / HTTP/1.1\r\n{}", "x".repeat(100_000));
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(endless.as_bytes());
    assert!(get(address, "/metrics").0.starts_with("HTTP/1.1 200"));
    assert_eq!(running.client().run("PING").to_string(), "+PONG");
    drop(idle);
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use rustls_pki_types::pem::PemObject as _;
    use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use std::path::PathBuf;
    use std::sync::Arc;
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion, version,
    };

    fn file(name: &str) -> String {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name);
        path.to_str().unwrap().to_owned()
    }

    /// A connection; by a client that has a certificate, if it is to.
    fn connect(
        address: SocketAddr,
        with_certificate: bool,
        versions: &[&'static SupportedProtocolVersion],
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_protocol_versions(versions).with_root_certificates(roots);
        let config = if with_certificate {
            let chain = vec![CertificateDer::from_pem_file(file("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }

    fn start(dir: &std::path::Path, auth_clients: &str) -> Running {
        let (certificate, key, authority) = (file("server.pem"), file("server.key"), file("authority.pem"));
        Running::start(
            dir,
            &[
                ("tls-cert-file", &certificate),
                ("tls-key-file", &key),
                ("tls-ca-cert-file", &authority),
                ("tls-auth-clients", auth_clients),
            ],
        )
    }

    #[test]
    fn tls_carries_what_tcp_does() {
        let dir = tempfile::tempdir().unwrap();
        let running = start(dir.path(), "no");
        for version in [&version::TLS12, &version::TLS13] {
            let mut stream = connect(running.tls_address(), false, &[version]);
            expect(&mut stream, &["SET", "key", "by TLS"], "+OK\r\n");
            assert_eq!(running.client().run("GET key").to_string(), "\"by TLS\"");
            let value = "v".repeat(1 << 20);
            expect(&mut stream, &["SET", "large", &value], "+OK\r\n");
            expect(&mut stream, &["GET", "large"], &format!("${}\r\n{value}\r\n", value.len()));
        }
        // Who speaks plainly there gets no answer in plain text, and keeps nobody waiting.
        let mut plain = TcpStream::connect(running.tls_address()).unwrap();
        plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        plain.write_all(&encode(&[b"PING"])).unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"+PONG"));
        expect(&mut connect(running.tls_address(), false, &[&version::TLS13]), &["PING"], "+PONG\r\n");
    }

    #[test]
    fn clients_show_a_certificate_where_they_must() {
        let dir = tempfile::tempdir().unwrap();
        for (auth_clients, strangers_may) in [("yes", false), ("optional", true)] {
            let running = start(&dir.path().join(auth_clients), auth_clients);
            let versions = [&version::TLS13];
            expect(&mut connect(running.tls_address(), true, &versions), &["PING"], "+PONG\r\n");
            let mut stranger = connect(running.tls_address(), false, &versions);
            let mut answer = [0; 7];
            let asked =
                stranger.write_all(&encode(&[b"PING"])).and_then(|()| stranger.read_exact(&mut answer));
            assert_eq!(asked.is_ok(), strangers_may, "{auth_clients}: {asked:?}");
        }
    }

    #[test]
    fn certificates_that_can_not_be_read_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.pem");
        let (certificate, key) = (missing.to_str().unwrap(), file("server.key"));
        let refused = |certificate: &str, key: &str| {
            let config = siltstone_server::config::Config::default();
            let store = tempfile::tempdir().unwrap();
            let store = store.path().to_str().unwrap();
            for (name, value) in
                [("dir", store), ("port", "0"), ("tls-cert-file", certificate), ("tls-key-file", key)]
            {
                config.set_at_start(name, value).unwrap();
            }
            let server = siltstone_server::server::Server::open(config, None).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(siltstone_server::server::start(server)).err().unwrap().to_string()
        };
        let unread = refused(certificate, &key);
        assert!(unread.contains(&format!("tls-cert-file {certificate}: ")), "{unread}");
        let wrong_key = refused(&file("server.pem"), &file("client.key"));
        assert!(wrong_key.contains("tls-cert-file "), "{wrong_key}");
    }
}
