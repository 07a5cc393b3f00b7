//! Positions in the logs of MySQL and MariaDB.
//!
//! With XA a transaction's rows come at its PREPARE and count from its COMMIT on. So these positions keep apart what was
//! applied and what must be read again to see the rows of what is still prepared: beside a GTID set stand the open PREPAREs,
//! the others carry a second point to read from.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::ParsePositionError;
use super::gtid::{GtidSet, GtidSource};

/// A byte offset in a binary log file. Ordered by the number at the end of the file's name, then by offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BinlogOffset {
    /// The file's name as the server lists it, such as `binlog.000012`.
    pub file: Arc<str>,
    /// Bytes from the file's beginning.
    pub offset: u64,
}

impl BinlogOffset {
    /// A place in a file.
    pub fn new(file: &str, offset: u64) -> Self {
        Self { file: file.into(), offset }
    }

    /// The number at the end of the file's name, which orders files.
    pub fn file_number(&self) -> u64 {
        self.file.rsplit('.').next().and_then(|suffix| suffix.parse().ok()).unwrap_or(0)
    }
}

impl Ord for BinlogOffset {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.file_number(), self.offset, &self.file).cmp(&(other.file_number(), other.offset, &other.file))
    }
}

impl PartialOrd for BinlogOffset {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for BinlogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

impl FromStr for BinlogOffset {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (file, offset) = text.rsplit_once(':')?;
            let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            let numbered =
                file.rsplit_once('.').is_some_and(|(_, suffix)| digits(suffix) && suffix.parse::<u64>().is_ok());
            (numbered && digits(offset)).then_some(Self::new(file, offset.parse().ok()?))
        };
        parse().ok_or_else(|| ParsePositionError::new(text, "a place in a binary log such as binlog.000012:157"))
    }
}

/// The newest transaction of a position, with what tells it from another of the same name after the log was reset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastGtid {
    /// Where it was committed first.
    pub source: GtidSource,
    /// Its number there.
    pub number: u64,
    /// When it was committed there, microseconds since 1970-01-01 UTC; the same on every server.
    pub committed_at: u64,
}

/// MySQL with GTIDs: the transactions executed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidPosition {
    /// The transactions.
    pub executed: Arc<GtidSet>,
    /// Those of them that are XA PREPAREs neither committed nor rolled back yet: their rows must be read again.
    pub open: Arc<GtidSet>,
    /// The newest of them, where it is known.
    pub last: Option<LastGtid>,
    /// Where the server's log stood, for measuring distances only.
    pub at: Option<BinlogOffset>,
}

impl GtidPosition {
    /// A position of nothing but its transactions.
    pub fn new(executed: GtidSet) -> Self {
        Self { executed: Arc::new(executed), ..Self::default() }
    }

    pub(super) fn meet(&self, other: &Self) -> Self {
        let executed = self.executed.intersection(&other.executed);
        let held = |last: &&LastGtid| executed.contains(&last.source, last.number);
        let last = self.last.as_ref().filter(held).or_else(|| other.last.as_ref().filter(held)).cloned();
        let at = self.at.as_ref().zip(other.at.as_ref()).map(|(a, b)| a.min(b).clone());
        // What either has not seen decided is not decided in both.
        let open = self.open.union(&other.open).intersection(&executed);
        Self { executed: Arc::new(executed), open: Arc::new(open), last, at }
    }

    pub(super) fn join(&self, other: &Self) -> Self {
        let (newer, older) = if other.executed.is_superset(&self.executed) { (other, self) } else { (self, other) };
        let executed = if newer.executed.is_superset(&older.executed) {
            Arc::clone(&newer.executed)
        } else {
            Arc::new(newer.executed.union(&older.executed))
        };
        let last = newer.last.clone().or_else(|| older.last.clone());
        // What one has seen decided is decided.
        let undecided = |a: &Self, b: &Self| a.open.difference(&b.executed.difference(&b.open));
        let open = Arc::new(undecided(self, other).union(&undecided(other, self)));
        Self { executed, open, last, at: self.at.clone().max(other.at.clone()) }
    }
}

/// A transaction of MariaDB within its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MariaDbGtid {
    /// `server_id` of the server that committed it first.
    pub server: u32,
    /// Its number in the domain.
    pub sequence: u64,
}

/// How far one replication domain of MariaDB is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MariaDbPoint {
    /// The last transaction applied.
    pub applied: MariaDbGtid,
    /// The last transaction before the oldest XA PREPARE that is still open, where there is one; `None` = before the first.
    pub resume: Option<Option<MariaDbGtid>>,
}

/// MariaDB: the last transaction of every replication domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MariaDbPosition {
    /// By domain.
    pub domains: Arc<BTreeMap<u32, MariaDbPoint>>,
    /// Where the server's log stood, for measuring distances, and for proving that the log is the same.
    pub at: Option<BinlogOffset>,
}

impl MariaDbPosition {
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.domains.iter().all(|(domain, theirs)| {
            self.domains.get(domain).is_some_and(|ours| ours.applied.sequence >= theirs.applied.sequence)
        })
    }

    pub(super) fn meet(&self, other: &Self) -> Self {
        let smaller = |(domain, ours): (&u32, &MariaDbPoint)| {
            let theirs = other.domains.get(domain)?;
            Some((*domain, if theirs.applied.sequence < ours.applied.sequence { *theirs } else { *ours }))
        };
        let at = self.at.as_ref().zip(other.at.as_ref()).map(|(a, b)| a.min(b).clone());
        Self { domains: Arc::new(self.domains.iter().filter_map(smaller).collect()), at }
    }

    pub(super) fn join(&self, other: &Self) -> Self {
        let mut domains = self.domains.as_ref().clone();
        for (domain, theirs) in other.domains.iter() {
            let ours = domains.entry(*domain).or_insert(*theirs);
            if ours.applied.sequence < theirs.applied.sequence {
                *ours = *theirs;
            }
        }
        Self { domains: Arc::new(domains), at: self.at.clone().max(other.at.clone()) }
    }
}

