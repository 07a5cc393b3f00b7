//! Opening a connection: addresses in turn, TLS as asked for, a login, all within the connect timeout.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use calve_core::{Error, ErrorKind, Result};
use futures::FutureExt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::{ConnectConfig, Host, SslMode};
use crate::error::{ServerError, code};
use crate::tls;

/// Unacknowledged bytes and unanswered keepalives end a connection after this long.
const PEER_TIMEOUT: Duration = Duration::from_mins(1);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A connected byte stream to a server.
pub(crate) enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Out of the runtime's sight, see [`rest`](Self::rest).
    Resting(Resting),
}

/// A socket that nobody is woken for.
pub(crate) enum Resting {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    /// On its way from one state to the other, or lost there.
    Nowhere,
}

impl Wire {
    /// Takes the socket out of the runtime's sight: a thread that waits there is woken for every packet that comes, wanted
    /// or not. Only [`read_ready`](Self::read_ready) works until [`wake`](Self::wake). TLS has no way out, and stays.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Resting(Resting::Nowhere)) {
            Self::Tcp(stream) => Self::Resting(Resting::Tcp(stream.into_std()?)),
            Self::Unix(stream) => Self::Resting(Resting::Unix(stream.into_std()?)),
            other => other,
        };
        Ok(())
    }

    /// Puts the socket back into the runtime's sight.
    pub(crate) fn wake(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Resting(Resting::Nowhere)) {
            Self::Resting(Resting::Tcp(stream)) => Self::Tcp(TcpStream::from_std(stream)?),
            Self::Resting(Resting::Unix(stream)) => Self::Unix(UnixStream::from_std(stream)?),
            other => other,
        };
        Ok(())
    }

    /// Appends what has arrived, up to the length of `scratch`, without waiting. None where nothing has, 0 at the end of the
    /// stream.
    pub(crate) fn read_ready(&mut self, input: &mut BytesMut, scratch: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Resting(Resting::Tcp(stream)) => stream.read(scratch),
            Self::Resting(Resting::Unix(stream)) => stream.read(scratch),
            Self::Resting(Resting::Nowhere) => Err(io::ErrorKind::NotConnected.into()),
            awake => match AsyncReadExt::read(awake, scratch).now_or_never() {
                Some(read) => read,
                None => return Ok(None),
            },
        };
        match read {
            Ok(length) => {
                input.extend_from_slice(scratch.get(..length).unwrap_or_default());
                Ok(Some(length))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// What a login can be bound to.
    pub(crate) fn channel_binding(&self) -> Option<Vec<u8>> {
        let Self::Tls(stream) = self else { return None };
        tls::server_end_point(stream.get_ref().1.peer_certificates()?.first()?)
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Resting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Resting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Resting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Resting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

/// Why a login on a connected stream failed.
pub(crate) enum LoginError {
    /// The server said so.
    Server(ServerError),
    /// The stream broke.
    Io(io::Error),
    /// Anything else, worded already.
    Other(Error),
}

impl From<io::Error> for LoginError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is done on a fresh connection: SQL and replication log in differently.
pub(crate) trait Login: Sync {
    type Session: Send;
    /// Whether it is the replication protocol that is asked for.
    const REPLICATION: bool;
    fn login(
        &self,
        config: &ConnectConfig,
        wire: Wire,
    ) -> impl Future<Output = std::result::Result<Self::Session, LoginError>> + Send;
}

/// Opens a connection and logs in, trying the hosts in order.
pub(crate) async fn connect<L: Login>(config: &ConnectConfig, login: &L) -> Result<L::Session> {
    let mut failures: Vec<Error> = Vec::new();
    for (host, port) in &config.hosts {
        match connect_host(config, host, *port, login).await {
            Ok(session) => return Ok(session),
            Err(error) if error.kind() == ErrorKind::Retry => failures.push(error),
            Err(error) => return Err(error),
        }
    }
    if failures.len() == 1 {
        return Err(failures.remove(0));
    }
    let all: Vec<_> = failures.iter().map(ToString::to_string).collect();
    Err(Error::new(ErrorKind::Retry, all.join("; ")))
}

/// Tries one host, with and without TLS in the order that the sslmode says.
async fn connect_host<L: Login>(config: &ConnectConfig, host: &Host, port: u16, login: &L) -> Result<L::Session> {
    // libpq does not use TLS over Unix sockets, whatever the mode.
    let (first, second) = match (host, config.ssl_mode) {
        (Host::Unix(_), _) | (_, SslMode::Disable) => (Encryption::None, None),
        (_, SslMode::Allow) => (Encryption::None, Some(Encryption::Required)),
        (_, SslMode::Prefer) => (Encryption::Preferred, Some(Encryption::None)),
        (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => (Encryption::Required, None),
    };
    let (error, refused) = match attempt(config, host, port, first, login).await {
        Ok(session) => return Ok(session),
        Err(failure) => failure.worded(config, host, port, L::REPLICATION),
    };
    match second {
        // Only what TLS itself can change is worth the other try: the handshake, and rules of pg_hba.conf.
        Some(second) if refused => match attempt(config, host, port, second, login).await {
            Ok(session) => Ok(session),
            Err(_) => Err(error),
        },
        _ => Err(error),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encryption {
    None,
    Preferred,
    Required,
}

enum Failure {
    Unreachable(io::Error),
    TimedOut,
    TlsUnsupported,
    Handshake(io::Error),
    Login(LoginError),
    Worded(Error),
}

impl Failure {
    /// The error for the operator, and whether the other kind of encryption may do better.
    fn worded(self, config: &ConnectConfig, host: &Host, port: u16, replication: bool) -> (Error, bool) {
        let retry = |message: String| Error::new(ErrorKind::Retry, message);
        let wrong = |message: String| Error::new(ErrorKind::Config, message);
        match self {
            Self::Unreachable(error) => (
                retry(format!(
                    "cannot reach Postgres at {host}:{port}: {error}; check host and port, that the server runs, \
                     and its listen_addresses"
                )),
                false,
            ),
            Self::TimedOut => (
                retry(format!(
                    "cannot reach Postgres at {host}:{port}: no answer within {} s; check host, port and firewalls, \
                     or raise connect_timeout",
                    config.connect_timeout.as_secs()
                )),
                false,
            ),
            Self::TlsUnsupported => (
                wrong(format!(
                    "Postgres at {host}:{port} does not offer TLS: set ssl = on in the server, or sslmode=disable here"
                )),
                true,
            ),
            // A server that goes away meanwhile says nothing about TLS.
            Self::Handshake(error) if error.kind() != io::ErrorKind::InvalidData => (
                retry(format!("Postgres at {host}:{port} ended the connection during the TLS handshake: {error}")),
                false,
            ),
            Self::Handshake(error) => (
                wrong(format!(
                    "TLS with Postgres at {host}:{port} failed: {error}; check sslmode, sslrootcert and the name in the \
                     server's certificate"
                )),
                true,
            ),
            Self::Login(LoginError::Server(error)) => {
                let refused = error.code == code::INVALID_AUTHORIZATION;
                (error.at_login(config, replication), refused)
            }
            Self::Login(LoginError::Io(error)) => {
                (retry(format!("Postgres at {host}:{port} ended the connection during the login: {error}")), false)
            }
            Self::Login(LoginError::Other(error)) | Self::Worded(error) => (error, false),
        }
    }
}

async fn attempt<L: Login>(
    config: &ConnectConfig,
    host: &Host,
    port: u16,
    encryption: Encryption,
    login: &L,
) -> std::result::Result<L::Session, Failure> {
    let tls = match encryption {
        Encryption::None => None,
        _ => Some(tls::client(config).map_err(Failure::Worded)?),
    };
    let work = async {
        let wire = open(config, host, port, encryption, tls).await?;
        login.login(config, wire).await.map_err(Failure::Login)
    };
    tokio::time::timeout(config.connect_timeout, work).await.unwrap_or(Err(Failure::TimedOut))
}

async fn open(
    config: &ConnectConfig,
    host: &Host,
    port: u16,
    encryption: Encryption,
    tls: Option<Arc<ClientConfig>>,
) -> std::result::Result<Wire, Failure> {
    let name = match host {
        Host::Unix(directory) => {
            let path = directory.join(format!(".s.PGSQL.{port}"));
            return UnixStream::connect(path).await.map(Wire::Unix).map_err(Failure::Unreachable);
        }
        Host::Tcp(name) => name,
    };
    let mut stream = TcpStream::connect((name.as_str(), port)).await.map_err(Failure::Unreachable)?;
    set_options(config, &stream).map_err(Failure::Unreachable)?;
    let Some(tls) = tls else { return Ok(Wire::Tcp(stream)) };

    let mut request = bytes::BytesMut::new();
    postgres_protocol::message::frontend::ssl_request(&mut request);
    let mut answer = [0];
    let asked = async {
        stream.write_all(&request).await?;
        stream.read_exact(&mut answer).await
    };
    asked.await.map_err(Failure::Handshake)?;
    match answer {
        // Nothing may follow in the clear: bytes sent here already would be an injection (CVE-2021-23222). The handshake
        // reads them as TLS and fails.
        [b'S'] => {}
        [b'N'] if encryption == Encryption::Preferred => return Ok(Wire::Tcp(stream)),
        [b'N'] => return Err(Failure::TlsUnsupported),
        _ => return Err(Failure::Handshake(io::Error::other("the server does not speak the Postgres protocol"))),
    }
    let server_name = ServerName::try_from(name.clone())
        .map_err(|_| Failure::Handshake(io::Error::other(format!("'{name}' is no valid server name"))))?;
    let stream = TlsConnector::from(tls).connect(server_name, stream).await.map_err(Failure::Handshake)?;
    Ok(Wire::Tls(Box::new(stream)))
}

fn set_options(config: &ConnectConfig, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    if let Some(idle) = config.keepalive_idle {
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(KEEPALIVE_INTERVAL);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(PEER_TIMEOUT))?;
    Ok(())
}
