//! TLS by rustls, with certificates as `redis.conf` names them.

use crate::config::Config;
use crate::failure::{Failure, Outcome};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

fn certificates(setting: &str, path: &str) -> Outcome<Vec<CertificateDer<'static>>> {
    let failed = |error: &dyn Display| Failure::new(format!("{setting} {path}: {error}"));
    let read = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
    read.collect::<Result<_, _>>().map_err(|error| failed(&error))
}

/// Returns what encrypts connections.
///
/// # Errors
/// Files that can't be read, and certificates that fit no key.
pub fn acceptor(config: &Config) -> Outcome<TlsAcceptor> {
    let (file, key) = (config.text("tls-cert-file"), config.text("tls-key-file"));
    let chain = certificates("tls-cert-file", &file)?;
    let key = PrivateKeyDer::from_pem_file(&key)
        .map_err(|error| Failure::new(format!("tls-key-file {key}: {error}")))?;
    let builder = ServerConfig::builder();
    let clients = config.text("tls-auth-clients");
    let authority = config.text("tls-ca-cert-file");
    let builder = if clients == "no" {
        builder.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("tls-ca-cert-file", &authority)? {
            roots
                .add(certificate)
                .map_err(|error| Failure::new(format!("tls-ca-cert-file {authority}: {error}")))?;
        }
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let verifier = if clients == "optional" { verifier.allow_unauthenticated() } else { verifier };
        let verifier =
            verifier.build().map_err(|error| Failure::new(format!("tls-auth-clients: {error}")))?;
        builder.with_client_cert_verifier(verifier)
    };
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|error| Failure::new(format!("tls-cert-file {file}: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
