//! TLS as libpq's `sslmode` means it, over rustls with ring.

use std::path::Path;
use std::sync::Arc;

use calve_core::{Error, ErrorKind, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::Digest;

use crate::config::{ConnectConfig, RootCertificates, SslMode};

/// Where operating systems keep their root certificates in one PEM file.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// The TLS client for this configuration; its files are read anew, so that renewed certificates are taken up.
pub(crate) fn client(config: &ConnectConfig) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let roots = match &config.root_certificates {
        Some(RootCertificates::File(path)) => Some(read_certificates("sslrootcert", path)?),
        Some(RootCertificates::System) => Some(system_roots()?),
        None if matches!(config.ssl_mode, SslMode::VerifyCa | SslMode::VerifyFull) => {
            return Err(config_error(
                "sslmode=verify-ca and verify-full need the root certificate: set sslrootcert to its PEM file, \
                 or put it at ~/.postgresql/root.crt",
            ));
        }
        None => None,
    };
    let chain = match &roots {
        None => None,
        Some(roots) => {
            let mut store = RootCertStore::empty();
            let (added, _) = store.add_parsable_certificates(roots.iter().cloned());
            if added == 0 {
                return Err(config_error("the root certificate file holds no usable certificate: check sslrootcert"));
            }
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
                .build()
                .map_err(|error| config_error(format!("cannot use the root certificates: {error}")))?;
            Some(verifier)
        }
    };
    let verifier = Verifier {
        chain,
        roots: roots.unwrap_or_default(),
        check_name: config.ssl_mode == SslMode::VerifyFull,
        algorithms,
    };
    let keys = provider.key_provider;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::with_source(ErrorKind::Bug, "TLS cannot be set up", error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let client = match &config.client_certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = read_certificates("sslcert", certificate)?;
            let key = keys
                .load_private_key(read_key(key)?)
                .map_err(|error| config_error(format!("sslkey {} cannot be used: {error}", key.display())))?;
            // Not rustls' own check of one against the other: it refuses certificates of X.509 version 1, which is what
            // openssl makes by default and servers take.
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))))
        }
    };
    Ok(Arc::new(client))
}

fn read_certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| config_error(format!("cannot read {option} {}: {error}", path.display())))?;
    if certificates.is_empty() {
        return Err(config_error(format!("{option} {} holds no certificate in PEM", path.display())));
    }
    Ok(certificates)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o037 != 0);
        if open {
            return Err(config_error(format!("sslkey {0} can be read by others: chmod 600 {0}", path.display())));
        }
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        config_error(format!("cannot read sslkey {}: {error}; it must be an unencrypted PEM key", path.display()))
    })
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let file = named.as_deref().into_iter().chain(SYSTEM_ROOTS.iter().copied()).find(|path| Path::new(path).is_file());
    match file {
        Some(path) => read_certificates("sslrootcert=system", Path::new(path)),
        None => Err(config_error(
            "sslrootcert=system: no system certificates were found; name their PEM file in SSL_CERT_FILE or sslrootcert",
        )),
    }
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// Checks a server's certificate as far as the sslmode asks.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    roots: Vec<CertificateDer<'static>>,
    check_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// webpki cannot read certificates of X.509 version 1, which `openssl x509 -req` makes by default. Where nobody asked for
    /// proof of who the server is, such a one is as good as any.
    fn is_beyond_proof(&self, certificate: &CertificateDer<'_>) -> bool {
        self.chain.is_none() && is_version_1(certificate) == Some(true)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // A self-signed server certificate used as its own root, which is common with Postgres. webpki refuses a CA as an
        // end entity, but being the very certificate that the user trusts is proof enough.
        if self.roots.iter().any(|root| root == end_entity) {
            if self.check_name {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The chain was verified before the name was compared.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if self.is_beyond_proof(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if self.is_beyond_proof(certificate) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The `tls-server-end-point` channel binding (RFC 5929, section 4.1): the hash of the server's certificate by the hash of its
/// signature, SHA-256 in place of MD5 and SHA-1. None for signatures that name no hash, such as Ed25519.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Its signature was not verified, so it binds to nothing.
    if is_version_1(certificate)? {
        return None;
    }
    let oid = signature_algorithm(certificate)?;
    // The arcs under which each hash stands: PKCS #1 (1.2.840.113549.1.1.n), ECDSA (1.2.840.10045.4.n).
    match oid {
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 4 | 5 | 11]
        | [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01 | 0x03, 0x02]
        | [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01] => Some(sha2::Sha256::digest(certificate).to_vec()),
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 12] | [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x03] => {
            Some(sha2::Sha384::digest(certificate).to_vec())
        }
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 13] | [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x04] => {
            Some(sha2::Sha512::digest(certificate).to_vec())
        }
        _ => None,
    }
}

const SEQUENCE: u8 = 0x30;

/// Whether the certificate is of X.509 version 1: the version, `[0] EXPLICIT`, is left out of its body then.
fn is_version_1(certificate: &[u8]) -> Option<bool> {
    const VERSION: u8 = 0xA0;
    let (body, _) = element(certificate, SEQUENCE)?;
    let (to_be_signed, _) = element(body, SEQUENCE)?;
    to_be_signed.first().map(|tag| *tag != VERSION)
}

/// The object identifier of the outer signatureAlgorithm: `SEQUENCE { tbsCertificate, SEQUENCE { OID, .. }, signature }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (body, _) = element(certificate, SEQUENCE)?;
    let (_, after_tbs) = element(body, SEQUENCE)?;
    let (algorithm, _) = element(after_tbs, SEQUENCE)?;
    element(algorithm, OBJECT_IDENTIFIER).map(|(oid, _)| oid)
}

/// The content of the DER element at the start, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (length, rest) = match short {
        0..=0x7F => (usize::from(short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7F))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_algorithm_is_found_and_cut_certificates_are_not() {
        let mut certificate = vec![0x30, 0x81, 0x14, 0x30, 0x03, 0xA0, 1, 3, 0x30, 0x0D, 0x06, 0x09];
        certificate.extend([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 12, 5, 0]);
        assert_eq!(server_end_point(&certificate).map(|hash| hash.len()), Some(48));
        for end in 0..certificate.len() - 2 {
            assert_eq!(server_end_point(&certificate[..end]), None, "cut at {end}");
        }
        certificate[5] = 2;
        assert_eq!(server_end_point(&certificate), None, "version 1 binds to nothing");
    }
}
