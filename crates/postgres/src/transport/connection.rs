//! A replication connection: the login, and commands that answer with rows.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use calve_core::{Error, ErrorKind, Result};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication;
use postgres_protocol::authentication::sasl::{self, ScramSha256};
use postgres_protocol::message::backend::{self, AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::config::{ChannelBinding, ConnectConfig};
use crate::error::ServerError;
use crate::socket::{self, Login, LoginError, Wire};
use crate::sql::{missing_password, session_options};

/// Tag of `CopyBothResponse`, which the protocol crate does not know.
const COPY_BOTH_RESPONSE: u8 = b'W';
/// What one read may append to the buffer.
const READ_SIZE: usize = 16 * 1024;
/// Ending a connection in order may take this long.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// No answer to a command is longer than this; more is not Postgres.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Rows of text, as a simple query answers.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// How a command was answered.
pub(crate) enum Reply {
    Rows(Rows),
    /// The server refused it; the connection can be used on.
    Refused(ServerError),
}

/// A connection in replication mode to one database.
pub(crate) struct ReplicationConnection {
    wire: Wire,
    input: BytesMut,
    /// `server_version` as the server announced it.
    version: String,
}

struct ReplicationLogin;

impl Login for ReplicationLogin {
    type Session = ReplicationConnection;
    const REPLICATION: bool = true;

    async fn login(
        &self,
        config: &ConnectConfig,
        wire: Wire,
    ) -> std::result::Result<ReplicationConnection, LoginError> {
        let mut connection = ReplicationConnection { wire, input: BytesMut::new(), version: String::new() };
        let options = session_options(config);
        let mut output = BytesMut::new();
        frontend::startup_message(
            [
                ("user", config.user.as_str()),
                ("database", config.database.as_str()),
                ("replication", "database"),
                ("application_name", config.application_name.as_str()),
                ("client_encoding", "UTF8"),
                ("options", options.as_str()),
            ],
            &mut output,
        )?;
        connection.wire.write_all(&output).await?;
        connection.authenticate(config).await?;
        loop {
            match connection.message().await? {
                Message::ParameterStatus(status) if status.name()? == "server_version" => {
                    status.value()?.clone_into(&mut connection.version);
                }
                Message::ReadyForQuery(_) => return Ok(connection),
                Message::ErrorResponse(body) => {
                    return Err(LoginError::Server(ServerError::from_fields(body.fields())));
                }
                _ => {}
            }
        }
    }
}

impl ReplicationConnection {
    pub(crate) async fn open(config: &ConnectConfig) -> Result<Self> {
        socket::connect(config, &ReplicationLogin).await
    }

    /// Over a stream that somebody else logged in on.
    #[cfg(test)]
    pub(super) fn over(wire: Wire) -> Self {
        Self { wire, input: BytesMut::new(), version: "17.0".to_owned() }
    }

    /// The server's major version: 17 of `17.2 (Debian 17.2-1)`, 18 of `18beta1`.
    pub(crate) fn major_version(&self) -> u32 {
        let digits: String = self.version.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    async fn authenticate(&mut self, config: &ConnectConfig) -> std::result::Result<(), LoginError> {
        let password = || {
            let password = config.password.as_ref().ok_or_else(|| LoginError::Other(missing_password(config)))?;
            Ok::<_, LoginError>(password.expose().as_bytes())
        };
        loop {
            let mut output = BytesMut::new();
            match self.message().await? {
                Message::AuthenticationOk
                | Message::AuthenticationMd5Password(_)
                | Message::AuthenticationCleartextPassword
                    if config.channel_binding == ChannelBinding::Require =>
                {
                    return Err(unbound(config));
                }
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationSasl(body) => {
                    self.scram(config, &body, password()?).await?;
                    return match self.message().await? {
                        Message::AuthenticationOk => Ok(()),
                        Message::ErrorResponse(body) => {
                            Err(LoginError::Server(ServerError::from_fields(body.fields())))
                        }
                        _ => Err(out_of_turn("the login").into()),
                    };
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = authentication::md5_hash(config.user.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut output)?;
                }
                Message::AuthenticationCleartextPassword => frontend::password_message(password()?, &mut output)?,
                Message::ErrorResponse(body) => {
                    return Err(LoginError::Server(ServerError::from_fields(body.fields())));
                }
                Message::NoticeResponse(_) => continue,
                _ => {
                    return Err(LoginError::Other(Error::new(
                        ErrorKind::Config,
                        format!(
                            "cannot log in to {config}: the server asks for a kind of login that calve does not know (such as \
                             GSSAPI or SSPI); allow scram-sha-256 or cert for this user in pg_hba.conf"
                        ),
                    )));
                }
            }
            self.wire.write_all(&output).await?;
        }
    }

    /// SCRAM-SHA-256 (RFC 5802, 7677), bound to the TLS channel where the server offers it.
    async fn scram(
        &mut self,
        config: &ConnectConfig,
        body: &AuthenticationSaslBody,
        password: &[u8],
    ) -> std::result::Result<(), LoginError> {
        let (mut plain, mut plus) = (false, false);
        let mut mechanisms = body.mechanisms();
        while let Some(mechanism) = mechanisms.next()? {
            plain |= mechanism == sasl::SCRAM_SHA_256;
            plus |= mechanism == sasl::SCRAM_SHA_256_PLUS;
        }
        let binding = self.wire.channel_binding().filter(|_| config.channel_binding != ChannelBinding::Disable);
        let (mechanism, binding) = match binding {
            Some(binding) if plus => (sasl::SCRAM_SHA_256_PLUS, sasl::ChannelBinding::tls_server_end_point(binding)),
            _ if config.channel_binding == ChannelBinding::Require => return Err(unbound(config)),
            Some(_) if plain => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unrequested()),
            None if plain => (sasl::SCRAM_SHA_256, sasl::ChannelBinding::unsupported()),
            _ => {
                return Err(LoginError::Other(Error::new(
                    ErrorKind::Config,
                    format!(
                        "cannot log in to {config}: the server offers no SASL mechanism that calve knows; allow \
                         scram-sha-256 for this user in pg_hba.conf"
                    ),
                )));
            }
        };
        let mut scram = ScramSha256::new(password, binding);
        let mut output = BytesMut::new();
        frontend::sasl_initial_response(mechanism, scram.message(), &mut output)?;
        self.wire.write_all(&output).await?;
        match self.message().await? {
            Message::AuthenticationSaslContinue(body) => scram.update(body.data())?,
            Message::ErrorResponse(body) => return Err(LoginError::Server(ServerError::from_fields(body.fields()))),
            _ => return Err(out_of_turn("the login").into()),
        }
        output.clear();
        frontend::sasl_response(scram.message(), &mut output)?;
        self.wire.write_all(&output).await?;
        match self.message().await? {
            // The server proves here that it knows the password too.
            Message::AuthenticationSaslFinal(body) => Ok(scram.finish(body.data())?),
            Message::ErrorResponse(body) => Err(LoginError::Server(ServerError::from_fields(body.fields()))),
            _ => Err(out_of_turn("the login").into()),
        }
    }

    /// The next message. `CopyBothResponse` is not among those it knows.
    async fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.input)? {
                return Ok(message);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        if self.input.len() > MAX_ANSWER {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the server's answer is too long to be true"));
        }
        self.input.reserve(READ_SIZE);
        if self.wire.read_buf(&mut self.input).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        Ok(())
    }

    async fn send_query(&mut self, query: &str) -> io::Result<()> {
        let mut output = BytesMut::new();
        frontend::query(query, &mut output)?;
        self.wire.write_all(&output).await?;
        self.wire.flush().await
    }

    /// Runs a command; what the server refuses is part of the answer.
    pub(crate) async fn try_command(&mut self, command: &str) -> Result<Reply> {
        self.answer(command).await.map_err(|error| lost(&error))
    }

    /// Runs a command that must succeed; `what` says what for.
    pub(crate) async fn command(&mut self, command: &str, what: &str) -> Result<Rows> {
        match self.try_command(command).await? {
            Reply::Rows(rows) => Ok(rows),
            Reply::Refused(error) => Err(error.during(what)),
        }
    }

    async fn answer(&mut self, command: &str) -> io::Result<Reply> {
        self.send_query(command).await?;
        let mut rows = Rows::new();
        let mut refused = None;
        loop {
            match self.message().await? {
                Message::DataRow(row) => {
                    let mut cells = Vec::new();
                    let mut ranges = row.ranges();
                    while let Some(range) = ranges.next()? {
                        let text = range.and_then(|range| row.buffer().get(range));
                        cells.push(text.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                    }
                    rows.push(cells);
                }
                Message::ErrorResponse(body) => refused = Some(ServerError::from_fields(body.fields())),
                Message::ReadyForQuery(_) => return Ok(refused.map_or(Reply::Rows(rows), Reply::Refused)),
                _ => {}
            }
        }
    }

    /// Sends `START_REPLICATION` and waits until the stream is open. Refused: the connection can be used on.
    pub(crate) async fn start_copy(&mut self, command: &str) -> Result<std::result::Result<(), ServerError>> {
        self.open_copy(command).await.map_err(|error| lost(&error))
    }

    async fn open_copy(&mut self, command: &str) -> io::Result<std::result::Result<(), ServerError>> {
        self.send_query(command).await?;
        let mut refused = None;
        loop {
            if let Some(header) = backend::Header::parse(&self.input)?
                && header.tag() == COPY_BOTH_RESPONSE
            {
                // The tag is not counted in the length; the parser refuses lengths below 4.
                let whole = 1 + usize::try_from(header.len()).unwrap_or(0);
                if self.input.len() >= whole {
                    drop(self.input.split_to(whole));
                    return Ok(Ok(()));
                }
                self.read().await?;
                continue;
            }
            match Message::parse(&mut self.input)? {
                Some(Message::ErrorResponse(body)) => refused = Some(ServerError::from_fields(body.fields())),
                Some(Message::ReadyForQuery(_)) => match refused.take() {
                    Some(error) => return Ok(Err(error)),
                    None => return Err(out_of_turn("START_REPLICATION")),
                },
                Some(_) => {}
                None => self.read().await?,
            }
        }
    }

    /// The stream and what was read of it already.
    pub(crate) fn into_parts(self) -> (Wire, BytesMut) {
        (self.wire, self.input)
    }

    /// Ends the session in order and waits until the server has: its walsender and temporary slots are free then. Where
    /// the connection is gone already, or the server is slow, nothing is lost by going on.
    pub(crate) async fn close(mut self) {
        let mut output = BytesMut::new();
        frontend::terminate(&mut output);
        let goodbye = async {
            self.wire.write_all(&output).await?;
            self.wire.flush().await?;
            while self.wire.read_buf(&mut self.input).await? > 0 {
                self.input.clear();
            }
            io::Result::Ok(())
        };
        if !matches!(tokio::time::timeout(GOODBYE_TIMEOUT, goodbye).await, Ok(Ok(()))) {
            tracing::debug!("a replication connection did not end in order");
        }
    }
}

fn out_of_turn(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server answered {what} out of turn"))
}

fn unbound(config: &ConnectConfig) -> LoginError {
    LoginError::Other(Error::new(
        ErrorKind::Config,
        format!(
            "cannot log in to {config}: channel_binding=require, but the server offers no login that is bound to TLS; use \
             TLS and scram-sha-256, or channel_binding=prefer"
        ),
    ))
}

/// The connection broke: tried again.
pub(super) fn lost(error: &io::Error) -> Error {
    Error::new(ErrorKind::Retry, format!("the replication connection to Postgres was lost: {error}"))
}