/// MySQL without GTIDs: a place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BinlogPosition {
    /// End of the last transaction applied.
    pub applied: BinlogOffset,
    /// Start of the oldest XA PREPARE that is still open at `applied`, where there is one.
    pub resume: Option<BinlogOffset>,
    /// When the file of `applied` was begun, seconds since 1970-01-01 UTC: another file of the same name has another.
    pub created: u32,
}

fn gtid(domain: u32, gtid: MariaDbGtid) -> String {
    format!("{domain}-{}-{}", gtid.server, gtid.sequence)
}

fn parse_gtid(text: &str) -> Option<(u32, MariaDbGtid)> {
    let mut parts = text.trim().split('-');
    let mut digits = || parts.next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let (domain, server, sequence) = (digits()?.parse().ok()?, digits()?.parse().ok()?, digits()?.parse().ok()?);
    parts.next().is_none().then_some((domain, MariaDbGtid { server, sequence }))
}

impl fmt::Display for MariaDbPosition {
    /// `0-1-100,1-2-5`, with `;resume=` and the points to read from where XA transactions are open, and `@` the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let applied: Vec<_> = self.domains.iter().map(|(domain, point)| gtid(*domain, point.applied)).collect();
        f.write_str(&applied.join(","))?;
        let resume = |(domain, point): (&u32, &MariaDbPoint)| {
            point.resume.map(|resume| gtid(*domain, resume.unwrap_or(MariaDbGtid { server: 0, sequence: 0 })))
        };
        let resume: Vec<_> = self.domains.iter().filter_map(resume).collect();
        if !resume.is_empty() {
            write!(f, ";resume={}", resume.join(","))?;
        }
        self.at.iter().try_for_each(|at| write!(f, "@{at}"))
    }
}

impl FromStr for MariaDbPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParsePositionError::new(text, "a MariaDB GTID position such as 0-1-100");
        let (gtids, at) = match text.split_once('@') {
            Some((gtids, at)) => (gtids, Some(at.parse()?)),
            None => (text, None),
        };
        let (applied, resume) = gtids.split_once(";resume=").unwrap_or((gtids, ""));
        let list = |text: &str| -> Option<Vec<(u32, MariaDbGtid)>> {
            text.split(',').filter(|part| !part.trim().is_empty()).map(parse_gtid).collect()
        };
        let mut domains = BTreeMap::new();
        for (domain, applied) in list(applied).ok_or_else(error)? {
            if domains.insert(domain, MariaDbPoint { applied, resume: None }).is_some() {
                return Err(error());
            }
        }
        for (domain, resume) in list(resume).ok_or_else(error)? {
            let point = domains.get_mut(&domain).ok_or_else(error)?;
            point.resume = Some((resume.sequence > 0).then_some(resume));
        }
        Ok(Self { domains: Arc::new(domains), at })
    }
}

impl fmt::Display for GtidPosition {
    /// The GTID set, with `;open=` the open PREPAREs, `;last=GTID/microseconds` and `@` the place where there are such.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.executed.fmt(f)?;
        if !self.open.is_empty() {
            write!(f, ";open={}", self.open)?;
        }
        if let Some(LastGtid { source, number, committed_at }) = &self.last {
            write!(f, ";last={source}:{number}/{committed_at}")?;
        }
        self.at.iter().try_for_each(|at| write!(f, "@{at}"))
    }
}

impl FromStr for GtidPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rest, at) = match text.split_once('@') {
            Some((rest, at)) => (rest, Some(at.parse()?)),
            None => (text, None),
        };
        let (sets, last) = rest.split_once(";last=").map_or((rest, None), |(sets, last)| (sets, Some(last)));
        let (set, open) = sets.split_once(";open=").unwrap_or((sets, ""));
        let last = match last {
            Some(last) => {
                let error = || ParsePositionError::new(text, "a GTID and when it was committed after 'last='");
                let (gtid, committed_at) = last.split_once('/').ok_or_else(error)?;
                let set: GtidSet = gtid.parse()?;
                let mut sources = set.sources();
                let (Some((source, [one])), None) = (sources.next(), sources.next()) else { return Err(error()) };
                if one.end - one.start != 1 {
                    return Err(error());
                }
                let committed_at = committed_at.parse().map_err(|_| error())?;
                Some(LastGtid { source: source.clone(), number: one.start, committed_at })
            }
            None => None,
        };
        Ok(Self { executed: Arc::new(set.parse()?), open: Arc::new(open.parse()?), last, at })
    }
}

impl fmt::Display for BinlogPosition {
    /// `binlog.000012:157;created=1700000000`, with `;resume=` a place where XA transactions are open.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{};created={}", self.applied, self.created)?;
        self.resume.iter().try_for_each(|resume| write!(f, ";resume={resume}"))
    }
}

impl FromStr for BinlogPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParsePositionError::new(text, "binlog.000012:157;created=SECONDS");
        let (applied, rest) = text.rsplit_once(";created=").ok_or_else(error)?;
        let (created, resume) = rest.split_once(";resume=").map_or((rest, None), |(created, at)| (created, Some(at)));
        Ok(Self {
            applied: applied.parse()?,
            resume: resume.map(str::parse).transpose()?,
            created: created.parse().map_err(|_| error())?,
        })
    }
}
